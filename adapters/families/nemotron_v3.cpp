// SPDX-License-Identifier: Apache-2.0
// Nemotron-H and Nemotron 3: Mamba 2, attention without rotary embedding, ungated experts and plain MLPs in one
// pattern of layers. Stored under "backbone.", or under "model." by newer exports. Mamba state is F32 natively,
// behind a holder that no file knows. MTP layers keep their prefix.
#include <array>
#include <string>
#include <vector>

#include "adapters/blocks.hpp"
#include "adapters/experts.hpp"
#include "adapters/families/families.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::array<std::string_view, 1> k_model_types = {"nemotron_h"};
constexpr std::array<std::string_view, 1> k_architectures = {"NemotronHForCausalLM"};

constexpr std::array<std::string_view, 5> k_required = {"head_dim", "hidden_size", "num_attention_heads",
                                                        "num_hidden_layers", "vocab_size"};

constexpr std::array k_name_spaces = {NameSpace{"backbone.", "lm_head.weight"}, NameSpace{"model.", "lm_head.weight"}};
constexpr std::array<std::string_view, 5> k_parts = {"layers.", "embeddings.", "norm_f.", "embed_tokens.", "norm."};

enum class Kind : std::uint8_t { mamba, attention, moe, mlp };

[[noreturn]] void refuse_pattern(std::string_view field, std::string_view actual) {
  ErrorFacts facts;
  facts.file = "config.json";
  facts.expected = "letters M, *, E and -, or names mamba, attention, moe and mlp; two lists that agree";
  facts.actual = std::string(actual);
  throw Error(ErrorCode::config_invalid, "config field " + std::string(field) + " cannot be used", std::move(facts));
}

std::vector<Kind> read_pattern(const Fields& fields, std::string_view letters_field, std::string_view names_field) {
  std::vector<Kind> from_letters;
  for (const char letter : fields.text(letters_field)) {
    switch (letter) {
      case 'M':
        from_letters.push_back(Kind::mamba);
        break;
      case '*':
        from_letters.push_back(Kind::attention);
        break;
      case 'E':
        from_letters.push_back(Kind::moe);
        break;
      case '-':
        from_letters.push_back(Kind::mlp);
        break;
      default:
        refuse_pattern(letters_field, fields.text(letters_field));
    }
  }
  std::vector<Kind> from_names;
  for (const std::string_view name : fields.texts(names_field)) {
    if (name == "mamba" || name == "linear_attention") {
      from_names.push_back(Kind::mamba);
    } else if (name == "attention" || name == "full_attention") {
      from_names.push_back(Kind::attention);
    } else if (name == "moe") {
      from_names.push_back(Kind::moe);
    } else if (name == "mlp") {
      from_names.push_back(Kind::mlp);
    } else {
      refuse_pattern(names_field, name);
    }
  }
  if (!from_letters.empty() && !from_names.empty() && from_letters != from_names) {
    refuse_pattern(names_field, "a list that differs from " + std::string(letters_field));
  }
  std::vector<Kind>& found = from_names.empty() ? from_letters : from_names;
  if (found.size() > Fields::k_layers_max) refuse_pattern(letters_field, std::to_string(found.size()) + " layers");
  return found;
}

/// One mixer of any kind, in the scope of its layer.
class Mixers {
 public:
  Mixers(const Fields& fields, ExpertStorage storage)
      : fields_(fields), storage_(storage), attention_(read_attention(fields)) {
    attention_.has_qkv_bias = attention_.has_o_bias = fields.flag("attention_bias");
  }

  void mixer(Describer& d, Kind kind) const {
    const Scope inside(d, "mixer.");
    if (kind == Kind::mamba) mamba(d);
    if (kind == Kind::attention) attention(d, attention_, "");
    if (kind == Kind::moe) moe(d);
    if (kind == Kind::mlp) plain(d, "", fields_.count("intermediate_size"));
  }
  std::uint64_t hidden() const { return attention_.hidden; }

 private:
  void mamba(Describer& d) const {
    const std::uint64_t heads = fields_.count("mamba_num_heads");
    const std::uint64_t inner = heads * fields_.count("mamba_head_dim");
    const std::uint64_t convolved = inner + 2 * fields_.count("n_groups") * fields_.count("ssm_state_size");
    const bool has_bias = fields_.flag("use_bias");
    // Whole on every tensor parallel rank, as it is trained: nothing of it is cut.
    d.linear("in_proj", inner + convolved + heads, hidden(), has_bias);  // rows z, x, B, C, dt
    d.same("conv1d.weight", {convolved, 1, fields_.count("conv_kernel")});
    if (fields_.flag("use_conv_bias", true)) d.same("conv1d.bias", {convolved});
    d.moved("A_log", "_fp32_params.A_log", {heads}, DTypeRule::f32_state);
    d.moved("D", "_fp32_params.D", {heads}, DTypeRule::f32_state);
    d.moved("dt_bias", "_fp32_params.dt_bias", {heads}, DTypeRule::f32_state);
    d.same("norm.weight", {inner});
    d.linear("out_proj", hidden(), inner, has_bias);
  }

  void plain(Describer& d, std::string_view scope, std::uint64_t width) const {
    const Scope inside(d, scope);
    d.linear("up_proj", width, hidden(), fields_.flag("mlp_bias"), columns(width));
    d.linear("down_proj", hidden(), width, fields_.flag("mlp_bias"), rows(width));
  }

  void moe(Describer& d) const {
    ExpertSpec spec;
    spec.experts = fields_.count("n_routed_experts");
    const std::uint64_t latent = fields_.count("moe_latent_size", 0);
    spec.input = latent == 0 ? hidden() : latent;
    spec.width = fields_.count("moe_intermediate_size");
    spec.is_gated = false;
    spec.has_bias = fields_.flag("mlp_bias");
    d.same("gate.weight", {spec.experts, hidden()});
    d.same("gate.e_score_correction_bias", {spec.experts}, DTypeRule::f32_state);
    per_expert(d, spec, storage_, "experts.", "experts.");
    if (fields_.count("n_shared_experts", 1) != 0) {
      plain(d, "shared_experts.", fields_.count("moe_shared_expert_intermediate_size"));
    }
    if (latent != 0) {
      d.linear("fc1_latent_proj", latent, hidden(), spec.has_bias);
      d.linear("fc2_latent_proj", hidden(), latent, spec.has_bias);
    }
  }

  const Fields& fields_;
  ExpertStorage storage_;
  Attention attention_;
};

std::uint64_t mtp_depths(const Fields& fields) {
  const std::uint64_t depths = fields.count("num_nextn_predict_layers", 0);
  return depths != 0 && fields.flag("mtp_use_repeated_layer") ? 1 : depths;
}

Form find_form(const ConfigValue& config, const Catalog& catalog) {
  const std::string_view prefix = find_name_space(catalog, k_name_spaces, k_parts).prefix;
  Form form = find_plain_form(k_nemotron_v3, config, catalog, k_name_spaces);
  form.name_space = std::string(prefix);
  if (catalog.find("model.embed_tokens.weight") != nullptr) form.generation = "renamed_top";
  form.stored_layers = count_numbered(catalog, form.name_space + "layers.");
  form.has_mtp = find_mtp(catalog, "mtp.", mtp_depths(Fields(config)));
  return form;
}

Schema describe(const ConfigValue& config, const Form& form, ExpertStorage storage) {
  const Fields fields(config);
  const NameSpace& names = name_space_of(form, k_name_spaces);
  const bool is_renamed = form.generation == "renamed_top";
  std::vector<Kind> kinds = read_pattern(fields, "hybrid_override_pattern", "layers_block_type");
  if (kinds.empty()) refuse_pattern("hybrid_override_pattern", "absent");
  const Mixers mixers(fields, storage);
  const std::uint64_t hidden = mixers.hidden();

  Describer d(k_nemotron_v3, config, form);
  drop_layers_from(d, std::string(names.prefix) + "layers.", kinds.size(), "a layer beyond the model's pattern");
  const std::string embedding_key =
      std::string(names.prefix) + (is_renamed ? "embed_tokens.weight" : "embeddings.weight");
  Embedding embedding;
  embedding.vocab = fields.count("vocab_size");
  embedding.hidden = hidden;
  embedding.stored = embedding_key;
  embedding_and_head(d, embedding);
  {
    const Scope model(d, names.prefix, "model.");
    for (std::size_t l = 0; l < kinds.size(); ++l) {
      const LayerScope layer(d, l);
      d.same("norm.weight", {hidden});
      mixers.mixer(d, kinds[l]);
    }
    d.moved(is_renamed ? "norm.weight" : "norm_f.weight", "norm.weight", {hidden});
  }
  const std::uint64_t depths = mtp_depths(fields);
  note_mtp(d, depths);
  if (!form.has_mtp || depths == 0) return std::move(d).finish();
  const std::vector<Kind> depth = read_pattern(fields, "mtp_hybrid_override_pattern", "mtp_layers_block_type");
  const Scope mtp(d, "mtp.");
  for (std::uint64_t m = 0; m < depths * depth.size(); ++m) {
    const Scope layer(d, "layers.", "layers.", m);
    const std::size_t at = m % depth.size();
    if (at == 0) {
      d.same("enorm.weight", {hidden});
      d.same("hnorm.weight", {hidden});
      d.linear("eh_proj", hidden, 2 * hidden);
    }
    d.same("norm.weight", {hidden});
    mixers.mixer(d, depth[at]);
    if (at + 1 == depth.size()) d.same("final_layernorm.weight", {hidden});
  }
  return std::move(d).finish();
}

}  // namespace

const Family k_nemotron_v3 = {
    .name = "nemotron_v3",
    .title = "Nemotron-H and Nemotron 3",
    .model_types = k_model_types,
    .architectures = k_architectures,
    .required = k_required,
    .tie_policy = TiePolicy::untied_only,
    .find_form = find_form,
    .describe = describe,
    .sample = R"({"model_type": "nemotron_h", "hidden_size": 6, "num_hidden_layers": 4, "hybrid_override_pattern":
        "ME*-", "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 3, "vocab_size": 11,
        "intermediate_size": 7, "mamba_num_heads": 2, "mamba_head_dim": 2, "ssm_state_size": 2, "n_groups": 1,
        "conv_kernel": 3, "use_conv_bias": true, "n_routed_experts": 3, "n_shared_experts": 1,
        "moe_intermediate_size": 4, "moe_shared_expert_intermediate_size": 5, "num_nextn_predict_layers": 2,
        "mtp_hybrid_override_pattern": "*E"})",
};

}  // namespace weightproof::adapters
