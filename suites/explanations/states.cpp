// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/states.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

RelatedTensors::Open opener(const DecodedState& state) {
  return [&state](std::string_view key) -> std::optional<TensorSource> {
    const StateTensor* tensor = state.find(key);
    return tensor == nullptr ? std::nullopt : std::optional(source_of(state, *tensor));
  };
}

// Without a rule of its own a difference is one of values.
std::string rule_of(const Explanation& explanation) {
  return explanation.check.empty() ? std::string("value.exact") : explanation.check;
}

std::string capital(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

// An order of codes is known from decoding in it; what the values then look like says less.
void name_order(const TensorDifference& row, Explanation& out) {
  out.kind = row.order;
  out.title = row.order == "nibbles_swapped" ? "Nibbles in the wrong order" : "Codes of a word in the wrong order";
  out.text = capital(row.explanation) + '.';
  out.check = "quant.nibble_order";
  out.certainty = row.mistake == row.order ? Certainty::certain : Certainty::likely;
}

// What was done to the first side is nothing that the second one did wrong.
void name_first_rounded(const TensorDifference& row, const std::string& first, Explanation& out) {
  out.kind = "first_rounded";
  out.title = capital(first) + " is rounded";
  out.text = capital(row.explanation) + '.';
  out.check.clear();
  out.certainty = Certainty::certain;
}

}  // namespace

TensorSource source_of(const DecodedState& state, const StateTensor& tensor) {
  return {tensor.shape, tensor.dtype,
          [&state, &tensor](std::uint64_t offset, std::span<std::byte> target) { state.read(tensor, offset, target); }};
}

std::vector<Explanation> explain_difference(const DecodedState& a, const DecodedState& b, const DecodedState* earlier,
                                            StateDifference& difference, std::size_t max) {
  RelatedTensors related;
  related.expected = opener(a);
  related.actual = opener(b);
  if (earlier != nullptr) {
    related.earlier = opener(*earlier);
  }
  std::vector<Explanation> out;
  for (TensorDifference& row : difference.tensors) {
    if (row.equality != Equality::different) {
      continue;
    }
    if (out.size() >= max) {
      break;
    }
    const StateTensor& left = *a.find(row.key);
    const StateTensor& right = *b.find(row.key);
    related.keys.clear();
    for (const StateTensor& other : a.tensors()) {
      if (other.shape == right.shape && other.dtype == right.dtype) {
        related.keys.push_back(other.key);
      }
    }
    out.push_back(explain_difference(row.key, source_of(a, left), source_of(b, right), related, {}));
    if (!row.order.empty()) {
      name_order(row, out.back());
      continue;
    }
    const bool is_first_rounded = row.rounding && row.rounding->is_first_rounded && row.rounding->winner();
    if (is_first_rounded && !out.back().is_recognised() && row.mistake.empty()) {
      name_first_rounded(row, a.called(), out.back());
      continue;
    }
    if (const std::string text = summary_of(out.back()); !text.empty()) {
      // What is known of a decoder's mistake stays beside it.
      const bool is_decoded = left.codec != nullptr || right.codec != nullptr;
      row.explanation = is_decoded && !row.explanation.empty() ? text + " Also: " + row.explanation : text;
    }
  }
  return out;
}

reports::Report report_of(const StateDifference& difference, const std::vector<Explanation>& explanations) {
  reports::Report report;
  reports::CheckBuilder names("keys.export");
  names.examined(difference.tensors.size() + difference.only_in_a.size() + difference.only_in_b.size());
  for (const auto* side : {&difference.only_in_a, &difference.only_in_b}) {
    for (const std::string& key : *side) {
      names.subject(key);
    }
  }
  report.checks.push_back(
      names.fail_if_subjects(grouped(difference.only_in_a.size()) + " of the first are not in the second, " +
                             grouped(difference.only_in_b.size()) + " of the second not in the first"));

  std::map<std::string, reports::CheckBuilder> builders;
  std::map<std::string, std::string> first;
  const auto builder_of = [&builders](const std::string& rule) -> reports::CheckBuilder& {
    return builders.try_emplace(rule, rule).first->second;
  };
  builder_of("value.exact").examined(difference.tensors.size());
  std::map<std::string_view, const Explanation*> explained;
  for (const Explanation& explanation : explanations) {
    explained[explanation.key] = &explanation;
  }
  for (const TensorDifference& row : difference.tensors) {
    if (row.equality != Equality::different) {
      continue;
    }
    const auto known = explained.find(row.key);
    const std::string rule = known == explained.end() ? "value.exact" : rule_of(*known->second);
    builder_of(rule).subject(row.key);
    first.try_emplace(rule, printable(row.key) + (row.explanation.empty() ? " differs" : ": " + row.explanation));
    if (known == explained.end()) {
      continue;
    }
    reports::Finding finding = finding_of(*known->second, rule);
    if (finding.title.empty()) {
      finding.title = "Values differ";
    }
    report.findings.push_back(std::move(finding));
  }
  for (auto& [rule, builder] : builders) {
    const auto text = first.find(rule);
    report.checks.push_back(builder.fail_if_subjects(text == first.end() ? std::string() : text->second));
  }
  return report;
}

}  // namespace weightproof::suites
