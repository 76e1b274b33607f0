// SPDX-License-Identifier: Apache-2.0
// One load against others of the same window: a second one, the reference, and every other route.
#include <algorithm>
#include <cstring>
#include <set>

#include "reference/failure.hpp"
#include "suites/verify/load_boxes.hpp"
#include "suites/verify/load_runner.hpp"
#include "suites/verify/value_explanations.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_reference_window_bytes = 1U << 20U;
constexpr std::size_t k_compare_step = 64U << 10U;

std::optional<std::size_t> first_difference(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::size_t size = std::min(a.size(), b.size());
  for (std::size_t at = 0; at < size; at += k_compare_step) {
    const std::size_t step = std::min(k_compare_step, size - at);
    if (std::memcmp(a.data() + at, b.data() + at, step) == 0) {
      continue;
    }
    const auto [left, right] = std::mismatch(a.begin() + static_cast<std::ptrdiff_t>(at), a.end(),
                                             b.begin() + static_cast<std::ptrdiff_t>(at), b.end());
    return static_cast<std::size_t>(left - a.begin());
  }
  return a.size() == b.size() ? std::nullopt : std::optional(size);
}

}  // namespace

std::string LoadRunner::place(const Seen& seen, std::size_t tensor, std::uint64_t byte) const {
  const plan::PlannedTensor& row = seen.plan.tensors()[tensor];
  Coordinate at = coordinate_of(seen.plan.shape_of(row), byte * 8 / bits_of(row.dtype));
  const Coordinate& origin = seen.origins[tensor];
  for (unsigned axis = 0; axis < at.rank() && axis < origin.rank(); ++axis) {
    at[axis] += origin[axis];
  }
  return to_string(at);
}

void LoadRunner::compare_second(const Seen& seen, const exec::LoadAttempt& first) {
  exec::LoadOptions options;
  options.sentinel = k_second_fill;
  options.poison = k_poison;
  options.threads = 1;
  if (wrong_.second_load) {
    wrong_.second_load(seen.plan, options);
  }
  const exec::LoadAttempt second = load(seen.plan, options);
  for (std::size_t i = 0; i < seen.plan.tensors().size(); ++i) {
    const auto a = first.bytes(i);
    const auto b = second.bytes(i);
    const auto at = first_difference(a, b);
    if (!at) {
      continue;
    }
    const std::string_view key = seen.plan.tensors()[i].key;
    const std::string where = place(seen, i, *at);
    if (a[*at] == k_first_fill && b[*at] == k_second_fill) {
      run_.sentinel.add(key, where, " was never written");
    }
    if (b[*at] == k_poison) {
      run_.poison.add(key, where, " holds bytes of a buffer whose lease had ended");
    }
    run_.reload.add(key, where, " differs after a second load");
  }
}

void LoadRunner::compare_reference(const Seen& seen, const exec::LoadAttempt& first) {
  if (!model_) {
    return;
  }
  try {
    std::vector<std::size_t> differing;
    for (std::size_t i = 0; i < seen.plan.tensors().size(); ++i) {
      const plan::PlannedTensor& tensor = seen.plan.tensors()[i];
      const Shape& shape = seen.plan.shape_of(tensor);
      const auto ours = first.bytes(i);
      const ReferenceTensor answer =
          reference_tensor(seen.plan, i, *model_, seen.window.is_passed_through || !context_.schema);
      const auto dtype = reference_dtype(tensor.dtype);
      const std::uint64_t bits = bits_of(tensor.dtype);
      bool has_difference = false;
      const auto compare = [&](const Box& piece, std::uint64_t element) {
        if (has_difference) {
          return;
        }
        reference::Box box;
        for (unsigned axis = 0; axis < piece.start.rank(); ++axis) {
          box.start.push_back(piece.start[axis] + (axis < seen.origins[i].rank() ? seen.origins[i][axis] : 0));
          box.extent.push_back(piece.length[axis]);
        }
        const reference::Bytes theirs = answer.native < 0 ? model_->stored_region(answer.stored_key, box)
                                        : dtype           ? model_->region(answer.native, box, *dtype)
                                                          : model_->region(answer.native, box);
        const auto window = ours.subspan(static_cast<std::size_t>(element * bits / 8),
                                         static_cast<std::size_t>(piece.element_count() * bits / 8));
        run_.compared_bytes += window.size();
        if (const auto at = first_difference(window, theirs)) {
          has_difference = true;
          run_.exact.add(tensor.key, place(seen, i, element * bits / 8 + *at), " differs from the reference");
        }
      };
      if (bits % 8 != 0) {
        compare(Box::whole(shape), 0);  // a row may end inside a byte
      } else {
        for_each_box(Box::whole(shape), std::max<std::uint64_t>(1, k_reference_window_bytes * 8 / bits), compare);
      }
      if (has_difference) {
        differing.push_back(i);
      }
    }
    const std::string text = explain_loaded(
        context_, {seen.plan, first, *model_, seen.window.is_passed_through || !context_.schema, seen.origins},
        differing);
    run_.exact_explanation = run_.exact_explanation.empty() ? text : run_.exact_explanation;
  } catch (const reference::Failure& failure) {
    run_.reference_failure = failure.what();
    model_.reset();
  }
}

// Every route that is possible, forced, against the automatic one.
void LoadRunner::compare_routes(const LoadWindows& windows, const Seen& seen, const exec::LoadAttempt& first) {
  for (RouteRun& route : run_.route_runs) {
    if (!route.refused.empty()) {
      continue;
    }
    std::optional<plan::Plan> forced;
    try {
      forced = windows.plan_of(seen.window, route.route);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::route_unavailable) {
        route.refused = error.message();
      } else if (error.code() == ErrorCode::budget_too_small) {
        ++route.over_budget;
      } else {
        throw;
      }
      continue;
    }
    if (std::equal(forced->moves().begin(), forced->moves().end(), seen.plan.moves().begin(),
                   seen.plan.moves().end())) {
      ++route.same;
      continue;
    }
    if (run_.is_budget_given && forced->memory().peak_bytes() > shares_.load + run_.metadata_bytes) {
      ++route.over_budget;
      continue;
    }
    exec::LoadOptions options;
    options.sentinel = k_second_fill;
    options.threads = 1;
    if (wrong_.route_load) {
      wrong_.route_load(*forced, options);
    }
    const exec::LoadAttempt other = load(*forced, options);
    ++route.loads;
    for (std::size_t i = 0; i < seen.plan.tensors().size(); ++i) {
      const std::string_view key = seen.plan.tensors()[i].key;
      if (const auto at = first_difference(first.bytes(i), other.bytes(key))) {
        run_.routes.add(key, place(seen, i, *at),
                        " differs when it is loaded by route " + std::string(plan::to_string(route.route)));
      }
    }
  }
}

void LoadRunner::require_same_tensors(const plan::Plan& whole) {
  if (!model_ || context_.has_subset() || !context_.options.allow_missing.empty()) {
    return;
  }
  std::set<std::string_view> passed;
  for (const plan::MatchedRows& rows : whole.coverage().passed_through) {
    for (const plan::Row row : rows.rows) {
      passed.insert(whole.catalog().tensors()[row].key);
    }
  }
  const reference::Mapping& mapping = model_->mapping();
  for (const reference::NativeTensor& native : mapping.native_tensors()) {
    const bool is_passed =
        !native.keys.empty() && passed.count(mapping.keys()[static_cast<std::size_t>(native.keys.front())].name) != 0;
    if (native.alias_of < 0 && !is_passed && whole.find(native.name) == SIZE_MAX) {
      run_.exact.add(native.name, {}, " is native state by the reference, and no load makes it");
    }
  }
}

}  // namespace weightproof::suites
