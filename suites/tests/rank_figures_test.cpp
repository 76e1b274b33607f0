// SPDX-License-Identifier: Apache-2.0
// Large models divided among many ranks, planned from headers that are made up: nothing is read, nothing is held.
#include <algorithm>
#include <chrono>
#include <iostream>

#include "fixtures/generate.hpp"
#include "fixtures/schema.hpp"
#include "loader/plan/all_ranks.hpp"
#include "suites/support/text.hpp"
#include "suites/tests/support.hpp"
#include "suites/verify/load_run.hpp"

namespace weightproof::suites::test {
namespace {

/// A published model as its headers would be.
struct Headers {
  storage::Checkpoint checkpoint;
  VerifyOptions options;
  std::optional<Context> context;
  std::optional<plan::PlanBasis> basis;

  Headers(const std::string& family, const std::string& preset) {
    fixtures::GenerateOptions asked;
    asked.family = family;
    asked.preset = preset;
    const fixtures::GeneratedCheckpoint made = fixtures::plan_checkpoint(asked);
    CatalogBuilder builder;
    builder.add_file("model.safetensors");
    builder.reserve(made.tensors.size());
    std::uint64_t at = 0;
    for (const fixtures::GeneratedTensor& tensor : made.tensors) {
      StoredTensor row;
      row.key = tensor.tensor.key;
      for (const std::uint64_t extent : tensor.tensor.shape) {
        row.shape.push_back(extent);
      }
      row.dtype = *dtype_from_name(tensor.tensor.dtype);
      row.begin = at;
      row.bytes = *byte_count(row.shape, row.dtype);
      row.is_described = true;
      at += row.bytes;
      builder.add_copy(row);
    }
    checkpoint.display_path = family + " " + preset;
    checkpoint.is_selected = true;
    checkpoint.catalog = std::move(builder).finish();
    checkpoint.config = ConfigValue::parse(*made.config, "config.json");
    context.emplace(options, checkpoint);
    EXPECT_EQ(why_no_load(*context), "");
    const auto schema = std::make_shared<const Schema>(*context->schema);
    const auto catalog = std::make_shared<const Catalog>(checkpoint.catalog);
    const std::vector<plan::Source> sources = {{checkpoint.display_path, catalog}};
    basis.emplace(schema, sources, load_inputs(*context).request);
  }
};

struct Figures {
  plan::AllRanks all;
  double seconds = 0;
};

Figures planned(const Headers& headers, const Topology& topology) {
  const plan::RankLayout layout(headers.basis->schema(), topology);
  const auto start = std::chrono::steady_clock::now();
  Figures figures{plan::plan_all_ranks(*headers.basis, layout), 0};
  figures.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const plan::AllRanks& all = figures.all;
  std::uint64_t moves = 0;
  std::uint64_t beyond = 0;
  std::uint64_t largest = 0;
  for (const plan::RankFigures& rank : all.ranks) {
    moves += rank.moves;
    beyond = std::max(beyond, rank.beyond_final_bytes);
    largest = std::max(largest, rank.final_bytes);
  }
  std::cout << headers.checkpoint.display_path << " over " << all.ranks.size() << " ranks ("
            << plan::to_string(topology) << "): at most " << human_bytes(largest) << " of tensors and "
            << human_bytes(beyond) << " beyond them a rank, read " << all.times_checkpoint()
            << " times the checkpoint of " << human_bytes(all.checkpoint_bytes) << ", different parts "
            << human_bytes(all.distinct_bytes) << ", balance " << all.balance() << "; " << figures.seconds << " s, "
            << figures.seconds * 1e6 / static_cast<double>(std::max<std::uint64_t>(moves, 1)) << " us a move\n";
  return figures;
}

void expect_sound(const Figures& figures) {
  const plan::AllRanks& all = figures.all;
  EXPECT_FALSE(all.fault) << all.fault->key << to_string(all.fault->coordinate);
  EXPECT_EQ(all.diverged, "");
  for (const plan::RankFigures& rank : all.ranks) {
    EXPECT_LE(static_cast<double>(rank.read_bytes),
              1.02 * static_cast<double>(rank.wanted_bytes()) + 4096.0 * static_cast<double>(rank.ranges))
        << rank.rank;
  }
  EXPECT_LE(static_cast<double>(all.distinct_bytes), 1.05 * static_cast<double>(all.checkpoint_bytes));
}

TEST(RankFigures, Devstral123BOverEightRanksOfTensorParallelism) {
  const Headers headers("mistral3_fp8_causal", "full");
  const Figures figures = planned(headers, {.tp = 8});
  expect_sound(figures);
  const plan::AllRanks& all = figures.all;
  ASSERT_EQ(all.ranks.size(), 8U);
  // Upstream held 30.44 GiB on each rank in bounded mode, 71.95 GiB on its full path.
  std::cout << "  peak " << human_bytes(all.peak_bytes()) << " a rank beside 30.44 GiB upstream\n";
  EXPECT_LT(all.peak_bytes(), 30.44 * 1024 * 1024 * 1024);
  EXPECT_LT(all.balance(), 1.01);
  // Of codes and scales, too: against the bytes of the files, not against what the plan says that it wants.
  EXPECT_LE(all.times_checkpoint(), 1.02);
  ASSERT_EQ(all.nodes.size(), 1U);
  EXPECT_LE(all.nodes[0].distinct_bytes, all.nodes[0].read_bytes);
}

TEST(RankFigures, DeepSeekV3Over64RanksOfExperts) {
  const Headers headers("deepseek_v3", "full");
  const Figures figures = planned(headers, {.fsdp = 64, .ep = 64});
  expect_sound(figures);
  EXPECT_EQ(figures.all.ranks.size(), 64U);
  EXPECT_LT(figures.all.balance(), 1.05);
  EXPECT_LE(figures.all.times_checkpoint(), 1.02);
}

/// Every published model of the fixtures, cut along several axes: what ranks read is what they hold, and nothing is
/// held whole.
TEST(RankFigures, EveryPublishedModelIsReadByParts) {
  std::size_t planned_models = 0;
  for (const std::string& family : fixtures::families()) {
    const std::vector<std::string> presets = fixtures::presets(family);
    if (family == "dense_combined" || std::find(presets.begin(), presets.end(), "full") == presets.end()) {
      continue;
    }
    const Headers headers(family, "full");
    for (const Topology& topology : {Topology{.pp = 2, .fsdp = 4, .ep = 2}, Topology{.fsdp = 2, .tp = 2}}) {
      std::optional<plan::RankLayout> layout;
      try {
        layout.emplace(headers.basis->schema(), topology);
      } catch (const Error& error) {
        EXPECT_EQ(error.check(), "shard.topology");
        continue;
      }
      std::size_t whole = 0;
      const plan::AllRanks all = plan::plan_all_ranks(
          *headers.basis, *layout, 8,
          [&](std::uint32_t, const plan::Plan& plan) { whole += plan.route() == plan::Route::materialized ? 1U : 0U; });
      EXPECT_EQ(whole, 0U) << family << ": a stored tensor is held whole";
      expect_sound({all, 0});
      EXPECT_FALSE(HasFailure()) << family << ' ' << plan::to_string(topology);
      ++planned_models;
      break;
    }
  }
  EXPECT_GT(planned_models, 25U);
}

TEST(RankFigures, DeepSeekV3Over4096RanksTakesTimeByWhatTheyHold) {
  const Headers headers("deepseek_v3", "full");
  const Figures some = planned(headers, {.pp = 8, .fsdp = 8, .tp = 8, .ep = 64});
  const Figures many = planned(headers, {.pp = 8, .fsdp = 64, .tp = 8, .ep = 64});
  expect_sound(some);
  expect_sound(many);
  EXPECT_EQ(many.all.ranks.size(), 4096U);
  EXPECT_LE(many.all.times_checkpoint(), 1.02);
  const auto moves = [](const Figures& figures) {
    double sum = 0;
    for (const plan::RankFigures& rank : figures.all.ranks) {
      sum += static_cast<double>(rank.moves);
    }
    return sum;
  };
  const double ratio = (many.seconds / some.seconds) / (moves(many) / moves(some));
  std::cout << "  time over what ranks hold, 4,096 against 512 ranks: " << ratio << "\n";
  EXPECT_LT(ratio, 3.0) << "planning is linear in ranks and what they hold";
}

}  // namespace
}  // namespace weightproof::suites::test
