// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/coverage.hpp"

#include <gtest/gtest.h>

#include "loader/core/error.hpp"

namespace weightproof::plan {
namespace {

/// A tied two-layer model: embedding, per layer one norm and one fused matrix, a head that may repeat the embedding.
Schema tiny_schema() {
  SchemaBuilder builder("tiny");
  const StoredId embed = builder.stored("model.embed.weight", {6, 4});
  const NativeId native_embed = builder.native("embed", {6, 4});
  builder.bind(embed, native_embed, builder.whole(native_embed));
  builder.tie("lm_head.weight", embed, native_embed, "tie_word_embeddings");
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    builder.identity(name + "norm.weight", {4}, DTypeRule::f32_state, layer);
    const NativeId fused = builder.native(name + "gate_up", {6, 4}, DTypeRule::weight, layer);
    builder.bind(builder.stored(name + "gate.weight", {3, 4}), fused, builder.whole(fused).narrow(0, 0, 3));
    builder.bind(builder.stored(name + "up.weight", {3, 4}), fused, builder.whole(fused).narrow(0, 3, 3));
  }
  builder.stored("router.ids", {4}, DTypeRule::fixed, k_no_layer, DType::i64);
  builder.drop("*.inv_freq", "recomputed");
  builder.passthrough("vision.", "a tower of its own");
  return std::move(builder).finish();
}

struct Entry {
  std::string key;
  Shape shape;
  DType dtype = DType::bf16;
};

std::vector<Entry> tiny_entries() {
  std::vector<Entry> entries = {{"model.embed.weight", {6, 4}}, {"router.ids", {4}, DType::i64}};
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    entries.push_back({std::string(layer) + "norm.weight", {4}, DType::f32});
    entries.push_back({std::string(layer) + "gate.weight", {3, 4}});
    entries.push_back({std::string(layer) + "up.weight", {3, 4}});
  }
  return entries;
}

Catalog catalog_of(const std::vector<Entry>& entries, bool is_described = true) {
  CatalogBuilder builder;
  builder.add_file("model.safetensors");
  for (const Entry& entry : entries) {
    StoredTensor tensor;
    tensor.key = entry.key;
    tensor.is_described = is_described;
    if (is_described) {
      tensor.shape = entry.shape;
      tensor.dtype = entry.dtype;
      tensor.bytes = *byte_count(entry.shape, entry.dtype);
    }
    builder.add_copy(tensor);
  }
  return std::move(builder).finish();
}

std::vector<std::string> keys_of(const Schema& schema, const std::vector<StoredId>& ids) {
  std::vector<std::string> keys;
  for (const StoredId id : ids) keys.emplace_back(schema.stored_tensors()[id].key);
  return keys;
}

std::vector<std::string> keys_of(const Catalog& catalog, const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  for (const Row row : rows) keys.emplace_back(catalog.tensors()[row].key);
  return keys;
}

using Keys = std::vector<std::string>;

class Coverage : public testing::Test {
 protected:
  KeyCoverage check(const CoverageOptions& options = {}) {
    catalog = catalog_of(entries);
    return check_keys(schema, catalog, options);
  }
  std::vector<std::string> codes(const KeyCoverage& coverage) {
    std::vector<std::string> result;
    for (const Diagnostic& diagnostic : coverage_diagnostics(schema, catalog, coverage))
      result.push_back(diagnostic.code);
    return result;
  }
  void remove(const std::string& key) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
  }

  Schema schema = tiny_schema();
  std::vector<Entry> entries = tiny_entries();
  Catalog catalog;
};

TEST_F(Coverage, CompleteCheckpointHasNoFinding) {
  entries.push_back({"model.layers.0.inv_freq", {2}, DType::f32});
  entries.push_back({"vision.patch.weight", {2, 2}});
  entries.push_back({"model.layers.0._extra_state", {1}, DType::u8});
  const KeyCoverage coverage = check();
  EXPECT_TRUE(coverage.is_complete());
  EXPECT_TRUE(coverage.shapes_checked);
  EXPECT_EQ(coverage.asked, 9u);
  EXPECT_EQ(coverage.present, 8u);
  EXPECT_EQ(keys_of(schema, coverage.absent_optional), Keys{"lm_head.weight"});
  ASSERT_EQ(coverage.dropped.size(), 2u);
  EXPECT_EQ(keys_of(catalog, coverage.dropped[0].rows), Keys{"model.layers.0.inv_freq"});
  EXPECT_EQ(coverage.dropped[0].reason, "recomputed");
  EXPECT_EQ(keys_of(catalog, coverage.dropped[1].rows), Keys{"model.layers.0._extra_state"});
  EXPECT_EQ(keys_of(catalog, coverage.passed_through[0].rows), Keys{"vision.patch.weight"});
  EXPECT_EQ(coverage.ties[0].state, TieState::stored_once);
  EXPECT_TRUE(codes(coverage).empty());
  require_complete(schema, catalog, coverage);
  const StoredId up = schema.find_stored("model.layers.1.up.weight");
  EXPECT_EQ(catalog.tensors()[coverage.row_of[up]].key, "model.layers.1.up.weight");
}

TEST_F(Coverage, MissingKeyIsNamed) {
  remove("model.layers.1.up.weight");
  remove("model.layers.0.gate.weight");
  const KeyCoverage coverage = check();
  EXPECT_FALSE(coverage.is_complete());
  EXPECT_EQ(keys_of(schema, coverage.missing), (Keys{"model.layers.0.gate.weight", "model.layers.1.up.weight"}));
  EXPECT_EQ(codes(coverage), Keys{"MISSING_KEYS"});
  const Diagnostic diagnostic = coverage_diagnostics(schema, catalog, coverage)[0];
  EXPECT_EQ(diagnostic.check, "keys.missing");
  EXPECT_EQ(diagnostic.message,
            "2 required keys are missing: 'model.layers.0.gate.weight', 'model.layers.1.up.weight'");
  try {
    require_complete(schema, catalog, coverage);
    FAIL() << "a missing key was let through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::missing_keys);
    EXPECT_EQ(error.facts().keys.size(), 2u);
  }
}

TEST_F(Coverage, MissingKeyMayBeForgiven) {
  remove("model.layers.1.up.weight");
  CoverageOptions options;
  options.allow_missing = {"model.layers.0.*"};
  EXPECT_FALSE(check(options).is_complete()) << "the glob names another layer";
  options.allow_missing = {"model.layers.?.up.weight"};
  const KeyCoverage coverage = check(options);
  EXPECT_TRUE(coverage.is_complete());
  EXPECT_EQ(keys_of(schema, coverage.missing_allowed), Keys{"model.layers.1.up.weight"});
}

TEST_F(Coverage, UnexpectedKeyIsNamed) {
  entries.push_back({"model.layers.2.norm.weight", {4}});
  entries.push_back({"model.layers.1.extra", {4}});
  const KeyCoverage coverage = check();
  EXPECT_EQ(keys_of(catalog, coverage.unexpected), (Keys{"model.layers.1.extra", "model.layers.2.norm.weight"}));
  EXPECT_EQ(codes(coverage), Keys{"UNEXPECTED_KEYS"});
  CoverageOptions options;
  options.allow_unexpected = true;
  const KeyCoverage allowed = check(options);
  EXPECT_TRUE(allowed.is_complete());
  EXPECT_EQ(allowed.unexpected_allowed.size(), 2u);
}

TEST_F(Coverage, LongListsAreCutInTheMessageOnly) {
  for (int i = 10; i < 40; ++i) entries.push_back({"stranger." + std::to_string(i), {1}});
  const KeyCoverage coverage = check();
  const Diagnostic diagnostic = coverage_diagnostics(schema, catalog, coverage)[0];
  EXPECT_EQ(diagnostic.facts.keys.size(), 30u);
  EXPECT_NE(diagnostic.message.find("'stranger.19', and 20 more"), std::string::npos) << diagnostic.message;
}

TEST_F(Coverage, ShapeAndDtypeAreCompared) {
  entries[0].shape = {4, 6};
  entries[1].dtype = DType::i32;
  const KeyCoverage coverage = check();
  EXPECT_EQ(codes(coverage), (Keys{"SHAPE_MISMATCH", "DTYPE_UNSUPPORTED"}));
  const std::vector<Diagnostic> diagnostics = coverage_diagnostics(schema, catalog, coverage);
  EXPECT_EQ(diagnostics[0].message, "tensor 'model.embed.weight' has shape [4,6]; the config asks for [6,4]");
  EXPECT_EQ(diagnostics[0].facts.file, "model.safetensors");
  EXPECT_EQ(diagnostics[1].facts.keys, Keys{"router.ids"});
  EXPECT_EQ(diagnostics[1].facts.expected, "I64");
}

TEST_F(Coverage, DtypeRules) {
  const auto mismatches = [&](std::string_view key, DType dtype) {
    for (Entry& entry : entries) {
      if (entry.key == key) entry.dtype = dtype;
    }
    return check().dtype_mismatches.size();
  };
  EXPECT_EQ(mismatches("model.embed.weight", DType::f64), 0u);
  EXPECT_EQ(mismatches("model.embed.weight", DType::i8), 1u);
  EXPECT_EQ(mismatches("model.embed.weight", DType::f8_e4m3), 1u);
  EXPECT_EQ(mismatches("model.embed.weight", DType::f16), 0u);
  EXPECT_EQ(mismatches("model.layers.0.norm.weight", DType::bf16), 0u) << "narrower state is taken";
  EXPECT_EQ(mismatches("model.layers.0.norm.weight", DType::f64), 1u) << "wider state would be narrowed";
}

TEST_F(Coverage, NamesAloneSkipShapes) {
  entries[0].shape = {1};
  catalog = catalog_of(entries, false);
  const KeyCoverage coverage = check_keys(schema, catalog);
  EXPECT_TRUE(coverage.is_complete());
  EXPECT_FALSE(coverage.shapes_checked);
  CoverageOptions options;
  options.check_shapes = false;
  EXPECT_TRUE(check(options).is_complete());
}

TEST_F(Coverage, DecodedTensorsClaimTheirRows) {
  remove("model.layers.0.up.weight");
  entries.push_back({"model.layers.0.up.weight_packed", {3, 2}, DType::u8});
  entries.push_back({"model.layers.0.up.weight_scale", {3, 1}, DType::f16});
  EXPECT_EQ(codes(check()), (Keys{"MISSING_KEYS", "UNEXPECTED_KEYS"}));
  CoverageOptions options;
  DecodedTensor decoded;
  decoded.stored = schema.find_stored("model.layers.0.up.weight");
  decoded.shape = {3, 4};
  decoded.rows = {static_cast<Row>(catalog.index_of("model.layers.0.up.weight_packed")),
                  static_cast<Row>(catalog.index_of("model.layers.0.up.weight_scale"))};
  options.decoded.push_back(decoded);
  EXPECT_TRUE(check(options).is_complete());
  options.decoded[0].shape = {4, 4};
  const KeyCoverage coverage = check(options);
  EXPECT_EQ(coverage_diagnostics(schema, catalog, coverage)[0].message,
            "tensor 'model.layers.0.up.weight' has shape [4,4]; the config asks for [3,4]");
}

TEST_F(Coverage, TiesInAllStates) {
  entries.push_back({"lm_head.weight", {6, 4}});
  KeyCoverage coverage = check();
  EXPECT_EQ(coverage.ties[0].state, TieState::stored_twice);
  EXPECT_TRUE(coverage.is_complete());

  remove("model.embed.weight");
  coverage = check();
  EXPECT_EQ(coverage.ties[0].state, TieState::from_alias);
  EXPECT_TRUE(coverage.is_complete()) << "the head alone fills the shared storage";
  EXPECT_EQ(catalog.tensors()[coverage.ties[0].alias_row].key, "lm_head.weight");

  remove("lm_head.weight");
  coverage = check();
  EXPECT_EQ(coverage.ties[0].state, TieState::missing);
  EXPECT_EQ(codes(coverage), (Keys{"MISSING_KEYS", "TIED_SOURCE_MISSING"}));

  CoverageOptions options;
  options.include = {"model.layers.*"};
  EXPECT_EQ(check(options).ties[0].state, TieState::outside_selection);
}

TEST_F(Coverage, SubsetIsAskedVisibly) {
  remove("model.layers.1.up.weight");
  CoverageOptions options;
  options.include = {"model.layers.0.*", "model.embed*"};
  options.exclude = {"*.norm.weight"};
  const KeyCoverage coverage = check(options);
  EXPECT_TRUE(coverage.is_complete()) << "the missing key lies outside the subset";
  EXPECT_EQ(coverage.asked, 3u);
  EXPECT_EQ(coverage.present, 3u);
  EXPECT_EQ(coverage.not_selected.size(), 6u);
  EXPECT_EQ(coverage.row_of[schema.find_stored("model.layers.0.norm.weight")], k_no_row);
  EXPECT_EQ(keys_of(catalog, coverage.excluded), (Keys{"router.ids", "model.layers.0.norm.weight",
                                                       "model.layers.1.norm.weight", "model.layers.1.gate.weight"}));
}

TEST_F(Coverage, SubsetHoldsForWhatPassesThrough) {
  entries.push_back({"vision.patch.weight", {2, 2}});
  entries.push_back({"vision.head.weight", {2, 2}});
  CoverageOptions options;
  options.include = {"model.*", "vision.patch*"};
  const KeyCoverage coverage = check(options);
  EXPECT_TRUE(coverage.is_complete());
  EXPECT_EQ(keys_of(catalog, coverage.passed_through[0].rows), Keys{"vision.patch.weight"});
  EXPECT_EQ(keys_of(catalog, coverage.excluded), (Keys{"router.ids", "vision.head.weight"}));
}

TEST_F(Coverage, SubsetOfAnotherModelIsRefused) {
  entries.push_back({"stranger", {1}});
  CoverageOptions options;
  options.include = {"model.layers.0.*"};
  EXPECT_EQ(codes(check(options)), Keys{"SUBSET_UNKNOWN_KEYS"});
  options.exclude = {"stranger"};
  EXPECT_TRUE(check(options).is_complete()) << "what is excluded by name is known to the caller";
  entries = {{"unrelated", {1}}};
  EXPECT_EQ(codes(check(options)), Keys{"SUBSET_EMPTY"});
}

}  // namespace
}  // namespace weightproof::plan
