// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "reports/rules.hpp"
#include "reports/text_internal.hpp"
#include "reports/verdict_internal.hpp"

namespace weightproof::reports {

bool failed(const Finding& finding) { return finding.status == Status::fail || finding.status == Status::error; }

std::vector<const Finding*> gravest(const Report& report, std::size_t count) {
  std::vector<const Finding*> out;
  for (const bool causes : {true, false}) {
    for (const Finding& finding : report.findings) {
      if (out.size() < count && failed(finding) && finding.explained_by.empty() == causes) {
        out.push_back(&finding);
      }
    }
    if (!out.empty()) {
      break;
    }
  }
  return out;
}

std::string counts_line(const Summary& summary) {
  std::string out;
  const auto add = [&](std::uint64_t count, std::string_view word, bool always) {
    if (count > 0 || always) {
      out += (out.empty() ? "" : ", ") + grouped(count) + " " + std::string(word);
    }
  };
  add(summary.fail, "failed", false);
  add(summary.error, summary.error == 1 ? "error" : "errors", false);
  add(summary.warn, "warned", false);
  add(summary.skip, "skipped", false);
  add(summary.pass, "passed", true);
  return out;
}

std::string causes_line(const Report& report) {
  const CauseCount count = count_causes(report);
  if (count.failures == 0) {
    return {};
  }
  std::string out =
      plural(count.failures, "failure") + (count.failures == 1 ? " has " : " have ") + plural(count.causes, "cause");
  if (report.compare) {
    out += ": " + grouped(count.fresh) + " new, " + grouped(count.old) + " old";
  }
  return out;
}

std::uint64_t failing(const std::vector<CompareEntry>& entries) {
  return static_cast<std::uint64_t>(std::count_if(entries.begin(), entries.end(), [](const CompareEntry& entry) {
    return entry.status == Status::fail || entry.status == Status::error;
  }));
}

std::string compare_line(const CompareInfo& compare) {
  std::string out = grouped(failing(compare.fresh)) + " new, " + grouped(compare.fixed.size()) + " fixed, " +
                    grouped(failing(compare.still)) + " still failing, " + grouped(compare.changed_passing.size()) +
                    " changed but passing";
  const std::uint64_t warnings = compare.fresh.size() - failing(compare.fresh);
  return warnings == 0 ? out : out + ", " + plural(warnings, "new warning");
}

std::string verdict_word(Verdict verdict) { return capital(to_string(verdict)) + "."; }

std::string calm_sentence(const Report& report) {
  const Summary summary = summarize(report.checks);
  if (summary.ran() == 0) {
    return "No check ran, so nothing is proved.";
  }
  std::string out = summary.warn == 0 ? "Every check that ran passed"
                                      : "No check failed; " + plural(summary.warn, "warning") + " to read";
  if (summary.skip > 0) {
    out += ", " + grouped(summary.skip) + " had nothing to run on";
  }
  return out + ".";
}

std::string checkpoint_line(const CheckpointInfo& checkpoint) {
  std::string out = spell_out(checkpoint.path.empty() ? "(no checkpoint)" : checkpoint.path);
  if (!checkpoint.family.empty()) {
    out += ", family " + spell_out(checkpoint.family);
  }
  if (!checkpoint.quantization.empty()) {
    out += ", " + spell_out(checkpoint.quantization);
  }
  if (checkpoint.tensors > 0 || checkpoint.files > 0) {
    out += ", " + plural(checkpoint.tensors, "tensor") + ", " + human_bytes(checkpoint.bytes) + " in " +
           plural(checkpoint.files, "file");
  }
  return out;
}

std::string coordinate_text(const Finding& finding) {
  if (finding.coordinate.empty()) {
    return {};
  }
  std::string out = "[";
  for (std::size_t i = 0; i < finding.coordinate.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(finding.coordinate[i]);
  }
  out += "]";
  if (!finding.axes.empty()) {
    out += " ";
    for (std::size_t i = 0; i < finding.axes.size(); ++i) {
      out += (i == 0 ? "" : ", ") + spell_out(finding.axes[i]);
    }
  }
  return out;
}

std::string percent(double share) {
  if (!(share >= 0) || share > 1) {
    return "unavailable";
  }
  if (share == 0 || share == 1) {
    return share == 0 ? "0 %" : "100 %";
  }
  const double value = share * 100;
  if (value < 0.001) {
    return "< 0.001 %";
  }
  // 99.9996 % must not read as all of them.
  if (value >= 99.995) {
    return "> 99.99 %";
  }
  return fixed(value, value < 1 ? 3 : 2) + " %";
}

std::string share_text(const Finding& finding) {
  if (!finding.count || !finding.elements || *finding.elements == 0) {
    return finding.count ? grouped(*finding.count) + " elements differ" : std::string();
  }
  return grouped(*finding.count) + " of " + grouped(*finding.elements) +
         (*finding.count == 1 ? " element differs (" : " elements differ (") +
         percent(static_cast<double>(*finding.count) / static_cast<double>(*finding.elements)) + ")";
}

std::string key_text(const Finding& finding) {
  if (finding.key.empty()) {
    return "the whole checkpoint";
  }
  std::string out = spell_out(cut_middle(finding.key, 256));
  if (finding.total > 1) {
    out += " and " + grouped(finding.total - 1) + " more";
  }
  return out;
}

namespace {

struct Format {
  std::string_view dtype;
  unsigned bits;
  unsigned exponent;
};
constexpr std::array<Format, 9> k_formats = {{{"F64", 64, 11},
                                              {"F32", 32, 8},
                                              {"F16", 16, 5},
                                              {"BF16", 16, 8},
                                              {"F8_E4M3", 8, 4},
                                              {"F8_E5M2", 8, 5},
                                              {"F8_E8M0", 8, 8},
                                              {"F4", 4, 2},
                                              {"U8", 8, 0}}};

}  // namespace

std::string bit_text(const BitsValue& bits) {
  const auto format =
      std::find_if(k_formats.begin(), k_formats.end(), [&](const Format& f) { return f.dtype == bits.dtype; });
  if (format == k_formats.end() || bits.hex.size() < 3 || bits.hex.compare(0, 2, "0x") != 0 || bits.hex.size() > 18) {
    return {};
  }
  std::uint64_t value = 0;
  for (const char c : std::string_view(bits.hex).substr(2)) {
    const auto digit =
        std::string_view("0123456789abcdef").find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
    if (digit == std::string_view::npos) {
      return {};
    }
    value = value << 4U | digit;
  }
  std::string out;
  const bool unsigned_format = format->exponent == 8 && format->bits == 8;
  for (unsigned i = 0; i < format->bits; ++i) {
    if (!unsigned_format && format->exponent > 0 && (i == 1 || i == 1 + format->exponent)) {
      out += ' ';
    }
    out += (value >> (format->bits - 1 - i) & 1U) != 0 ? '1' : '0';
  }
  return out;
}

std::string bits_line(const BitsValue& bits) {
  std::string out = bits.text.empty() ? bit_text(bits) : spell_out(bits.text);
  for (const std::string* part : {&bits.hex, &bits.decimal}) {
    if (!part->empty()) {
      out += (out.empty() ? "" : "  ") + spell_out(*part);
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::vector<const CheckRecord*>>> skips_by_reason(const Report& report) {
  std::map<std::string, std::vector<const CheckRecord*>> by_reason;
  for (const CheckRecord& check : report.checks) {
    if (check.status == Status::skip) {
      by_reason[check.reason].push_back(&check);
    }
  }
  std::vector<std::pair<std::string, std::vector<const CheckRecord*>>> out(by_reason.begin(), by_reason.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  return out;
}

std::string listed_ids(const std::vector<const CheckRecord*>& checks, std::size_t shown,
                       const std::function<std::string(std::string_view)>& spelled) {
  std::vector<std::pair<std::string_view, std::size_t>> ids;
  for (const CheckRecord* check : checks) {
    const auto known = std::find_if(ids.begin(), ids.end(), [&](const auto& row) { return row.first == check->id; });
    if (known == ids.end()) {
      ids.emplace_back(check->id, 1);
    } else {
      ++known->second;
    }
  }
  std::string out;
  for (std::size_t i = 0; i < std::min(ids.size(), shown); ++i) {
    out += (i == 0 ? "" : ", ") + (spelled ? spelled(ids[i].first) : std::string(ids[i].first));
    if (ids[i].second > 1) {
      out += " in " + grouped(ids[i].second) + " cases";
    }
  }
  return ids.size() > shown ? out + " and " + grouped(ids.size() - shown) + " more" : out;
}

std::string check_text(const CheckRecord& check) {
  if (check.status == Status::skip) {
    return "Skipped: " + check.reason;
  }
  if (check.status == Status::error && !check.reason.empty()) {
    return check.reason;
  }
  if (!check.message.empty()) {
    return check.message;
  }
  if (!check.explanation.empty()) {
    return (check.status == Status::pass ? "Note: " : "") + check.explanation;
  }
  const Rule* rule = find_rule(check.id);
  return rule != nullptr ? std::string(rule->description) : std::string();
}

}  // namespace weightproof::reports
