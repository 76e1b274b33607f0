// SPDX-License-Identifier: Apache-2.0
// The both-sided coverage proof of a schema: the bindings that write tile every native tensor exactly once, and those
// that read tile every stored tensor exactly once. Decided on views alone, before a weight is read. Equal layers are
// proved once: a proof is remembered by shape and views. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/error.hpp"
#include "loader/core/schema.hpp"
#include "loader/core/tiling.hpp"
#include "loader/plan/coverage.hpp"

namespace weightproof::plan {

/// What a binding does in one load.
enum class Action : std::uint8_t {
  write,    ///< fills native elements
  compare,  ///< native elements that another binding fills: the values must be equal
  fill,     ///< a constant
  inactive  ///< its stored tensor is absent or not asked for, or a constant whose place is filled by a stored tensor
};
std::string_view to_string(Action action);

/// Why a native tensor is no part of a load.
enum class LeftOut : std::uint8_t {
  no,
  not_selected,     ///< a stored tensor it needs is excluded
  missing_allowed,  ///< a stored tensor it needs is missing, forgiven
  absent_optional   ///< the stored tensors it comes from are optional and absent
};
std::string_view to_string(LeftOut reason);

struct ProofFault {
  bool is_native = true;  ///< which side the tensor is on
  Tiling tiling = Tiling::hole;
  std::string_view key;
  Coordinate coordinate;        ///< hole, overlap
  std::string_view first_key;   ///< overlap: the tensors of the other side whose bindings meet there ("" a constant)
  std::string_view second_key;  ///
  std::string reason;           ///< unprovable
};

struct Proof {
  std::vector<Action> actions;      ///< one per Schema::bindings()
  std::vector<LeftOut> left_out;    ///< one per Schema::native_tensors()
  std::vector<ProofFault> faults;   ///< native side first, then stored side, each in schema order
  std::uint64_t native_proved = 0;  ///< tensors
  std::uint64_t stored_proved = 0;
  std::uint64_t proofs_done = 0;  ///< different proofs behind them
  bool is_exact() const { return faults.empty(); }
};

/// `coverage` null: every stored tensor is there. The views of keys in the result live in `schema`.
Proof prove_schema(const Schema& schema, const KeyCoverage* coverage = nullptr);

/// The fault as an error: DEST_NOT_COVERED (hole, unprovable) or DUPLICATE_DESTINATION (overlap), with tensors and
/// coordinate.
Error error_of(const Schema& schema, const ProofFault& fault);

}  // namespace weightproof::plan
