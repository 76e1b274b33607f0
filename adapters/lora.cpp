// SPDX-License-Identifier: Apache-2.0
// The schema of an adapter: factors and where they lie natively.
#include "adapters/lora.hpp"

#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::string_view k_one_a = "gate and up have one factor A";
constexpr std::string_view k_no_factors = "this matrix has no factors: it adds nothing";

class LoraDescriber {
 public:
  LoraDescriber(const LoraBase& base, const LoraLayout& layout)
      : base_(base), layout_(layout), builder_(base.family.empty() ? "lora" : base.family + " lora") {}

  Schema run() && {
    for (const LoraLinearPart& part : layout_.linears) linear(base_.linears[part.linear], part);
    for (const LoraExpertsPart& part : layout_.experts) {
      const LoraExperts& experts = base_.experts[part.experts];
      if (layout_.has_magnitudes && layout_.packing == LoraPacking::per_expert) refuse_magnitudes(experts);
      layer_ = experts.layer;
      if (part.has_gate || part.has_up) inputs(experts, part);
      if (part.has_down) outputs(experts, part);
    }
    layer_ = k_no_layer;
    for (const LoraWholePart& part : layout_.wholes) {
      builder_.rename(layout_.prefix + part.stored, part.native, part.shape);
    }
    return std::move(builder_).finish();
  }

 private:
  [[noreturn]] void refuse_magnitudes(const LoraExperts& experts) const {
    ErrorFacts facts;
    facts.file = "adapter_config.json";
    facts.keys = {layout_.prefix + experts.stored};
    facts.expected = "use_dora false for experts";
    facts.actual = "use_dora true";
    facts.hint = "train experts without DoRA, or adapt other modules alone";
    facts.check = "adapter.config";
    throw Error(ErrorCode::route_unavailable, "magnitudes of experts have no native form", std::move(facts));
  }

  StoredId stored(const std::string& name, const Shape& shape) {
    check(name, shape);
    return builder_.stored(layout_.prefix + name, shape, DTypeRule::weight, layer_);
  }
  NativeId native(const std::string& name, const Shape& shape) {
    check(name, shape);
    return builder_.native(name, shape, DTypeRule::weight, layer_);
  }
  static void check(const std::string& name, const Shape& shape) {
    if (element_count(shape)) return;
    ErrorFacts facts;
    facts.file = "adapter_config.json";
    facts.keys = {name};
    facts.expected = "a number of elements below 2^64";
    facts.actual = to_string(shape);
    facts.check = "adapter.config";
    throw Error(ErrorCode::config_invalid, "the configs give a factor that cannot exist", std::move(facts));
  }
  void moved(const std::string& from, const std::string& to, const Shape& shape) {
    const StoredId source = stored(from, shape);
    const NativeId target = native(to, shape);
    builder_.bind(source, target, builder_.whole(target));
  }

  void linear(const LoraLinear& linear, const LoraLinearPart& part) {
    layer_ = linear.layer;
    const std::string& from = part.is_spelled_natively ? linear.native : linear.stored;
    const std::string& to = linear.native;
    const std::uint64_t rank = part.rank;
    if (linear.is_embedding) {
      moved(from + ".lora_embedding_A", to + ".lora_embedding_A", {rank, linear.out});
      moved(from + ".lora_embedding_B", to + ".lora_embedding_B", {linear.in, rank});
    } else {
      moved(from + ".lora_A.weight", to + ".lora_A.weight", {rank, linear.in});
      moved(from + ".lora_B.weight", to + ".lora_B.weight", {linear.out, rank});
    }
    if (layout_.has_magnitudes) {
      moved(from + ".lora_magnitude_vector", to + ".lora_magnitude", {linear.is_embedding ? linear.in : linear.out});
    }
  }

  static const std::string& parent(const LoraExperts& experts, const LoraExpertsPart& part) {
    return part.is_spelled_natively ? experts.native : experts.stored;
  }
  std::string one(const LoraExperts& experts, const LoraExpertsPart& part, std::uint64_t expert,
                  std::string_view native_name, const std::string& stored_name) const {
    return parent(experts, part) + "." + std::to_string(expert) + "." +
           (part.is_spelled_natively ? std::string(native_name) : stored_name);
  }

  void inputs(const LoraExperts& experts, const LoraExpertsPart& part) {
    const std::uint64_t count = experts.count;
    const std::uint64_t rank = part.rank;
    const NativeId a = native(experts.native + ".lora_gate_and_up_A", {count, experts.input, rank});
    const NativeId b = native(experts.native + ".lora_gate_and_up_B", {count, rank, experts.rows()});
    if (layout_.packing != LoraPacking::per_expert) {
      const std::string name = parent(experts, part) + (part.has_down ? ".base_layer" : "");
      packed(name, a, b, experts.input, experts.rows(), count, rank);
      return;
    }
    for (std::uint64_t e = 0; e < count; ++e) {
      const View view_a = builder_.whole(a).select(0, e).transpose(0, 1);
      const View view_b = builder_.whole(b).select(0, e).transpose(0, 1);
      const std::uint64_t first_up = experts.is_gated ? experts.width : 0;
      if (experts.is_gated) {
        single_b(part.has_gate, one(experts, part, e, "gate_proj", experts.gate), b,
                 view_b.narrow(0, 0, experts.width));
      }
      single_b(part.has_up, one(experts, part, e, "up_proj", experts.up), b, view_b.narrow(0, first_up, experts.width));
      const Shape shape = {rank, experts.input};
      if (part.has_gate) {
        builder_.bind(stored(one(experts, part, e, "gate_proj", experts.gate) + ".lora_A.weight", shape), a, view_a);
      }
      if (!part.has_up) continue;
      const StoredId up = stored(one(experts, part, e, "up_proj", experts.up) + ".lora_A.weight", shape);
      if (part.has_gate) {
        builder_.alias(up, builder_.whole_stored(up), a, view_a, k_one_a);
      } else {
        builder_.bind(up, a, view_a);
      }
    }
  }

  void single_b(bool is_stored, const std::string& module, NativeId b, const View& view) {
    if (!is_stored) {
      builder_.constant(b, view, 0, k_no_factors);
      return;
    }
    builder_.bind(stored(module + ".lora_B.weight", {view.extents()[0], view.extents()[1]}), b, view);
  }

  void outputs(const LoraExperts& experts, const LoraExpertsPart& part) {
    const std::uint64_t count = experts.count;
    const std::uint64_t rank = part.rank;
    const NativeId a = native(experts.native + ".lora_down_A", {count, experts.width, rank});
    const NativeId b = native(experts.native + ".lora_down_B", {count, rank, experts.input});
    if (layout_.packing != LoraPacking::per_expert) {
      packed(parent(experts, part), a, b, experts.width, experts.input, count, rank);
      return;
    }
    for (std::uint64_t e = 0; e < count; ++e) {
      const std::string module = one(experts, part, e, "down_proj", experts.down);
      builder_.bind(stored(module + ".lora_A.weight", {rank, experts.width}), a,
                    builder_.whole(a).select(0, e).transpose(0, 1));
      builder_.bind(stored(module + ".lora_B.weight", {experts.input, rank}), b,
                    builder_.whole(b).select(0, e).transpose(0, 1));
    }
  }

  /// One packed pair of all experts: rows of the stored A are counted expert by expert, columns of the stored B rank by
  /// rank. The older generation stores B where A is meant and A where B is.
  void packed(const std::string& module, NativeId a, NativeId b, std::uint64_t in, std::uint64_t out,
              std::uint64_t count, std::uint64_t rank) {
    const bool is_old = layout_.packing == LoraPacking::peft_0_18;
    const std::uint64_t ranks = count * rank;  // both are capped far below 2^32
    const StoredId first = stored(module + ".lora_A.weight", {ranks, is_old ? out : in});
    const StoredId second = stored(module + ".lora_B.weight", {is_old ? in : out, ranks});
    const View rows = builder_.whole_stored(first).unflatten(0, {count, rank});      // [E, R, features]
    const View columns = builder_.whole_stored(second).unflatten(1, {rank, count});  // [features, R, E]
    if (is_old) {
      builder_.bind(first, rows, b, builder_.whole(b));                         // B is [E, R, out]
      builder_.bind(second, columns, a, builder_.whole(a).permute({1, 2, 0}));  // A is [E, in, R]
    } else {
      builder_.bind(first, rows, a, builder_.whole(a).permute({0, 2, 1}));
      builder_.bind(second, columns, b, builder_.whole(b).permute({2, 1, 0}));
    }
  }

  const LoraBase& base_;
  const LoraLayout& layout_;
  SchemaBuilder builder_;
  std::uint32_t layer_ = k_no_layer;
};

}  // namespace

Schema describe_lora(const LoraBase& base, const LoraLayout& layout) { return LoraDescriber(base, layout).run(); }

}  // namespace weightproof::adapters
