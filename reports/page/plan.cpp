// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "reports/page/parts_internal.hpp"

// Where every stored byte goes, and which way each class of tensors went.
namespace weightproof::reports::page {
namespace {

constexpr std::size_t k_bands = 12;
constexpr double k_band_room = 250;  // px that all stored bytes fill
constexpr double k_stored = 220;     // x of the three columns
constexpr double k_route = 470;
constexpr double k_final = 720;
constexpr double k_label_room = 46;  // px a band needs for its labels

std::string path(double x1, double y1, double x2, double y2, double height, std::string_view css) {
  const double middle = (x1 + x2) / 2;
  return "<path class=\"" + std::string(css) + "\" d=\"M" + at(x1) + " " + at(y1) + "C" + at(middle) + " " + at(y1) +
         " " + at(middle) + " " + at(y2) + " " + at(x2) + " " + at(y2) + "V" + at(y2 + height) + "C" + at(middle) +
         " " + at(y2 + height) + " " + at(middle) + " " + at(y1 + height) + " " + at(x1) + " " + at(y1 + height) +
         "Z\"/>";
}

bool dropped(const LedgerRow& row) { return row.route == "dropped"; }

// Band height = stored bytes through all columns; a drop too thin to draw is a dashed line.
std::string flow(Context& context, const std::vector<LedgerRow>& rows, bool& thin) {
  double total = 0;
  for (const LedgerRow& row : rows) {
    total += static_cast<double>(row.bytes);
  }
  double y = 40;
  std::string bands;
  std::string texts;
  for (const LedgerRow& row : rows) {
    const double height = total > 0 ? k_band_room * static_cast<double>(row.bytes) / total : 0;
    thin = thin || height < 1;
    const double drawn = std::max(height, 1.0);
    if (dropped(row)) {
      bands += "<path d=\"M" + at(k_stored + 8) + " " + at(y + drawn / 2) + "H" + at(k_route) + "\" class=\"sb\"/>" +
               rect(k_stored, y, 8, std::max(drawn, 4.0), "f1") +
               rect(k_route, y + drawn / 2 - 5, 8, 10, "ax", " fill=\"url(#hm)\"");
      texts += label(k_route + 16, y + drawn / 2 + 4, "dropped: " + cut_end(row.destination, 72), "tw");
    } else {
      const bool changed = row.destination_bytes != row.bytes;
      const std::string_view css = changed ? "f3" : "f2";
      bands += path(k_stored + 8, y, k_route, y, drawn, css) + path(k_route + 8, y, k_final, y, drawn, css) +
               rect(k_stored, y, 8, drawn, "f1") + rect(k_route, y, 8, drawn, "f1") + rect(k_final, y, 8, drawn, "f1");
      // Inside a band that has room for it, else above.
      texts += label(k_route + 16, drawn >= 20 ? y + drawn / 2 + 4 : y - 5, cut_end(row.route, 30)) +
               label(k_final + 16, y + 12, cut_end(row.destination, 36)) +
               label(k_final + 16, y + 28, changed ? "becomes " + grouped(row.destination_bytes) + " B" : "same bytes",
                     changed ? "tm" : "t2");
    }
    texts += label(k_stored - 10, y + 12, cut_end(row.stored, 32), "", "end") +
             label(k_stored - 10, y + 27, grouped(row.bytes) + " B, " + plural(row.tensors, "tensor"), "tm", "end");
    y += std::max(drawn + 22, k_label_room);
  }
  return svg_open(context, 1000, y + 8, "Where every stored byte goes",
                  plural(rows.size(), "kind") +
                      " of stored bytes and their routes into final storage; the table below says the same.",
                  "wide") +
         label(k_stored, 18, "Stored", "t2") + label(k_route, 18, "Route", "t2") +
         label(k_final, 18, "Final storage", "t2") + bands + texts + "</svg>";
}

}  // namespace

std::string ledger(Context& context) {
  if (!context.report.plan.coverage) {
    return {};
  }
  const CoverageInfo& c = *context.report.plan.coverage;
  const std::uint64_t faults = c.holes + c.overlaps + c.undecided;
  const bool bad = c.unaccounted() != 0 || faults != 0 || context.check_failed("io.ledger") ||
                   context.check_failed("layout.coverage");
  std::string sentence;
  if (!bad) {
    sentence = std::string("Balanced. Every stored byte is used exactly once") +
               (c.dropped_bytes > 0 ? " or dropped with a reason" : "") +
               "; every native element is written exactly once.";
  } else {
    sentence = "Not balanced: " + grouped(static_cast<std::uint64_t>(std::llabs(c.unaccounted()))) +
               " bytes unaccounted, " + plural(c.holes, "hole") + ", " + plural(c.overlaps, "overlap") + ", " +
               grouped(c.undecided) + " undecided.";
  }
  std::string out = section_open("ledger", "Coverage ledger", "where each byte went") +
                    answer(bad ? Status::fail : Status::pass, sentence);
  bool thin = false;
  if (!c.rows.empty() && c.rows.size() <= k_bands) {
    out += "<figure><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Flow of stored bytes\">" +
           flow(context, c.rows, thin) + "</div></figure>";
  }
  out += "<p class=\"eq\"><span>" + grouped(c.stored_bytes) + " stored</span><span>= " + grouped(c.moved_bytes) +
         " moved</span><span>+ " + grouped(c.decoded_bytes) + " decoded or cast</span><span>+ " +
         grouped(c.dropped_bytes) + " dropped</span><span>+ <b>" + (c.unaccounted() < 0 ? "-" : "") +
         grouped(static_cast<std::uint64_t>(std::llabs(c.unaccounted()))) + " unaccounted</b></span></p>";
  out += "<p class=\"sub\">";
  if (!c.rows.empty() && c.rows.size() <= k_bands) {
    out += std::string("Band heights follow stored bytes") + (thin ? "; one under 1 px is drawn as a line" : "") + ". ";
  }
  out += "Proof: " + grouped(c.exact) + " of " + plural(c.native_tensors, "native tensor") + " tiled exactly, " +
         plural(c.holes, "hole") + ", " + plural(c.overlaps, "overlap") + ", " + grouped(c.undecided) + " undecided.";
  const PlanInfo& plan = context.report.plan;
  if (plan.bytes_read) {
    out += " " + grouped(*plan.bytes_read) + " bytes read in all";
    if (plan.bytes_minimum && *plan.bytes_minimum > 0) {
      out += ", " + fixed(static_cast<double>(*plan.bytes_read) / static_cast<double>(*plan.bytes_minimum), 2) +
             " of the plan's minimum";
    }
    out += ".";
  }
  out += "</p>";
  if (!c.rows.empty()) {
    out += "<details class=\"twin\"" + std::string(c.rows.size() > k_bands ? " open=\"open\"" : "") +
           "><summary>As a table</summary><div class=\"scroll\"><table class=\"t stack\">" +
           table_head("Stored|#Tensors|#Bytes|Route|Destination|#Bytes there") + "<tbody>";
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
    std::uint64_t there = 0;
    for (const LedgerRow& row : c.rows) {
      out += "<tr><th scope=\"row\">" + html_name(row.stored, "n0") + "</th>" + number_cell(row.tensors, "tensors") +
             number_cell(row.bytes, "bytes") + cell(xml_text(cut_middle(row.route, 40)), "route") +
             cell(xml_text(cut_middle(row.destination, 160)), "destination") +
             number_cell(row.destination_bytes, "bytes there") + "</tr>";
      tensors += row.tensors;
      bytes += row.bytes;
      there += row.destination_bytes;
    }
    out += "<tr class=\"tot\"><th scope=\"row\">Sum</th>" + number_cell(tensors, "tensors") +
           number_cell(bytes, "bytes") + "<td></td><td></td>" + number_cell(there, "bytes there") +
           "</tr></tbody></table></div></details>";
  }
  return out + section_close();
}

std::string routes(Context& context) {
  const PlanInfo& plan = context.report.plan;
  if (plan.routes.empty()) {
    return {};
  }
  std::map<std::string, std::uint64_t> by_route;
  for (const RouteRecord& route : plan.routes) {
    by_route[route.route] += route.count;
  }
  std::string sentence;
  const auto say = [&](const char* route, const char* words) {
    if (const auto it = by_route.find(route); it != by_route.end()) {
      sentence += (sentence.empty() ? "" : "; ") + plural(it->second, "tensor") + " " + words;
    }
  };
  say("direct", "straight into final storage");
  say("bounded", "decoded or cast through small tiles");
  say("materialized", "through a whole copy");
  if (by_route.find("materialized") == by_route.end()) {
    sentence += (sentence.empty() ? "" : "; ") + std::string("none through a whole copy");
  }
  const bool bad = context.check_failed("io.route");
  std::string out = section_open("routes", "Routes", "per tensor class") +
                    answer(bad ? std::optional(Status::fail) : std::nullopt, sentence + ".") +
                    "<div class=\"scroll\"><table class=\"t stack\">" +
                    table_head("Tensors|#Count|Route|Why|#Stored bytes|Against base") + "<tbody>";
  for (const RouteRecord& route : plan.routes) {
    out += "<tr><th scope=\"row\" class=\"k\">" + html_name(route.tensors) + "</th>" +
           number_cell(route.count, "count") + cell("<b>" + xml_text(cut_middle(route.route, 30)) + "</b>", "route") +
           cell(xml_text(cut_middle(route.reason, 200)), "why") + number_cell(route.stored_bytes, "stored bytes") +
           cell(xml_text(cut_middle(route.change, 60)), "against base", "nw") + "</tr>";
  }
  out += "</tbody></table></div>";
  if (!plan.considered.empty()) {
    out +=
        "<details class=\"twin\"><summary>Routes considered and not taken</summary><div class=\"scroll\"><table "
        "class=\"t stack\">" +
        table_head("Tensors|Route|Not taken because") + "<tbody>";
    for (const ConsideredRoute& route : plan.considered) {
      out += "<tr><th scope=\"row\" class=\"k\">" + html_name(route.tensors) + "</th>" +
             cell(xml_text(cut_middle(route.route, 30)), "route") +
             cell(xml_text(cut_middle(route.rejected, 200)), "because") + "</tr>";
    }
    out += "</tbody></table></div></details>";
  }
  return out + section_close();
}

}  // namespace weightproof::reports::page
