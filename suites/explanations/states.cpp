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

// What the comparison knows by itself.
Explanation explanation_of(const TensorDifference& row) {
  Explanation out;
  out.key = row.key;
  out.shape = row.shape_b;
  out.elements = row.elements;
  out.differing = row.differing;
  if (row.first) {
    out.first = coordinate_of(row.shape_b, *row.first);
    out.expected.text = row.first_a;
    out.actual.text = row.first_b;
  }
  return out;
}

Explanation requantized(const TensorDifference& row) {
  Explanation out = explanation_of(row);
  const CodesVote& vote = *row.codes;
  out.kind = "requantized";
  out.title = "Requantized as " + vote.scheme + (vote.is_nearest() ? ", nearest" : ", not all nearest");
  out.text = capital(row.explanation) + '.';
  out.certainty = vote.is_nearest() ? Certainty::certain : Certainty::likely;
  if (!vote.is_nearest()) {
    out.first = coordinate_of(row.shape_b, vote.first);
    out.expected.text = out.actual.text = {};
  }
  return out;
}

Explanation folded(const TensorDifference& row, const DecodedState& a, const DecodedState& b) {
  Explanation out = explanation_of(row);
  const bool is_first = row.folded == Side::first;
  out.kind = "scale_folded";
  out.title = "Scales of experts multiplied in";
  out.text =
      capital((is_first ? a : b).called()) + " holds " + (is_first ? b : a).called() +
      " with the scale of each expert multiplied into it, rounded once, and one in the scale's place: what export "
      "--gemma-fold makes.";
  out.certainty = Certainty::certain;
  return out;
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
  std::size_t looked_at = 0;
  for (TensorDifference& row : difference.tensors) {
    if (row.equality != Equality::different) {
      continue;
    }
    if (row.folded != Side::none || row.codes) {
      out.push_back(row.folded != Side::none ? folded(row, a, b) : requantized(row));
      row.explanation = summary_of(out.back());
      continue;
    }
    if (++looked_at > max) {
      continue;
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

void find_folded(const DecodedState& a, const DecodedState* folded_a, const DecodedState& b,
                 const DecodedState* folded_b, StateDifference& difference) {
  const auto is_same = [](const DecodedState& one, const DecodedState& other, const std::string& key) {
    return compare_tensors(one, *one.find(key), other, *other.find(key), {}).equality == Equality::equal;
  };
  for (TensorDifference& row : difference.tensors) {
    if (row.equality != Equality::different) {
      continue;
    }
    if (folded_a != nullptr && is_same(*folded_a, b, row.key)) {
      row.folded = Side::second;
    } else if (folded_b != nullptr && is_same(a, *folded_b, row.key)) {
      row.folded = Side::first;
    }
  }
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
    add_finding(report.findings, std::move(finding));
  }
  for (auto& [rule, builder] : builders) {
    const auto text = first.find(rule);
    report.checks.push_back(builder.fail_if_subjects(text == first.end() ? std::string() : text->second));
  }
  return report;
}

}  // namespace weightproof::suites
