// SPDX-License-Identifier: Apache-2.0
// From schema, catalog, placement and request to a plan. Pure: equal inputs give equal plans on every rank and machine.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/core/placement.hpp"
#include "loader/plan/plan.hpp"

namespace weightproof::plan {

/// Dtype of the result. f32_state and integers keep theirs (decisions: F32 state is F32 everywhere but under `stored`).
enum class TargetDType : std::uint8_t { stored, bf16, f32, f16 };

/// What a rank holds: a local tensor per native tensor, by NativeId. Empty: every tensor whole. A local tensor of
/// another rank than its tensor and without pieces is none at all: it is not planned, and nothing is read for it. One
/// with an extent of 0 is planned as the empty tensor that the rank holds.
struct RankPlacement {
  std::uint32_t rank = 0;
  Topology topology;
  std::vector<LocalTensor> locals;
  bool has_passthrough = true;  ///< whether it holds what passes through unchanged
};

/// One checkpoint of several (a base, then its adapter). Files of all are numbered one after the other.
struct Source {
  std::string name;
  std::shared_ptr<const Catalog> catalog;
};

struct Request {
  TargetDType dtype = TargetDType::stored;
  DType decoded_dtype = DType::bf16;  ///< what codecs yield under `stored`, and dtype of constants beside nothing
  Side side = Side::native;
  CoverageOptions keys;
  std::optional<Route> route;                 ///< empty: auto. A route that is not possible is an error, never a switch
  std::optional<std::uint64_t> budget_bytes;  ///< host memory beyond the final storage
  std::uint32_t threads = 1;                  ///< buffers in flight; lowered where the budget asks for it
  std::uint64_t header_bytes = 0;             ///< of all files together, to state metadata in proportion; 0 unknown
  std::vector<DecodeSource> decodes;          ///< stored tensors that codecs yield; keys.decoded is derived from it
  std::vector<ProbedValue> probes;
};

/// All rows of the sources in one catalog. A key in two sources throws Error(duplicate_tensor). One source is returned
/// as it is.
std::shared_ptr<const Catalog> merge_sources(std::span<const Source> sources);

/// Errors:
///   missing_keys, unexpected_keys, shape_mismatch, ... as require_complete();
///   dest_not_covered, duplicate_destination: the proof failed, with tensors and coordinate;
///   dtype_unsupported: a dtype that cannot be cast to the one asked for;
///   route_unavailable: the route asked for is not possible, with the moves that stand against it; also parts of
///   stored tensors, which no rank holds; budget_too_small: with the minimum in facts().expected; subset_empty: nothing
///   is left to load; usage: the catalog knows names alone.
/// Keys are judged on the whole checkpoint, but one that is missing is an error only of ranks that hold something of it.
/// Of what a rank does not hold nothing is read. A rank that holds nothing gets an empty plan.
/// Cost: about 0.5 us a tensor.
Plan make_plan(std::shared_ptr<const Schema> schema, std::span<const Source> sources, const RankPlacement& placement,
               const Request& request);

struct Basis;

/// What the plans of all ranks have in common, made once: keys judged, the mapping proved, rows in order. Then a rank's
/// plan costs what the rank holds. Thread rule: immutable, shared freely.
class PlanBasis {
 public:
  /// Errors as make_plan(), but for what hangs on the placement.
  PlanBasis(std::shared_ptr<const Schema> schema, std::span<const Source> sources, const Request& request);
  PlanBasis(PlanBasis&&) noexcept;
  PlanBasis& operator=(PlanBasis&&) noexcept;
  ~PlanBasis();

  /// Equal to make_plan() with the same placement.
  Plan plan(const RankPlacement& placement = {}) const;
  const Schema& schema() const;
  const Catalog& catalog() const;

 private:
  std::unique_ptr<const Basis> basis_;
};

/// The boxes of the decoded tensor that a decode move is cut into, one at a time: aligned to the codec's granule, in
/// row-major order, covering the source view.
struct DecodeGrid {
  Box whole;
  Extents lengths;  ///< of one tile; those at the end are shorter
  std::uint64_t count = 0;
  /// position < count.
  Box tile(std::uint64_t position) const;
};

/// Tiles of at most `tile_elements` where the granule allows it.
DecodeGrid decode_grid(const Plan& plan, const Move& move, std::uint64_t tile_elements);
/// With the size of tile that Plan::memory() is stated for.
DecodeGrid decode_grid(const Plan& plan, const Move& move);

/// The boxes of decode_grid() as a list.
std::vector<Box> decode_tiles(const Plan& plan, const Move& move, std::uint64_t tile_elements);

}  // namespace weightproof::plan
