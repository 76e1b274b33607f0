// SPDX-License-Identifier: Apache-2.0
#include "loader/core/schema.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "loader/core/catalog.hpp"
#include "loader/core/error.hpp"
#include "loader/core/glob.hpp"
#include "loader/core/hash.hpp"

namespace weightproof {
namespace {

template <typename Operation>
std::string misuse_of(Operation operation) {
  try {
    operation();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::internal);
    return error.message();
  }
  return "";
}

TEST(Schema, BuildsBindings) {
  SchemaBuilder builder("tiny");
  const NativeId fused = builder.native("gate_up", {2, 4, 6}, DTypeRule::weight, 3);
  const StoredId gate = builder.stored("gate", {2, 3, 4}, DTypeRule::weight, 3);
  const View half = builder.whole(fused).narrow(2, 0, 3).transpose(1, 2);
  builder.bind(gate, fused, half);
  builder.constant(fused, builder.whole(fused).narrow(2, 3, 3), -1.5, "padding");
  builder.identity("norm", {4}, DTypeRule::f32_state);
  builder.rename("stored.bias", "bias", {6});
  builder.drop("*.inv_freq", "recomputed");
  builder.passthrough("vision.", "tower");
  builder.defaulted("tie_word_embeddings: false");
  const Schema schema = std::move(builder).finish();

  EXPECT_EQ(schema.family(), "tiny");
  ASSERT_EQ(schema.bindings().size(), 4u);
  const Binding& binding = schema.bindings()[0];
  EXPECT_EQ(schema.native_view(binding), half);
  EXPECT_EQ(schema.stored_view(binding), View::whole({2, 3, 4}));
  EXPECT_EQ(binding.kind, BindingKind::primary);
  const Binding& padding = schema.bindings()[1];
  EXPECT_EQ(padding.kind, BindingKind::constant);
  EXPECT_EQ(padding.stored, k_no_id);
  EXPECT_EQ(padding.value, -1.5);
  EXPECT_EQ(schema.rule(padding.rule), "padding");
  EXPECT_EQ(schema.find_native("gate_up"), fused);
  EXPECT_EQ(schema.find_native("gate"), k_no_id);
  EXPECT_EQ(schema.find_stored("gate"), gate);
  EXPECT_EQ(schema.native_tensors()[fused].layer, 3u);
  EXPECT_EQ(schema.shape_of(schema.native_tensors()[fused]), (Shape{2, 4, 6}));
  const StoredId norm = schema.find_stored("norm");
  EXPECT_EQ(schema.stored_tensors()[norm].dtype_rule, DTypeRule::f32_state);
  EXPECT_NE(schema.find_stored("stored.bias"), k_no_id);
  EXPECT_NE(schema.find_native("bias"), k_no_id);
  EXPECT_EQ(schema.find_native("stored.bias"), k_no_id);
  EXPECT_EQ(schema.drops()[0].pattern, "*.inv_freq");
  EXPECT_EQ(schema.passthroughs()[0].prefix, "vision.");
  EXPECT_EQ(schema.defaulted()[0], "tie_word_embeddings: false");
}

TEST(Schema, TieIsAnOptionalAlias) {
  SchemaBuilder builder("tiny");
  const StoredId embed = builder.stored("embed.weight", {8, 2});
  const NativeId native = builder.native("embed", {8, 2});
  builder.bind(embed, native, builder.whole(native));
  builder.tie("lm_head.weight", embed, native, "tied by config");
  const Schema schema = std::move(builder).finish();
  const StoredId head = schema.find_stored("lm_head.weight");
  ASSERT_NE(head, k_no_id);
  EXPECT_TRUE(schema.stored_tensors()[head].is_optional);
  EXPECT_EQ(schema.rule(schema.stored_tensors()[head].absent_rule), "tied by config");
  ASSERT_EQ(schema.bindings().size(), 2u);
  EXPECT_EQ(schema.bindings()[1].kind, BindingKind::alias);
  EXPECT_EQ(schema.bindings()[1].stored, head);
  ASSERT_EQ(schema.ties().size(), 1u);
  EXPECT_EQ(schema.ties()[0].source, native);
  EXPECT_EQ(schema.ties()[0].stored_source, embed);
  EXPECT_EQ(schema.ties()[0].stored_alias, "lm_head.weight");
}

TEST(Schema, MisuseNamesTheTensor) {
  SchemaBuilder builder("tiny");
  const NativeId native = builder.native("n", {4, 2});
  const StoredId stored = builder.stored("s", {4, 2});
  EXPECT_NE(misuse_of([&] { builder.native("n", {1}); }).find("'n'"), std::string::npos);
  EXPECT_NE(misuse_of([&] { builder.stored("s", {1}); }).find("'s'"), std::string::npos);
  const std::string extents = misuse_of([&] { builder.bind(stored, native, builder.whole(native).narrow(0, 0, 2)); });
  EXPECT_NE(extents.find("'s'"), std::string::npos) << extents;
  EXPECT_NE(extents.find("'n'"), std::string::npos) << extents;
  EXPECT_NE(misuse_of([&] { builder.bind(7, View(), native, View()); }), "");
  EXPECT_NE(misuse_of([&] { builder.constant(9, View(), 0, "x"); }), "");
  EXPECT_NE(misuse_of([&] { builder.optional(9, "x"); }), "");
  EXPECT_NE(misuse_of([&] { builder.whole(NativeId{9}); }), "");
  EXPECT_NE(misuse_of([&] { builder.whole_stored(9); }), "");
}

TEST(Schema, ManyTensorsShareLayoutsAndCopiesStayValid) {
  Schema copy;
  {
    SchemaBuilder builder("large");
    for (std::uint32_t i = 0; i < 50'000; ++i) {
      builder.identity("model.layers." + std::to_string(i) + ".weight", {4, 4}, DTypeRule::weight, i);
    }
    const Schema schema = std::move(builder).finish();
    copy = schema;
  }
  for (std::uint32_t i = 0; i < 50'000; ++i) {
    ASSERT_EQ(copy.find_stored("model.layers." + std::to_string(i) + ".weight"), i);
  }
  EXPECT_EQ(copy.find_stored("model.layers.50000.weight"), k_no_id);
  EXPECT_EQ(copy.native_tensors()[0].shape, copy.native_tensors()[49'999].shape);
}

TEST(Schema, ManyDistinctLayouts) {
  SchemaBuilder builder("shapes");
  for (std::uint64_t i = 1; i < 3000; ++i) builder.identity(std::to_string(i), {i, 3});
  const Schema schema = std::move(builder).finish();
  for (std::uint64_t i = 1; i < 3000; ++i) {
    ASSERT_EQ(schema.shape_of(schema.native_tensors()[i - 1]), (Shape{i, 3}));
    ASSERT_EQ(schema.stored_view(schema.bindings()[i - 1]), View::whole({i, 3}));
  }
}

TEST(CatalogTable, FindsRowsAndRefusesDuplicates) {
  CatalogBuilder builder;
  const std::uint32_t first = builder.add_file("a.safetensors");
  const std::uint32_t second = builder.add_file("b.safetensors");
  StoredTensor tensor;
  tensor.is_described = true;
  tensor.shape = {2};
  tensor.bytes = 4;
  tensor.file = first;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "tensor." + std::to_string(i);
    tensor.key = key;
    builder.add_copy(tensor);
  }
  tensor.key = "tensor.7";
  tensor.file = second;
  EXPECT_NE(builder.find("tensor.7"), nullptr);
  try {
    builder.add(tensor);
    FAIL() << "a duplicate was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::duplicate_tensor);
    EXPECT_EQ(error.message(), "tensor 'tensor.7' is stored in a.safetensors and again in b.safetensors");
    EXPECT_EQ(error.facts().keys, std::vector<std::string>{"tensor.7"});
  }
  const Catalog catalog = std::move(builder).finish();
  EXPECT_EQ(catalog.size(), 1000u);
  EXPECT_EQ(catalog.bytes(), 4000u);
  EXPECT_TRUE(catalog.is_described());
  EXPECT_EQ(catalog.index_of("tensor.999"), 999u);
  EXPECT_EQ(catalog.index_of("tensor.1000"), SIZE_MAX);
  EXPECT_EQ(catalog.find(""), nullptr);
  EXPECT_EQ(catalog.files().size(), 2u);
}

TEST(CatalogTable, FindsManyAtOnce) {
  CatalogBuilder builder;
  builder.add_file("a.safetensors");
  StoredTensor tensor;
  std::vector<std::string> texts;
  for (int i = 0; i < 20'000; ++i) texts.push_back("model.layers." + std::to_string(i * 7) + ".weight");
  for (std::size_t i = 0; i < texts.size(); i += 2) {
    tensor.key = texts[i];
    builder.add_copy(tensor);
  }
  const Catalog catalog = std::move(builder).finish();
  const std::vector<std::string_view> keys(texts.begin(), texts.end());
  std::vector<std::uint32_t> positions(keys.size());
  catalog.find_all(keys, positions);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::size_t single = catalog.index_of(keys[i]);
    ASSERT_EQ(positions[i], single == SIZE_MAX ? UINT32_MAX : single) << keys[i];
    ASSERT_EQ(positions[i] == UINT32_MAX, i % 2 == 1);
  }
  Catalog().find_all(keys, positions);
  EXPECT_EQ(std::count(positions.begin(), positions.end(), UINT32_MAX), 20'000);
}

TEST(CatalogTable, NamesAloneAndLongNames) {
  CatalogBuilder builder;
  builder.add_file("a.safetensors");
  builder.reserve(10);
  const std::string large(limits::name_bytes_max * 3, 'x');
  StoredTensor tensor;
  tensor.key = large;
  builder.add_copy(tensor);
  tensor.key = "";
  builder.add_copy(tensor);
  const Catalog catalog = std::move(builder).finish();
  EXPECT_FALSE(catalog.is_described());
  EXPECT_EQ(catalog.bytes(), 0u);
  EXPECT_EQ(catalog.index_of(large), 0u);
  EXPECT_EQ(catalog.index_of(""), 1u) << "an empty name is a name";
  EXPECT_EQ(Catalog().find("x"), nullptr);
}

TEST(Hash, DiffersWhereTextsDo) {
  EXPECT_EQ(hash_text("abc"), hash_text(std::string("abc")));
  EXPECT_NE(hash_text("abc"), hash_text("abd"));
  EXPECT_NE(hash_text(std::string_view("a\0", 2)), hash_text("a")) << "the length counts";
  EXPECT_NE(hash_text("12345678a"), hash_text("12345678b"));
  const std::uint64_t words[] = {1, 2};
  const std::uint64_t swapped[] = {2, 1};
  EXPECT_NE(hash_words(words), hash_words(swapped));
}

TEST(Glob, Matches) {
  EXPECT_TRUE(matches_glob("", ""));
  EXPECT_FALSE(matches_glob("", "a"));
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("model.*.weight", "model.layers.0/x.weight")) << "a run crosses dots and slashes";
  EXPECT_FALSE(matches_glob("model.*.weight", "model.weight"));
  EXPECT_TRUE(matches_glob("a?c", "abc"));
  EXPECT_FALSE(matches_glob("a?c", "ac"));
  EXPECT_TRUE(matches_glob("a?c", "a\xC3\xA9\x63")) << "one character, two bytes";
  EXPECT_TRUE(matches_glob("*ab*ab", "xababab"));
  EXPECT_FALSE(matches_glob("*ab*abc", "xababab"));
  EXPECT_TRUE(matches_glob("**", "x"));
  EXPECT_TRUE(matches_glob("[x]", "[x]")) << "there are no classes";
  const std::string text(30'000, 'a');
  EXPECT_FALSE(matches_glob("*a*a*a*a*a*a*a*b", text)) << "no blow-up";
  EXPECT_TRUE(matches_any_glob(std::vector<std::string>{"x", "a*"}, "abc"));
  EXPECT_FALSE(matches_any_glob({}, "abc"));
}

}  // namespace
}  // namespace weightproof
