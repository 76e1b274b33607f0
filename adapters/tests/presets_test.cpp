// SPDX-License-Identifier: Apache-2.0
// Published models: number of stored tensors and bytes that follow from each config, against figures that published
// files and load logs confirm. Byte figures take FP32 state as F32 and per-tensor FP8 scales as BF16. And the coverage
// proof of every native and stored tensor, in each expert storage.
#include "adapters/tests/support.hpp"

namespace weightproof::adapters::testing {
namespace {

struct Preset {
  const char* family;
  const char* model;
  std::size_t tensors;
  std::uint64_t bytes;
  std::uint64_t parameters;
  const char* config;
};

constexpr Preset k_presets[] = {
    {"nemotron_v3", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 6243, 63155895296, 31577940288,
     R"({"model_type": "nemotron_h", "vocab_size": 131072, "hidden_size": 2688, "num_hidden_layers": 52,
      "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
      "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 1856,
      "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
      "use_bias": false, "use_conv_bias": true, "mlp_bias": false, "attention_bias": false,
      "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 6, "moe_intermediate_size":
      1856, "moe_shared_expert_intermediate_size": 3712, "moe_latent_size": null, "tie_word_embeddings":
      false, "num_nextn_predict_layers": 0, "torch_dtype": "bfloat16"})"},
    {"ling_v2", "inclusionAI/Ling-mini-2.0", 14813, 32511296512, 16255643392,
     R"({"model_type": "bailing_moe", "vocab_size": 157184, "hidden_size": 2048, "intermediate_size": 5120,
      "num_hidden_layers": 20, "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128,
      "use_qkv_bias": false, "use_bias": false, "use_qk_norm": true, "num_experts": 256,
      "num_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
      "moe_intermediate_size": 512, "first_k_dense_replace": 1, "moe_router_enable_expert_bias": true,
      "num_nextn_predict_layers": 0, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"mistral3_fp8_causal", "mistralai/Devstral-2-123B-Instruct-2512", 2027, 128249391520, 125025988608,
     R"({"model_type": "ministral3", "vocab_size": 131072, "hidden_size": 12288, "intermediate_size": 28672,
      "num_hidden_layers": 88, "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16", "quantization_config": {"quant_method":
      "fp8", "activation_scheme": "static", "weight_block_size": null, "modules_to_not_convert":
      ["lm_head"]}})"},
    {"mistral3_fp8_vlm", "mistralai/Devstral-Small-2-24B-Instruct-2512", 1145, 25792912480, 24011361280,
     R"({"model_type": "mistral3", "spatial_merge_size": 2, "multimodal_projector_bias": false,
      "tie_word_embeddings": false, "text_config": {"model_type": "ministral3", "vocab_size": 131072,
      "hidden_size": 5120, "intermediate_size": 32768, "num_hidden_layers": 40, "num_attention_heads": 32,
      "num_key_value_heads": 8, "head_dim": 128}, "vision_config": {"model_type": "pixtral",
      "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
      "head_dim": 64, "num_channels": 3, "patch_size": 14, "image_size": 1540}, "quantization_config":
      {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": null,
      "modules_to_not_convert": ["model.vision_tower", "model.multi_modal_projector", "lm_head"]},
      "torch_dtype": "bfloat16"})"},
    {"gpt_oss", "openai/gpt-oss-20b", 459, 13761264768, 20914757184,
     R"({"model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
      "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
      "num_local_experts": 32, "num_experts_per_tok": 4, "attention_bias": true, "tie_word_embeddings":
      false, "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "mxfp4",
      "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
      "model.embed_tokens", "lm_head"]}})"},
    {"gpt_oss", "openai/gpt-oss-120b", 687, 65248815744, 116829156672,
     R"({"model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
      "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
      "num_local_experts": 128, "num_experts_per_tok": 4, "attention_bias": true, "tie_word_embeddings":
      false, "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "mxfp4",
      "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
      "model.embed_tokens", "lm_head"]}})"},
    {"gpt_oss_bf16", "gpt-oss-20b dequantized", 411, 41829514368, 20914757184,
     R"({"model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
      "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
      "num_local_experts": 32, "num_experts_per_tok": 4, "attention_bias": true, "tie_word_embeddings":
      false, "torch_dtype": "bfloat16"})"},
    {"gemma4_moe", "google/gemma-4-26B-A4B (text part)", 657, 50466283580, 25233141790,
     R"({"model_type": "gemma4", "tie_word_embeddings": true, "text_config": {"model_type": "gemma4_text",
      "vocab_size": 262144, "hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 30,
      "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "global_head_dim": 512,
      "num_global_key_value_heads": 2, "attention_k_eq_v": true, "num_kv_shared_layers": 0,
      "enable_moe_block": true, "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704,
      "hidden_size_per_layer_input": 0, "sliding_window": 1024, "layer_types": ["sliding_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention"]}, "torch_dtype": "bfloat16"})"},
    {"qwen3_moe", "Qwen/Qwen3-30B-A3B", 18867, 61064245248, 30532122624,
     R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
      "attention_bias": false, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
      "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false, "torch_dtype":
      "bfloat16"})"},
    {"qwen3_moe", "Qwen/Qwen3-235B-A22B", 36945, 470187269120, 235093634560,
     R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
      "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
      "attention_bias": false, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size":
      1536, "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false, "torch_dtype":
      "bfloat16"})"},
    {"qwen3_next", "Qwen/Qwen3-Next-80B-A3B-Instruct", 74391, 159348787200, 79674391296,
     R"({"model_type": "qwen3_next", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5120,
      "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
      "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
      "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
      "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1, "mlp_only_layers": [],
      "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"qwen3_omni_moe", "Qwen/Qwen3-Omni-30B-A3B-Instruct (thinker text)", 18867, 61065293824, 30532646912,
     R"({"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": {"model_type": "qwen3_moe",
      "vocab_size": 152064, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
      "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "attention_bias": false,
      "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step":
      1, "mlp_only_layers": [], "tie_word_embeddings": false, "torch_dtype": "bfloat16"}}})"},
    {"ernie4_5", "baidu/ERNIE-4.5-0.3B-PT", 164, 721496064, 360748032,
     R"({"model_type": "ernie4_5", "vocab_size": 103424, "hidden_size": 1024, "intermediate_size": 3072,
      "num_hidden_layers": 18, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 128,
      "use_bias": false, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})"},
    {"ernie4_5_moe", "baidu/ERNIE-4.5-21B-A3B-PT", 5492, 43659726592, 21825437888,
     R"({"model_type": "ernie4_5_moe", "vocab_size": 103424, "hidden_size": 2560, "intermediate_size":
      12288, "num_hidden_layers": 28, "num_attention_heads": 20, "num_key_value_heads": 4, "head_dim":
      128, "use_bias": false, "moe_num_experts": 64, "moe_k": 6, "moe_num_shared_experts": 2,
      "moe_intermediate_size": 1536, "moe_layer_start_index": 1, "moe_layer_end_index": -1,
      "moe_layer_interval": 1, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})"},
    {"glm4_moe", "zai-org/GLM-4.5-Air", 17925, 213704514048, 106852251264,
     R"({"model_type": "glm4_moe", "vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944,
      "num_hidden_layers": 46, "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128,
      "attention_bias": true, "use_qk_norm": false, "n_routed_experts": 128, "n_shared_experts": 1,
      "num_experts_per_tok": 8, "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
      "num_nextn_predict_layers": 1, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"glm4_moe", "zai-org/GLM-4.5", 44189, 705595686528, 352797829024,
     R"({"model_type": "glm4_moe", "vocab_size": 151552, "hidden_size": 5120, "intermediate_size": 12288,
      "num_hidden_layers": 92, "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128,
      "attention_bias": true, "use_qk_norm": true, "n_routed_experts": 160, "n_shared_experts": 1,
      "num_experts_per_tok": 8, "moe_intermediate_size": 1536, "first_k_dense_replace": 3,
      "num_nextn_predict_layers": 1, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"hy_v3", "tencent/Hy3-preview", 46545, 590067117312, 295033543488,
     R"({"model_type": "hy_v3", "vocab_size": 120832, "hidden_size": 4096, "intermediate_size": 13312,
      "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128,
      "attention_bias": false, "qk_norm": true, "num_experts": 192, "num_shared_experts": 1,
      "num_experts_per_tok": 8, "moe_intermediate_size": 1536, "first_k_dense_replace": 1,
      "moe_router_enable_expert_bias": true, "num_nextn_predict_layers": 1, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16"})"},
    {"hy_mt2", "tencent/Hy-MT2-30B-A3B", 18673, 60129463808, 30064725888,
     R"({"model_type": "hy_v3", "vocab_size": 120832, "hidden_size": 2048, "intermediate_size": 6912,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
      "attention_bias": false, "qk_norm": true, "num_experts": 128, "num_shared_experts": 1,
      "num_experts_per_tok": 8, "moe_intermediate_size": 768, "first_k_dense_replace": 1,
      "moe_router_enable_expert_bias": true, "num_nextn_predict_layers": 0, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16"})"},
    {"laguna", "poolside/Laguna-XS.2", 30513, 66379971584, 33189975808,
     R"({"model_type": "laguna", "vocab_size": 100352, "hidden_size": 2048, "intermediate_size": 8192,
      "num_hidden_layers": 40, "num_attention_heads": 48, "num_attention_heads_per_layer": null,
      "num_key_value_heads": 8, "head_dim": 128, "qkv_bias": false, "attention_bias": false, "gating":
      true, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
      "shared_expert_intermediate_size": 512, "mlp_layer_types": null, "mlp_only_layers": [0],
      "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"deepseek_v3", "deepseek-ai/DeepSeek-V3", 90427, 673150611808, 671026419200,
     R"({"model_type": "deepseek_v3", "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
      "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank":
      1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size":
      2048, "first_k_dense_replace": 3, "moe_layer_freq": 1, "num_nextn_predict_layers": 1,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16", "quantization_config": {"quant_method":
      "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}})"},
    {"llama", "meta-llama/Llama-3.1-8B", 291, 16060522496, 8030261248,
     R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
      "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"llama", "meta-llama/Llama-3.2-1B", 146, 2471628800, 1235814400,
     R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
      "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
      "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})"},
    {"qwen2", "Qwen/Qwen2.5-7B", 339, 15231233024, 7615616512,
     R"({"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
      "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "head_dim": 128,
      "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"qwen2", "Qwen/Qwen2.5-0.5B", 290, 988065536, 494032768,
     R"({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
      "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 64,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16"})"},
    {"qwen3", "Qwen/Qwen3-8B", 399, 16381470720, 8190735360,
     R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
      "attention_bias": false, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"qwen3", "Qwen/Qwen3-0.6B", 310, 1192099840, 596049920,
     R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
      "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
      "attention_bias": false, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})"},
    {"dense_combined", "meta-llama/Llama-3.1-8B (combined)", 291, 16060522496, 8030261248,
     R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
      "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})"},
    {"qwen3_vl_moe", "Qwen/Qwen3-VL-30B-A3B-Instruct (text)", 531, 61064245248, 30532122624,
     R"({"model_type": "qwen3_vl_moe", "tie_word_embeddings": false, "text_config": {"model_type":
      "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
      "attention_bias": false, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
      "decoder_sparse_step": 1, "mlp_only_layers": [], "tie_word_embeddings": false, "torch_dtype":
      "bfloat16"}})"},
    {"qwen3_5_moe", "Qwen/Qwen3.5-35B-A3B (text, no MTP)", 693, 69321225216, 34660610688,
     R"({"model_type": "qwen3_5_moe", "tie_word_embeddings": false, "text_config": {"model_type":
      "qwen3_next", "vocab_size": 248320, "hidden_size": 2048, "intermediate_size": 5120,
      "num_hidden_layers": 40, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
      "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
      "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
      "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1, "mlp_only_layers": [],
      "tie_word_embeddings": false, "torch_dtype": "bfloat16"}})"},
    {"minimax_m2", "MiniMaxAI/MiniMax-M2", 96103, 230024113152, 228689764864,
     R"({"model_type": "minimax_m2", "vocab_size": 200064, "hidden_size": 3072, "intermediate_size": 1536,
      "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
      "use_qk_norm": true, "num_local_experts": 256, "num_experts_per_tok": 8, "tie_word_embeddings":
      false, "torch_dtype": "bfloat16"})"},
    {"kimi_linear", "moonshotai/Kimi-Linear-48B-A3B-Instruct", 20493, 98245541888, 49122681728,
     R"({"model_type": "kimi_linear", "vocab_size": 163840, "hidden_size": 2304, "intermediate_size": 9216,
      "num_hidden_layers": 27, "num_attention_heads": 32, "num_key_value_heads": 32, "q_lora_rank": null,
      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "num_experts": 256, "num_shared_experts": 1, "moe_intermediate_size": 1024, "first_k_dense_replace":
      1, "moe_layer_freq": 1, "linear_attn_config": {"kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14,
      15, 17, 18, 19, 21, 22, 23, 25, 26], "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "num_heads":
      32, "head_dim": 128, "short_conv_kernel_size": 4}, "tie_word_embeddings": false, "torch_dtype":
      "bfloat16"})"},
};

/// MiniMax-M2 is published in FP8 blocks; its config here does not say so, the form does.
Form form_of(const Family& family, const ConfigValue& config) {
  Form form = family.find_form(config, Catalog());
  if (family.name == "minimax_m2") form.quantization = "fp8_block";
  return form;
}

class Presets : public ::testing::TestWithParam<Preset> {};

TEST_P(Presets, TensorsAndBytesFollowFromTheConfig) {
  const Preset& preset = GetParam();
  const ConfigValue config = config_of(preset.config);
  const Family* family = find_family(preset.family);
  ASSERT_NE(family, nullptr);
  if (family->is_detected) {
    EXPECT_EQ(detect(&config, Catalog()).family, family);
  }
  EXPECT_TRUE(detect(&config, Catalog(), preset.family).missing_fields.empty());
  const Schema schema = family->describe(config, form_of(*family, config), ExpertStorage::grouped);
  const StoredTotals totals = stored_totals(schema);
  EXPECT_EQ(totals.tensors, preset.tensors);
  EXPECT_EQ(totals.bytes, preset.bytes);
  EXPECT_EQ(totals.parameters, preset.parameters);
  EXPECT_EQ(native_elements(schema), preset.parameters);
  expect_exact(schema);
}

TEST_P(Presets, EveryExpertStorageIsCoveredExactly) {
  const Preset& preset = GetParam();
  const ConfigValue config = config_of(preset.config);
  const Family* family = find_family(preset.family);
  const Form form = form_of(*family, config);
  for (const ExpertStorage storage : {ExpertStorage::te, ExpertStorage::mok}) {
    try {
      const Schema schema = family->describe(config, form, storage);
      EXPECT_EQ(native_elements(schema), preset.parameters);
      expect_exact(schema);
    } catch (const Error& error) {
      EXPECT_EQ(storage, ExpertStorage::mok);
      EXPECT_EQ(error.code(), ErrorCode::route_unavailable);
      EXPECT_TRUE(family->name == "gpt_oss" || family->name == "nemotron_v3") << error.what();
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<Preset>& row) {
  std::string name = std::string(row.param.family) + "_" + row.param.model;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Published, Presets, ::testing::ValuesIn(k_presets), test_name);

}  // namespace
}  // namespace weightproof::adapters::testing
