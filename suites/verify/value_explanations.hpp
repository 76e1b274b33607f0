// SPDX-License-Identifier: Apache-2.0
// What the difference between a loaded tensor and the reference is, for the record and for the page.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "reference/model.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::exec {
class LoadAttempt;
}
namespace weightproof::plan {
class Plan;
}

namespace weightproof::suites {

/// Tensors of one run that are explained; the others are listed.
inline constexpr std::size_t k_explained_max = 16;

/// A load, or one window of a model that is loaded window by window.
struct LoadedWindow {
  const plan::Plan& plan;
  const exec::LoadAttempt& attempt;  ///< complete
  const reference::Model& model;
  bool is_passed_through = false;       ///< none of its tensors is a native one of the family
  std::span<const Coordinate> origins;  ///< where each planned tensor begins in the whole one; empty: at 0
};

/// The dtype to ask the reference for; nothing where it is asked for elements as they are stored.
std::optional<reference::Dtype> reference_dtype(DType dtype);

/// Who answers in the reference for a planned tensor: a native tensor, or, where the family knows none by that name
/// because it passes through (or there is no family), the stored one.
struct ReferenceTensor {
  int native = -1;  ///< -1: stored_key is read as it is
  std::string stored_key;
};
/// Throws reference::Failure where the family should know it.
ReferenceTensor reference_tensor(const plan::Plan& plan, std::size_t i, const reference::Model& model,
                                 bool may_be_unknown);

/// Explains `tensors` (positions in the plan) of a window that differ from the reference: one finding each in
/// Context::findings, as long as there are fewer than k_explained_max. The sentence of the first that was recognised,
/// or nothing. Throws reference::Failure.
std::string explain_loaded(Context& context, const LoadedWindow& window, std::span<const std::size_t> tensors);

}  // namespace weightproof::suites
