// SPDX-License-Identifier: Apache-2.0
// Blocks that many families share. Each states its tensors relative to the open scope; names and shapes of the stored
// side are those of published checkpoints, outermost extent first.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "adapters/describer.hpp"
#include "adapters/family.hpp"
#include "adapters/fields.hpp"
#include "adapters/names.hpp"
#include "adapters/parallel.hpp"

namespace weightproof::adapters {

enum class QkNorm : std::uint8_t {
  none,
  per_head,  ///< [head_dim]
  flattened  ///< [heads * head_dim] and [kv_heads * head_dim]
};

/// Query, key, value and output projections: q [heads * head_dim, hidden] and so on.
struct Attention {
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;
  std::uint64_t head_dim = 0;
  bool has_qkv_bias = false;
  bool has_o_bias = false;
  QkNorm norm = QkNorm::none;
  bool is_gated = false;  ///< q holds, head by head, the query's rows and then the gate's
};
/// hidden_size, num_attention_heads, num_key_value_heads (default: as many as heads), head_dim (default: hidden /
/// heads).
Attention read_attention(const Fields& fields);
/// Biases of all four projections by one flag.
Attention read_attention(const Fields& fields, bool has_bias, QkNorm norm);
void attention(Describer& d, const Attention& spec, std::string_view scope = "self_attn.");

/// gate_proj, up_proj [width, hidden], down_proj [hidden, width] under one name on each side.
void gated_mlp(Describer& d, std::string_view stored, std::string_view native, std::uint64_t hidden,
               std::uint64_t width, bool has_bias = false);
inline void gated_mlp(Describer& d, std::uint64_t hidden, std::uint64_t width, bool has_bias = false) {
  gated_mlp(d, "mlp.", "mlp.", hidden, width, has_bias);
}

/// input_layernorm and post_attention_layernorm [hidden].
void layer_norms(Describer& d, std::uint64_t hidden);

/// Embedding and output head. Where the form is tied the stored head is an alias of the embedding that may be absent.
struct Embedding {
  std::uint64_t vocab = 0;
  std::uint64_t hidden = 0;
  std::string_view stored = "model.embed_tokens.weight";
  std::string_view native = "model.embed_tokens.weight";
  std::string_view stored_head = "lm_head.weight";
  std::string_view native_head = "lm_head.weight";
};
/// Keys in full: call it outside any scope.
void embedding_and_head(Describer& d, const Embedding& spec);
/// The same with the names of a namespace: <prefix>embed_tokens.weight and the namespace's head.
void embedding_and_head(Describer& d, const NameSpace& name_space, std::uint64_t vocab, std::uint64_t hidden,
                        std::string_view native_prefix = "model.", std::string_view native_head = "lm_head.weight");

/// Stored layers "<layers_prefix>{n}." from `first` on are not loaded: MTP layers beside a decoder, or a model cut
/// short. As many as the form has counted.
void drop_layers_from(Describer& d, std::string_view layers_prefix, std::uint64_t first, std::string_view reason);

/// Records that the config's MTP layers are not stored and therefore not required.
void note_mtp(Describer& d, std::uint64_t depths);

/// Per layer "full_attention" or "linear_attention": layer_types where present, else every full_attention_interval-th
/// layer is full.
std::vector<bool> read_full_attention(const Fields& fields, std::uint64_t layers);

/// Whether a layer of the Qwen 3 kind holds experts: not in mlp_only_layers, and every decoder_sparse_step-th.
class QwenSparsity {
 public:
  explicit QwenSparsity(const Fields& fields);
  bool is_moe(std::uint64_t layer) const;

 private:
  std::uint64_t experts_;
  std::uint64_t step_;
  std::vector<std::uint64_t> mlp_only_;
};

/// Gated delta net of Qwen3-Next and Qwen3.5, under "linear_attn.".
struct DeltaNet {
  std::uint64_t hidden = 0;
  std::uint64_t key_heads = 0;
  std::uint64_t value_heads = 0;
  std::uint64_t key_dim = 0;
  std::uint64_t value_dim = 0;
  std::uint64_t kernel = 0;
  bool has_joint_projections = false;  ///< in_proj_qkvz and in_proj_ba, rows grouped by key head; else four projections
};
DeltaNet read_delta_net(const Fields& fields, bool has_joint_projections);
void delta_net(Describer& d, const DeltaNet& spec);

/// Multi-head latent attention, under "self_attn.".
struct LatentAttention {
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0;
  std::uint64_t q_rank = 0;  ///< 0: one query projection
  std::uint64_t kv_rank = 0;
  std::uint64_t nope_dim = 0;
  std::uint64_t rope_dim = 0;
  std::uint64_t value_dim = 0;
};
LatentAttention read_latent_attention(const Fields& fields);
void latent_attention(Describer& d, const LatentAttention& spec);

/// A dense decoder of the Llama kind: what is its own is said by the two specs.
struct DenseDecoder {
  Attention attention;
  std::uint64_t mlp_width = 0;
  bool has_mlp_bias = false;
};
/// Embedding, layers, final norm and head of one.
void dense_layers(Describer& d, const Fields& fields, const DenseDecoder& spec, const NameSpace& names,
                  std::string_view native_prefix = "model.");
Schema dense_decoder(const Family& family, const ConfigValue& config, const Form& form, const DenseDecoder& spec);

/// The config fields a dense decoder cannot do without.
extern const std::span<const std::string_view> k_dense_required;

}  // namespace weightproof::adapters
