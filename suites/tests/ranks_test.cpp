// SPDX-License-Identifier: Apache-2.0
// All ranks of many topologies in one process, for every family: together they are the single rank's state, illegal
// ones are refused, and one layout can be put together out of another. Known ways to cut wrongly, each with its rows.
#include <algorithm>
#include <iostream>

#include "adapters/family.hpp"
#include "fixtures/generate.hpp"
#include "fixtures/schema.hpp"
#include "loader/core/error.hpp"
#include "reports/json.hpp"
#include "suites/ranks/cluster.hpp"
#include "suites/ranks/placements.hpp"
#include "suites/ranks/turns.hpp"
#include "suites/tests/support.hpp"
#include "suites/verify/load_run.hpp"
#include "suites/verify/verify.hpp"

namespace weightproof::suites::test {
namespace {

/// A checkpoint on disk with the state of one rank.
struct Subject {
  TemporaryDirectory directory;
  std::optional<storage::Checkpoint> checkpoint;
  VerifyOptions options;
  std::optional<Context> context;
  std::string reason;  ///< why it cannot be loaded
  std::optional<plan::PlanBasis> basis;
  std::optional<plan::Plan> plan;
  std::optional<exec::LoadAttempt> attempt;

  Subject(const std::string& family, const std::string& preset, ExpertStorage storage = ExpertStorage::grouped) {
    fixtures::GenerateOptions made;
    made.family = family;
    made.preset = preset;
    fixtures::generate(made, directory / "checkpoint");
    checkpoint.emplace(storage::open_checkpoint(directory / "checkpoint", {}));
    if (family == "dense_combined") {
      options.family = family;
    }
    context.emplace(options, *checkpoint);
    reason = context->schema ? why_no_load(*context) : context->no_schema_reason;
    if (!reason.empty()) {
      return;
    }
    // Storages differ natively alone: what is stored is numbered alike in all of them.
    const auto schema = std::make_shared<const Schema>(
        storage == ExpertStorage::grouped
            ? *context->schema
            : context->detection.family->describe(*checkpoint->config, *context->form, storage));
    const auto catalog = std::make_shared<const Catalog>(checkpoint->catalog);
    const std::vector<plan::Source> sources = {{"checkpoint", catalog}};
    basis.emplace(schema, sources, load_inputs(*context).request);
    plan.emplace(basis->plan());
    const storage::Checkpoint* opened = &*checkpoint;
    const exec::SourceFiles files = exec::SourceFiles::of(std::span(&opened, 1));
    attempt.emplace(exec::load(*plan, files));
    attempt->require_complete();
  }
  Cluster cluster(const Topology& topology, std::optional<std::uint64_t> interleaving = std::nullopt) const {
    ClusterOptions asked;
    asked.topology = topology;
    asked.interleaving = interleaving;
    return {*basis, *checkpoint, {&*plan, &*attempt}, asked};
  }
};

std::vector<RankFinding> findings_of(Cluster cluster, const std::vector<RankState>& states) {
  std::vector<RankFinding> findings;
  for (std::uint32_t rank = 0; rank < states.size(); ++rank) {
    cluster.compare(rank, states[rank], findings);
  }
  for (const std::vector<RankFinding>& more : {cluster.unseen(), disagreements(states)}) {
    findings.insert(findings.end(), more.begin(), more.end());
  }
  return findings;
}

std::string text_of(const std::vector<RankFinding>& findings) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(findings.size(), 5); ++i) {
    text += "\n  " + findings[i].tensor + ": " + findings[i].message;
  }
  return text;
}

/// All sizes that are asked, in a fixed order.
std::vector<Topology> all_topologies() {
  std::vector<Topology> all;
  for (const std::uint32_t tp : {1U, 2U, 4U, 8U}) {
    for (const std::uint32_t ep : {1U, 2U, 3U, 4U, 8U}) {
      for (const std::uint32_t fsdp : {1U, 2U, 3U}) {
        for (const std::uint32_t pp : {1U, 2U}) {
          all.push_back({.pp = pp, .fsdp = fsdp, .tp = tp, .ep = ep});
        }
      }
    }
  }
  return all;
}

std::vector<std::string> presets_of(const std::string& family) {
  std::vector<std::string> chosen;
  for (const std::string& preset : fixtures::presets(family)) {
    for (const char* wanted : {"tiny", "tiny_e4", "tiny_square", "tiny_half", "tiny_tied", "tiny_mtp"}) {
      if (preset == wanted) {
        chosen.push_back(preset);
      }
    }
  }
  return chosen;
}

class EveryRank : public testing::TestWithParam<std::string> {};

/// Models without a description, and codes that nothing decodes.
bool is_divided(const Subject& subject, const std::string& family) {
  const bool is_known = family == "identity" || family == "qwen3_mlx";
  EXPECT_EQ(is_known, !subject.reason.empty()) << family << ' ' << subject.reason;
  return subject.reason.empty();
}

TEST_P(EveryRank, TogetherTheyAreTheSingleRank) {
  std::size_t legal = 0;
  std::size_t illegal = 0;
  std::size_t ranks = 0;
  for (const std::string& preset : presets_of(GetParam())) {
    const Subject subject(GetParam(), preset);
    if (!is_divided(subject, GetParam())) {
      return;
    }
    for (const Topology& topology : all_topologies()) {
      try {
        const plan::RankLayout layout(subject.basis->schema(), topology);
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::chunk_not_representable || error.code() == ErrorCode::ep_not_divisible)
            << error.what();
        EXPECT_EQ(error.check(), "shard.topology");
        ++illegal;
        continue;
      }
      ++legal;
      ranks += topology.world();
      const Cluster cluster = subject.cluster(topology);
      std::vector<RankFinding> findings = findings_of(cluster, cluster.run_all());
      // What they are told to hold, by itself; and twice over, as replicas do.
      for (const std::uint32_t replicas : {1U, 2U}) {
        Topology many = topology;
        many.dp = replicas;
        if (many.ep > 1 && replicas > 1) {
          continue;  // experts are divided among replicas, too
        }
        const PlacementFindings parts =
            judge_placements(subject.basis->schema(), plan::RankLayout(subject.basis->schema(), many), {});
        for (const auto& more : {parts.bounds, parts.holes, parts.overlaps}) {
          findings.insert(findings.end(), more.begin(), more.end());
        }
      }
      EXPECT_TRUE(findings.empty()) << GetParam() << ' ' << preset << ' ' << plan::to_string(topology)
                                    << text_of(findings);
    }
  }
  EXPECT_GT(legal, 5U);
  EXPECT_GT(illegal, 0U) << "experts by eight fit no model of this size";
  std::cout << GetParam() << ": " << legal << " legal topologies with " << ranks << " ranks, " << illegal
            << " refused\n";
}

TEST_P(EveryRank, OneLayoutIsPutTogetherOutOfAnother) {
  const Subject subject(GetParam(), "tiny");
  if (!is_divided(subject, GetParam())) {
    return;
  }
  std::vector<Topology> layouts = {{}, {.fsdp = 3}, {.fsdp = 2}, {.fsdp = 13}};  // 13: more ranks than rows
  for (const Topology& more :
       {Topology{.pp = 2, .tp = 2}, Topology{.fsdp = 5, .ep = 5}, Topology{.fsdp = 3, .ep = 3}}) {
    try {
      const plan::RankLayout layout(subject.basis->schema(), more);
      layouts.push_back(more);
    } catch (const Error&) {
      continue;
    }
  }
  std::vector<std::vector<RankState>> states;
  for (const Topology& topology : layouts) {
    states.push_back(subject.cluster(topology).run_all());
  }
  for (std::size_t from = 0; from < states.size(); ++from) {
    const std::size_t to = (from + 1) % states.size();
    for (const std::size_t target : {to, std::size_t{1}}) {
      const auto findings = reshard(states[from], states[target]);
      EXPECT_TRUE(findings.empty()) << plan::to_string(layouts[from]) << " to " << plan::to_string(layouts[target])
                                    << text_of(findings);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EveryRank, testing::ValuesIn(fixtures::families()),
                         [](const auto& row) { return row.param; });

// Experts that lie one by one or apart by projection are read into their own tensors, on any mesh.
TEST(RankStorage, ExpertsInEveryPhysicalStorage) {
  for (const auto& [family, preset] : {std::pair<std::string, std::string>{"qwen3_moe", "tiny_e4"},
                                       {"qwen3_5_moe", "tiny"},
                                       {"deepseek_v3", "tiny"},
                                       {"deepseek_v4", "tiny"},
                                       {"gpt_oss", "tiny"},
                                       {"step3p5", "tiny"}}) {
    for (const ExpertStorage storage : {ExpertStorage::te, ExpertStorage::mok}) {
      if (family == "gpt_oss" && storage == ExpertStorage::mok) {
        continue;  // it cannot hold biases
      }
      const Subject subject(family, preset, storage);
      ASSERT_EQ(subject.reason, "");
      std::size_t legal = 0;
      for (const Topology& topology : all_topologies()) {
        try {
          const plan::RankLayout layout(subject.basis->schema(), topology);
        } catch (const Error&) {
          continue;
        }
        ++legal;
        const Cluster cluster = subject.cluster(topology);
        const auto findings = findings_of(cluster, cluster.run_all());
        EXPECT_TRUE(findings.empty()) << family << ' ' << plan::to_string(topology) << text_of(findings);
      }
      EXPECT_GT(legal, 3U);
    }
  }
}

TEST(RanksAtOnce, TheOrderOfTheirStepsChangesNothing) {
  for (const char* family : {"qwen3_moe", "deepseek_v3"}) {
    const Subject subject(family, "tiny");
    const Topology topology{.fsdp = 2, .tp = family == std::string("deepseek_v3") ? 2U : 1U};
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
      const Cluster cluster = subject.cluster(topology, seed);
      const auto findings = findings_of(cluster, cluster.run_all());
      EXPECT_TRUE(findings.empty()) << family << " seed " << seed << text_of(findings);
    }
  }
  // The order is the seed's alone.
  const auto order_of = [](std::uint64_t seed) {
    std::vector<std::uint32_t> order;
    take_turns(3, seed, [&](std::uint32_t number, storage::FileCalls& calls) {
      for (int i = 0; i < 4; ++i) {
        order.push_back(number);
        calls.pread(-1, nullptr, 0, 0);
      }
    });
    return order;
  };
  EXPECT_EQ(order_of(7), order_of(7));
  EXPECT_NE(order_of(7), order_of(8));
}

TEST(RanksAtOnce, OneRanksFailureIsItsOwn) {
  EXPECT_THROW(take_turns(3, 1,
                          [](std::uint32_t number, storage::FileCalls&) {
                            if (number == 1) {
                              throw Error(ErrorCode::io_error, "rank 1 cannot read");
                            }
                          }),
               Error);
}

// ---- Traps ----

Schema schema_of(const std::string& config_text, const std::string& family = {},
                 ExpertStorage storage = ExpertStorage::grouped) {
  const ConfigValue config = ConfigValue::parse(config_text, "config.json");
  const adapters::Family* found =
      family.empty() ? adapters::detect(&config, Catalog()).family : adapters::find_family(family);
  return found->describe(config, found->find_form(config, Catalog()), storage);
}

/// Plans a rank over headers made up from the schema.
plan::Plan plan_of(const Schema& schema, const Topology& topology, std::uint32_t rank) {
  CatalogBuilder builder;
  builder.add_file("model.safetensors");
  std::uint64_t at = 0;
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    StoredTensor row;
    row.key = tensor.key;
    row.shape = schema.shape_of(tensor);
    row.dtype = tensor.dtype_rule == DTypeRule::f32_state ? DType::f32 : DType::bf16;
    row.begin = at;
    row.bytes = *byte_count(row.shape, row.dtype);
    row.is_described = true;
    at += row.bytes;
    builder.add_copy(row);
  }
  const auto shared = std::make_shared<const Schema>(schema);
  const plan::Source source{"made up", std::make_shared<const Catalog>(std::move(builder).finish())};
  return plan::make_plan(shared, std::span(&source, 1), plan::RankLayout(*shared, topology).of(rank), {});
}

/// Rows of a stored matrix that a rank's native tensor takes, in its order.
std::vector<std::uint64_t> rows_of(const plan::Plan& plan, std::string_view native) {
  const plan::PlannedTensor& tensor = plan.tensors()[plan.find(native)];
  const Shape& shape = plan.shape_of(tensor);
  std::uint64_t width = 1;
  for (unsigned axis = 1; axis < shape.rank(); ++axis) {
    width *= shape[axis];
  }
  std::vector<std::uint64_t> rows(shape[0], UINT64_MAX);
  for (const plan::Move& move : plan.moves().subspan(tensor.first_move, tensor.move_count)) {
    const View from = plan.source_view(move);
    const View to = plan.target_view(move);
    for (std::uint64_t i = 0; i < to.element_count(); ++i) {
      const Coordinate at = coordinate_of(to.extents(), i);
      rows[to.storage_index(at) / width] = from.storage_index(at) / width;
    }
  }
  return rows;
}

using Rows = std::vector<std::uint64_t>;

TEST(RankTraps, T11_TwoFusedOrdersOfQueryKeyValue) {
  const std::string sizes = R"("hidden_size": 2, "num_hidden_layers": 1, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 1, "vocab_size": 4, "intermediate_size": 4)";
  const Schema ling = schema_of(R"({"model_type": "bailing_moe", "num_experts": 2, "moe_intermediate_size": 2,
      "first_k_dense_replace": 1, )" +
                                sizes + "}");
  const plan::Plan rank0 = plan_of(ling, {.tp = 2}, 0);
  Rows all;
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    const Rows rows = rows_of(rank0, "model.layers.0.self_attn." + std::string(name) + ".weight");
    all.insert(all.end(), rows.begin(), rows.end());
  }
  EXPECT_EQ(all, (Rows{0, 1, 4, 6})) << "not rows 0 to 3 of the file";
  // The combined layout holds [q0,q1,k0,v0 | q2,q3,k1,v1]: its rank 0 has one run of four rows, from three tensors.
  const Schema combined =
      schema_of(R"({"model_type": "llama", "tie_word_embeddings": false, )" + sizes + "}", "dense_combined");
  const plan::Plan other = plan_of(combined, {.tp = 2}, 1);
  const plan::PlannedTensor& fused = other.tensors()[other.find("model.layers.0.self_attn.qkv_proj.weight")];
  EXPECT_EQ(other.shape_of(fused), (Shape{4, 2}));
  EXPECT_EQ(rows_of(other, "model.layers.0.self_attn.qkv_proj.weight"), (Rows{2, 3, 1, 1}));
}

TEST(RankTraps, T13_GroupedRowsAndChannelsThatAreNot) {
  const Schema schema = schema_of(R"({"model_type": "qwen3_next", "hidden_size": 2, "num_hidden_layers": 2,
      "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 1, "vocab_size": 4, "num_experts": 2,
      "moe_intermediate_size": 2, "shared_expert_intermediate_size": 2, "intermediate_size": 2,
      "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 1, "linear_value_head_dim": 1,
      "linear_conv_kernel_dim": 2, "full_attention_interval": 2})");
  const plan::Plan rank0 = plan_of(schema, {.tp = 2}, 0);
  EXPECT_EQ(rows_of(rank0, "model.layers.0.linear_attn.in_proj_qkvz.weight"), (Rows{0, 1, 2, 3}));
  EXPECT_EQ(rows_of(rank0, "model.layers.0.linear_attn.conv1d.weight"), (Rows{0, 2, 4}))
      << "q0, k0, v0: channels stand [q0,q1,k0,k1,v0,v1]";
  EXPECT_EQ(rows_of(plan_of(schema, {.tp = 2}, 1), "model.layers.1.self_attn.q_proj.weight"), (Rows{2, 3}))
      << "a gated head is its query's rows and its gate's";
}

TEST(RankTraps, T38_ExpertsOfOtherStoragesAreReadAsTheyAreStored) {
  const Schema te = schema_of(R"({"model_type": "qwen3_moe", "hidden_size": 2, "num_hidden_layers": 1,
      "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 1, "vocab_size": 4, "num_experts": 4,
      "moe_intermediate_size": 2, "intermediate_size": 2})",
                              {}, ExpertStorage::te);
  const plan::Plan rank1 = plan_of(te, {.fsdp = 2, .ep = 2}, 1);
  const std::string prefix = "model.layers.0.mlp.experts.gate_up_linear.weight";
  EXPECT_EQ(rank1.find(prefix + "1"), SIZE_MAX) << "another rank's";
  EXPECT_EQ(rows_of(rank1, prefix + "2"), (Rows{0, 1, 0, 1})) << "gate's rows, then up's, none transposed";
  const plan::PlannedTensor& tensor = rank1.tensors()[rank1.find(prefix + "2")];
  for (const plan::Move& move : rank1.moves().subspan(tensor.first_move, tensor.move_count)) {
    EXPECT_EQ(move.reason, plan::Reason::contiguous);
  }
}

// ---- Which ranks hold the same ----

LocalTensor rows(std::uint64_t begin, std::uint64_t end, std::uint64_t columns = 8) {
  Box part = Box::whole({1U << 16U, columns});
  part.start[0] = begin;
  part.length[0] = end - begin;
  return {part.length, {{part, Box::whole(part.length)}}};
}

Twins twins_among(const std::vector<LocalTensor>& locals) {
  std::vector<const LocalTensor*> parts;
  for (const LocalTensor& local : locals) {
    parts.push_back(&local);
  }
  return twins_of(parts);
}

TEST(RankTwins, AreFoundInStepsByTheNumberOfRanks) {
  for (const std::uint64_t kinds : {1U, 2U, 64U, 4096U}) {
    std::vector<LocalTensor> locals;
    for (std::uint64_t rank = 0; rank < 4096; ++rank) {
      locals.push_back(rows(rank % kinds * 16, rank % kinds * 16 + 16));
    }
    const Twins twins = twins_among(locals);
    for (std::size_t rank = 0; rank < locals.size(); ++rank) {
      EXPECT_EQ(twins.first[rank], rank % kinds);
    }
    // Every pair would be eight million.
    EXPECT_LE(twins.comparisons, locals.size() + 8) << kinds << " different parts";
  }
}

TEST(RankTwins, DifferInShapePiecesAndOrder) {
  LocalTensor two = rows(0, 4);
  LocalPiece behind = rows(8, 12).pieces.front();
  behind.local.start[0] = 4;
  two.pieces.push_back(behind);
  two.shape[0] = 8;
  LocalTensor turned = two;
  std::swap(turned.pieces[0].global, turned.pieces[1].global);
  LocalTensor swapped = two;
  std::swap(swapped.pieces[0], swapped.pieces[1]);
  const LocalTensor absent;
  const LocalTensor empty{Shape{0, 8}, {}};
  const std::vector<LocalTensor> locals = {rows(0, 4), rows(0, 5), rows(0, 4, 9), rows(1, 5), two,
                                           turned,     swapped,    absent,        empty,      two,
                                           absent,     rows(0, 4), empty,         swapped};
  EXPECT_EQ(twins_among(locals).first, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 4, 7, 0, 8, 6}));
}

// ---- The command ----

std::string made(const TemporaryDirectory& directory, const std::string& family, const std::string& preset) {
  fixtures::GenerateOptions options;
  options.family = family;
  options.preset = preset;
  fixtures::generate(options, directory / family);
  return (directory / family).string();
}

TEST(RankCommand, PlansOneRankOrAllOfThem) {
  const TemporaryDirectory directory;
  const std::string path = made(directory, "qwen3_moe", "tiny_e4");
  const ProcessResult one = run_tool({"plan", path, "--topology", "fsdp=2,ep=2", "--rank", "1"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_NE(one.out.find("rank 1 of pp=1,dp=1,fsdp=2,cp=1,tp=1,ep=2"), std::string::npos) << one.out;
  EXPECT_EQ(one.out.find("expert.0."), std::string::npos) << "experts of another rank";
  EXPECT_NE(one.out.find("held by other ranks"), std::string::npos) << one.out;
  const ProcessResult all = run_tool({"plan", path, "--topology", "fsdp=2,ep=2", "--all-ranks"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_NE(all.out.find("together  exactly the checkpoint"), std::string::npos) << all.out;
  EXPECT_NE(all.out.find("node of ranks 0 to 1"), std::string::npos) << all.out;
  for (const std::vector<std::string>& which : {std::vector<std::string>{"--rank", "1"}, {"--all-ranks"}}) {
    std::vector<std::string> words = {"plan", path, "--json", "--topology", "fsdp=2,ep=2"};
    words.insert(words.end(), which.begin(), which.end());
    const ProcessResult json = run_tool(words);
    EXPECT_EQ(json.status, 0) << json.err;
    const std::string verdict = validate("weightproof.plan-1", json.out);
    EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
    EXPECT_NE(json.out.find("\"topology\": \"pp=1,dp=1,fsdp=2,cp=1,tp=1,ep=2\""), std::string::npos) << json.out;
  }
}

// One rank's figures are the same whoever tells them, and within the bound that the README states.
TEST(RankCommand, FiguresOfOneRankAreThoseOfAllRanks) {
  for (const auto& [family, preset, topology] :
       {std::tuple("llama", "small", "tp=4"), std::tuple("qwen3_moe", "small", "fsdp=4,ep=2"),
        std::tuple("mistral3_fp8_causal", "small", "tp=2"), std::tuple("llama", "tiny_tied", "dp=2")}) {
    const TemporaryDirectory directory;
    const std::string path = made(directory, family, preset);
    const auto document_of = [&](const std::vector<std::string>& which) {
      std::vector<std::string> words = {"plan", path, "--json", "--topology", topology};
      words.insert(words.end(), which.begin(), which.end());
      return reports::parse_json(run_tool(words).out);
    };
    const reports::Value all = document_of({"--all-ranks"});
    const reports::Value::Array& ranks = *all.find("ranks")->if_array();
    const std::string table = run_tool({"plan", path, "--topology", topology, "--all-ranks"}).out;
    std::uint64_t read = 0;
    std::uint64_t wanted = 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const reports::Value one = document_of({"--rank", std::to_string(rank)});
      const reports::Value& alone = one.find("ranks")->if_array()->front();
      for (const char* name : {"bytes_read", "bytes_wanted", "ranges", "reads", "tensors", "amplification"}) {
        ASSERT_NE(alone.find(name), nullptr) << family << ' ' << name;
        EXPECT_EQ(*alone.find(name), *ranks[rank].find(name)) << family << " rank " << rank << ' ' << name;
      }
      EXPECT_EQ(*one.find("amplification"), *alone.find("amplification"));
      const std::uint64_t rank_read = alone.find("bytes_read")->as_uint64();
      const std::uint64_t rank_wanted = alone.find("bytes_wanted")->as_uint64();
      const std::uint64_t ranges = alone.find("ranges")->as_uint64();
      const std::uint64_t gap = std::string(topology) == "dp=2" ? 65536 : 4096;
      EXPECT_GT(rank_wanted, 0U);
      EXPECT_LE(rank_read, rank_wanted + rank_wanted / 50 + gap * ranges) << family << " rank " << rank;
      EXPECT_DOUBLE_EQ(alone.find("amplification")->as_double(),
                       static_cast<double>(rank_read) / static_cast<double>(rank_wanted));
      const std::string text = run_tool({"plan", path, "--topology", topology, "--rank", std::to_string(rank)}).out;
      EXPECT_NE(text.find(" in " + std::to_string(ranges) + " ranges"), std::string::npos) << text;
      EXPECT_NE(table.find(" " + std::to_string(ranges) + " "), std::string::npos) << table;
      read += rank_read;
      wanted += rank_wanted;
    }
    EXPECT_EQ(all.find("all_ranks")->find("read_bytes")->as_uint64(), read) << family;
    EXPECT_EQ(all.find("all_ranks")->find("wanted_bytes")->as_uint64(), wanted) << family;
    EXPECT_DOUBLE_EQ(all.find("amplification")->as_double(), static_cast<double>(read) / static_cast<double>(wanted));
  }
}

TEST(RankCommand, TheRuntimeDecidesHowExpertsLie) {
  const TemporaryDirectory directory;
  const std::string path = made(directory, "qwen3_moe", "tiny_e4");
  const std::vector<std::string> runtime = {"--dispatcher", "deepep", "--expert-backend", "te"};
  std::vector<std::string> words = {"plan", path, "--topology", "fsdp=2,ep=2", "--rank", "1"};
  words.insert(words.end(), runtime.begin(), runtime.end());
  const ProcessResult two = run_tool(words);
  EXPECT_EQ(two.status, 0) << two.err;
  EXPECT_NE(two.out.find("experts.gate_up_linear.weight2"), std::string::npos) << two.out;
  EXPECT_EQ(two.out.find("experts.gate_up_linear.weight1"), std::string::npos) << "an expert of the other rank";
  words = {"plan", path};
  words.insert(words.end(), runtime.begin(), runtime.end());
  EXPECT_NE(run_tool(words).out.find("experts.gate_and_up_projs"), std::string::npos)
      << "one process: grouped, also for te";
  EXPECT_EQ(run_tool({"plan", path, "--expert-storage", "te", "--dispatcher", "deepep"}).status, 2);
  EXPECT_EQ(run_tool({"plan", path, "--dispatcher", "mok"}).status, 3) << "one process is no multiple of four";
}

TEST(RankCommand, RefusesWhatCannotBe) {
  const TemporaryDirectory directory;
  const std::string path = made(directory, "qwen3_moe", "tiny_e4");
  EXPECT_EQ(run_tool({"plan", path, "--rank", "1"}).status, 2) << "no topology";
  EXPECT_EQ(run_tool({"plan", path, "--topology", "tp=2"}).status, 2) << "neither a rank nor all";
  EXPECT_EQ(run_tool({"plan", path, "--topology", "fsdp=2", "--rank", "2"}).status, 2) << "outside";
  EXPECT_EQ(run_tool({"plan", path, "--topology", "fsdp=2", "--rank", "0", "--layout", "hf"}).status, 2);
  const ProcessResult uneven = run_tool({"plan", path, "--topology", "fsdp=3,ep=3", "--all-ranks"});
  EXPECT_EQ(uneven.status, 3) << uneven.out;
  EXPECT_NE(uneven.err.find("ep must divide the number of experts"), std::string::npos) << uneven.err;
}

TEST(RankCommand, VerifyAsksAllRanks) {
  const TemporaryDirectory directory;
  const std::string path = made(directory, "llama", "tiny");
  VerifyOptions options;
  const auto has_shard_records = [](const reports::Report& report) {
    return std::any_of(report.checks.begin(), report.checks.end(),
                       [](const reports::CheckRecord& record) { return record.id.starts_with("shard."); });
  };
  EXPECT_FALSE(has_shard_records(verify(path, options))) << "one rank was asked about";
  options.topology = "pp=2,fsdp=3,tp=2";
  const reports::Report sound = verify(path, options);
  for (const char* id : {"shard.topology", "shard.reassembly", "shard.agreement"}) {
    EXPECT_EQ(record_of(sound, id).status, reports::Status::pass) << record_of(sound, id).message;
  }
  options.topology = "tp=8";
  const reports::Report illegal = verify(path, options);
  const reports::CheckRecord& topology = record_of(illegal, "shard.topology");
  EXPECT_EQ(topology.status, reports::Status::fail);
  EXPECT_TRUE(names(topology, "model.layers.0.self_attn.q_proj.weight")) << topology.message;
  EXPECT_EQ(record_of(illegal, "shard.reassembly").status, reports::Status::skip);
}

// Two ranks hold the same part and one filled it otherwise: both are named, by the tensor.
TEST(RankCommand, RanksThatDisagreeAreNamed) {
  const Subject subject("llama", "tiny");
  std::vector<RankState> states = subject.cluster({.dp = 2}).run_all();
  EXPECT_TRUE(disagreements(states).empty());
  const std::size_t norm = states[1].plan->find("model.norm.weight");
  states[1].attempt->arena().span()[states[1].plan->tensors()[norm].arena_offset] ^= std::byte{1};
  const std::vector<RankFinding> found = disagreements(states);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].tensor, "model.norm.weight");
  EXPECT_EQ(found[0].rank, 1U);
}

}  // namespace
}  // namespace weightproof::suites::test
