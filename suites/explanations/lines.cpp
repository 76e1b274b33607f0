// SPDX-License-Identifier: Apache-2.0
// Rows, columns and whole matrices that stand elsewhere: transposed, permuted, shifted, repeated.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "suites/explanations/names.hpp"
#include "suites/explanations/recogniser_internal.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

using Lines = std::span<const std::uint64_t>;

Lines lines_of(const std::vector<std::uint64_t>& all, std::uint64_t lead, std::uint64_t each) {
  return Lines(all).subspan(static_cast<std::size_t>(lead * each), static_cast<std::size_t>(each));
}

std::vector<std::uint64_t> differing_leads(const Gathered& seen) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t lead = 0; lead < seen.declared.leads.size(); ++lead) {
    if (seen.declared.leads[lead] != seen.found.leads[lead]) {
      out.push_back(lead);
    }
  }
  return out;
}

// "in all 8 experts", "in expert 3", or nothing for one matrix.
std::string in_leads(const Gathered& seen, const std::vector<std::uint64_t>& leads) {
  if (seen.view.leads == 1) {
    return {};
  }
  const std::string unit = seen.lead_unit();
  if (leads.size() == 1) {
    return " in " + unit + ' ' + grouped(leads.front());
  }
  return " in " + (leads.size() == seen.view.leads ? "all " : std::string()) + grouped(leads.size()) + ' ' +
         (unit == "matrix" ? "matrices" : unit + 's');
}

bool recognise_transposed(const Gathered& seen, const std::vector<std::uint64_t>& leads, Explanation& out) {
  const MatrixView& view = seen.view;
  if (view.rows < 2 || view.columns < 2) {
    return false;
  }
  const bool is_square = view.rows == view.columns;
  const auto& columns = is_square ? seen.found.columns : seen.found.folded_columns;
  if (seen.declared.rows.empty() || columns.empty()) {
    return false;
  }
  const bool all = std::all_of(leads.begin(), leads.end(), [&](std::uint64_t lead) {
    return std::ranges::equal(lines_of(seen.declared.rows, lead, view.rows), lines_of(columns, lead, view.rows));
  });
  if (!all) {
    return false;
  }
  name(out, "transposed", "Transposed",
       "The elements are those of the transposed matrix" + in_leads(seen, leads) +
           (is_square ? ", which the square shape hides." : ", laid out in the shape that was expected."),
       Certainty::certain);
  return true;
}

std::string label_of(const Gathered& seen, const OrderFacts& facts, std::uint64_t line) {
  if (is_gate_up(seen.key) && facts.blocks.size() == 2) {
    return line == 0 ? "G" : "U";
  }
  if (is_gate_up(seen.key) && facts.kind == OrderKind::interleaved) {
    const bool is_gate = facts.count == 2 ? line < facts.blocks.size() / 2 : line % 2 == 0;
    return is_gate ? "G" : "U";
  }
  if (is_gate_up(seen.key) && facts.kind == OrderKind::within_groups && facts.inner_order.size() == 2) {
    return line % 2 == 0 ? "G" : "U";
  }
  if (is_fused_qkv(seen.key) && facts.blocks.size() == 3) {
    return std::string(1, "QKV"[line]);
  }
  return std::to_string(line);
}

void draw_order(const Gathered& seen, const OrderFacts& facts, const std::string& unit, Explanation& out) {
  reports::OrderPicture picture;
  picture.axis = facts.block == 1 ? unit + 's' : "blocks of " + grouped(facts.block) + ' ' + unit + 's';
  const std::uint64_t count = facts.blocks.size();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i >= 8 && i + 1 < count) {
      continue;  // first eight and the last
    }
    picture.declared.push_back(label_of(seen, facts, i));
    picture.found.push_back(label_of(seen, facts, facts.blocks[i]));
  }
  out.order = std::move(picture);
}

bool is_pairwise(const OrderFacts& facts) {
  return facts.kind == OrderKind::interleaved && (facts.count == 2 || facts.count * 2 == facts.blocks.size());
}
bool is_pairwise_inside(const OrderFacts& facts) {
  return facts.kind == OrderKind::within_groups && facts.inner == OrderKind::interleaved &&
         (facts.count == 2 || facts.count * 2 == facts.inner_order.size());
}

void name_order(const Gathered& seen, const OrderFacts& facts, const std::string& unit, bool are_leads,
                const std::string& where, Explanation& out) {
  const std::string text = "Found " + facts.text(unit) + where + '.';
  const std::string units = unit + 's';
  std::string upper = units;
  upper.front() = static_cast<char>(upper.front() - 'a' + 'A');
  draw_order(seen, facts, unit, out);
  if (are_leads && facts.kind == OrderKind::text_order) {
    return name(out, "experts_text_order", upper + " in text order", text, Certainty::certain);
  }
  if (facts.kind == OrderKind::rotated) {
    return name(out, "shifted", upper + " shifted by " + grouped(facts.distance * facts.block), text,
                Certainty::certain);
  }
  if (are_leads) {
    return name(out, "experts_permuted", upper + " permuted", text, Certainty::certain);
  }
  if (is_gate_up(seen.key) && facts.are_halves_exchanged()) {
    return name(out, "gate_up_swapped", "Gate and up swapped", text, Certainty::certain);
  }
  if (is_gate_up(seen.key) && is_pairwise(facts)) {
    return name(out, "gate_up_interleaved",
                facts.count == 2 ? "Gate and up interleaved" : "Gate and up side by side instead of interleaved", text,
                Certainty::certain);
  }
  if (is_rotary(seen.key) && (is_pairwise(facts) || is_pairwise_inside(facts))) {
    return name(out, "rotary_order", "Rotary " + units + " in the other order", text, Certainty::certain);
  }
  if (is_fused_qkv(seen.key)) {
    return name(out, "qkv_order", "Fused q, k, v in another order", text, Certainty::certain);
  }
  name(out, unit == "column" ? "columns_permuted" : "rows_permuted", upper + " permuted", text, Certainty::certain);
}

// One order of lines that holds in every differing matrix.
bool recognise_order_of(const Gathered& seen, const std::vector<std::uint64_t>& leads,
                        const std::vector<std::uint64_t>& declared, const std::vector<std::uint64_t>& found,
                        std::uint64_t each, const std::string& unit, Explanation& out) {
  if (declared.empty() || each < 2 || leads.empty()) {
    return false;
  }
  const auto order = order_between(lines_of(declared, leads.front(), each), lines_of(found, leads.front(), each));
  if (!order) {
    return false;
  }
  for (const std::uint64_t lead : leads) {
    const Lines from = lines_of(declared, lead, each);
    const Lines to = lines_of(found, lead, each);
    for (std::uint64_t i = 0; i < each; ++i) {
      if (to[i] != from[(*order)[i]]) {
        return false;
      }
    }
  }
  name_order(seen, describe_order(*order), unit, false, in_leads(seen, leads), out);
  return true;
}

struct Shift {
  std::int64_t distance = 0;
  std::uint64_t covered = 0;
  std::uint64_t differing = 0;
};

// The one distance at which most differing lines are found again.
std::optional<Shift> common_shift(Lines declared, Lines found) {
  std::unordered_map<std::uint64_t, std::uint64_t> place;
  for (std::uint64_t i = 0; i < declared.size(); ++i) {
    place.emplace(declared[i], i);
  }
  std::map<std::int64_t, std::uint64_t> distances;
  Shift out;
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    if (declared[i] == found[i]) {
      continue;
    }
    ++out.differing;
    if (const auto at = place.find(found[i]); at != place.end() && distances.size() < 1024) {
      ++distances[static_cast<std::int64_t>(i) - static_cast<std::int64_t>(at->second)];
    }
  }
  for (const auto& [distance, count] : distances) {
    if (count > out.covered) {
      out.covered = count;
      out.distance = distance;
    }
  }
  if (out.covered < 2 || out.covered * 10 < out.differing * 8) {
    return std::nullopt;
  }
  return out;
}

bool recognise_line_shift(Lines declared, Lines found, const std::string& unit, const std::string& where,
                          Explanation& out) {
  const auto shift = common_shift(declared, found);
  if (!shift) {
    return false;
  }
  const auto size = static_cast<std::uint64_t>(shift->distance < 0 ? -shift->distance : shift->distance);
  const std::uint64_t lost = shift->differing - shift->covered;
  std::string title = unit + "s shifted by " + grouped(size);
  title.front() = static_cast<char>(title.front() - 'a' + 'A');
  name(out, "shifted", title,
       counted(shift->covered, unit + " stands", unit + "s stand") + ' ' + grouped(size) + ' ' +
           (shift->distance > 0 ? "later" : "earlier") + " than declared" + where +
           (lost > 0 ? "; " + counted(lost, unit + " holds", unit + "s hold") + " something else." : std::string(".")),
       Certainty::certain);
  return true;
}

// Differing lines that hold what belongs to other lines of the same tensor.
bool recognise_copies(Lines declared, Lines found, const std::string& unit, const std::string& where,
                      Explanation& out) {
  std::unordered_map<std::uint64_t, std::uint64_t> place;
  for (std::uint64_t i = 0; i < declared.size(); ++i) {
    place.emplace(declared[i], i);
  }
  std::string listed;
  std::uint64_t count = 0;
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    if (declared[i] == found[i]) {
      continue;
    }
    const auto at = place.find(found[i]);
    if (at == place.end()) {
      return false;
    }
    if (++count <= 3) {
      listed += (listed.empty() ? "" : ", ") + unit + ' ' + grouped(i) + " holds " + unit + ' ' + grouped(at->second);
    }
  }
  if (count == 0) {
    return false;
  }
  listed.front() = static_cast<char>(listed.front() - 'a' + 'A');
  const std::string title = count == 1 ? listed : counted(count, unit + " holds", unit + "s hold") + " others' values";
  name(out, "lines_copied", title,
       listed + (count > 3 ? " and " + grouped(count - 3) + " more" : std::string()) + where + '.', Certainty::certain);
  return true;
}

}  // namespace

std::string Gathered::lead_unit() const { return has_experts(key) ? "expert" : "matrix"; }
std::string Gathered::row_unit() const { return is_vector() ? "element" : "row"; }

bool recognise_lines(const Gathered& seen, Explanation& out) {
  const std::vector<std::uint64_t> leads = differing_leads(seen);
  if (leads.empty()) {
    return false;
  }
  if (recognise_transposed(seen, leads, out)) {
    return true;
  }
  if (seen.view.leads > 1) {
    if (const auto order = order_between(seen.declared.leads, seen.found.leads)) {
      name_order(seen, describe_order(*order), seen.lead_unit(), true, {}, out);
      return true;
    }
  }
  return recognise_order_of(seen, leads, seen.declared.rows, seen.found.rows, seen.view.rows, seen.row_unit(), out) ||
         (!seen.is_vector() &&
          recognise_order_of(seen, leads, seen.declared.columns, seen.found.columns, seen.view.columns, "column", out));
}

bool recognise_repeats(const Gathered& seen, Explanation& out) {
  if (seen.view.leads > 1 && !seen.declared.leads.empty()) {
    if (recognise_line_shift(seen.declared.leads, seen.found.leads, seen.lead_unit(), {}, out) ||
        recognise_copies(seen.declared.leads, seen.found.leads, seen.lead_unit(), {}, out)) {
      return true;
    }
  }
  const std::vector<std::uint64_t> leads = differing_leads(seen);
  // Single elements repeat by chance.
  if (seen.is_vector() || seen.declared.rows.empty() || leads.size() != 1) {
    return false;
  }
  const Lines rows = lines_of(seen.declared.rows, leads.front(), seen.view.rows);
  const Lines found = lines_of(seen.found.rows, leads.front(), seen.view.rows);
  if (recognise_line_shift(rows, found, "row", in_leads(seen, leads), out) ||
      recognise_copies(rows, found, "row", in_leads(seen, leads), out)) {
    return true;
  }
  if (seen.declared.columns.empty()) {
    return false;
  }
  const Lines columns = lines_of(seen.declared.columns, leads.front(), seen.view.columns);
  const Lines other = lines_of(seen.found.columns, leads.front(), seen.view.columns);
  return recognise_line_shift(columns, other, "column", in_leads(seen, leads), out) ||
         recognise_copies(columns, other, "column", in_leads(seen, leads), out);
}

}  // namespace weightproof::suites
