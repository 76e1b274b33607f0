// SPDX-License-Identifier: Apache-2.0
// Language models with towers beside them. Towers and projectors keep their names under "model.".
#include "reference/families/families_internal.hpp"

namespace weightproof::reference::families {
namespace {

Line same(const std::string& stored, const std::string& native = "") { return {stored, native, Rule::same}; }

// "language_model.model." in the file is "model.language_model." natively, with one "model." level.
std::vector<Spelling> nested_spellings() {
  return {{"language_model.model.",
           {{"language_model.model.", "model.language_model."},
            {"language_model.lm_head.", "lm_head."},
            {"vision_tower.", "model.vision_tower."},
            {"multi_modal_projector.", "model.multi_modal_projector."}}},
          {"model.language_model.", {}},
          {"model.language_model.model.",
           {{"model.language_model.model.", "model.language_model."}, {"model.language_model.lm_head.", "lm_head."}}},
          {"model.", {}}};
}

std::vector<Line> decoder(const std::string& prefix, AttentionParts parts) {
  const std::string layers = prefix + "layers.";
  return top(prefix) + norms(layers) + attention(layers, parts) + mlp(layers);
}

}  // namespace

Family mistral3_causal(const Config&) {
  Family family;
  family.id = "mistral3_fp8_causal";
  family.lines = decoder("model.", {});
  return family;
}

Family mistral3_vlm(const Config&) {
  Family family;
  family.id = "mistral3_fp8_vlm";
  family.spellings = nested_spellings();
  family.lines = decoder("model.language_model.", {}) + decoder("model.", {}) +
                 std::vector<Line>{same("model.{vision_tower,multi_modal_projector}.*")};
  family.tie = Tie::both;
  family.embedding = "model.language_model.embed_tokens.weight";
  return family;
}

Family gemma3(const Config& config) {
  Family family;
  family.id = "gemma3";
  family.spellings = nested_spellings();
  for (const std::string prefix : {"model.language_model.", "model."})
    family.lines = family.lines + decoder(prefix, by_config(config, true)) +
                   std::vector<Line>{same(prefix + "layers.#.{pre,post}_feedforward_layernorm.weight")};
  family.lines = family.lines + std::vector<Line>{same("model.{vision_tower,multi_modal_projector}.*")};
  family.tie = Tie::both;
  family.embedding = "model.language_model.embed_tokens.weight";
  return family;
}

// Experts are stacked with gate rows first. per_expert_scale stays a tensor of its own; folding it into down_projs is
// an option that changes values. Older files have the experts under "moe.".
Family gemma4_moe(const Config& config, const MappingOptions& options) {
  Family family;
  family.id = "gemma4_moe";
  family.spellings = {{"model.language_model.", {}}, {"language_model.", {}}};
  family.lines = {same("model.{vision_tower,embed_vision,audio_tower,embed_audio}.*")};
  for (const std::string prefix : {"model.language_model.", "language_model."}) {
    const std::string layers = prefix + "layers.", layer = layers + "#.", moe = layer + "moe.";
    family.lines =
        family.lines + decoder(prefix, by_config(config, true)) +
        std::vector<Line>{
            same(layer + "{pre_feedforward_layernorm,post_feedforward_layernorm,post_feedforward_layernorm_1,"
                         "post_feedforward_layernorm_2,pre_feedforward_layernorm_2}.weight"),
            same(layer + "layer_scalar"), same(layer + "router.proj.weight", moe + "gate.proj.weight"),
            same(layer + "router.scale", moe + "gate.scale")};
    for (const std::string& stored : {layer + "experts.", moe}) {
      family.lines.push_back({stored + "gate_up_proj", moe + "experts.gate_and_up_projs", Rule::stacked_swap});
      family.lines.push_back({stored + "down_proj", moe + "experts.down_projs", Rule::stacked_down});
    }
    for (const std::string& stored : {layer + "router.per_expert_scale", moe + "per_expert_scale"})
      family.lines.push_back(options.fold_expert_scale ? Line{stored, moe + "experts.down_projs", Rule::fold_scale}
                                                       : Line{stored, moe + "gate.per_expert_scale", Rule::same});
    family.defaults.push_back({layer + "layer_scalar", layer + "input_layernorm.weight", {1}, 1.0f, false, false});
    if (!options.fold_expert_scale)
      family.defaults.push_back({moe + "gate.per_expert_scale", moe + "experts.down_projs", {}, 1.0f, false, true});
    family.defaults.push_back({moe + "experts.gate_and_up_projs", moe + "experts.down_projs", {}, 0.0f, false, true});
    family.defaults.push_back({moe + "experts.down_projs", moe + "experts.gate_and_up_projs", {}, 0.0f, false, true});
  }
  family.tie = Tie::tied_only;
  family.embedding = "model.language_model.embed_tokens.weight";
  return family;
}

// Experts are stacked in native orientation already: [E,H,2I] and [E,I,H].
Family qwen3_vl(const Config& config, bool has_experts) {
  const std::string prefix = "model.language_model.", expert = prefix + "layers.#.mlp.experts.";
  Family family;
  family.id = has_experts ? "qwen3_vl_moe" : "qwen3_vl";
  family.spellings = {{prefix, {}}};
  family.lines = decoder(prefix, by_config(config, true)) + std::vector<Line>{same("model.visual.*")};
  if (has_experts)
    family.lines = family.lines + std::vector<Line>{same(prefix + "layers.#.mlp.gate.weight"),
                                                    same(expert + "gate_up_proj", expert + "gate_and_up_projs"),
                                                    same(expert + "down_proj", expert + "down_projs")};
  family.tie = has_experts ? Tie::untied_only : Tie::both;
  family.embedding = prefix + "embed_tokens.weight";
  return family;
}

// The thinker alone; "thinker." is stripped where it is there. Speech parts are not loaded.
Family qwen3_omni_moe(const Config& config) {
  Family family = qwen3_moe(config);
  family.id = "qwen3_omni_moe";
  family.spellings = {{"thinker.model.", {{"thinker.", ""}}}, {"model.", {}}};
  family.lines = family.lines + std::vector<Line>{same("{visual,audio_tower}.*")};
  family.dropped = {"talker.*", "code2wav.*"};
  return family;
}

}  // namespace weightproof::reference::families
