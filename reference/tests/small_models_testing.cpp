// SPDX-License-Identifier: Apache-2.0
#include "reference/tests/small_models_testing.hpp"

#include <algorithm>
#include <map>

namespace weightproof::reference::testing {
namespace {

std::string config_of(const std::string& type, const std::string& more = "") {
  return R"({"model_type":")" + type +
         R"(","hidden_size":6,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":5,"num_hidden_layers":2)" +
         (more.empty() ? "" : "," + more) + "}";
}

}  // namespace

std::vector<SmallModel> small_models() {
  std::vector<SmallModel> models;
  const auto finish = [&](const std::string& family, const std::string& config, const Maker& m,
                          const std::string& name_space = "model.") {
    models.push_back({family, config, m.keys, name_space});
  };
  const std::string untied = R"("tie_word_embeddings":false)", tied = R"("tie_word_embeddings":true)";
  for (const char* id : {"llama", "qwen2", "qwen3", "mistral", "smollm3", "gemma"}) {
    Maker m;
    m.top(std::string(id) == "gemma" ? "" : "lm_head.weight");
    for (std::uint64_t l = 0; l < 2; ++l)
      m.norms(l), m.attention(l, std::string(id) == "qwen2"), m.mlp(numbered("model.layers.#.mlp", l), m.I);
    if (std::string(id) == "qwen3") m.add("model.layers.0.self_attn.q_norm.weight", {5});
    m.add("model.layers.1.self_attn.rotary_emb.inv_freq", {2});
    finish(id, config_of(id, std::string(id) == "gemma" ? "" : untied), m);
  }
  {
    Maker m;
    m.prefix = "";
    m.top("");
    for (std::uint64_t l = 0; l < 2; ++l) m.norms(l), m.attention(l), m.mlp(numbered("layers.#.mlp", l), m.I);
    finish("llama", config_of("llama", tied), m, "");
  }
  {
    Maker m;
    m.top();
    for (std::uint64_t l = 0; l < 2; ++l)
      m.norms(l), m.attention(l, true), m.mlp(numbered("model.layers.#.mlp", l), m.I);
    finish("dense_combined", config_of("llama", untied), m);
  }
  {
    Maker m;
    m.add("anything", {2, 3});
    m.add("scalar", {});
    m.add("empty", {0, 3});
    finish("identity", "", m, "");
  }
  {
    Maker m;
    m.top();
    m.norms(0);
    m.add("model.layers.0.self_attn.qkv_proj.weight", {40, 6});
    m.add("model.layers.0.self_attn.o_proj.weight", {6, 20});
    m.add("model.layers.0.mlp.gate_up_proj.weight", {8, 6});
    m.add("model.layers.0.mlp.down_proj.weight", {6, 4});
    finish("phi3", config_of("phi3", untied), m);
  }
  {
    Maker m;
    m.top();
    m.norms(0), m.attention(0, true), m.mlp("model.layers.0.mlp", m.I);
    m.add("model.mtp_layers.0.input_proj.weight", {6, 12});
    m.add("model.mtp_layers.0.mlp.up_proj.weight", {4, 6});
    finish("mimo", config_of("mimo", R"("tie_word_embeddings":false,"attention_bias":true)"), m);
  }
  {
    Maker m;
    m.top();
    m.norms(0), m.attention(0), m.experts("model.layers.0.mlp.experts");
    m.add("model.layers.0.mlp.gate.weight", {3, 6});
    m.norms(1), m.attention(1), m.mlp("model.layers.1.mlp", 8);
    finish("qwen3_moe", config_of("qwen3_moe", untied), m);
    Maker stacked;
    stacked.top();
    stacked.norms(0);
    stacked.add("model.layers.0.mlp.experts.gate_up_proj", {3, 8, 6});
    stacked.add("model.layers.0.mlp.experts.down_proj", {3, 6, 4});
    finish("qwen3_moe", config_of("qwen3_moe", untied), stacked);
  }
  {
    Maker m;
    m.top("");
    m.norms(0), m.attention(0, true), m.experts("model.layers.0.mlp.experts", true, true);
    m.add("model.layers.0.mlp.gate.weight", {3, 6});
    m.add("model.layers.0.mlp.moe_statics.e_score_correction_bias", {1, 3});
    m.mlp("model.layers.0.mlp.shared_experts", 8);
    m.add("model.mtp_emb_norm.weight", {6});
    finish("ernie4_5_moe", config_of("ernie4_5_moe", R"("tie_word_embeddings":true,"use_bias":true)"), m);
    Maker dense;
    dense.top("");
    dense.norms(0), dense.attention(0), dense.mlp("model.layers.0.mlp", 8);
    finish("ernie4_5", config_of("ernie4_5"), dense);
  }
  for (const char* id : {"glm4_moe", "hy_v3", "laguna", "deepseek_v3", "qwen3_next"}) {
    const std::string name = id;
    Maker m;
    m.top();
    m.norms(0), m.attention(0), m.experts("model.layers.0.mlp.experts");
    m.add(name == "hy_v3" ? "model.layers.0.mlp.router.gate.weight" : "model.layers.0.mlp.gate.weight", {3, 6});
    const std::map<std::string, std::string> bias{{"glm4_moe", "mlp.gate.e_score_correction_bias"},
                                                  {"hy_v3", "mlp.expert_bias"},
                                                  {"laguna", "mlp.experts.e_score_correction_bias"},
                                                  {"deepseek_v3", "mlp.gate.e_score_correction_bias"}};
    if (bias.count(name)) m.add("model.layers.0." + bias.at(name), {3});
    m.mlp(name == "hy_v3"                            ? "model.layers.0.mlp.shared_mlp"
          : name == "laguna" || name == "qwen3_next" ? "model.layers.0.mlp.shared_expert"
                                                     : "model.layers.0.mlp.shared_experts",
          8);
    m.norms(1), m.mlp("model.layers.1.mlp", 9);
    if (name != "laguna" && name != "qwen3_next")
      m.add("model.layers.2.embed_tokens.weight", {7, 6});  // A layer that predicts ahead.
    if (name == "laguna") m.add("model.layers.0.self_attn.g_proj.weight", {4, 6});
    if (name == "deepseek_v3") {
      m.keys.erase(std::remove_if(m.keys.begin(), m.keys.end(),
                                  [](const Key& key) {
                                    return key.name.find("_proj.weight") != std::string::npos &&
                                           key.name.find("self_attn") != std::string::npos;
                                  }),
                   m.keys.end());
      for (const char* proj : {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"})
        m.add(std::string("model.layers.0.self_attn.") + proj + ".weight", {5, 6});
      m.add("model.layers.0.self_attn.kv_a_layernorm.weight", {5});
    }
    if (name == "qwen3_next") {
      m.add("mtp.fc.weight", {6, 12});
      m.add("model.layers.0.mlp.shared_expert_gate.weight", {1, 6});
      m.add("model.layers.1.linear_attn.in_proj_qkvz.weight", {12, 6});
      m.add("model.layers.1.linear_attn.conv1d.weight", {9, 1, 4});
      m.add("model.layers.1.linear_attn.A_log", {4});
      m.add("model.layers.1.linear_attn.dt_bias", {4});
    }
    finish(id, config_of(id, untied), m);
  }
  for (const char* id : {"mixtral", "minimax_m1", "minimax_m2"}) {
    Maker m;
    m.top();
    m.norms(0), m.attention(0), m.experts_w("model.layers.0.block_sparse_moe.experts");
    m.add("model.layers.0.block_sparse_moe.gate.weight", {3, 6});
    if (std::string(id) == "minimax_m2") m.add("model.layers.0.block_sparse_moe.e_score_correction_bias", {3});
    if (std::string(id) == "minimax_m1") m.add("model.layers.1.self_attn.qkv_proj.weight", {24, 6});
    finish(id, config_of(id, untied), m);
  }
  {
    Maker m;
    m.top();
    m.norms(0), m.attention(0);
    m.add("model.layers.0.moe.gate.weight", {3, 6});
    m.add("model.layers.0.moe.gate_proj.weight", {3, 4, 6});
    m.add("model.layers.0.moe.up_proj.weight", {3, 4, 6});
    m.add("model.layers.0.moe.down_proj.weight", {3, 6, 4});
    m.mlp("model.layers.0.share_expert", 8);
    finish("step3p5", config_of("step3p5", untied), m);
  }
  {
    Maker m;
    m.add("model.word_embeddings.weight", {7, 6});
    m.add("model.norm.weight", {6});
    m.add("lm_head.weight", {7, 6});
    m.norms(0);
    m.add("model.layers.0.attention.query_key_value.weight", {40, 6});
    m.add("model.layers.0.attention.query_key_value.bias", {40});
    m.add("model.layers.0.attention.dense.weight", {6, 20});
    m.add("model.layers.0.attention.query_layernorm.weight", {5});
    m.experts("model.layers.0.mlp.experts");
    m.add("model.layers.0.mlp.gate.weight", {3, 6});
    m.add("model.layers.0.mlp.gate.expert_bias", {3});
    finish("ling_v2", config_of("bailing_moe", R"("tie_word_embeddings":false,"use_qkv_bias":true)"), m);
  }
  for (const bool is_mxfp4 : {true, false}) {
    Maker m;
    m.top();
    m.norms(0), m.attention(0, true);
    m.add("model.layers.0.self_attn.sinks", {4});
    m.add("model.layers.0.mlp.router.weight", {3, 6});
    m.add("model.layers.0.mlp.router.bias", {3});
    m.add(std::string("model.layers.0.mlp.experts.gate_up_proj") + (is_mxfp4 ? "_blocks" : ""),
          is_mxfp4 ? Shape{3, 8, 32} : Shape{3, 6, 8});
    m.add(std::string("model.layers.0.mlp.experts.down_proj") + (is_mxfp4 ? "_blocks" : ""),
          is_mxfp4 ? Shape{3, 6, 32} : Shape{3, 4, 6});
    m.add("model.layers.0.mlp.experts.gate_up_proj_bias", {3, 8});
    m.add("model.layers.0.mlp.experts.down_proj_bias", {3, 6});
    finish(is_mxfp4 ? "gpt_oss" : "gpt_oss_bf16", config_of("gpt_oss", untied), m);
  }
  for (const std::string prefix : {"backbone.", "model."}) {
    Maker m;
    m.add(prefix + "embeddings.weight", {7, 6});
    m.add(prefix + "norm_f.weight", {6});
    m.add("lm_head.weight", {7, 6});
    m.add(prefix + "layers.0.norm.weight", {6});
    m.add(prefix + "layers.0.mixer.in_proj.weight", {14, 6});
    m.add(prefix + "layers.0.mixer.conv1d.weight", {8, 1, 3});
    for (const char* state : {"A_log", "D", "dt_bias"}) m.add(prefix + "layers.0.mixer." + state, {2});
    m.experts(prefix + "layers.1.mixer.experts", false, true);
    m.add(prefix + "layers.1.mixer.gate.weight", {3, 6});
    m.add(prefix + "layers.1.mixer.gate.e_score_correction_bias", {3});
    m.add(prefix + "layers.1.mixer.shared_experts.up_proj.weight", {5, 6});
    m.add(prefix + "layers.2.norm.weight", {6});  // Beyond the pattern.
    m.add("mtp.layers.0.eh_proj.weight", {6, 12});
    m.experts("mtp.layers.1.mixer.experts", false);
    finish("nemotron_v3",
           config_of("nemotron_h", R"("tie_word_embeddings":false,"hybrid_override_pattern":"ME","mlp_bias":true)"), m,
           prefix);
  }
  for (const bool has_experts : {true, false})
    for (const std::string prefix : {"model.language_model.", "model."}) {
      Maker m;
      m.prefix = prefix;
      m.top(has_experts ? "model.lm_head.weight" : "lm_head.weight");
      m.norms(0), m.attention(0);
      m.add(prefix + "layers.1.linear_attn.in_proj_qkv.weight", {11, 6});
      m.add(prefix + "layers.1.linear_attn.A_log", {4});
      m.add("mtp.fc.weight", {6, 12});
      m.add("mtp.norm.weight", {6});
      m.add("model.visual.patch_embed.proj.weight", {3, 2});
      if (has_experts) {
        m.add(prefix + "layers.0.mlp.experts.gate_up_proj", {3, 8, 6});
        m.add(prefix + "layers.0.mlp.experts.down_proj", {3, 6, 4});
        m.add(prefix + "layers.0.mlp.gate.weight", {3, 6});
        m.add(prefix + "layers.0.mlp.shared_expert_gate.weight", {1, 6});
        m.experts("mtp.layers.0.mlp.experts");
      } else {
        m.mlp(prefix + "layers.0.mlp", 8);
      }
      finish(has_experts ? "qwen3_5_moe" : "qwen3_5", config_of(has_experts ? "qwen3_5_moe" : "qwen3_5", untied), m,
             prefix);
    }
  for (const bool has_experts : {true, false}) {
    Maker m;
    m.prefix = "model.language_model.";
    m.top();
    m.norms(0), m.attention(0);
    m.add("model.visual.pos_embed.weight", {3, 2});
    if (has_experts) {
      m.add("model.language_model.layers.0.mlp.experts.gate_up_proj", {3, 6, 8});
      m.add("model.language_model.layers.0.mlp.experts.down_proj", {3, 4, 6});
      m.add("model.language_model.layers.0.mlp.gate.weight", {3, 6});
    } else {
      m.mlp("model.language_model.layers.0.mlp", 8);
    }
    finish(has_experts ? "qwen3_vl_moe" : "qwen3_vl", config_of(has_experts ? "qwen3_vl_moe" : "qwen3_vl", untied), m,
           "model.language_model.");
  }
  {
    Maker m;
    m.prefix = "thinker.model.";
    m.top("thinker.lm_head.weight");
    m.norms(0), m.attention(0), m.experts("thinker.model.layers.0.mlp.experts");
    m.add("thinker.visual.x.weight", {2});
    m.add("talker.model.layers.0.x", {2});
    m.add("code2wav.x", {2});
    finish(
        "qwen3_omni_moe",
        R"({"model_type":"qwen3_omni_moe","thinker_config":{"tie_word_embeddings":false,"text_config":{"num_hidden_layers":1}}})",
        m, "thinker.model.");
  }
  {
    Maker m;
    m.top();
    m.norms(0), m.attention(0), m.experts_w("model.layers.0.block_sparse_moe.experts");
    m.add("model.layers.0.block_sparse_moe.gate.weight", {3, 6});
    m.add("model.layers.0.block_sparse_moe.gate.e_score_correction_bias", {3});
    m.mlp("model.layers.0.block_sparse_moe.shared_experts", 8);
    m.mlp("model.layers.1.mlp", 8);
    m.add("model.layers.0.self_attn.A_log", {1, 1, 4, 1});
    m.add("model.layers.0.self_attn.q_conv1d.weight", {20, 1, 4});
    finish("kimi_linear", config_of("kimi_linear", untied), m);
  }
  {
    Maker m;
    m.add("embed.weight", {7, 6});
    m.add("norm.weight", {6});
    m.add("head.weight", {7, 6});
    for (const char* end :
         {"attn_norm.weight", "ffn_norm.weight", "attn.attn_sink", "attn.compressor.norm.weight", "attn.compressor.ape",
          "attn.compressor.wkv.weight", "attn.indexer.compressor.norm.weight", "attn.indexer.wq_b.weight",
          "attn.wq_a.weight", "ffn.gate.bias", "hc_attn_fn", "hc_ffn_scale"})
      m.add(std::string("layers.0.") + end, {3, 2});
    m.add("layers.0.ffn.gate.weight", {3, 6});
    m.add("layers.0.ffn.gate.tid2eid", {7, 2});
    m.add("layers.0.ffn.shared_experts.w1.weight", {4, 6});
    m.experts_w("layers.0.ffn.experts");
    m.add("hc_head_fn", {2});
    m.add("mtp.0.enorm.weight", {6});
    m.add("mtp.0.attn.wq_a.weight", {6});
    finish("deepseek_v4", config_of("deepseek_v4", R"("tie_word_embeddings":false,"num_nextn_predict_layers":1)"), m,
           "");
  }
  for (const bool is_text_only : {true, false}) {
    Maker m;
    m.prefix = "language_model.model.";
    m.top("language_model.lm_head.weight");
    m.norms(0);
    m.add("language_model.model.layers.0.self_attn.kv_a_proj_with_mqa.weight", {5, 6});
    m.add("language_model.model.layers.0.mlp.gate.weight", {3, 6});
    m.add("language_model.model.layers.0.mlp.experts.gate_up_proj", {3, 8, 6});
    m.add("language_model.model.layers.0.mlp.experts.down_proj", {3, 6, 4});
    if (!is_text_only) m.add("vision_tower.ln_pre.weight", {6});
    finish("mistral4", config_of(is_text_only ? "mistral4" : "mistral3", R"("text_config":{"model_type":"mistral4"})"),
           m, "language_model.model.");
  }
  {
    Maker m;
    m.top();
    m.norms(0), m.attention(0), m.mlp("model.layers.0.mlp", 8);
    finish("mistral3_fp8_causal", config_of("ministral3", untied), m);
  }
  for (const std::string prefix : {"language_model.model.", "model.language_model."})
    for (const char* id : {"mistral3_fp8_vlm", "gemma3"}) {
      Maker m;
      m.prefix = prefix;
      m.top(prefix == "language_model.model." ? "language_model.lm_head.weight" : "lm_head.weight");
      m.norms(0), m.attention(0), m.mlp(prefix + "layers.0.mlp", 8);
      m.add(prefix == "language_model.model." ? "vision_tower.ln_pre.weight" : "model.vision_tower.ln_pre.weight", {6});
      if (std::string(id) == "gemma3") m.add(prefix + "layers.0.pre_feedforward_layernorm.weight", {6});
      finish(id, config_of(std::string(id) == "gemma3" ? "gemma3" : "mistral3", untied), m, prefix);
    }
  for (const std::string experts : {"experts.", "moe."}) {
    Maker m;
    m.prefix = "model.language_model.";
    m.top("");
    m.norms(0), m.attention(0), m.mlp("model.language_model.layers.0.mlp", 8);
    m.add("model.language_model.layers.0.router.proj.weight", {3, 6});
    m.add("model.language_model.layers.0.router.scale", {6});
    m.add(experts == "moe." ? "model.language_model.layers.0.moe.per_expert_scale"
                            : "model.language_model.layers.0.router.per_expert_scale",
          {3});
    m.add("model.language_model.layers.0." + experts + "gate_up_proj", {3, 8, 6});
    m.add("model.language_model.layers.0." + experts + "down_proj", {3, 6, 4});
    m.add("model.vision_tower.x", {2});
    finish("gemma4_moe", config_of("gemma4", R"("tie_word_embeddings":true,"text_config":{"enable_moe_block":true})"),
           m, "model.language_model.");
  }
  return models;
}

}  // namespace weightproof::reference::testing
