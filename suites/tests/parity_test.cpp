// SPDX-License-Identifier: Apache-2.0
// Every family's mapping is stated twice: bindings that push, and the reference's functions that pull. Here they are
// compared on every element of every small checkpoint and on all corners at real shapes; and what the schemas ask for
// with what the fixtures' own schema stores.
#include "suites/verify/mapping_parity.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "loader/core/limits.hpp"
#include "loader/plan/planner.hpp"
#include "reference/detect.hpp"
#include "reference/model.hpp"
#include "suites/mutants/planned_family.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

std::string text_of(const MappingParity& parity) {
  std::string out;
  for (const MappingDifference& difference : parity.differences) {
    out += difference.key + ": " + difference.message + "\n";
  }
  return out;
}

class PushIsPull : public testing::TestWithParam<Variant> {};

// The loader's reading of files against the reference's own reading of the same files.
MappingParity parity_of_files(const Variant& variant, const fixtures::GenerateOptions& made) {
  const TemporaryDirectory directory;
  fixtures::generate(made, directory / "model");
  VerifyOptions options;
  options.family = variant.asked_family();
  const storage::Checkpoint checkpoint = storage::read_checkpoint(directory / "model", options.selection);
  Context context(options, checkpoint);
  EXPECT_TRUE(context.schema) << context.no_schema_reason;
  if (!context.schema) {
    return {};
  }
  EXPECT_TRUE(context.coverage().is_complete());
  EXPECT_EQ(disagreement(context, context.reference_side()), "");
  reference::ModelOptions asked;
  asked.family = variant.asked_family();
  const reference::Model model = reference::Model::open(directory / "model", asked);
  return compare_mappings(*context.schema, context.keys(), context.coverage(), model.mapping(),
                          ParityDepth::every_element);
}

TEST_P(PushIsPull, OnEveryElement) {
  const Variant& variant = GetParam();
  const MappingParity parity = parity_of_files(variant, variant.options());
  EXPECT_TRUE(parity.is_equal()) << text_of(parity);
  EXPECT_GT(parity.elements, 0U);
  EXPECT_GT(parity.returned_elements, 0U);
  std::cout << "compared " << variant.name() << ": " << parity.elements << " elements of " << parity.native_tensors
            << " native tensors, " << parity.passed_through << " passed through, " << parity.returned_elements
            << " there and back\n";
  RecordProperty("elements", std::to_string(parity.elements));
}

// Optional tensors absent, extras of released files present, a head stored although it is tied.
TEST_P(PushIsPull, WithOptionalTensorsAbsentAndAStoredHead) {
  const Variant& variant = GetParam();
  fixtures::GenerateOptions made = variant.options();
  made.has_optional = false;
  const MappingParity absent = parity_of_files(variant, made);
  EXPECT_TRUE(absent.is_equal()) << text_of(absent);
  EXPECT_GT(absent.elements, 0U);
  const fixtures::GeneratedCheckpoint planned = fixtures::plan_checkpoint(variant.options());
  const fixtures::TiedPair pair = fixtures::tied_pair(variant.fixture);
  // Forms whose embedding has another name cannot be asked for a second copy.
  const bool has_pair = std::any_of(planned.tensors.begin(), planned.tensors.end(),
                                    [&](const auto& row) { return row.tensor.key == pair.embedding; });
  if (!has_pair || !fixtures::is_tied(variant.fixture, planned.config.value_or("{}"))) {
    return;
  }
  made = variant.options();
  made.tie = fixtures::TieMode::stored_head;
  const MappingParity twice = parity_of_files(variant, made);
  EXPECT_TRUE(twice.is_equal()) << text_of(twice);
}

INSTANTIATE_TEST_SUITE_P(Tiny, PushIsPull, testing::ValuesIn(variants_of("tiny")),
                         [](const auto& row) { return row.param.name(); });

TEST(PushIsPull, EveryFamilyTakesPart) {
  std::set<std::string_view> seen;
  for (const Variant& variant : variants_of("tiny")) {
    const adapters::Family* family = adapters::find_family(variant.fixture);
    seen.insert(family == nullptr ? "llama" : family->name);  // llama_nf4
  }
  for (const adapters::Family* family : adapters::all_families()) {
    EXPECT_EQ(seen.count(family->name), 1U) << family->name;
  }
}

TEST(PushIsPull, FoldedScalesAreMultipliedWhereTheReferenceMultipliesThem) {
  for (const char* preset : {"tiny", "tiny_square", "tiny_old_names", "tiny_unit_scales"}) {
    const Variant variant{"gemma4_moe", preset, fixtures::preset_form("gemma4_moe", preset)};
    PlannedFamily planned = plan_family(variant);
    planned.form.expert_layout = "stacked_folded";
    const Schema schema = planned.family->describe(planned.config, planned.form, ExpertStorage::grouped);
    plan::CoverageOptions asked;
    std::vector<reference::Key> keys;
    for (const fixtures::GeneratedTensor& made : planned.made.tensors) {
      keys.push_back({made.tensor.key, made.tensor.shape});
    }
    for (StoredId id = 0; id < schema.stored_tensors().size(); ++id) {
      plan::DecodedTensor decoded{id, schema.shape_of(schema.stored_tensors()[id]), {}};
      for (const CodedPart& part : schema.parts_of(schema.stored_tensors()[id])) {
        decoded.rows.push_back(static_cast<plan::Row>(planned.catalog.index_of(part.key)));
      }
      if (!decoded.rows.empty()) {
        asked.decoded.push_back(std::move(decoded));
      }
    }
    const plan::KeyCoverage coverage = plan::check_keys(schema, planned.catalog, asked);
    ASSERT_TRUE(coverage.is_complete());
    reference::MappingOptions options;
    options.fold_expert_scale = true;
    const reference::Mapping mapping =
        reference::Mapping::build("gemma4_moe", reference::Config(*planned.made.config), keys, options);
    const MappingParity parity =
        compare_mappings(schema, planned.catalog, coverage, mapping, ParityDepth::every_element);
    EXPECT_TRUE(parity.is_equal()) << text_of(parity);
    EXPECT_GT(parity.elements, 0U);
    // Against the mapping that keeps the scale it must not pass.
    const reference::Mapping keeps =
        reference::Mapping::build("gemma4_moe", reference::Config(*planned.made.config), keys);
    EXPECT_FALSE(compare_mappings(schema, planned.catalog, coverage, keeps, ParityDepth::every_element).is_equal());
  }
}

class RealShapes : public testing::TestWithParam<Variant> {};

TEST_P(RealShapes, PushIsPullOnAllCorners) {
  const Variant& variant = GetParam();
  const PlannedFamily planned = plan_family(variant);
  ASSERT_TRUE(planned.schema);
  plan::CoverageOptions asked;
  asked.decoded = planned.decoded;
  const plan::KeyCoverage coverage = plan::check_keys(*planned.schema, planned.catalog, asked);
  EXPECT_TRUE(coverage.is_complete());
  std::vector<std::string> names;
  for (const StoredTensor& row : planned.catalog.tensors()) {
    names.emplace_back(row.key);
  }
  const reference::Config config(*planned.made.config);
  std::string family = variant.asked_family();
  if (family.empty()) {
    family = reference::family_of_model(config, names);
  }
  const reference::Mapping mapping =
      reference::Mapping::build(family, config, logical_keys(*planned.schema, planned.catalog, planned.decoded));
  const MappingParity parity =
      compare_mappings(*planned.schema, planned.catalog, coverage, mapping, ParityDepth::view_corners);
  EXPECT_TRUE(parity.is_equal()) << text_of(parity);
  EXPECT_GT(parity.elements, 0U);
  if (planned.decoded.empty()) {
    // Whatever the size of a tensor: a tile and a read buffer, and nothing whole.
    const plan::Source source{"planned", std::make_shared<const Catalog>(planned.catalog)};
    const plan::Plan plan =
        plan::make_plan(std::make_shared<const Schema>(*planned.schema), std::span(&source, 1), {}, {});
    EXPECT_EQ(plan.memory().whole_bytes, 0U);
    EXPECT_LE(plan.memory().tile_bytes, limits::tile_bytes_max);
    EXPECT_LE(plan.memory().read_buffer_bytes, limits::read_bytes_max);
    EXPECT_LE(plan.memory().staging_bytes, limits::tile_bytes_max + 2 * limits::read_bytes_max);
  }
  std::cout << "corners " << variant.name() << ": " << parity.elements << " of " << parity.native_tensors
            << " native tensors\n";
}

std::vector<Variant> real_shapes() {
  std::vector<Variant> out = variants_of("shape");
  for (const Variant& variant : variants_of("full")) {
    out.push_back(variant);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Families, RealShapes, testing::ValuesIn(real_shapes()),
                         [](const auto& row) { return row.param.name(); });

// Stored names with shapes and dtypes: what the schema asks for.
struct Asked {
  Shape shape;
  DTypeRule rule = DTypeRule::weight;
  DType dtype = DType::bf16;
  bool is_alias = false;     ///< a tied head: may be absent, is no tensor of its own
  bool is_optional = false;  ///< decoding needs none of it
};

std::map<std::string, Asked, std::less<>> asked_of(const Schema& schema) {
  std::map<std::string, Asked, std::less<>> out;
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    for (const CodedPart& part : schema.parts_of(tensor)) {
      // Of a scale that may have any floating dtype, the usual one.
      out[std::string(part.key)] = {schema.shape_of(part), DTypeRule::fixed, part.dtype, false, part.is_optional};
    }
    if (tensor.coding == k_no_id) {
      const bool is_alias = std::any_of(schema.ties().begin(), schema.ties().end(),
                                        [&](const Tie& tie) { return tie.stored_alias == tensor.key; });
      out[std::string(tensor.key)] = {schema.shape_of(tensor), tensor.dtype_rule, tensor.dtype, is_alias, false};
    }
  }
  return out;
}

class StoredSide : public testing::TestWithParam<Variant> {};

TEST_P(StoredSide, EqualsTheFixturesOwnSchema) {
  const Variant& variant = GetParam();
  const PlannedFamily planned = plan_family(variant);
  ASSERT_TRUE(planned.schema);
  auto asked = asked_of(*planned.schema);
  plan::CoverageOptions options;
  options.decoded = planned.decoded;
  const plan::KeyCoverage coverage = plan::check_keys(*planned.schema, planned.catalog, options);
  EXPECT_TRUE(coverage.unexpected.empty());
  std::set<std::string_view> beside;  // dropped or passed through
  for (const auto* list : {&coverage.dropped, &coverage.passed_through}) {
    for (const plan::MatchedRows& rule : *list) {
      for (const plan::Row row : rule.rows) {
        beside.insert(planned.catalog.tensors()[row].key);
      }
    }
  }
  std::string config_dtype = "BF16";
  for (const fixtures::GeneratedTensor& made : planned.made.tensors) {
    if (made.tensor.dtype_class == "weight") {
      config_dtype = made.tensor.dtype;
    }
  }
  for (const fixtures::GeneratedTensor& made : planned.made.tensors) {
    const auto found = asked.find(made.tensor.key);
    if (found == asked.end()) {
      EXPECT_EQ(beside.count(made.tensor.key), 1U) << made.tensor.key;
      continue;
    }
    EXPECT_FALSE(made.tensor.is_extra) << made.tensor.key;
    const Asked& ours = found->second;
    EXPECT_EQ(ours.shape, Shape(std::span<const std::uint64_t>(made.tensor.shape))) << made.tensor.key;
    const std::string dtype = ours.rule == DTypeRule::weight      ? config_dtype
                              : ours.rule == DTypeRule::f32_state ? "F32"
                                                                  : std::string(name_of(ours.dtype));
    EXPECT_TRUE(ours.rule == DTypeRule::any || dtype == made.tensor.dtype)
        << made.tensor.key << " is " << made.tensor.dtype << ", asked for is " << dtype;
    asked.erase(found);
  }
  for (const auto& [key, tensor] : asked) {
    EXPECT_TRUE(tensor.is_alias || tensor.is_optional) << key << " is stored by no fixture";
  }
}

std::vector<Variant> all_variants() {
  std::vector<Variant> out;
  for (const char* prefix : {"tiny", "small", "shape", "full"}) {
    for (const Variant& variant : variants_of(prefix)) {
      // A generic scheme laid over a family is no part of what the family asks for.
      if (variant.fixture != "llama_nf4") {
        out.push_back(variant);
      }
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Families, StoredSide, testing::ValuesIn(all_variants()),
                         [](const auto& row) { return row.param.name(); });

struct Published {
  const char* fixture;
  const char* preset;
  std::uint64_t tensors;
  std::uint64_t bytes;
};

// The figures that reproduce published models; counted from what the schema asks for.
TEST(StoredSide, CountsAndBytesAreThePublishedOnes) {
  for (const Published& published : {Published{"nemotron_v3", "full", 6243, 63155895296},
                                     {"ling_v2", "full", 14813, 32511296512},
                                     {"mistral3_fp8_vlm", "full", 1145, 25792912480},
                                     {"mistral3_fp8_causal", "full", 2027, 128249391520},
                                     {"gpt_oss", "full", 459, 13761264768},
                                     {"qwen3_moe", "full", 18867, 61064245248},
                                     {"hy_v3", "full", 46545, 590067117312},
                                     {"deepseek_v3", "full", 90427, 673150611808},
                                     {"gemma4_moe", "full", 657, 50466283580}}) {
    const Variant variant{published.fixture, published.preset,
                          fixtures::preset_form(published.fixture, published.preset)};
    const PlannedFamily planned = plan_family(variant, false);
    ASSERT_TRUE(planned.schema);
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
    for (const auto& [key, asked] : asked_of(*planned.schema)) {
      if (asked.is_alias) {
        continue;
      }
      ++tensors;
      bytes += byte_count(asked.shape, asked.rule == DTypeRule::f32_state ? DType::f32
                                       : asked.rule == DTypeRule::weight  ? DType::bf16
                                                                          : asked.dtype)
                   .value();
    }
    EXPECT_EQ(tensors, published.tensors) << variant.name();
    EXPECT_EQ(bytes, published.bytes) << variant.name();
  }
}

}  // namespace
}  // namespace weightproof::suites::test
