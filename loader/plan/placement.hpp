// SPDX-License-Identifier: Apache-2.0
// Which part of every tensor a rank owns: one chunk rule, meshes, fused tensors cut by component, experts. Pure
// arithmetic on shapes; nothing here knows files or processes. Illegal topologies are errors that state the rule.
// Thread-safe.
//
// Sources of the rules: the torch.chunk rule (later parts smaller or empty), FSDP over TP as a strided shard, the
// expert mesh (ep_shard, ep) carved out of all non-pipeline axes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/form.hpp"
#include "loader/core/placement.hpp"

namespace weightproof::plan {

struct Interval {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Part `index` of `parts` of n elements: chunks of ceil(n / parts), the last ones shorter or empty. An empty part
/// begins at n.
Interval chunk(std::uint64_t n, std::uint32_t parts, std::uint32_t index);

/// One mesh dimension as a rank sees it.
struct MeshAxis {
  std::uint32_t size = 1;
  std::uint32_t index = 0;
};

/// Part of one tensor axis of extent n under placements read left to right (one per mesh axis; those of other tensor
/// axes are ignored). Plain shards to the right of strided ones act first, then the strided ones from right to left; a
/// strided shard's split factor must be the product of what acted before it. Errors: chunk_not_representable with the
/// rule.
Interval shard_interval(std::uint64_t n, std::uint8_t axis, std::span<const Placement> placements,
                        std::span<const MeshAxis> mesh);

/// A rank's local tensor: one piece, or none where it is empty (the shape then has a 0).
LocalTensor place(const Shape& shape, std::span<const Placement> placements, std::span<const MeshAxis> mesh);

/// TP cut of a fused axis: every component is cut by itself and the rank's tensor is the concatenation of its pieces.
/// Component extents sum to the axis. Errors: ep_not_divisible is for experts; here chunk_not_representable where units
/// do not divide, or ranks exceed units that may not be replicated.
LocalTensor place_fused(const Shape& shape, std::uint8_t axis, std::span<const FusedComponent> components,
                        std::uint32_t parts, std::uint32_t index);

/// Applies a further contiguous cut of `axis` (FSDP after TP) to a local tensor: chunk of the LOCAL extent.
LocalTensor shard_local(const LocalTensor& local, std::uint8_t axis, std::uint32_t parts, std::uint32_t index);

/// Position of a rank in every dimension.
struct RankPosition {
  std::uint32_t pp = 0, dp = 0, fsdp = 0, cp = 0, tp = 0;
  std::uint32_t ep = 0;        ///< inside its pipeline stage
  std::uint32_t ep_shard = 0;  ///< index among ep_shards
  friend bool operator==(const RankPosition&, const RankPosition&) = default;
};

/// Parses "tp=2,ep=4,fsdp=2,pp=1" (names in any order, each once, values 1..65536). Throws usage with the text at
/// fault.
Topology parse_topology(std::string_view text);
std::string to_string(const Topology& topology);
/// Throws chunk_not_representable where ep does not divide the non-pipeline world, ep_not_divisible where experts are
/// not divisible by ep.
void require_legal(const Topology& topology, std::uint64_t experts);
std::uint32_t ep_shards(const Topology& topology);
RankPosition position_of(const Topology& topology, std::uint32_t rank);
std::uint32_t rank_of(const Topology& topology, const RankPosition& position);

/// Layers of a pipeline stage: contiguous ceil chunks; embedding belongs to the first stage, final norm and head to the
/// last.
Interval stage_layers(std::uint64_t layers, std::uint32_t pp, std::uint32_t stage);
/// Parses "0-11,12-23": one closed range per stage, together 0..layers-1 in order. Throws usage.
std::vector<Interval> parse_stages(std::string_view text, std::uint64_t layers);

/// Experts of a rank: one rule, the chunk rule; require_legal has made counts equal.
Interval expert_interval(std::uint64_t experts, const Topology& topology, const RankPosition& position);

/// Native grouped expert tensor [E, A, B]: ep cuts axis 0, ep_shard cuts axis 1. A bias [E, A] likewise. Rank-1
/// parameters: axis 0 by both.
LocalTensor place_experts(const Shape& shape, const Topology& topology, const RankPosition& position);

// ---- Backend capability truth ----

enum class Dispatcher : std::uint8_t { torch, deepep, hybridep, uccl_ep, mok };
enum class ExpertBackend : std::uint8_t { torch, torch_mm, torch_mm_mxfp8, gmm, te };
std::span<const std::string_view> dispatcher_names();
std::span<const std::string_view> expert_backend_names();
/// Throws usage listing the names.
Dispatcher dispatcher_from(std::string_view name);
ExpertBackend expert_backend_from(std::string_view name);

struct ExpertStorageVerdict {
  ExpertStorage storage = ExpertStorage::grouped;
  std::string reason;  ///< one sentence: why this storage is what the constructor builds
};

/// What the constructor of the expert module really builds, decided in one place for construction and loading alike.
/// Throws chunk_not_representable for mok with a world that is not a multiple of 4, and for mok without its package.
ExpertStorageVerdict expert_storage(Dispatcher dispatcher, ExpertBackend backend, std::uint32_t world,
                                    bool has_mok = true);

}  // namespace weightproof::plan
