// SPDX-License-Identifier: Apache-2.0
// Mutants of placement: ranks that hold something else than the layout says, or decode it as if their part were the
// whole. Each is what a plausible implementation does.
#include <algorithm>
#include <utility>

#include "loader/plan/clip.hpp"
#include "loader/plan/planner.hpp"
#include "suites/mutants/mutant.hpp"

namespace weightproof::suites {
namespace {

using Wrong = std::function<void(const NativeTensor&, const Shape&, const ParallelRule&, const plan::RankPlacement&,
                                 LocalTensor&)>;

// The same change for every tensor that a rank holds.
std::function<void(const Schema&, plan::RankPlacement&)> on_each(Wrong wrong) {
  return [wrong = std::move(wrong)](const Schema& schema, plan::RankPlacement& placement) {
    for (NativeId id = 0; id < placement.locals.size(); ++id) {
      const NativeTensor& tensor = schema.native_tensors()[id];
      if (!plan::is_absent(placement.locals[id], schema.shape_of(tensor))) {
        wrong(tensor, schema.shape_of(tensor), schema.parallel_rule(tensor), placement, placement.locals[id]);
      }
    }
  };
}

// One piece: an interval of one axis.
LocalTensor interval_of(const Shape& shape, unsigned axis, std::uint64_t begin, std::uint64_t end) {
  LocalTensor local{.shape = shape, .pieces = {}};
  local.shape[axis] = end - begin;
  LocalPiece piece{Box::whole(shape), Box::whole(local.shape)};
  piece.global.start[axis] = begin;
  piece.global.length[axis] = end - begin;
  if (!piece.global.is_empty()) {
    local.pieces.push_back(piece);
  }
  return local;
}

// The first ranks get one more where parts are not equal.
void balanced(const NativeTensor&, const Shape& shape, const ParallelRule&, const plan::RankPlacement& placement,
              LocalTensor& local) {
  const std::uint64_t ranks = placement.topology.fsdp;
  const std::uint64_t each = shape[0] / ranks;
  const std::uint64_t more = shape[0] % ranks;
  const std::uint64_t begin = placement.rank * each + std::min<std::uint64_t>(placement.rank, more);
  local = interval_of(shape, 0, begin, begin + each + (placement.rank < more ? 1U : 0U));
}

// A fused axis is taken for one piece.
void evenly(const NativeTensor&, const Shape& shape, const ParallelRule& rule, const plan::RankPlacement& placement,
            LocalTensor& local) {
  if (rule.kind != ParallelKind::components || rule.component_count < 2) {
    return;
  }
  const std::uint64_t each = shape[rule.axis] / placement.topology.tp;
  local = interval_of(shape, rule.axis, placement.rank * each, (placement.rank + 1) * each);
}

// Experts are counted from the rank's first plus one.
void one_expert_on(const NativeTensor&, const Shape& shape, const ParallelRule& rule, const plan::RankPlacement&,
                   LocalTensor& local) {
  if (rule.kind != ParallelKind::experts) {
    return;
  }
  for (LocalPiece& piece : local.pieces) {
    piece.global.start[0] += piece.global.start[0] + piece.global.length[0] < shape[0] ? 1U : 0U;
  }
}

// Key and value heads are cut like any other rows, although there are more ranks than heads.
void without_sharing(const NativeTensor&, const Shape& shape, const ParallelRule& rule,
                     const plan::RankPlacement& placement, LocalTensor& local) {
  const bool is_shared = rule.kind == ParallelKind::components && rule.component_count == 1 &&
                         rule.components[0].may_replicate && rule.components[0].units < placement.topology.tp;
  if (is_shared) {
    const std::uint64_t each = shape[rule.axis] / placement.topology.tp;
    local = interval_of(shape, rule.axis, placement.rank * each, (placement.rank + 1) * each);
  }
}

// ep_shard cuts the last axis of the experts instead of the one beside them.
void other_axis(const NativeTensor&, const Shape& shape, const ParallelRule& rule, const plan::RankPlacement& placement,
                LocalTensor& local) {
  if (rule.kind != ParallelKind::experts || shape.rank() != 3 || local.pieces.empty()) {
    return;
  }
  const std::uint64_t shards = placement.topology.fsdp / placement.topology.ep;
  const std::uint64_t shard = placement.rank / placement.topology.ep;
  LocalPiece piece = local.pieces.front();
  piece.global.start[1] = 0;
  piece.global.length[1] = shape[1];
  piece.global.length[2] = shape[2] / shards;
  piece.global.start[2] = shard * piece.global.length[2];
  piece.local.length = piece.global.length;
  piece.local.start[2] = piece.local.start[1] = 0;
  local = {piece.local.length, {piece}};
}

// What tensor parallelism cuts is taken for one of those that every rank holds.
void replicated(const NativeTensor&, const Shape& shape, const ParallelRule& rule, const plan::RankPlacement&,
                LocalTensor& local) {
  if (rule.kind == ParallelKind::components) {
    local = {shape, {{Box::whole(shape), Box::whole(shape)}}};
  }
}

// A rank without rows is taken for one without the tensor.
void without_empty(const NativeTensor&, const Shape&, const ParallelRule&, const plan::RankPlacement&,
                   LocalTensor& local) {
  if (local.pieces.empty()) {
    local = {};
  }
}

// Scales are looked up as if the part that is decoded were the whole tensor. Elements take a byte, so the codes of a
// box are as many wherever it lies.
class LocalGrid final : public codec::Codec {
 public:
  explicit LocalGrid(std::shared_ptr<const codec::Codec> inner)
      : Codec(inner->scheme(), {inner->components().begin(), inner->components().end()}, inner->natural_shape(),
              inner->granule(), inner->exactness()),
        inner_(std::move(inner)) {}

  void byte_runs(const Box& aligned, std::vector<codec::ByteRun>& runs) const override {
    std::vector<codec::ByteRun> here;
    std::vector<codec::ByteRun> at_origin;
    inner_->byte_runs(aligned, here);
    inner_->byte_runs(moved(aligned), at_origin);
    for (std::uint32_t component = 0; component < components().size(); ++component) {
      const bool is_weight = components()[component].role == codec::Role::weight;
      for (const codec::ByteRun& run : is_weight ? here : at_origin) {
        if (run.component == component) {
          runs.push_back(run);
        }
      }
    }
  }
  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override {
    inner_->decode(moved(aligned), parts, target, out);
  }

 private:
  static Box moved(Box box) {
    for (unsigned axis = 0; axis < box.start.rank(); ++axis) {
      box.start[axis] = 0;
    }
    return box;
  }
  std::shared_ptr<const codec::Codec> inner_;
};

Mutant mutant_of(std::string id, std::string fault, std::string family, std::string preset, std::string topology,
                 std::vector<std::string> tensors) {
  Mutant mutant;
  mutant.id = "placement." + std::move(id);
  mutant.kind = "placement";
  mutant.fault = std::move(fault);
  mutant.fixture.family = std::move(family);
  mutant.fixture.preset = std::move(preset);
  mutant.topology = std::move(topology);
  mutant.tensors = std::move(tensors);
  mutant.checks = {"shard.reassembly"};
  return mutant;
}

}  // namespace

std::vector<Mutant> placement_mutants() {
  std::vector<Mutant> all;
  const auto add = [&all](Mutant mutant, Wrong wrong) {
    mutant.perturbation.placement = on_each(std::move(wrong));
    all.push_back(std::move(mutant));
  };
  add(mutant_of("balanced_chunk", "rows that do not divide are dealt out one by one instead of by the chunk rule",
                "llama", "tiny", "fsdp=4", {"model.norm.weight"}),
      &balanced);
  {
    Mutant mutant = mutant_of("local_block_grid", "blocks of scales are counted from the rank's own first row",
                              "deepseek_v3", "tiny", "tp=2", {"model.layers.0.self_attn.kv_b_proj.weight"});
    mutant.fixture.preset = "tiny";
    mutant.perturbation.codec = [](const codec::QuantizedTensor&, const std::shared_ptr<const codec::Codec>& codec) {
      return codec->scheme().id == "fp8_block" ? std::make_shared<const LocalGrid>(codec) : codec;
    };
    all.push_back(std::move(mutant));
  }
  add(mutant_of("fused_evenly", "query, key and value in one tensor are cut as if it were one projection", "phi3",
                "tiny", "tp=2", {"model.layers.1.self_attn.qkv_proj.weight"}),
      &evenly);
  add(mutant_of("fused_mlp_evenly", "gate and up in one tensor are cut as if they were one projection", "phi3", "tiny",
                "tp=2", {"model.layers.2.mlp.gate_up_proj.weight"}),
      &evenly);
  add(mutant_of("expert_off_by_one", "a rank takes the experts behind its own", "qwen3_moe", "tiny_e4", "fsdp=2,ep=2",
                {"model.layers.1.mlp.experts.gate_and_up_projs"}),
      &one_expert_on);
  add(mutant_of("kv_head_not_shared", "with more ranks than key heads each rank gets half a head", "llama", "tiny_half",
                "tp=4", {"model.layers.0.self_attn.k_proj.weight"}),
      &without_sharing);
  add(mutant_of("ep_shard_axis", "ep_shard cuts the last axis of the experts", "qwen3_moe", "tiny_e4", "fsdp=4,ep=2",
                {"model.layers.1.mlp.experts.down_projs"}),
      &other_axis);
  add(mutant_of("replicated", "matrices that tensor parallelism cuts are whole on every rank", "llama", "tiny", "tp=2",
                {"model.layers.0.mlp.up_proj.weight"}),
      &replicated);
  add(mutant_of("empty_rank_omitted", "a rank without rows does not have the tensor at all", "llama", "tiny", "fsdp=8",
                {"model.norm.weight"}),
      &without_empty);
  return all;
}

}  // namespace weightproof::suites
