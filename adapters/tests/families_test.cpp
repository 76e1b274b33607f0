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
    if (binding.kind != BindingKind::alias) native[binding.native].push_back(schema.native_view(binding));
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

INSTANTIATE_TEST_SUITE_P(Families, EveryFamily, ::testing::ValuesIn(all_families().begin(), all_families().end()),
                         [](const auto& row) { return std::string(row.param->name); });

}  // namespace
}  // namespace weightproof::adapters::testing
