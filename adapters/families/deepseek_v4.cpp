// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V4. Bare names; attention with one latent key-value head, low-rank queries and outputs, compressors and
// indexers by layer; hyper-connections around every block. Experts in FP4 with a scale per row and 32 columns, or in
// FP8 blocks; every scale is called ".scale". The first layers route by a table of token ids.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"deepseek_v4"};
constexpr std::array<std::string_view, 1> k_architectures = {"DeepseekV4ForCausalLM"};

constexpr std::array<std::string_view, 11> k_required = {"head_dim",
                                                         "hidden_size",
                                                         "moe_intermediate_size",
                                                         "n_routed_experts",
                                                         "num_attention_heads",
                                                         "num_experts_per_tok",
                                                         "num_hidden_layers",
                                                         "o_groups",
                                                         "o_lora_rank",
                                                         "q_lora_rank",
                                                         "vocab_size"};

constexpr std::array k_name_spaces = {NameSpace{"", "head.weight"}};
constexpr std::array<std::string_view, 2> k_parts = {"layers.", "embed."};
constexpr std::uint64_t k_group = 32;         // columns that share a scale of FP4 codes
constexpr std::uint64_t k_overlap_ratio = 4;  // windows of this ratio overlap and have an indexer

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  find_name_space(catalog, k_name_spaces, k_parts);
  Form form = find_plain_form(k_deepseek_v4, config, catalog, k_name_spaces);
  form.has_mtp = find_mtp(catalog, "mtp.", Fields(config).count("num_nextn_predict_layers", 0));
  // What the experts are is read from their dtype; without one the config says it.
  const StoredTensor* expert = catalog.find(find_key(catalog, "layers.", ".ffn.experts.0.w1.weight"));
  const bool has_scale = !find_key(catalog, "layers.", ".ffn.experts.0.w1.scale").empty();
  if (expert != nullptr && expert->is_described) {
    form.expert_layout = expert->dtype == DType::f8_e4m3                            ? "fp8"
                         : expert->dtype == DType::i8 || expert->dtype == DType::u8 ? "fp4"
                                                                                    : "plain";
  } else if (catalog.size() != 0 && !has_scale) {
    form.expert_layout = "plain";
  } else if (form.quantization.empty()) {
    form.expert_layout = "plain";
  } else {
    form.expert_layout = Fields(config).text("expert_dtype") == "fp8" ? "fp8" : "fp4";
  }
  if (form.quantization == "fp4_e8m0" || form.quantization == "fp8") form.quantization = "fp8_block";
  return form;
}

class Layers {
 public:
  Layers(Describer& d, const Fields& fields, ExpertStorage storage)
      : d_(d), fields_(fields), storage_(storage), hidden_(fields.count("hidden_size")) {
    spec_.experts = fields.count("n_routed_experts");
    spec_.input = hidden_;
    spec_.width = fields.count("moe_intermediate_size");
    ratios_ = fields.counts("compress_ratios");
    if (!ratios_.empty()) return;
    for (const std::string_view type : fields.texts("layer_types")) {
      const bool is_sparse = type == "compressed_sparse_attention";
      const bool is_heavy = type == "heavily_compressed_attention";
      ratios_.push_back(is_sparse  ? fields.count("compress_rates.compressed_sparse_attention", k_overlap_ratio)
                        : is_heavy ? fields.count("compress_rates.heavily_compressed_attention", 128)
                                   : 0);
    }
  }

  std::uint64_t hidden() const { return hidden_; }

  /// One block: norms, attention, experts, hyper-connections.
  void block(std::uint64_t index, bool is_hashed) {
    d_.moved("attn_norm.weight", "input_layernorm.weight", {hidden_});
    d_.moved("ffn_norm.weight", "post_attention_layernorm.weight", {hidden_});
    const std::uint64_t streams = fields_.count("hc_mult", 4);
    const std::uint64_t mixes = (2 + streams) * streams;
    for (const auto& [stored, native] :
         {std::pair<std::string_view, std::string_view>{"hc_attn_", "attn_hc."}, {"hc_ffn_", "ffn_hc."}}) {
      const Scope inside(d_, stored, native);
      d_.same("fn", {mixes, streams * hidden_}, DTypeRule::any);
      d_.same("base", {mixes}, DTypeRule::any);
      d_.same("scale", {3}, DTypeRule::any);
    }
    attention(index < ratios_.size() ? ratios_[index] : 0);
    experts(is_hashed);
  }

  void hyper_head() {
    const std::uint64_t streams = fields_.count("hc_mult", 4);
    const Scope inside(d_, "hc_head_", "hc_head.hc_");
    d_.same("fn", {streams, streams * hidden_}, DTypeRule::any);
    d_.same("base", {streams}, DTypeRule::any);
    d_.same("scale", {1}, DTypeRule::any);
  }

 private:
  void attention(std::uint64_t ratio) {
    const std::uint64_t head = fields_.count("head_dim");
    const std::uint64_t heads = fields_.count("num_attention_heads");
    const std::uint64_t q_rank = fields_.count("q_lora_rank");
    const std::uint64_t o_rank = fields_.count("o_lora_rank");
    const std::uint64_t groups = fields_.count("o_groups");
    if (groups == 0 || heads * head % groups != 0) {
      ErrorFacts facts;
      facts.file = "config.json";
      facts.expected = "o_groups that divides num_attention_heads * head_dim";
      facts.actual = std::to_string(groups);
      throw Error(ErrorCode::config_invalid, "config field o_groups cannot be used", std::move(facts));
    }
    const Scope inside(d_, "attn.", "self_attn.");
    d_.linear("wq_a", q_rank, hidden_);
    d_.same("q_norm.weight", {q_rank});
    d_.linear("wq_b", heads * head, q_rank, false, columns(heads, head));
    d_.linear("wkv", head, hidden_);
    d_.same("kv_norm.weight", {head});
    // Outputs in groups of heads, each with a projection of its own.
    d_.linear("wo_a", groups * o_rank, heads * head / groups, false, columns(groups, o_rank));
    d_.linear("wo_b", hidden_, groups * o_rank, false, rows(groups, o_rank));
    d_.moved_optional("attn_sink", "sinks_param.weight", {heads}, DTypeRule::any, 0, "attn_sink absent: zeros");
    d_.cut(columns(heads));
    if (ratio == 0) return;
    compressor("compressor.", "compressor.", ratio, head);
    if (ratio != k_overlap_ratio) return;
    const std::uint64_t index_head = fields_.count("index_head_dim");
    const std::uint64_t index_heads = fields_.count("index_n_heads");
    compressor("indexer.compressor.", "compressor.indexer.", ratio, index_head);
    d_.linear("indexer.wq_b", "compressor.indexer.wq_b", index_heads * index_head, q_rank, false);
    d_.moved("indexer.weights_proj.weight", "compressor.indexer.weights_proj.weight", {index_heads, hidden_});
  }

  void compressor(std::string_view stored, std::string_view native, std::uint64_t ratio, std::uint64_t head) {
    const Scope inside(d_, stored, native);
    const std::uint64_t width = ratio == k_overlap_ratio ? 2 * head : head;
    d_.moved("ape", "ape_param.weight", {ratio, width}, DTypeRule::any);
    d_.same("wkv.weight", {width, hidden_}, DTypeRule::any);
    d_.same("wgate.weight", {width, hidden_}, DTypeRule::any);
    d_.moved("norm.weight", "kv_norm.weight", {head});
  }

  /// A stored expert matrix, in codes where the form says so.
  StoredId expert(std::string_view name, std::uint64_t out, std::uint64_t in) {
    if (d_.form().expert_layout == "fp8") return d_.stored_linear(name, out, in);
    const std::string weight = std::string(name) + ".weight";
    const StoredId stored = d_.stored(weight, {out, in});
    if (d_.form().expert_layout != "fp4") return stored;
    if (in % k_group != 0) {
      ErrorFacts facts;
      facts.file = "config.json";
      facts.expected = "a multiple of 32";
      facts.actual = std::to_string(in);
      throw Error(ErrorCode::config_invalid, "rows of FP4 codes are whole groups", std::move(facts));
    }
    const std::string weight_key(d_.stored_key(weight));
    const std::string scale_key = weight_key.substr(0, weight_key.size() - std::string_view("weight").size()) + "scale";
    const SchemaBuilder::Part parts[] = {{"weight", weight_key, {out, in / 2}, DType::i8},
                                         {"scale", scale_key, {out, in / k_group}, DType::f8_e8m0}};
    d_.builder().code(stored, "mxfp4_packed", parts);
    return stored;
  }

  void experts(bool is_hashed) {
    const Scope inside(d_, "ffn.", "mlp.");
    d_.same("gate.weight", {spec_.experts, hidden_});
    if (is_hashed) {
      d_.same("gate.tid2eid", {fields_.count("vocab_size"), fields_.count("num_experts_per_tok")}, DTypeRule::any);
      d_.cut(buffer());
    } else {
      d_.moved("gate.bias", "gate.e_score_correction_bias", {spec_.experts}, DTypeRule::f32_state);
    }
    Experts natives(d_, spec_, storage_);
    const View gate = View::whole({spec_.width, hidden_});
    const View down = View::whole({hidden_, spec_.width});
    for (std::uint64_t e = 0; e < spec_.experts; ++e) {
      const Scope scope(d_, "experts.", "", e);
      natives.bind_gate(e, expert("w1", spec_.width, hidden_), gate);
      natives.bind_up(e, expert("w3", spec_.width, hidden_), gate);
      natives.bind_down(e, expert("w2", hidden_, spec_.width), down);
    }
    const std::uint64_t shared = fields_.count("n_shared_experts", 1) * spec_.width;
    if (shared == 0) return;
    const Scope shared_scope(d_, "shared_experts.");
    d_.linear("w1", "gate_proj", shared, hidden_, false, columns(shared));
    d_.linear("w3", "up_proj", shared, hidden_, false, columns(shared));
    d_.linear("w2", "down_proj", hidden_, shared, false, rows(shared));
  }

  Describer& d_;
  const Fields& fields_;
  ExpertStorage storage_;
  std::uint64_t hidden_;
  ExpertSpec spec_;
  std::vector<std::uint64_t> ratios_;
};

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const std::uint64_t count = fields.layers();
  const std::uint64_t hashed = fields.count("num_hash_layers", 0);
  const std::vector<std::string_view> types = fields.texts("mlp_layer_types");
  const std::uint64_t depths = fields.count("num_nextn_predict_layers", 1);
  Describer d(k_deepseek_v4, config, form);
  d.name_block_scales(".scale", DType::f8_e8m0);
  Layers layers(d, fields, storage);
  const std::uint64_t hidden = layers.hidden();
  if (depths == 0) d.builder().drop("mtp.*", "multi-token prediction, which the config does not have");
  Embedding embedding;
  embedding.vocab = fields.count("vocab_size");
  embedding.hidden = hidden;
  embedding.stored = "embed.weight";
  embedding.stored_head = "head.weight";
  embedding_and_head(d, embedding);
  {
    const Scope model(d, "", "model.");
    for (std::uint64_t l = 0; l < count; ++l) {
      const LayerScope layer(d, l);
      layers.block(l, l < types.size() ? types[l] == "hash_moe" : l < hashed);
    }
    d.same("norm.weight", {hidden});
    layers.hyper_head();
  }
  note_mtp(d, depths);
  for (std::uint64_t m = 0; form.has_mtp && m < depths; ++m) {
    const Scope depth(d, "mtp.", "mtp.layers.", m);
    d.linear("e_proj", hidden, hidden);
    d.linear("h_proj", hidden, hidden);
    d.same("enorm.weight", {hidden});
    d.same("hnorm.weight", {hidden});
    layers.block(count + m, false);
    d.same("norm.weight", {hidden});
    layers.hyper_head();
  }
  return std::move(d).finish();
}

}  // namespace

const Family k_deepseek_v4 = {
    .name = "deepseek_v4",
    .title = "DeepSeek-V4, mixture of experts",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "deepseek_v4", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4,
        "head_dim": 6, "vocab_size": 11, "q_lora_rank": 5, "o_lora_rank": 3, "o_groups": 2, "index_head_dim": 2,
        "index_n_heads": 3, "compress_ratios": [0, 4, 128, 0], "moe_intermediate_size": 64, "n_routed_experts":
        3, "n_shared_experts": 1, "num_experts_per_tok": 2, "num_hash_layers": 1, "hc_mult": 2,
        "num_nextn_predict_layers": 1, "expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8",
        "weight_block_size": [16, 16]}})",
};

}  // namespace weightproof::adapters
