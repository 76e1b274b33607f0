// SPDX-License-Identifier: Apache-2.0
// Whole tensors that are another one: swapped with a sibling, equal to it, or left over from an older state.
#include <algorithm>

#include "suites/explanations/names.hpp"
#include "suites/explanations/recogniser_internal.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_probe_bytes = 4096;

// Equal in what is looked at: the beginning decides most.
bool are_equal(const TensorSource& a, const TensorSource& b, std::uint64_t bytes) {
  if (a.shape != b.shape || a.dtype != b.dtype) {
    return false;
  }
  std::vector<std::byte> left;
  std::vector<std::byte> right;
  std::uint64_t step = k_probe_bytes;
  for (std::uint64_t at = 0; at < bytes; at += left.size()) {
    left.resize(static_cast<std::size_t>(std::min(step, bytes - at)));
    right.resize(left.size());
    a.read(at, left);
    b.read(at, right);
    if (left != right) {
      return false;
    }
    step = k_window_elements * 8;
  }
  return true;
}

// A value that many tensors share proves nothing about any of them.
bool is_constant(const TensorSource& tensor, std::uint64_t bytes, unsigned width) {
  std::vector<std::byte> run(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, k_probe_bytes) / width * width));
  tensor.read(0, run);
  for (std::size_t i = width; i < run.size(); ++i) {
    if (run[i] != run[i - width]) {
      return false;
    }
  }
  return true;
}

bool are_pair(std::string_view a, std::string_view b, std::string_view one, std::string_view other) {
  const auto is = [](std::string_view key, std::string_view word) {
    return short_name_of(key).find(word) != std::string_view::npos;
  };
  return (is(a, one) && is(b, other)) || (is(a, other) && is(b, one));
}

// Where experts are tensors of their own: is `sibling` what sorting the numbers as text puts in this place?
bool is_text_order(const Gathered& seen, std::string_view sibling) {
  const auto own = expert_of(seen.key);
  const auto other = expert_of(sibling);
  const std::string module = module_of(seen.key);
  if (!own || !other || module != module_of(sibling) || layer_of(seen.key) != layer_of(sibling)) {
    return false;
  }
  std::uint64_t count = 0;
  for (const std::string& key : seen.related->keys) {
    count += layer_of(key) == layer_of(seen.key) && module_of(key) == module ? 1U : 0U;
  }
  constexpr std::uint64_t experts_max = 4096;
  if (count <= 10 || count > experts_max || *own >= count) {
    return false;
  }
  return text_order(count)[*own] == *other;
}

void name_sibling(const Gathered& seen, const std::string& sibling, bool is_swapped, std::size_t equals,
                  Explanation& out) {
  const std::string shown = printable(sibling, 200);
  const bool same_layer = layer_of(seen.key) == layer_of(sibling);
  const std::string label =
      same_layer && short_name_of(sibling) != short_name_of(seen.key) ? std::string(short_name_of(sibling)) : shown;
  const Certainty certainty = equals > 1 ? Certainty::likely : Certainty::certain;
  const std::string holds = "Holds what belongs to " + shown + ".";
  if (equals > 1) {
    out.evidence.push_back({grouped(equals) + " tensors have these values; the nearest name is told", "likely"});
  }
  if (is_swapped) {
    const bool is_gate = are_pair(seen.key, sibling, "gate", "up") || are_pair(seen.key, sibling, "w1", "w3");
    return name(out, is_gate ? "gate_up_swapped" : "swapped", is_gate ? "Gate and up swapped" : "Swapped with " + label,
                holds + " That one holds this one's values: the two have changed places.", certainty);
  }
  if (is_text_order(seen, sibling)) {
    return name(out, "experts_text_order", "Experts in text order",
                holds + " Expert numbers were sorted as text: 0, 1, 10, 11, ... instead of 0, 1, 2, 3.", certainty);
  }
  if (!same_layer && module_of(seen.key) == module_of(sibling) && layer_of(sibling)) {
    return name(out, "other_layer", "Holds layer " + grouped(*layer_of(sibling)), holds, certainty);
  }
  if (const auto expert = expert_of(sibling); expert && same_layer && module_of(seen.key) == module_of(sibling)) {
    return name(out, "other_expert", "Holds expert " + grouped(*expert), holds, certainty);
  }
  name(out, "other_tensor", "Equal to " + label, holds, certainty);
}

}  // namespace

bool recognise_related(const Gathered& seen, Explanation& out) {
  const RelatedTensors& related = *seen.related;
  const std::uint64_t bytes = seen.elements * seen.width;
  const TensorSource& actual = *seen.actual;
  if (related.earlier) {
    const auto earlier = related.earlier(seen.key);
    if (earlier && are_equal(*earlier, actual, bytes)) {
      name(out, "stale", "Stale copy", "Holds the values of the older state: this tensor was never updated.",
           Certainty::certain);
      return true;
    }
  }
  if (!related.expected || related.keys.empty() || bytes == 0 || is_constant(actual, bytes, seen.width)) {
    return false;
  }
  std::vector<std::pair<std::uint64_t, const std::string*>> nearest;
  for (const std::string& key : related.keys) {
    if (key != seen.key) {
      nearest.emplace_back(nearness(seen.key, key), &key);
    }
  }
  const std::size_t kept = std::min(nearest.size(), seen.options->related_max);
  std::partial_sort(
      nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(kept), nearest.end(),
      [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : *a.second < *b.second; });
  const std::string* sibling = nullptr;
  std::size_t equals = 0;
  for (std::size_t i = 0; i < kept && equals < 4; ++i) {
    const auto expected = related.expected(*nearest[i].second);
    if (expected && are_equal(*expected, actual, bytes)) {
      ++equals;
      sibling = sibling == nullptr ? nearest[i].second : sibling;
    }
  }
  if (nearest.size() > kept) {
    out.evidence.push_back(
        {"compared with the " + grouped(kept) + " nearest of " + grouped(nearest.size()) + " other tensors", {}});
  }
  if (sibling == nullptr) {
    return false;
  }
  const auto there = related.actual ? related.actual(*sibling) : std::nullopt;
  name_sibling(seen, *sibling, there && are_equal(*seen.expected, *there, bytes), equals, out);
  return true;
}

}  // namespace weightproof::suites
