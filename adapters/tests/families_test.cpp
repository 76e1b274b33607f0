// SPDX-License-Identifier: Apache-2.0
// What holds of every family, shown on its sample model: coverage in each expert storage and form, load and export as
// inverses, and that a binding moved by one element does not pass.
#include "adapters/tests/push.hpp"

namespace weightproof::adapters::testing {
namespace {

class EveryFamily : public ::testing::TestWithParam<const Family*> {};

/// The forms in which a family's checkpoints come, as far as the sample can take them.
std::vector<Form> forms_of(const Family& family, const ConfigValue& config) {
  std::vector<Form> forms = {family.find_form(config, Catalog())};
  const auto also = [&](auto&& change) {
    Form form = forms.front();
    change(form);
    forms.push_back(form);
  };
  if (!forms.front().quantization.empty()) {
    also([](Form& form) {
      form.quantization.clear();
      if (form.expert_layout == "blocks") form.expert_layout = "stacked_transposed";
      if (form.expert_layout == "fp4") form.expert_layout = "plain";
    });
  }
  if (family.name == "deepseek_v4") also([](Form& form) { form.expert_layout = "fp8"; });
  if (family.name == "minimax_m2") also([](Form& form) { form.quantization = "fp8_block"; });
  if (family.name == "qwen3_moe" || family.name == "qwen3_omni_moe" || family.name == "qwen3_next") {
    also([](Form& form) { form.expert_layout = "stacked"; });
  }
  if (family.name == "qwen3_5_moe") {
    also([](Form& form) { form.expert_layout = "per_expert+mtp_per_expert"; });
    also([](Form& form) { form.expert_layout = "stacked+mtp_stacked"; });
  }
  if (family.name == "gemma4_moe") also([](Form& form) { form.generation = "moe_keys"; });
  if (forms.front().has_mtp) also([](Form& form) { form.has_mtp = false; });
  if (family.tie_policy == TiePolicy::both) also([](Form& form) { form.is_tied = !form.is_tied; });
  return forms;
}

bool can_hold(const Family& family, ExpertStorage storage) {
  if (storage != ExpertStorage::mok) return true;
  return family.name != "gpt_oss" && family.name != "nemotron_v3" && family.name != "ernie4_5_moe";
}

TEST_P(EveryFamily, TheSampleIsDetectedAndComplete) {
  const Family& family = *GetParam();
  const ConfigValue config = config_of(family.sample);
  const Detection detection = detect(&config, Catalog(), family.is_detected ? std::string_view() : family.name);
  EXPECT_EQ(detection.family, &family) << detection.evidence;
  EXPECT_TRUE(detection.missing_fields.empty());
  for (const std::string_view field : family.required) {
    // Without the field it is named, and coverage is not asked.
    std::string text(family.sample);
    const std::string quoted = "\"" + std::string(field) + "\"";
    for (std::size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted))
      text.replace(at + 1, 1, "~");
    const ConfigValue thin = config_of(text);
    const std::string root = family.config_root.empty() ? "" : std::string(family.config_root) + ".";
    EXPECT_EQ(detect(&thin, Catalog(), family.name).missing_fields,
              std::vector<std::string>{root + std::string(field)});
    const auto error =
        error_of([&] { family.describe(thin, family.find_form(thin, Catalog()), ExpertStorage::grouped); });
    EXPECT_TRUE(error && error->code() == ErrorCode::config_invalid) << field;
  }
}

TEST_P(EveryFamily, EachFormIsCoveredExactlyAndExportUndoesLoad) {
  const Family& family = *GetParam();
  const ConfigValue config = config_of(family.sample);
  for (const Form& form : forms_of(family, config)) {
    for (const ExpertStorage storage : {ExpertStorage::grouped, ExpertStorage::te, ExpertStorage::mok}) {
      if (!can_hold(family, storage)) {
        const auto error = error_of([&] { family.describe(config, form, storage); });
        ASSERT_TRUE(error);
        EXPECT_EQ(error->code(), ErrorCode::route_unavailable);
        continue;
      }
      const Schema schema = family.describe(config, form, storage);
      expect_exact(schema);
      const Values stored = numbered(schema);
      const Values native = load(schema, stored);
      for (const auto& [key, values] : native) {
        for (const double value : values) EXPECT_NE(value, -12345) << key;
      }
      EXPECT_EQ(save(schema, native), stored);
      std::size_t elements = 0;
      for (const auto& [key, values] : stored) elements += values.size();
      EXPECT_EQ(native_elements(schema), elements);
    }
  }
}

TEST_P(EveryFamily, ABindingMovedByOneElementIsNotCovered) {
  const Family& family = *GetParam();
  const ConfigValue config = config_of(family.sample);
  const Schema schema = family.describe(config, family.find_form(config, Catalog()), ExpertStorage::grouped);
  std::vector<std::vector<View>> native(schema.native_tensors().size());
  for (const Binding& binding : schema.bindings()) {
    if (binding.kind != BindingKind::alias && !is_default(schema, binding))
      native[binding.native].push_back(schema.native_view(binding));
  }
  std::size_t tried = 0;
  for (std::size_t i = 0; i < native.size(); ++i) {
    const Shape& shape = schema.shape_of(schema.native_tensors()[i]);
    for (std::size_t v = 0; v < native[i].size(); ++v) {
      std::vector<View> moved = native[i];
      moved[v] = View(moved[v].offset() + 1, moved[v].layout());
      EXPECT_NE(prove_tiling(shape, moved).tiling, Tiling::exact) << schema.native_tensors()[i].key;
      moved.erase(moved.begin() + static_cast<std::ptrdiff_t>(v));
      EXPECT_NE(prove_tiling(shape, moved).tiling, Tiling::exact) << schema.native_tensors()[i].key;
      ++tried;
    }
  }
  EXPECT_GT(tried, 10u);
}

TEST_P(EveryFamily, EveryKeyOfACheckpointIsKnownAndEveryLossIsNamed) {
  const Family& family = *GetParam();
  const ConfigValue config = config_of(family.sample);
  const Form form = family.find_form(config, Catalog());
  const Schema schema = family.describe(config, form, ExpertStorage::grouped);
  std::vector<std::string> keys;
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    if (is_alias(schema, tensor)) continue;
    if (tensor.coding == k_no_id) keys.emplace_back(tensor.key);
    for (const CodedPart& part : schema.parts_of(tensor)) keys.emplace_back(part.key);
  }
  const Catalog whole = catalog_of(keys);
  // From the names alone the same form comes out, and with it the same keys.
  Form found = family.find_form(config, whole);
  found.stored_layers = 0;
  EXPECT_EQ(found.name_space, form.name_space);
  EXPECT_EQ(found.is_tied, form.is_tied);
  EXPECT_EQ(found.has_mtp, form.has_mtp);
  EXPECT_EQ(found.expert_layout, form.expert_layout);
  const Coverage coverage = cover(schema, whole);
  EXPECT_TRUE(coverage.missing.empty());
  EXPECT_TRUE(coverage.unexpected.empty());
  EXPECT_TRUE(coverage.dropped.empty());
  for (std::size_t lost = 0; lost < keys.size(); ++lost) {
    std::vector<std::string> rest = keys;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(lost));
    const Coverage thin = cover(schema, catalog_of(rest));
    bool is_optional = false;
    for (const LogicalTensor& tensor : schema.stored_tensors()) {
      is_optional |= tensor.is_optional && tensor.key == keys[lost];
      for (const CodedPart& part : schema.parts_of(tensor)) is_optional |= part.is_optional && part.key == keys[lost];
    }
    EXPECT_EQ(thin.missing, is_optional ? std::vector<std::string>{} : std::vector<std::string>{keys[lost]});
  }
}

/// A catalog of a schema's stored tensors, with shapes; `is_plain` takes coded tensors as BF16 under their own names.
template <typename IsPlain>
Catalog described_catalog(const Schema& schema, bool has_shapes, IsPlain&& is_plain, std::string_view lost = {}) {
  CatalogBuilder builder;
  builder.add_file("model.safetensors");
  const auto add = [&](std::string_view key, const Shape& shape, DType dtype) {
    if (key == lost) return;
    StoredTensor tensor;
    tensor.key = key;
    tensor.shape = shape;
    tensor.dtype = dtype;
    tensor.is_described = has_shapes;
    builder.add_copy(tensor);
  };
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    if (is_alias(schema, tensor)) continue;
    if (tensor.coding == k_no_id || is_plain(tensor)) {
      add(tensor.key, schema.shape_of(tensor), DType::bf16);
      continue;
    }
    for (const CodedPart& part : schema.parts_of(tensor)) add(part.key, schema.shape_of(part), part.dtype);
  }
  return std::move(builder).finish();
}

TEST(Codings, TheFileDecidesWhatIsCoded) {
  const Family* family = find_family("deepseek_v3");
  const ConfigValue config = config_of(family->sample);
  const Schema stated = family->describe(config, family->find_form(config, Catalog()), ExpertStorage::grouped);
  const std::string plain = "model.layers.0.mlp.up_proj.weight";
  const auto coded = [](const Schema& schema) {
    std::size_t count = 0;
    for (const LogicalTensor& tensor : schema.stored_tensors()) count += tensor.coding == k_no_id ? 0 : 1;
    return count;
  };
  const std::size_t all = coded(stated);
  EXPECT_EQ(all, 42u);
  // One BF16 linear in an FP8 file: no scale is asked for it.
  const Catalog mixed =
      described_catalog(stated, true, [&](const LogicalTensor& tensor) { return tensor.key == plain; });
  Schema schema = stated;
  EXPECT_EQ(cover(schema, mixed).missing, std::vector<std::string>{plain + "_scale_inv"});
  schema.match_codings(mixed);
  EXPECT_EQ(coded(schema), all - 1);
  EXPECT_TRUE(cover(schema, mixed).missing.empty());
  // FP8 codes without their scale stay a loss, with shapes and from names alone.
  for (const bool has_shapes : {true, false}) {
    const Catalog lost = described_catalog(
        stated, has_shapes, [](const LogicalTensor&) { return false; }, plain + "_scale_inv");
    schema = stated;
    schema.match_codings(lost);
    EXPECT_EQ(coded(schema), all);
    EXPECT_EQ(cover(schema, lost).missing, std::vector<std::string>{plain + "_scale_inv"});
  }
  // A config that outlived the codes.
  for (const bool has_shapes : {true, false}) {
    const Catalog none = described_catalog(stated, has_shapes, [](const LogicalTensor&) { return true; });
    schema = stated;
    schema.match_codings(none);
    EXPECT_EQ(coded(schema), 0u);
    EXPECT_TRUE(cover(schema, none).missing.empty());
    EXPECT_EQ(family->find_form(config, none).quantization, "");
  }
  const Family* oss = find_family("gpt_oss");
  const ConfigValue oss_config = config_of(oss->sample);
  Schema blocks = oss->describe(oss_config, oss->find_form(oss_config, Catalog()), ExpertStorage::grouped);
  blocks.match_codings(described_catalog(blocks, false, [](const LogicalTensor&) { return false; }));
  EXPECT_EQ(coded(blocks), 4u);
}

TEST(Codings, ModulesThatTheConfigExceptsArePlain) {
  const Family* family = find_family("mistral3_fp8_vlm");
  const auto coded = [&](const std::string& excepted) {
    std::string text(family->sample);
    const std::size_t at = text.find("\"modules_to_not_convert\"");
    const std::size_t open = text.find('[', at);
    text.replace(open, text.find(']', open) - open + 1, excepted);
    const ConfigValue config = config_of(text);
    const Schema schema = family->describe(config, family->find_form(config, Catalog()), ExpertStorage::grouped);
    std::set<std::string> keys;
    for (const LogicalTensor& tensor : schema.stored_tensors()) {
      if (tensor.coding != k_no_id) keys.emplace(tensor.key);
    }
    return keys;
  };
  const std::string layer = "language_model.model.layers.0.";
  EXPECT_EQ(coded("[]").size(), 14u);
  EXPECT_EQ(coded(R"(["lm_head", "model.vision_tower"])").size(), 14u);
  EXPECT_EQ(coded(R"(["mlp.up_proj"])").size(), 12u);
  EXPECT_EQ(coded(R"(["model.language_model.layers.0.mlp"])").size(), 11u);       // the name at run time
  EXPECT_EQ(coded(R"(["language_model.model.layers.*.self_attn"])").size(), 6u);  // the name in the file
  EXPECT_EQ(coded(R"(["model.language_model.layers.0.mlp"])").count(layer + "mlp.up_proj.weight"), 0u);
  EXPECT_EQ(coded(R"(["up_proj2", "p.up_proj", "layers.1.mlp.up"])").size(), 14u);  // whole segments only
}

TEST(Infer, ShapesSayEveryWidth) {
  for (const char* name : {"qwen2", "qwen3", "qwen3_moe"}) {
    const Family* family = find_family(name);
    const ConfigValue config = config_of(family->sample);
    const Schema schema = family->describe(config, family->find_form(config, Catalog()), ExpertStorage::grouped);
    const Catalog catalog = described_catalog(schema, true, [](const LogicalTensor&) { return false; });
    ASSERT_EQ(detect(nullptr, catalog).family, family) << detect(nullptr, catalog).evidence;
    const auto inferred = infer_config(*family, catalog);
    ASSERT_TRUE(inferred);
    EXPECT_TRUE(inferred->has_shapes);
    const Schema again =
        family->describe(inferred->config, family->find_form(inferred->config, catalog), ExpertStorage::grouped);
    EXPECT_EQ(again.stored_tensors().size(), schema.stored_tensors().size());
    for (const LogicalTensor& tensor : schema.stored_tensors()) {
      const StoredId id = again.find_stored(tensor.key);
      ASSERT_NE(id, k_no_id) << tensor.key;
      EXPECT_EQ(again.shape_of(again.stored_tensors()[id]), schema.shape_of(tensor)) << tensor.key;
    }
  }
  EXPECT_FALSE(infer_config(*find_family("llama"), catalog_of({"model.layers.0.self_attn.q_proj.weight"})));
  EXPECT_FALSE(infer_config(*find_family("qwen3"), catalog_of({"model.layers.0.self_attn.q_proj.weight"})));
}

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily, ::testing::ValuesIn(all_families().begin(), all_families().end()),
                         [](const auto& row) { return std::string(row.param->name); });

}  // namespace
}  // namespace weightproof::adapters::testing
