// SPDX-License-Identifier: Apache-2.0
// The known mistakes about experts, rows of projections, folded scales and what is absent, each with its literal values
// in a file: what a load holds, what `verify` says, and that what a plausible mistake gives is refused under the
// tensor's name.
#include "loader/plan/placement.hpp"
#include "suites/tests/literal_testing.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;
using Names = std::vector<std::string>;

// ---- experts ----

// Balanced parts of ten experts over four ranks are 3,3,2,2, chunks 3,3,3,1: the two rules disagree on who owns expert
// 8, so there is no such layout. Nor of five.
TEST(TrapValues, T10_UnevenExpertsAreRefused) {
  using Owned = std::vector<std::vector<std::uint64_t>>;
  const auto balanced = [](std::uint64_t experts) {
    Owned owned(4);
    std::uint64_t next = 0;
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
      for (std::uint64_t i = 0; i < experts / 4 + (rank < experts % 4 ? 1U : 0U); ++i) {
        owned[rank].push_back(next++);
      }
    }
    return owned;
  };
  const auto chunked = [](std::uint64_t experts) {
    Owned owned(4);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const plan::Interval part = plan::chunk(experts, 4, rank);
      for (std::uint64_t expert = part.begin; expert < part.end; ++expert) {
        owned[rank].push_back(expert);
      }
    }
    return owned;
  };
  EXPECT_EQ(balanced(10)[2], (std::vector<std::uint64_t>{6, 7}));
  EXPECT_EQ(chunked(10)[2], (std::vector<std::uint64_t>{6, 7, 8}));
  EXPECT_EQ(balanced(5), (Owned{{0, 1}, {2}, {3}, {4}}));
  EXPECT_EQ(chunked(5), (Owned{{0, 1}, {2, 3}, {4}, {}}));
  for (const unsigned experts : {10U, 5U}) {
    const TemporaryDirectory directory;
    const auto path = Literal(moe_config(experts)).write(directory);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      try {
        const LoadedModel model(path, {.topology = {.fsdp = 4, .ep = 4}, .rank = rank});
        FAIL() << experts << " experts, rank " << rank << " holds a part";
      } catch (const Error& error) {
        EXPECT_EQ(to_string(error.code()), "EP_NOT_DIVISIBLE");
      }
    }
    VerifyOptions options;
    options.topology = "fsdp=4,ep=4";
    const reports::CheckRecord record = record_of(verify(path, options), "shard.topology");
    EXPECT_EQ(record.status, Status::fail);
    EXPECT_EQ(record.code, "EP_NOT_DIVISIBLE");
    EXPECT_EQ(run_tool({"plan", path.string(), "--topology", "fsdp=4,ep=4", "--rank", "2"}).status, 3);
  }
  // Eight: both rules give rank 2 the experts 4 and 5.
  EXPECT_EQ(balanced(8), chunked(8));
  const TemporaryDirectory directory;
  Literal eight(moe_config(8));
  for (unsigned expert = 0; expert < 8; ++expert) {
    eight.set(k_experts + std::to_string(expert) + ".down_proj.weight", Numbers(4, expert + 1));
  }
  EXPECT_EQ(loaded(eight.write(directory), k_experts + "down_projs", {.topology = {.fsdp = 4, .ep = 4}, .rank = 2}),
            (Numbers{5, 5, 5, 5, 6, 6, 6, 6}));
}

// A tensor below "experts." whose next segment is no number is none of them.
TEST(TrapValues, T18_WhatLiesBelowExpertsNeedBeNone) {
  const std::string config = std::string(R"({"model_type": "laguna", "mlp_only_layers": [], "num_experts": 2,
      "moe_intermediate_size": 2, "shared_expert_intermediate_size": 2, )") +
                             k_small_sizes + "}";
  const std::string bias = k_experts + "e_score_correction_bias";
  const TemporaryDirectory directory;
  const auto path = Literal(config)
                        .set(bias, {0.5, 0.25}, "F32")
                        .set(k_experts + "0.down_proj.weight", {1, 2, 3, 4})
                        .set(k_experts + "1.down_proj.weight", {5, 6, 7, 8})
                        .write(directory);
  EXPECT_EQ(loaded(path, "model.layers.0.mlp.gate.e_score_correction_bias"), (Numbers{0.5, 0.25}));
  const LoadedModel model(path);
  const plan::PlannedTensor& down = model.plan().tensors()[model.plan().find(k_experts + "down_projs")];
  EXPECT_EQ(model.plan().shape_of(down), (Shape{2, 2, 2}));
  EXPECT_NE(model.plan().shape_of(down), (Shape{3, 2, 2}));  // the bias counted as an expert
  EXPECT_FALSE(has_native(path, bias));
  const reports::Report report = judged(path);
  EXPECT_EQ(record_of(report, "keys.missing").status, Status::pass);
  EXPECT_EQ(record_of(report, "keys.unexpected").status, Status::pass);
  expect_caught(path, "its bias under the experts", named("model.layers.0.mlp.gate.e_score_correction_bias", bias));
  // Each of two ranks owns one expert, and both the whole bias.
  for (const std::uint32_t rank : {0U, 1U}) {
    const LoadAs how{.topology = {.fsdp = 2, .ep = 2}, .rank = rank};
    EXPECT_EQ(loaded(path, k_experts + "down_projs", how).size(), 4U);
  }
}

TEST(TrapValues, T20_ExpertsStandInTheOrderOfTheirNumbers) {
  const TemporaryDirectory directory;
  Literal model(moe_config(11));
  for (int expert = 0; expert < 11; ++expert) {
    model.set(k_experts + std::to_string(expert) + ".down_proj.weight", Numbers(4, expert));
  }
  const auto path = model.write(directory);
  const Numbers native = loaded(path, k_experts + "down_projs");
  Numbers order;
  for (std::size_t expert = 0; expert < 11; ++expert) {
    order.push_back(native[expert * 4]);
  }
  EXPECT_EQ(order, (Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_NE(order, (Numbers{0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9}));  // as text
  expect_caught(path, "text_order");
}

TEST(TrapValues, T26_APartialExpertSetNamesTheLostMatrix) {
  const std::string lost = k_experts + "1.down_proj.weight";
  const TemporaryDirectory directory;
  const auto path = Literal(moe_config(2))
                        .set(k_experts + "1.gate_proj.weight", {1, 2, 3, 4})
                        .set(k_experts + "1.up_proj.weight", {5, 6, 7, 8})
                        .set(k_experts + "0.down_proj.weight", {9, 10, 11, 12})
                        .without(lost)
                        .write(directory);
  const reports::CheckRecord missing = record_of(judged(path), "keys.missing");
  EXPECT_EQ(missing.status, Status::fail);
  EXPECT_EQ(missing.subjects, Names{lost});
  try {
    const LoadedModel model(path);
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), "MISSING_KEYS");
    EXPECT_EQ(error.facts().keys, Names{lost});
  }
  const ProcessResult load = run_tool({"load", path.string(), "--emit", (directory / "native").string()});
  EXPECT_EQ(load.status, 3);
  EXPECT_NE(load.err.find(lost), std::string::npos) << load.err;
  EXPECT_FALSE(std::filesystem::exists(directory / "native"));
  // A rank that owns expert 0 alone lacks nothing; the other one says what it lacks.
  EXPECT_EQ(loaded(path, k_experts + "down_projs", {.topology = {.fsdp = 2, .ep = 2}, .rank = 0}),
            (Numbers{9, 11, 10, 12}));
  try {
    const LoadedModel model(path, {.topology = {.fsdp = 2, .ep = 2}, .rank = 1});
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), "MISSING_KEYS");
    EXPECT_EQ(error.facts().keys, Names{lost});
  }
}

// ---- rows of projections ----

// The heads of a gated query projection hold query and gate by turns, and keep them.
TEST(TrapValues, T12_GatedQueriesStayByHead) {
  const std::string key = "model.layers.0.self_attn.q_proj.weight";
  const TemporaryDirectory directory;
  const auto path = Literal(qwen_next_config(true)).set(key, {1, -1, 2, -2}).write(directory);  // q0, g0, q1, g1
  const Numbers native = loaded(path, key);
  EXPECT_EQ(native, (Numbers{1, -1, 2, -2}));
  EXPECT_EQ((Numbers{native[0], native[2]}), (Numbers{1, 2}));  // queries
  EXPECT_NE((Numbers{native[0], native[1]}), (Numbers{1, 2}));  // the first half
  for (const std::uint32_t rank : {0U, 1U}) {
    const Numbers part = loaded(path, key, {.topology = {.tp = 2}, .rank = rank});
    EXPECT_EQ(part, rank == 0 ? (Numbers{1, -1}) : (Numbers{2, -2}));
    EXPECT_NE(part, rank == 0 ? (Numbers{1, 2}) : (Numbers{-1, -2}));  // queries to one rank, gates to the other
  }
  expect_caught(path, "queries before gates", [&](SchemaDraft& draft, const ConfigValue&, Names& blamed) {
    SchemaDraft::Bound* bound = draft.binding_of_native(key);
    bound->stored_view = bound->stored_view.unflatten(0, {2, 2}).permute({1, 0, 2});
    bound->native_view = bound->native_view.unflatten(0, {2, 2});
    blamed = {key};
    return true;
  });
}

// Rows of the joint projection are grouped by key head; channels of the convolution beside it are not.
TEST(TrapValues, T13_GroupedRowsBesideChannelsThatAreNot) {
  const std::string joint = "model.layers.0.linear_attn.in_proj_qkvz.weight";
  const std::string channels = "model.layers.0.linear_attn.conv1d.weight";
  const TemporaryDirectory directory;
  const auto path = Literal(qwen_next_config(false))
                        .set(joint, {1, 2, 3, 4, 5, 6, 7, 8})     // q0, k0, v0, z0, q1, k1, v1, z1
                        .set(channels, {10, 11, 20, 21, 30, 31})  // q0, q1, k0, k1, v0, v1
                        .write(directory);
  EXPECT_EQ(loaded(path, joint), (Numbers{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(loaded(path, channels), (Numbers{10, 11, 20, 21, 30, 31}));
  const LoadAs rank0{.topology = {.tp = 2}, .rank = 0};
  EXPECT_EQ(loaded(path, joint, rank0), (Numbers{1, 2, 3, 4}));
  EXPECT_NE(loaded(path, joint, rank0), (Numbers{1, 3, 5, 7}));  // cut as if queries, keys, values and z followed
  EXPECT_EQ(loaded(path, channels, rank0), (Numbers{10, 20, 30}));
  EXPECT_NE(loaded(path, channels, rank0), (Numbers{10, 11, 20}));  // cut in two halves
  expect_caught(path, "grouped by projection", [&](SchemaDraft& draft, const ConfigValue&, Names& blamed) {
    SchemaDraft::Bound* bound = draft.binding_of_native(joint);
    bound->stored_view = bound->stored_view.unflatten(0, {2, 4}).permute({1, 0, 2});
    bound->native_view = bound->native_view.unflatten(0, {4, 2});
    blamed = {joint};
    return true;
  });
  // Ranks that hold halves of the channels: together still every channel, and each rank the wrong ones.
  VerifyOptions options;
  options.topology = "tp=2";
  options.perturbation.placement = [&](const Schema& schema, plan::RankPlacement& placement) {
    const Box mine{{placement.rank * 3, 0, 0}, {3, 1, 1}};
    placement.locals[schema.find_native(channels)] = {{3, 1, 1}, {{mine, Box{{0, 0, 0}, {3, 1, 1}}}}};
  };
  const reports::CheckRecord record = record_of(verify(path, options), "shard.reassembly");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_EQ(record.subjects, Names{channels});
  options.perturbation.placement = nullptr;
  EXPECT_EQ(record_of(verify(path, options), "shard.reassembly").status, Status::pass);
}

// ---- a scale that is folded ----

const std::string k_gemma = "model.language_model.layers.0.";
const std::string k_gemma_down = k_gemma + "experts.down_proj";
const std::string k_gemma_scale = k_gemma + "router.per_expert_scale";
const std::string k_gemma_native = k_gemma + "moe.experts.down_projs";

/// Down projections of a load with the fold, in native order.
Numbers folded(const Numbers& down, const std::string& scale_dtype, double scale) {
  const TemporaryDirectory directory;
  const auto path =
      Literal(gemma_config()).set(k_gemma_down, down).set(k_gemma_scale, {scale}, scale_dtype).write(directory);
  const ProcessResult result =
      run_tool({"load", path.string(), "--gemma-fold", "--emit", (directory / "native").string()});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_FALSE(contains(stored_names(directory / "native"), k_gemma + "moe.gate.per_expert_scale"));
  return stored(directory / "native", k_gemma_native);
}

TEST(TrapValues, T14_AFoldedScaleCannotBeTakenOutAgain) {
  EXPECT_EQ(folded({1, 2, 3, 4}, "BF16", 2), (Numbers{2, 6, 4, 8}));
  EXPECT_NE(folded({1, 2, 3, 4}, "BF16", 2), (Numbers{1, 3, 2, 4}));  // the scale lost
  // Kept it is by default, beside the router, and the file comes back.
  const TemporaryDirectory directory;
  const auto path = Literal(gemma_config()).set(k_gemma_down, {1, 2, 3, 4}).set(k_gemma_scale, {2}).write(directory);
  EXPECT_EQ(loaded(path, k_gemma_native), (Numbers{1, 3, 2, 4}));
  EXPECT_EQ(loaded(path, k_gemma + "moe.gate.per_expert_scale"), Numbers{2});
  EXPECT_EQ(record_of(judged(path), "value.roundtrip").status, Status::pass);
  // Two weights become one under this scale: dividing gives neither of them back for both.
  const Numbers both = folded({1.671875, 1.6796875, 0, 0}, "BF16", 0.30078125);
  EXPECT_EQ(both, (Numbers{0.50390625, 0, 0.50390625, 0}));
}

TEST(TrapValues, T14_AFoldedExportHasScalesOfOne) {
  const TemporaryDirectory directory;
  const auto path = Literal(gemma_config()).set(k_gemma_down, {1, 2, 3, 4}).set(k_gemma_scale, {2}).write(directory);
  const std::filesystem::path out = directory / "folded";
  const ProcessResult result = run_tool({"export", path.string(), "--gemma-fold", "--out", out.string()});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("1 tensor of experts' scales multiplied"), std::string::npos) << result.out;
  EXPECT_EQ(stored(out, k_gemma_down), (Numbers{2, 4, 6, 8}));
  EXPECT_EQ(stored(out, k_gemma_scale), Numbers{1});
  EXPECT_NE(stored(out, k_gemma_scale), Numbers{2});  // the scale counted twice
  // The function is kept: what is loaded with the fold from either is the same.
  EXPECT_EQ(loaded(out, k_gemma_native), (Numbers{2, 6, 4, 8}));
  EXPECT_EQ(stored_names(out), stored_names(path));
  for (const auto& [option, value] : {std::pair("--include", "*"), std::pair("--quantize", "keep")}) {
    const ProcessResult refused =
        run_tool({"export", path.string(), "--gemma-fold", option, value, "--out", (directory / "no").string()});
    EXPECT_EQ(refused.status, 2) << refused.out;
    EXPECT_NE(refused.err.find("--gemma-fold"), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(directory / "no"));
  }
}

TEST(TrapValues, T46_TheFoldTakesTheScaleInItsStoredDtype) {
  EXPECT_EQ(folded({1.671875, 0, 0, 0}, "F32", 0.3F), (Numbers{0.5, 0, 0, 0}));
  EXPECT_NE(folded({1.671875, 0, 0, 0}, "F32", 0.3F), (Numbers{0.50390625, 0, 0, 0}));
  // That is what a scale gives that was rounded first.
  EXPECT_EQ(folded({1.671875, 0, 0, 0}, "BF16", 0.30078125), (Numbers{0.50390625, 0, 0, 0}));
}

// ---- what is not there ----

TEST(TrapValues, T39_EmptyPartsAreComplete) {
  const std::string embedding = "model.embed_tokens.weight";
  const std::string gate = "model.layers.0.mlp.shared_expert_gate.weight";
  std::string config = qwen_next_config(false);
  config.replace(config.find("\"vocab_size\": 2"), 15, "\"vocab_size\": 5");
  const TemporaryDirectory directory;
  const auto path = Literal(config).set(embedding, {1, 2, 3, 4, 5}).set(gate, {6}).write(directory);
  std::vector<Numbers> rows;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    LoadedModel model(path, {.topology = {.fsdp = 4}, .rank = rank});
    model.load().require_complete();
    rows.push_back(model.numbers(embedding));
    EXPECT_EQ(model.numbers(gate), rank == 0 ? Numbers{6} : Numbers{}) << rank;  // [1] over four ranks
    const plan::PlannedTensor& part = model.plan().tensors()[model.plan().find(embedding)];
    EXPECT_EQ(part.source_bytes, rows.back().size() * 2);  // the last rank reads no byte of it
    EXPECT_EQ(part.move_count == 0, rank == 3);
  }
  EXPECT_EQ(rows, (std::vector<Numbers>{{1, 2}, {3, 4}, {5}, {}}));
  EXPECT_NE(rows, (std::vector<Numbers>{{1, 2}, {3}, {4}, {5}}));  // balanced
  VerifyOptions options;
  options.topology = "fsdp=4";
  EXPECT_EQ(record_of(verify(path, options), "shard.reassembly").status, Status::pass);
}

TEST(TrapValues, T42_AbsentOptionalTensorsTakeTheirDeclaredValue) {
  struct Row {
    const char* family;
    const char* stored;
    const char* native;
    double value;
    const char* dtype;
  };
  for (const Row& row : {Row{"gemma4_moe", "model.language_model.layers.0.layer_scalar",
                             "model.language_model.layers.0.layer_scalar", 1, "BF16"},
                         Row{"mistral4", "language_model.model.layers.1.mlp.gate.e_score_correction_bias",
                             "model.language_model.model.layers.1.mlp.gate.e_score_correction_bias", 0, "F32"},
                         Row{"step3p5", "model.layers.1.moe.router_bias",
                             "model.layers.1.moe.gate.e_score_correction_bias", 0, "F32"}}) {
    const std::string config(adapters::find_family(row.family)->sample);
    const TemporaryDirectory absent;
    const auto path = Literal(config).without(row.stored).write(absent);
    const Numbers native = loaded(path, row.native);
    EXPECT_EQ(native, Numbers(native.size(), row.value)) << row.stored;
    EXPECT_NE(native, Numbers(native.size(), 1 - row.value)) << row.stored;  // the other families' default
    const reports::Report report = judged(path);
    EXPECT_EQ(record_of(report, "keys.missing").status, Status::pass) << row.stored;
    EXPECT_EQ(record_of(report, "value.exact").status, Status::pass) << row.stored;
    const reports::CheckRecord& defaulted = record_of(report, "keys.defaulted");
    EXPECT_TRUE(names(defaulted, row.stored)) << defaulted.explanation;
    // One that is there is loaded, and is no default.
    const TemporaryDirectory present;
    const auto with = Literal(config).set(row.stored, Numbers(native.size(), 3), row.dtype).write(present);
    EXPECT_EQ(loaded(with, row.native), Numbers(native.size(), 3)) << row.stored;
    EXPECT_FALSE(names(record_of(judged(with), "keys.defaulted"), row.stored));
    expect_caught(path, "another default", [&](SchemaDraft& draft, const ConfigValue&, Names& blamed) {
      for (SchemaDraft::Bound& bound : draft.bindings) {
        if (bound.kind == BindingKind::constant && draft.native_of(bound).key == row.native) {
          bound.value = 1 - row.value;
          blamed = {row.native, row.stored};
          return true;
        }
      }
      return false;
    });
  }
}

}  // namespace
}  // namespace weightproof::suites::test
