// SPDX-License-Identifier: Apache-2.0
// A model in pieces that fit a budget: groups of native tensors, and boxes of one that is larger than that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "loader/core/box.hpp"
#include "loader/plan/planner.hpp"

namespace weightproof::suites {

/// What plans are made from.
struct LoadInputs {
  std::shared_ptr<const Schema> schema;
  std::vector<plan::Source> sources;
  plan::Request request;
};

struct WindowPart {
  NativeId native = k_no_id;  ///< of the schema of the window
  Box box;                    ///< of the whole tensor
};

struct LoadWindow {
  std::vector<WindowPart> parts;
  std::uint64_t bytes = 0;
  bool is_whole = false;           ///< everything, without `parts`
  bool is_passed_through = false;  ///< natives are stored tensors that pass through unchanged
  bool is_part_of_tensor = false;  ///< one box of a tensor that is larger than the window
};

/// All windows of the model, each at most `window_bytes` where one row of a tensor is not more. Plans share the inputs,
/// which stay as they are.
class LoadWindows {
 public:
  /// `whole` is the plan of everything, made from the same inputs.
  LoadWindows(const LoadInputs& inputs, const plan::Plan& whole, std::uint64_t window_bytes);

  const std::vector<LoadWindow>& windows() const { return windows_; }
  /// One box of one tensor of the plan of everything.
  LoadWindow only(const plan::PlannedTensor& tensor, const Box& box) const;
  /// The plan of one window; with `route` forced. Throws what make_plan() throws.
  plan::Plan plan_of(const LoadWindow& window, std::optional<plan::Route> route = std::nullopt) const;
  /// Where the part of a planned tensor begins in the whole one, in the order of Plan::tensors().
  std::vector<Coordinate> origins(const LoadWindow& window, const plan::Plan& plan) const;

 private:
  void add(bool is_passed_through, NativeId native, const Shape& shape, std::uint64_t bits, std::uint64_t bytes,
           std::uint64_t window_bytes);
  void cut(bool is_passed_through, NativeId native, const Shape& shape, std::uint64_t bits, std::uint64_t window_bytes);
  const Schema& schema_of(const LoadWindow& window) const {
    return window.is_passed_through ? *passed_schema_ : *inputs_.schema;
  }

  const LoadInputs& inputs_;
  // What plans have in common, made when first asked for: by what passes through, and by route.
  mutable std::map<std::pair<bool, std::optional<plan::Route>>, plan::PlanBasis> bases_;
  std::shared_ptr<const Schema> passed_schema_;  // null where nothing passes through
  std::vector<LoadWindow> windows_;
};

}  // namespace weightproof::suites
