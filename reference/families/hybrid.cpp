// SPDX-License-Identifier: Apache-2.0
// Decoders that mix attention with state-space or linear-attention layers. State (A_log, D, dt_bias) is F32 natively,
// behind a holder segment that never appears in files.
#include "reference/families/families_internal.hpp"

namespace weightproof::reference::families {
namespace {

Line same(const std::string& stored, const std::string& native = "") { return {stored, native, Rule::same}; }
Line same_f32(const std::string& stored, const std::string& native = "") { return {stored, native, Rule::same_f32}; }

// Every kind of Nemotron mixer; which one a layer has is said by its keys. Experts have no gate projection.
std::vector<Line> nemotron_layers(const std::string& layers, const Config& config) {
  const auto bias = [&](const char* flag) { return weight_and(config.truth(flag)); };
  const Json* conv = config.find("use_conv_bias");  // On unless the config says no.
  const bool conv_bias = !conv || !conv->truth() || *conv->truth();
  const std::string mixer = layers + "#.mixer.";
  std::vector<Line> lines{
      same(layers + "#.norm.weight"),
      same(mixer + "{in_proj,out_proj}." + bias("use_bias")),
      same(mixer + "conv1d." + weight_and(conv_bias)),
      same(mixer + "{q,k,v,o}_proj." + bias("attention_bias")),
      same(mixer + "{up_proj,down_proj,fc1_latent_proj,fc2_latent_proj}." + bias("mlp_bias")),
      same(mixer + "norm.weight"),
      same_f32(mixer + "{A_log,D,dt_bias}", mixer + "_fp32_params.{}"),
      same(mixer + "gate.weight"),
      same_f32(mixer + "gate.e_score_correction_bias"),
      same(mixer + "shared_experts.{up,down}_proj." + bias("mlp_bias")),
      {mixer + "experts.#.up_proj.weight", mixer + "experts.gate_and_up_projs", Rule::expert_up_only},
      {mixer + "experts.#.down_proj.weight", mixer + "experts.down_projs", Rule::expert_down}};
  if (!config.truth("mlp_bias")) return lines;
  return lines +
         std::vector<Line>{{mixer + "experts.#.up_proj.bias", mixer + "experts.gate_up_proj_bias", Rule::bias_only},
                           {mixer + "experts.#.down_proj.bias", mixer + "experts.down_proj_bias", Rule::bias_only}};
}

std::vector<Line> qwen_mtp(AttentionParts parts, bool has_experts) {
  const std::string layers = "mtp.layers.", layer = "mtp.layers.#.";
  std::vector<Line> lines = norms(layers) + attention(layers, parts) + mlp(layers) +
                            std::vector<Line>{same("mtp.fc.weight", "mtp.layers.0.eh_proj.weight"),
                                              same("mtp.pre_fc_norm_embedding.weight", "mtp.layers.0.enorm.weight"),
                                              same("mtp.pre_fc_norm_hidden.weight", "mtp.layers.0.hnorm.weight"),
                                              same("mtp.norm.weight", "mtp.layers.0.final_layernorm.weight")};
  if (has_experts)
    lines = lines + experts(layer + "mlp.experts", layer + "mlp.experts") +
            experts_stacked(layer + "mlp.experts", layer + "mlp.experts") +
            shared_mlp(layer + "mlp.shared_expert", layer + "mlp.shared_experts") +
            std::vector<Line>{same(layer + "mlp.{gate,shared_expert_gate}.weight")};
  return lines;
}

}  // namespace

// Two spellings: "backbone." and the one in which files already use "model.".
Family nemotron_v3(const Config& config) {
  Family family;
  family.id = "nemotron_v3";
  family.spellings = {{"backbone.", {{"backbone.", "model."}}}, {"model.", {}}};
  family.lines = nemotron_layers("model.layers.", config) + nemotron_layers("mtp.layers.", config) +
                 std::vector<Line>{same("model.embeddings.weight", "model.embed_tokens.weight"),
                                   same("model.embed_tokens.weight"),
                                   same("model.norm_f.weight", "model.norm.weight"),
                                   same("model.norm.weight"),
                                   same("lm_head.weight"),
                                   same("mtp.layers.#.{enorm,hnorm,eh_proj,final_layernorm}.weight")};
  family.drops_layers_beyond_count = true;
  // Where the pattern and num_hidden_layers disagree, the pattern counts the layers.
  const Json* types = config.find("layers_block_type");
  const std::string pattern = config.text("hybrid_override_pattern");
  if (types && types->array())
    family.layer_count = types->array()->size();
  else if (!pattern.empty())
    family.layer_count = pattern.size();
  return family;
}

// q_proj holds query and gate rows per head, qkvz and ba are grouped per key head: all stays as stored.
Family qwen3_next(const Config& config) {
  const std::string layers = "model.layers.", layer = "model.layers.#.";
  Family family;
  family.id = "qwen3_next";
  family.lines = top() + norms(layers) + attention(layers, by_config(config, true)) + mlp(layers) +
                 gated_delta_net(layers) + experts(layer + "mlp.experts", layer + "mlp.experts") +
                 shared_mlp(layer + "mlp.shared_expert", layer + "mlp.shared_experts") +
                 std::vector<Line>{same(layer + "mlp.{gate,shared_expert_gate}.weight")};
  family.dropped = {"mtp.*"};
  return family;
}

// Experts stacked [E,2I,H] or one by one. The text part has its own prefix in composite files.
Family qwen3_5(const Config& config, bool has_experts) {
  const AttentionParts parts = by_config(config, true);
  Family family;
  family.id = has_experts ? "qwen3_5_moe" : "qwen3_5";
  family.spellings = {{"model.language_model.", {{"model.lm_head.", "lm_head."}}},
                      {"language_model.model.",
                       {{"language_model.model.", "model.language_model."},
                        {"language_model.lm_head.", "lm_head."},
                        {"vision_tower.", "model.visual."}}},
                      {"model.", {{"model.lm_head.", "lm_head."}}}};
  family.lines = qwen_mtp(parts, has_experts) + std::vector<Line>{same("model.visual.*")};
  for (const std::string prefix : {"model.language_model.", "model."}) {
    const std::string layers = prefix + "layers.", layer = layers + "#.";
    family.lines =
        family.lines + top(prefix) + norms(layers) + attention(layers, parts) + mlp(layers) + gated_delta_net(layers);
    if (has_experts)
      family.lines = family.lines + experts(layer + "mlp.experts", layer + "mlp.experts") +
                     experts_stacked(layer + "mlp.experts", layer + "mlp.experts") +
                     shared_mlp(layer + "mlp.shared_expert", layer + "mlp.shared_experts") +
                     std::vector<Line>{same(layer + "mlp.{gate,shared_expert_gate}.weight")};
  }
  family.tie = has_experts ? Tie::untied_only : Tie::both;
  family.embedding = "model.language_model.embed_tokens.weight";
  return family;
}

// A_log has four axes in the file and keeps them. Dense layers keep "mlp."; the others lose "block_sparse_moe.".
Family kimi_linear(const Config&) {
  const std::string layers = "model.layers.", layer = "model.layers.#.", moe = layer + "block_sparse_moe.";
  Family family;
  family.id = "kimi_linear";
  family.lines =
      top() + norms(layers) + latent_attention(layers, false) + attention(layers, {}) + mlp(layers) +
      experts_w132(moe + "experts", layer + "mlp.experts") +
      shared_mlp(moe + "shared_experts", layer + "mlp.shared_experts") +
      std::vector<Line>{
          same(layer +
               "self_attn.{q_conv1d,k_conv1d,v_conv1d,f_a_proj,f_b_proj,g_a_proj,g_b_proj,b_proj,o_norm}.weight"),
          same_f32(layer + "self_attn.{A_log,dt_bias}", layer + "self_attn._fp32_params.{}"),
          same(moe + "gate.weight", layer + "mlp.gate.weight"),
          same_f32(moe + "gate.e_score_correction_bias", layer + "mlp.gate.e_score_correction_bias")};
  return family;
}

}  // namespace weightproof::reference::families
