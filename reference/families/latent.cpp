// SPDX-License-Identifier: Apache-2.0
// Decoders with latent attention.
#include "reference/families/families_internal.hpp"

namespace weightproof::reference::families {
namespace {

Line same(const std::string& stored, const std::string& native = "") { return {stored, native, Rule::same}; }
Line same_f32(const std::string& stored, const std::string& native = "") { return {stored, native, Rule::same_f32}; }
Line same_kept(const std::string& stored, const std::string& native) { return {stored, native, Rule::same_kept}; }

// One block of DeepSeek-V4. The order matters: the first line that fits names the key.
std::vector<Line> v4_block(const std::string& stored, const std::string& native) {
  const std::string attn = native + "self_attn.", indexer = attn + "compressor.indexer.";
  return std::vector<Line>{
             same(stored + "attn_norm.weight", native + "input_layernorm.weight"),
             same(stored + "ffn_norm.weight", native + "post_attention_layernorm.weight"),
             // Sinks, compressors and hyper-connections are F32 in the released files and stay so.
             same_kept(stored + "attn.attn_sink", attn + "sinks_param.weight"),
             same(stored + "attn.compressor.norm.weight", attn + "compressor.kv_norm.weight"),
             same_kept(stored + "attn.compressor.ape", attn + "compressor.ape_param.weight"),
             same_kept(stored + "attn.compressor.{wkv,wgate}.weight", attn + "compressor.{}.weight"),
             same(stored + "attn.indexer.compressor.norm.weight", indexer + "kv_norm.weight"),
             same_kept(stored + "attn.indexer.compressor.ape", indexer + "ape_param.weight"),
             same_kept(stored + "attn.indexer.compressor.{wkv,wgate}.weight", indexer + "{}.weight"),
             same(stored + "attn.indexer.compressor.*", indexer + "*"), same(stored + "attn.indexer.*", indexer + "*"),
             same(stored + "attn.*", attn + "*"), same(stored + "ffn.gate.{weight,tid2eid}", native + "mlp.gate.{}"),
             same_f32(stored + "ffn.gate.bias", native + "mlp.gate.e_score_correction_bias"),
             same(stored + "ffn.shared_experts.w1.weight", native + "mlp.shared_experts.gate_proj.weight"),
             same(stored + "ffn.shared_experts.w3.weight", native + "mlp.shared_experts.up_proj.weight"),
             same(stored + "ffn.shared_experts.w2.weight", native + "mlp.shared_experts.down_proj.weight"),
             same_kept(stored + "hc_{attn,ffn}_{fn,base,scale}", native + "{}_hc.{}")} +
         experts_w132(stored + "ffn.experts", native + "mlp.experts");
}

}  // namespace

Family deepseek_v3(const Config& config) {
  const std::string layers = "model.layers.", layer = "model.layers.#.";
  Family family;
  family.id = "deepseek_v3";
  family.lines =
      top() + norms(layers) + latent_attention(layers, config.truth("attention_bias")) + mlp(layers) +
      experts(layer + "mlp.experts", layer + "mlp.experts") +
      shared_mlp(layer + "mlp.shared_experts", layer + "mlp.shared_experts") +
      std::vector<Line>{same(layer + "mlp.gate.weight"), same_f32(layer + "mlp.gate.e_score_correction_bias")};
  family.drops_layers_beyond_count = true;
  return family;
}

// Bare names in the file.
Family deepseek_v4(const Config& config) {
  Family family;
  family.id = "deepseek_v4";
  family.spellings = {{"", {}}};
  family.lines = std::vector<Line>{same("embed.weight", "model.embed_tokens.weight"),
                                   same("norm.weight", "model.norm.weight"), same("head.weight", "lm_head.weight"),
                                   same_kept("hc_head_{fn,base,scale}", "model.hc_head.hc_{}")} +
                 v4_block("layers.#.", "model.layers.#.");
  if (config.natural("num_nextn_predict_layers").value_or(1) == 0)
    family.dropped = {"mtp.*"};
  else
    family.lines = family.lines + v4_block("mtp.#.", "mtp.layers.#.") +
                   std::vector<Line>{same_kept("mtp.#.hc_head_{fn,base,scale}", "mtp.layers.#.hc_head.hc_{}"),
                                     same("mtp.#.*", "mtp.layers.#.*")};
  return family;
}

// The composite keeps both "language_model." and "model." natively; the text-only model strips "language_model.".
Family mistral4(const Config& config) {
  const bool is_text_only = config.model_type() == "mistral4";
  const std::string text = is_text_only ? "" : "model.language_model.", layers = text + "model.layers.",
                    layer = layers + "#.";
  Family family;
  family.id = "mistral4";
  if (is_text_only)
    family.spellings = {{"language_model.model.", {{"language_model.", ""}}}, {"model.", {}}};
  else
    family.spellings = {{"language_model.model.",
                         {{"language_model.", "model.language_model."},
                          {"vision_tower.", "model.vision_tower."},
                          {"multi_modal_projector.", "model.multi_modal_projector."}}},
                        {"model.language_model.model.", {}}};
  family.lines =
      norms(layers) + latent_attention(layers, false) + mlp(layers) +
      experts_stacked(layer + "mlp.experts", layer + "mlp.experts") +
      shared_mlp(layer + "mlp.shared_experts", layer + "mlp.shared_experts") +
      std::vector<Line>{same(text + "model.{embed_tokens,norm}.weight"), same(text + "lm_head.weight"),
                        same("model.{vision_tower,multi_modal_projector}.*"), same(layer + "mlp.gate.weight"),
                        same_f32(layer + "mlp.gate.e_score_correction_bias")};
  family.defaults = {{layer + "mlp.gate.e_score_correction_bias", layer + "mlp.gate.weight", {}, 0.0f, true, false}};
  family.embedding = text + "model.embed_tokens.weight";
  family.head = text + "lm_head.weight";
  return family;
}

}  // namespace weightproof::reference::families
