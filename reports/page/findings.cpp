// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "reports/page/parts_internal.hpp"

// The three gravest findings as cards, everything else that is not a plain pass in two lines each.
namespace weightproof::reports::page {
namespace {

constexpr std::size_t k_in_full = 200;
constexpr std::size_t k_keys_of_rule = 8;

// Bits with the runs that differ from the other side underlined.
std::string marked_bits(const std::string& bits, const std::string& other) {
  std::string out;
  bool open = false;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const bool differs = other.size() == bits.size() && bits[i] != other[i];
    if (differs != open) {
      out += differs ? "<u>" : "</u>";
      open = differs;
    }
    out += bits[i];
  }
  return out + (open ? "</u>" : "");
}

// The part of an F32 source that a narrowing to BF16 leaves off.
std::string source_bits(const Finding& finding) {
  const std::string bits = bit_text(finding.source);
  if (finding.source.dtype == "F32" && finding.expected.dtype == "BF16" && bits.size() == 34) {
    return bits.substr(0, 18) + "<s>" + bits.substr(18) + "</s>";
  }
  return bits;
}

std::string value_html(const BitsValue& value, const std::string& bits) {
  std::string out;
  if (!value.text.empty()) {
    out += xml_text(cut_middle(value.text, 300));
  }
  if (!bits.empty()) {
    out += "<span class=\"b\">" + bits + "</span> ";
  }
  if (!value.hex.empty()) {
    out += "<span class=\"k nw\">" + xml_text(cut_middle(value.hex, 40)) + "</span> ";
  }
  if (!value.decimal.empty()) {
    out += xml_text(cut_middle(value.decimal, 60));
  }
  if (!value.dtype.empty() && bits.empty()) {
    out += " " + xml_text(cut_middle(value.dtype, 20));
  }
  return out;
}

std::string bits(const Finding& finding) {
  std::string out;
  const auto row = [&](std::string_view name, const std::string& html) {
    if (!html.empty()) {
      out += "<dt>" + std::string(name) + "</dt><dd>" + html + "</dd>";
    }
  };
  std::string first;
  if (!finding.coordinate.empty()) {
    Finding bare;
    bare.coordinate = finding.coordinate;
    first = "<span class=\"k\">" + coordinate_text(bare) + "</span>";
    if (!finding.axes.empty()) {
      const std::string all = coordinate_text(finding);
      first += " " + xml_text(cut_middle(all.substr(all.find(']') + 1), 80));
    }
  }
  row("first at", first);
  row("source", value_html(finding.source, source_bits(finding)));
  const std::string expected = bit_text(finding.expected);
  const std::string actual = bit_text(finding.actual);
  row("expected", value_html(finding.expected, marked_bits(expected, actual)));
  row("actual", value_html(finding.actual, marked_bits(actual, expected)));
  row("keys", finding.total > 1 ? plural(finding.total, "subject") + " in all" : std::string());
  return "<dl class=\"bits\">" + out + "</dl>";
}

std::string evidence(const Finding& finding) {
  std::string items;
  if (const std::string share = share_text(finding); !share.empty()) {
    items += "<li>" + share + ".</li>";
  }
  for (const EvidenceLine& line : finding.evidence) {
    items += "<li>" + (line.certainty.empty() ? std::string() : xml_text(capital(line.certainty)) + ": ") +
             xml_text(cut_middle(line.text, 600)) + "</li>";
  }
  for (std::size_t i = 1; i < std::min<std::size_t>(finding.keys.size(), k_keys_of_rule); ++i) {
    items += "<li>" + html_name(finding.keys[i]) + "</li>";
  }
  if (!finding.votes.empty()) {
    items += "<li>Vote, share of elements each rounding explains:</li>";
  }
  return "<div><ul class=\"ev\">" + items + "</ul>" + votes(finding) + "</div>";
}

std::string reproduce(const Finding& finding) {
  std::string out = "<div class=\"rp\">";
  if (!finding.reproduce.empty()) {
    out +=
        "<span class=\"lab\">Reproduce</span><button type=\"button\" class=\"jo\" data-c=\"cmd\">Copy</button><button "
        "type=\"button\" "
        "class=\"jo\" data-c=\"md\">Copy as comment</button><pre>" +
        xml_block(cut_middle(finding.reproduce, 2000)) + "</pre>";
  }
  return out + "<a href=\"#f-" + xml_text(finding.fingerprint) + "\" class=\"k\">#f-" + xml_text(finding.fingerprint) +
         "</a></div>";
}

std::string card(Context& context, const Finding& finding, std::size_t number, std::size_t of) {
  const std::string word = finding.change == "new"     ? "New"
                           : finding.change == "still" ? "Still failing"
                                                       : capital(to_string(finding.status));
  const std::string picture = figure(context, finding);
  return "<article class=\"fd" + std::string(finding.status == Status::error ? " er" : "") + "\" id=\"f-" +
         xml_text(finding.fingerprint) + "\" data-s=\"" + std::string(to_string(finding.status)) + "\" data-rule=\"" +
         xml_text(finding.rule) + "\" data-key=\"" + xml_text(cut_middle(finding.key, 256)) +
         "\" tabindex=\"-1\"><p class=\"top\"><span>" + state(finding.status, word) + " <span class=\"k\">" +
         xml_text(cut_middle(finding.rule, 60)) + "</span></span><span>" + std::to_string(number) + " of " +
         std::to_string(of) + "</span></p><div><h3>" + xml_text(cut_middle(finding.title, 120)) +
         "</h3><p class=\"key\">" +
         (finding.key.empty() ? std::string("<span class=\"mu\">the whole checkpoint</span>")
                              : html_name(finding.key)) +
         "</p></div><figure class=\"fig\">" + picture + "</figure><p class=\"say\">" +
         xml_text(cut_middle(finding.explanation, 600)) + "</p>" + bits(finding) + evidence(finding) +
         reproduce(finding) + "</article>";
}

std::string against(const Context& context, const Finding& finding) {
  if (!context.report.compare) {
    return {};
  }
  const bool fails = failed(finding);
  std::string out;
  if (finding.change == "new") {
    out = fails ? "new" : "new warning";
  } else if (finding.change == "still") {
    out = fails ? "still failing" : "still warns";
  }
  if (!finding.explained_by.empty()) {
    out += out.empty() ? "explained" : ", explained";
  }
  return out;
}

std::string explained(const Context& context, const Finding& finding) {
  std::string out = "No cause of its own: ";
  std::size_t shown = 0;
  for (const std::string& fingerprint : finding.explained_by) {
    if (const Finding* cause = context.finding_with(fingerprint); cause != nullptr && shown < 6) {
      out += (shown == 0 ? "" : ", ") + finding_link(*cause, xml_text(cut_middle(cause->title, 80)));
      ++shown;
    }
  }
  if (finding.explained_by.size() > shown) {
    out += " and " + grouped(finding.explained_by.size() - shown) + " more";
  }
  return out + ".";
}

std::string row(Context& context, const Finding& finding) {
  const std::string word = finding.status == Status::pass ? "note" : std::string(to_string(finding.status));
  std::string subject = finding.key.empty() ? std::string("the whole checkpoint") : html_name(finding.key);
  if (finding.total > 1) {
    subject += " and " + grouped(finding.total - 1) + " more";
  }
  std::string text =
      finding.explained_by.empty() ? xml_text(cut_middle(finding.explanation, 500)) : explained(context, finding);
  if (failed(finding) && finding.explained_by.empty()) {
    const std::string expected = bits_line(finding.expected);
    const std::string actual = bits_line(finding.actual);
    if (!expected.empty() || !actual.empty()) {
      const bool has_end = text.empty() || text.back() == '.' || text.back() == '!' || text.back() == '?';
      text += std::string(has_end ? "" : ".") + " Expected <span class=\"k\">" + xml_text(cut_middle(expected, 120)) +
              "</span>, found <span class=\"k\">" + xml_text(cut_middle(actual, 120)) + "</span>.";
    }
  }
  return "<tr class=\"of\" id=\"f-" + xml_text(finding.fingerprint) + "\" data-s=\"" +
         std::string(to_string(finding.status)) + "\"><td>" + state(finding.status, word) + "</td><td><b>" +
         xml_text(cut_middle(finding.title, 120)) + "</b><br/><span class=\"k mu\">" +
         xml_text(cut_middle(finding.rule, 60)) + "</span></td><td>" + subject + "<br/><span class=\"mu\">" + text +
         "</span></td>" + cell(thumbnail(context, finding), "where in it") +
         (context.report.compare ? cell(against(context, finding), "against base", "nw") : std::string()) + "</tr>";
}

std::string by_rule(const std::vector<const Finding*>& rest) {
  std::map<std::string, std::vector<const Finding*>> rules;
  for (const Finding* finding : rest) {
    rules[finding->rule].push_back(finding);
  }
  std::string out = "<h3 class=\"by\">By rule</h3><div class=\"scroll\"><table class=\"t stack\">" +
                    table_head("Rule@230|#Findings@90|First keys") + "<tbody>";
  for (const auto& [rule, findings] : rules) {
    out += "<tr data-s=\"" + std::string(to_string(findings.front()->status)) + "\"><th scope=\"row\" class=\"k\">" +
           xml_text(cut_middle(rule, 60)) + "</th>" + number_cell(findings.size(), "findings") + "<td>";
    for (std::size_t i = 0; i < std::min(findings.size(), k_keys_of_rule); ++i) {
      out += html_name(findings[i]->key) + "<br/>";
    }
    out += findings.size() > k_keys_of_rule
               ? "<span class=\"mu\">and " + grouped(findings.size() - k_keys_of_rule) + " more</span>"
               : "";
    out += "</td></tr>";
  }
  return out + "</tbody></table></div>";
}

// Notes about the whole checkpoint: nothing to do, so they stay closed.
std::string noted(Context& context, const std::vector<const Finding*>& notes) {
  if (notes.empty() || context.step >= Step::grouped) {
    return {};
  }
  std::string out = "<details class=\"twin\"><summary>" + plural(notes.size(), "note") +
                    " about the whole checkpoint</summary><dl class=\"kv\">";
  constexpr std::size_t k_notes = 500;
  for (std::size_t i = 0; i < std::min(notes.size(), k_notes); ++i) {
    out += "<dt id=\"f-" + xml_text(notes[i]->fingerprint) + "\" class=\"k\">" +
           xml_text(cut_middle(notes[i]->rule, 60)) + "</dt><dd>" + xml_text(cut_middle(notes[i]->explanation, 500)) +
           "</dd>";
  }
  return out + "</dl></details>";
}

std::string headline(const Context& context) {
  const CauseCount count = count_causes(context.report);
  if (count.failures == 0) {
    return {};
  }
  std::uint64_t covered = 0;
  for (const Finding& finding : context.report.findings) {
    const bool by_card =
        std::any_of(finding.explained_by.begin(), finding.explained_by.end(), [&](const std::string& fingerprint) {
          const Finding* cause = context.finding_with(fingerprint);
          return cause != nullptr && context.is_card(*cause);
        });
    covered += failed(finding) && (context.is_card(finding) || by_card) ? 1U : 0U;
  }
  return plural(context.cards().size(), "cause") + (context.cards().size() == 1 ? " explains " : " explain ") +
         grouped(covered) + " of " + plural(count.failures, "failure");
}

}  // namespace

std::string findings(Context& context) {
  const auto& cards = context.cards();
  std::string out = "<section id=\"findings\" class=\"full\" aria-labelledby=\"h-findings\"><h2 id=\"h-findings\">" +
                    std::string(cards.empty() ? "Findings" : "Gravest findings") + "<small>" + headline(context) +
                    "</small></h2><div>";
  if (cards.empty()) {
    out += context.summary.ran() == 0
               ? answer(Status::error, "No check ran. The skips below say why.")
               : answer(Status::pass, context.summary.warn == 0
                                          ? "Nothing failed and nothing warned."
                                          : "Nothing failed. " + plural(context.summary.warn, "warning") + " to read.");
  } else {
    out += "<div class=\"three\">";
    for (std::size_t i = 0; i < cards.size(); ++i) {
      out += card(context, *cards[i], i + 1, cards.size());
    }
    out += "</div>";
  }
  std::vector<const Finding*> rest;
  std::vector<const Finding*> notes;
  for (const Finding& finding : context.report.findings) {
    if (finding.status == Status::pass && finding.key.empty()) {
      notes.push_back(&finding);
    } else if (!context.is_card(finding)) {
      rest.push_back(&finding);
    }
  }
  const std::size_t limit = context.step == Step::counts    ? 0
                            : context.step == Step::grouped ? k_in_full
                            : context.step == Step::folded  ? 2000
                                                            : 5000;
  const std::size_t in_full = std::min(rest.size(), limit);
  if (in_full > 0) {
    out += "<h3 class=\"by\">Everything else that is not a plain pass</h3><div class=\"scroll" +
           std::string(in_full > 500 ? " cv" : "") + "\"><table class=\"t stack\">" +
           table_head(std::string("Status@70|Finding@230|Subject|Where in it@90") +
                      (context.report.compare ? "|Against base@110" : "")) +
           "<tbody>";
    for (std::size_t i = 0; i < in_full; ++i) {
      out += row(context, *rest[i]);
    }
    out += "</tbody></table></div>";
  }
  if (rest.size() > in_full) {
    const std::vector<const Finding*> left(rest.begin() + static_cast<std::ptrdiff_t>(in_full), rest.end());
    out += by_rule(left);
    context.left_out.push_back(plural(left.size(), "finding") + " by rule with their first " +
                               std::to_string(k_keys_of_rule) + " keys");
  }
  return out + noted(context, notes) + "</div></section>\n";
}

}  // namespace weightproof::reports::page
