// SPDX-License-Identifier: Apache-2.0
// Single checks, each on a planted fault that it names and on a clean twin about which it says nothing.
#include <bit>
#include <limits>
#include <map>

#include "fixtures/generate.hpp"
#include "loader/exec/engine.hpp"
#include "reports/json.hpp"
#include "suites/explanations/votes.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/tests/literal_testing.hpp"
#include "suites/verify/counting_calls.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;
using Names = std::vector<std::string>;

std::string llama_config(bool is_tied = false) {
  std::string config = std::string(R"({"model_type": "llama", )") + k_small_sizes + "}";
  if (is_tied) {
    config.replace(config.find("false"), 5, "true");
  }
  return config;
}

const std::string k_query = "model.layers.0.self_attn.q_proj.weight";
const std::string k_up = "model.layers.0.mlp.up_proj.weight";

std::filesystem::path made(const TemporaryDirectory& directory, const std::string& family, const std::string& preset,
                           const std::string& fault = {}) {
  fixtures::GenerateOptions options;
  options.family = family;
  options.preset = preset;
  options.corrupt = fault;
  fixtures::generate(options, directory / "model");
  return directory / "model";
}

// ---- dtypes and shapes ----

TEST(DTypeUnsupported, AWeightOfIntegersIsNamed) {
  const TemporaryDirectory clean;
  EXPECT_EQ(record_of(judged(Literal(llama_config()).write(clean)), "dtype.unsupported").status, Status::pass);
  const TemporaryDirectory directory;
  const auto path = Literal(llama_config()).more(k_query, "I32", {2, 2}, {1, 2, 3, 4}).write(directory);
  const reports::CheckRecord record = record_of(judged(path), "dtype.unsupported");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_EQ(record.subjects, Names{k_query});
  EXPECT_EQ(record.code, "DTYPE_UNSUPPORTED");
  EXPECT_NE(record.message.find("is stored as I32"), std::string::npos) << record.message;
}

TEST(VocabularyRows, PaddingAndLostWordsAreListed) {
  const std::string embedding = "model.embed_tokens.weight";
  const TemporaryDirectory clean;
  const reports::CheckRecord sound = record_of(judged(Literal(llama_config()).write(clean)), "layout.vocab_pad");
  EXPECT_EQ(sound.status, Status::pass);
  EXPECT_EQ(sound.total, 2U);  // embedding and head
  const TemporaryDirectory longer;
  const auto padded = Literal(llama_config()).more(embedding, "BF16", {5, 2}, Numbers(10, 1)).write(longer);
  const reports::CheckRecord padding = record_of(judged(padded), "layout.vocab_pad");
  EXPECT_EQ(padding.status, Status::fail);
  EXPECT_EQ(padding.subjects, Names{embedding});
  EXPECT_NE(padding.message.find("rows 2 to 4 are padding"), std::string::npos) << padding.message;
  const TemporaryDirectory shorter;
  const auto cut = Literal(llama_config()).more("lm_head.weight", "BF16", {1, 2}, {1, 1}).write(shorter);
  const reports::CheckRecord lost = record_of(judged(cut), "layout.vocab_pad");
  EXPECT_EQ(lost.status, Status::fail);
  EXPECT_EQ(lost.subjects, Names{"lm_head.weight"});
  EXPECT_NE(lost.message.find("words 1 to 1 have none"), std::string::npos) << lost.message;
  // Another axis is another matter.
  const TemporaryDirectory wider;
  const auto wide = Literal(llama_config()).more(embedding, "BF16", {2, 3}, Numbers(6, 1)).write(wider);
  const reports::Report report = judged(wide);
  EXPECT_EQ(record_of(report, "layout.vocab_pad").status, Status::pass);
  EXPECT_EQ(record_of(report, "keys.shape").status, Status::fail);
}

// ---- conversions, seen beside the source ----

// The record of one check where one matrix holds `before` in the base and `after` in what is verified.
reports::CheckRecord converted(const char* id, const Numbers& before, const std::string& before_dtype,
                               const Numbers& after, const std::string& after_dtype) {
  const TemporaryDirectory base;
  const TemporaryDirectory directory;
  VerifyOptions options;
  options.against = Literal(llama_config()).set(k_query, before, before_dtype).write(base).string();
  const auto path = Literal(llama_config()).set(k_query, after, after_dtype).write(directory);
  return record_of(verify(path, options), id);
}

void expect_named(const reports::CheckRecord& record) {
  EXPECT_EQ(record.status, Status::fail) << record.message << record.reason;
  EXPECT_EQ(record.subjects, Names{k_query}) << record.message;
}

TEST(Conversions, RoundingIsToNearestEvenOnce) {
  const Numbers exact = {1.0077, -2.0155, 3.0235, 4.031};  // each nearer to the BF16 value that is larger
  const auto rounded = [&](RoundingMode mode) {
    Numbers out;
    for (const double value : exact) {
      const std::uint32_t bits = std::uint32_t{round_to(static_cast<float>(value), DType::bf16, mode)} << 16U;
      out.push_back(static_cast<double>(std::bit_cast<float>(bits)));
    }
    return out;
  };
  const auto judge = [&](const Numbers& after) { return converted("value.rounding", exact, "F32", after, "BF16"); };
  EXPECT_EQ(judge(rounded(RoundingMode::nearest_even)).status, Status::pass);
  ASSERT_NE(rounded(RoundingMode::toward_zero), rounded(RoundingMode::nearest_even));
  expect_named(judge(rounded(RoundingMode::toward_zero)));
  // A tensor that holds something else was not rounded wrongly.
  EXPECT_EQ(judge({9, 8, 7, 6}).status, Status::pass);
}

TEST(Conversions, NanAndInfinityStay) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const auto judge = [&](const Numbers& after) {
    return converted("value.nan_lost", {nan, 1, -inf, 2}, "F32", after, "BF16");
  };
  EXPECT_EQ(judge({nan, 1, -inf, 2}).status, Status::pass);
  expect_named(judge({0, 1, -inf, 2}));
  expect_named(judge({nan, 1, inf, 2}));
  expect_named(judge({nan, 1, -3e38, 2}));
  EXPECT_EQ(judge({0, 5, 6, 7}).status, Status::pass) << "nothing of it is a conversion of the base";
}

TEST(Conversions, ZeroKeepsItsSign) {
  const auto judge = [](const Numbers& after) {
    return converted("value.signed_zero", {-0.0, 1, 0, 2}, "F32", after, "BF16");
  };
  EXPECT_EQ(judge({-0.0, 1, 0, 2}).status, Status::pass);
  const reports::CheckRecord record = judge({0, 1, 0, 2});
  expect_named(record);
  EXPECT_NE(record.message.find("[0,0]"), std::string::npos) << record.message;
  expect_named(judge({-0.0, 1, -0.0, 2}));
}

TEST(Conversions, NothingFiniteBecomesInfinite) {
  const double inf = std::numeric_limits<double>::infinity();
  const double largest = 3.3895313892515355e38;  // of BF16
  const auto judge = [](const Numbers& before, const Numbers& after) {
    return converted("value.overflow", before, "F32", after, "BF16");
  };
  EXPECT_EQ(judge({largest, 1, 2, 3}, {largest, 1, 2, 3}).status, Status::pass);
  EXPECT_EQ(judge({inf, 1, 2, 3}, {inf, 1, 2, 3}).status, Status::pass);
  expect_named(judge({3.4e38, 1, 2, 3}, {inf, 1, 2, 3}));
}

TEST(Conversions, AreSkippedWithoutABase) {
  const TemporaryDirectory directory;
  const reports::Report report = judged(Literal(llama_config()).write(directory));
  for (const char* id : {"value.rounding", "value.nan_lost", "value.signed_zero", "value.overflow"}) {
    EXPECT_EQ(record_of(report, id).status, Status::skip) << id;
    EXPECT_NE(record_of(report, id).reason.find("--against"), std::string::npos) << id;
  }
}

// ---- loads ----

TEST(TiedStorage, HeadAndEmbeddingAreOneTensorThatIsFilledOnce) {
  const TemporaryDirectory directory;
  const std::string embedding = "model.embed_tokens.weight";
  const auto path = Literal(llama_config(true)).set(embedding, {1, 2, 3, 4}).write(directory);
  EXPECT_EQ(record_of(judged(path), "tied.storage").status, Status::pass);
  const TemporaryDirectory twice;
  const auto both = Literal(llama_config(true))
                        .set(embedding, {1, 2, 3, 4})
                        .more("lm_head.weight", "BF16", {2, 2}, {1, 2, 3, 4})
                        .write(twice);
  EXPECT_EQ(record_of(judged(both), "tied.storage").status, Status::pass) << "the second copy is compared";
  const TemporaryDirectory apart;
  const auto untied = Literal(llama_config(false)).write(apart);
  EXPECT_EQ(record_of(judged(untied), "tied.storage").status, Status::skip);
  // A loader that gives the head a tensor of its own, out of the same bytes.
  VerifyOptions options;
  options.perturbation.schema = [](const Schema& schema) {
    SchemaDraft draft(schema);
    SchemaDraft::Bound bound = *draft.binding_of_stored("model.embed_tokens.weight");
    draft.ties.clear();
    for (SchemaDraft::Stored& row : draft.stored) {
      row.is_gone = row.is_gone || row.key == "lm_head.weight";
    }
    SchemaDraft::Native head = draft.native_of(bound);
    head.key = "lm_head.weight";
    draft.natives.push_back(head);
    bound.native = static_cast<NativeId>(draft.natives.size() - 1);
    bound.kind = BindingKind::alias;
    bound.rule = "tied";
    draft.bindings.push_back(bound);
    return draft.build();
  };
  const reports::CheckRecord own = record_of(verify(path, options), "tied.storage");
  EXPECT_EQ(own.status, Status::fail) << own.reason;
  EXPECT_EQ(own.subjects, Names{"lm_head.weight"});
}

// Memory in which every row of one matrix is followed by one element that is nobody's.
class GappedDestinations final : public exec::Destinations {
 public:
  exec::Destination of(const plan::Plan& plan, std::size_t tensor) const override {
    const plan::PlannedTensor& planned = plan.tensors()[tensor];
    const std::uint64_t bytes = 4 * planned.bytes + 64;
    std::vector<std::byte>& block = blocks_[std::string(planned.key)];
    if (block.empty()) {
      block.resize(static_cast<std::size_t>(bytes));
    }
    exec::Destination out = exec::dense_destination(plan, tensor, exec::MemoryKind::host, block.data(), bytes);
    out.storage = tensor;
    if (planned.key == k_query) {
      out.strides[0] = 4;
    }
    return out;
  }

 private:
  mutable std::map<std::string, std::vector<std::byte>> blocks_;  // loads of this test have one thread
};

// A binding that takes two rows of three elements as three of two cannot be written to rows that lie apart.
TEST(Routes, ATensorThatNoRouteLeadsToIsNamed) {
  std::string config = llama_config();
  config.replace(config.find("\"hidden_size\": 2"), 16, "\"hidden_size\": 3");
  const TemporaryDirectory directory;
  const auto path = Literal(config).set(k_query, {1, 2, 3, 4, 5, 6}).write(directory);
  VerifyOptions options;
  options.perturbation.schema = [](const Schema& schema) {
    SchemaDraft draft(schema);
    SchemaDraft::Bound* bound = draft.binding_of_native(k_query);
    bound->stored_view = bound->stored_view.flatten(0, 2).unflatten(0, {3, 2});
    bound->native_view = bound->native_view.flatten(0, 2).unflatten(0, {3, 2});
    return draft.build();
  };
  const reports::Report sound = verify(path, options);
  EXPECT_EQ(record_of(sound, "io.route").status, Status::pass);
  EXPECT_EQ(record_of(sound, "value.exact").status, Status::pass);
  EXPECT_NE(record_of(sound, "io.route").explanation.find("not materialized: "), std::string::npos)
      << record_of(sound, "io.route").explanation;
  const auto gapped = std::make_shared<GappedDestinations>();
  options.perturbation.first_load = [gapped](const plan::Plan&, exec::LoadOptions& load) {
    load.destinations = gapped.get();
    load.threads = 1;
  };
  const reports::Report report = verify(path, options);
  const reports::CheckRecord& record = record_of(report, "io.route");
  EXPECT_EQ(record.status, Status::error);
  EXPECT_EQ(record.code, "ROUTE_UNAVAILABLE") << record.reason;
  EXPECT_TRUE(names(record, k_query)) << testing::PrintToString(record.subjects) << record.reason;
  EXPECT_EQ(record_of(report, "value.exact").status, Status::skip);
  EXPECT_NE(record_of(report, "value.exact").reason.find("io.route"), std::string::npos);
}

const Mutant& mutant_named(const std::vector<Mutant>& all, std::string_view id) {
  for (const Mutant& mutant : all) {
    if (mutant.id == id) {
      return mutant;
    }
  }
  throw std::runtime_error("no mutant " + std::string(id));
}

reports::Report judged_by(const Mutant& mutant, bool is_wrong, const std::string& topology = {}) {
  const TemporaryDirectory directory;
  fixtures::generate(mutant.fixture, directory / "model");
  VerifyOptions options;
  options.threads = 2;
  options.topology = topology.empty() ? mutant.topology : topology;
  if (is_wrong) {
    options.perturbation = mutant.perturbation;
  }
  return verify(directory / "model", options);
}

TEST(Traffic, BytesReadTwiceAreCounted) {
  const std::vector<Mutant> all = resource_mutants();
  const Mutant& mutant = mutant_named(all, "resource.read_twice");
  for (const std::string topology : {"", "fsdp=2"}) {
    EXPECT_EQ(record_of(judged_by(mutant, false, topology), "io.amplification").status, Status::pass) << topology;
    const reports::Report report = judged_by(mutant, true, topology);
    const reports::CheckRecord& record = record_of(report, "io.amplification");
    EXPECT_EQ(record.status, Status::fail) << topology << record.reason;
    EXPECT_EQ(record.total, 39U) << "every tensor of it";
    EXPECT_EQ(record_of(report, "value.exact").status, Status::pass);
  }
}

TEST(Traffic, OneTensorAgainIsNamedAndNoOther) {
  const std::vector<Mutant> all = resource_mutants();
  const Mutant& read = mutant_named(all, "resource.read_again");
  for (const std::string topology : {"", "fsdp=2"}) {
    EXPECT_EQ(record_of(judged_by(read, false, topology), "io.amplification").status, Status::pass) << topology;
    const reports::Report report = judged_by(read, true, topology);
    const reports::CheckRecord& record = record_of(report, "io.amplification");
    EXPECT_EQ(record.status, Status::fail) << topology << record.reason;
    EXPECT_EQ(record.subjects, read.tensors) << topology;
    EXPECT_EQ(record_of(report, "value.exact").status, Status::pass);
  }
  const Mutant& copied = mutant_named(all, "resource.copied_twice");
  const reports::CheckRecord sound = record_of(judged_by(copied, false), "mem.copies");
  EXPECT_EQ(sound.status, Status::pass);
  EXPECT_GT(sound.total, 10U) << "tensors, each by itself";
  const reports::Report report = judged_by(copied, true);
  const reports::CheckRecord& record = record_of(report, "mem.copies");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_EQ(record.subjects, copied.tensors);
  EXPECT_EQ(record_of(report, "value.exact").status, Status::pass) << "the values are right all the same";
}

// Calls that do nothing of their own.
class PlainCalls final : public storage::FileCalls {
 public:
  explicit PlainCalls(storage::FileCalls& inner) : inner_(inner) {}
  int open(const char* path, int flags) override { return inner_.open(path, flags); }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    return inner_.pread(fd, buffer, bytes, offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    return inner_.preadv(fd, parts, count, offset);
  }

 private:
  storage::FileCalls& inner_;
};

TEST(Traffic, RanksAloneThatReadTooMuchAreNamed) {
  const std::vector<Mutant> all = resource_mutants();
  Mutant mutant = mutant_named(all, "resource.read_again");
  const auto wrong = mutant.perturbation.load_calls;
  // The first calls are those of the single rank.
  mutant.perturbation.load_calls = [wrong, made = std::make_shared<int>(0)](storage::FileCalls& inner) {
    return (*made)++ == 0 ? std::make_unique<PlainCalls>(inner) : wrong(inner);
  };
  const reports::CheckRecord record = record_of(judged_by(mutant, true, "fsdp=2"), "io.amplification");
  EXPECT_EQ(record.status, Status::fail) << record.reason;
  EXPECT_EQ(record.subjects, mutant.tensors);
  EXPECT_NE(record.message.find(": rank 0 read "), std::string::npos) << record.message;
}

TEST(Traffic, RanksThatWereNotJudgedAreANote) {
  const std::vector<Mutant> all = resource_mutants();
  const Mutant& mutant = mutant_named(all, "resource.read_again");
  const std::string note = "ranks were not judged: there are no such ranks (shard.topology)";
  const reports::CheckRecord sound = record_of(judged_by(mutant, false, "tp=64"), "io.amplification");
  EXPECT_EQ(sound.status, Status::pass);
  EXPECT_EQ(sound.explanation, note);
  const reports::CheckRecord record = record_of(judged_by(mutant, true, "tp=64"), "io.amplification");
  EXPECT_EQ(record.status, Status::fail) << "the single rank's";
  EXPECT_EQ(record.explanation, note);
  EXPECT_EQ(record_of(judged_by(mutant, false, "fsdp=2"), "io.amplification").explanation, "");
  const TemporaryDirectory directory;
  const auto path = made(directory, "llama", "small");
  const ProcessResult told = run_tool({"verify", path.string(), "--topology", "tp=64", "--json"});
  EXPECT_NE(told.out.find(note), std::string::npos) << told.err;
}

// A rank that cannot be loaded has read nothing that could be judged.
TEST(Traffic, RanksThatCouldNotBeLoadedAreANote) {
  const TemporaryDirectory directory;
  VerifyOptions options;
  options.topology = "fsdp=2";
  options.perturbation.placement = [](const Schema& schema, plan::RankPlacement& placement) {
    if (placement.rank == 1) {
      placement.locals[schema.find_native(k_query)].pieces.front().global.length[0] += 9;
    }
  };
  const reports::Report report = verify(made(directory, "llama", "tiny"), options);
  EXPECT_EQ(record_of(report, "io.amplification").status, Status::pass);
  EXPECT_EQ(record_of(report, "io.amplification").explanation,
            "ranks were not judged: 1 rank of 2 could not be loaded");
}

TEST(Traffic, OfASubsetItsOwnTensorsAloneMayBeRead) {
  const std::vector<Mutant> all = resource_mutants();
  const Mutant& mutant = mutant_named(all, "resource.read_again");
  const TemporaryDirectory directory;
  fixtures::generate(mutant.fixture, directory / "model");
  const auto path = directory / "model";
  const auto judge = [&](const std::string& include, const std::string& topology, bool is_wrong) {
    VerifyOptions options;
    options.include = {include};
    options.topology = topology;
    if (is_wrong) {
      options.perturbation = mutant.perturbation;
    }
    return record_of(verify(path, options), "io.amplification");
  };
  for (const std::string topology : {"", "fsdp=2"}) {
    EXPECT_EQ(judge("model.layers.0.mlp.*", topology, false).status, Status::pass) << topology;
    EXPECT_EQ(judge("model.layers.0.mlp.*", topology, false).explanation, "") << topology;
    EXPECT_EQ(judge("model.layers.0.mlp.*", topology, true).subjects, mutant.tensors) << topology;
    EXPECT_EQ(judge("model.layers.1.mlp.*", topology, true).status, Status::pass)
        << topology << ": it is not read at all";
  }
}

// Reads each file from end to end before anything else is read of it.
class WholeFiles final : public storage::FileCalls {
 public:
  explicit WholeFiles(storage::FileCalls& inner) : inner_(inner) {}
  int open(const char* path, int flags) override {
    const int fd = inner_.open(path, flags);
    std::vector<std::byte> block(std::filesystem::file_size(path));
    inner_.pread(fd, block.data(), block.size(), 0);
    return fd;
  }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    return inner_.pread(fd, buffer, bytes, offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    return inner_.preadv(fd, parts, count, offset);
  }

 private:
  storage::FileCalls& inner_;
};

TEST(ReadsBound, IsWhatIsWantedAndAGapForEachRange) {
  EXPECT_EQ(reads_bound(1'000, 3, 4'096), 1'000U + 20U + 3U * 4'096U);
  const std::vector<Mutant> all = resource_mutants();
  const TemporaryDirectory directory;
  fixtures::generate(mutant_named(all, "resource.read_again").fixture, directory / "model");
  VerifyOptions options;
  options.include = {"model.layers.0.mlp.up_proj.weight"};
  const reports::CheckRecord sound = record_of(verify(directory / "model", options), "io.amplification");
  EXPECT_EQ(sound.status, Status::pass);
  EXPECT_EQ(sound.total, 1U) << "one range";
  options.perturbation.load_calls = [](storage::FileCalls& inner) { return std::make_unique<WholeFiles>(inner); };
  const reports::CheckRecord record = record_of(verify(directory / "model", options), "io.amplification");
  EXPECT_EQ(record.status, Status::fail) << "no more than is stored, and more than is wanted";
  const std::uint64_t wanted = 2'048 * 128 * 2;
  EXPECT_EQ(record.expected.as_uint64(), wanted + wanted / 50 + 65'536);
  EXPECT_TRUE(names(record, "model.embed_tokens.weight")) << "read, and nothing is made of it";
  // Of everything no more than is stored, however many ranges it has.
  options.include.clear();
  const reports::Report whole = verify(directory / "model", options);
  EXPECT_EQ(record_of(whole, "io.amplification").status, Status::fail);
  EXPECT_EQ(record_of(whole, "io.amplification").expected.as_uint64(),
            whole.checkpoint.bytes + whole.checkpoint.bytes / 50);
}

// Ranks read within the bound of what each of them holds, and one that reads everything does not.
TEST(Traffic, ARankReadsWhatItHolds) {
  const TemporaryDirectory directory;
  const auto path = made(directory, "qwen3_moe", "tiny_e4");
  VerifyOptions options;
  options.topology = "fsdp=4,ep=2";
  EXPECT_EQ(record_of(verify(path, options), "io.amplification").status, Status::pass);
}

// A code book belongs to every tile of its tensor, and there are 16 of them: it is read once beside scales that each
// tile has of its own.
TEST(Traffic, CodeBooksThatTilesShareAreReadOnce) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options;
  options.family = "llama_nf4";
  options.preset = "tiny_double";
  options.config_changes =
      R"({"hidden_size": 256, "intermediate_size": 4096, "num_hidden_layers": 1, "torch_dtype": "float32"})";
  fixtures::generate(options, directory / "model");
  const std::string path = (directory / "model").string();
  VerifyOptions asked;
  asked.threads = 2;
  asked.topology = "tp=2";
  const reports::CheckRecord record = record_of(verify(path, asked), "io.amplification");
  EXPECT_EQ(record.status, Status::pass) << record.message << record.reason;
  EXPECT_EQ(record.explanation, "") << "ranks, too";
  const reports::Value load = reports::parse_json(run_tool({"load", path, "--json"}).out);
  const reports::Value plan = reports::parse_json(run_tool({"plan", path, "--json"}).out);
  const reports::Value& rank = plan.find("ranks")->if_array()->front();
  const std::uint64_t read = load.find("measured")->find("bytes_read")->as_uint64();
  EXPECT_EQ(read, load.find("planned")->find("bytes")->as_uint64());
  EXPECT_EQ(read, rank.find("bytes_read")->as_uint64());
  EXPECT_LT(read * 100, rank.find("bytes_wanted")->as_uint64() * 101);
}

TEST(Traffic, NoDeviceIsSaid) {
  const TemporaryDirectory directory;
  const reports::CheckRecord record = record_of(judged(Literal(llama_config()).write(directory)), "mem.device_peak");
  EXPECT_EQ(record.status, Status::skip);
  EXPECT_FALSE(record.reason.empty());
}

// ---- ranks ----

TEST(RankParts, AFusedTensorThatIsCutEvenlyIsNamed) {
  const std::vector<Mutant> all = placement_mutants();
  for (const char* id : {"placement.fused_evenly", "placement.fused_mlp_evenly"}) {
    const Mutant& mutant = mutant_named(all, id);
    const reports::CheckRecord sound = record_of(judged_by(mutant, false), "layout.qkv_tp");
    EXPECT_EQ(sound.status, Status::pass) << id;
    EXPECT_GT(sound.total, 0U) << id;
    const reports::CheckRecord record = record_of(judged_by(mutant, true), "layout.qkv_tp");
    EXPECT_EQ(record.status, Status::fail) << id;
    EXPECT_TRUE(names(record, mutant.tensors.front())) << id << testing::PrintToString(record.subjects);
  }
  // Tensors that are not fused are another check's, and one rank or ranks without tensor parallelism cut nothing.
  const Mutant& norm = mutant_named(all, "placement.balanced_chunk");
  EXPECT_EQ(record_of(judged_by(norm, true), "layout.qkv_tp").status, Status::skip);
  const TemporaryDirectory directory;
  EXPECT_EQ(record_of(judged(Literal(llama_config()).write(directory)), "layout.qkv_tp").status, Status::skip);
}

// One tensor of four rows on two ranks, the second of which is told to hold rows [begin, end).
VerifyOptions second_part(std::uint64_t begin, std::uint64_t end, unsigned axis = 0) {
  VerifyOptions options;
  options.topology = "fsdp=2";
  options.perturbation.placement = [=](const Schema& schema, plan::RankPlacement& placement) {
    if (placement.rank == 0) {
      return;
    }
    Box part = Box::whole({4, 4});
    part.start[axis] = begin;
    part.length[axis] = end - begin;
    Box local = part;
    local.start[axis] = 0;
    placement.locals[schema.find_native(k_up)] = {local.length, {{part, local}}};
  };
  return options;
}

std::filesystem::path four_rows(const TemporaryDirectory& directory) {
  std::string config = llama_config();
  config.replace(config.find("\"intermediate_size\": 2"), 22, "\"intermediate_size\": 4");
  config.replace(config.find("\"hidden_size\": 2"), 16, "\"hidden_size\": 4");
  return Literal(config).set(k_up, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}).write(directory);
}

reports::Report with_second_part(std::uint64_t begin, std::uint64_t end, unsigned axis = 0) {
  const TemporaryDirectory directory;
  return verify(four_rows(directory), second_part(begin, end, axis));
}

void expect_parts(const reports::Report& report, const char* complaining, Status status = Status::fail) {
  for (const char* id : {"shard.bounds", "shard.coverage", "shard.overlap"}) {
    const reports::CheckRecord& record = record_of(report, id);
    EXPECT_EQ(record.status, std::string_view(id) == complaining ? status : Status::pass) << id << record.message;
    if (record.status != Status::pass) {
      EXPECT_EQ(record.subjects, Names{k_up}) << id;
    }
  }
}

TEST(RankParts, HolesOverlapsAndPartsOutsideAreToldApart) {
  expect_parts(with_second_part(2, 4), "");
  const reports::Report hole = with_second_part(3, 4);
  expect_parts(hole, "shard.coverage");
  EXPECT_NE(record_of(hole, "shard.coverage").message.find("[2,0]"), std::string::npos);
  EXPECT_EQ(record_of(with_second_part(2, 5), "shard.bounds").status, Status::fail) << "behind the last row";
  EXPECT_EQ(record_of(with_second_part(2, 4, 1), "shard.bounds").status, Status::fail) << "along the other axis";
}

// Changes a byte of one tensor for whoever reads it.
class OtherByte final : public storage::FileCalls {
 public:
  OtherByte(storage::FileCalls& inner, std::uint64_t place) : inner_(inner), place_(place) {}
  int open(const char* path, int flags) override { return inner_.open(path, flags); }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    const std::int64_t read = inner_.pread(fd, buffer, bytes, offset);
    change(static_cast<std::byte*>(buffer), read, offset);
    return read;
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    const std::int64_t read = inner_.preadv(fd, parts, count, offset);
    for (int i = 0; i < count; offset += static_cast<std::int64_t>(parts[i].iov_len), ++i) {
      change(static_cast<std::byte*>(parts[i].iov_base), static_cast<std::int64_t>(parts[i].iov_len), offset);
    }
    return read;
  }

 private:
  void change(std::byte* buffer, std::int64_t bytes, std::int64_t offset) const {
    const std::int64_t at = static_cast<std::int64_t>(place_) - offset;
    if (at >= 0 && at < bytes) {
      buffer[at] ^= std::byte{0x40};
    }
  }
  storage::FileCalls& inner_;
  std::uint64_t place_;
};

// What the second rank reads of that element of the matrix is another value.
void misread_by_second_rank(VerifyOptions& options, const std::filesystem::path& path, std::uint64_t element) {
  const storage::Checkpoint checkpoint = storage::open_checkpoint(path, {});
  const std::uint64_t place = checkpoint.catalog.find(k_up)->begin + element * 2;
  // The first calls are those of the single rank, the next ones those of rank 0.
  options.perturbation.load_calls =
      [place, made = std::make_shared<int>(0)](storage::FileCalls& inner) -> std::unique_ptr<storage::FileCalls> {
    if (++*made == 3) {
      return std::make_unique<OtherByte>(inner, place);
    }
    return std::make_unique<PlainCalls>(inner);
  };
}

TEST(RankParts, OverlapsOfEqualBytesAreAWarningAndOthersFail) {
  const TemporaryDirectory directory;
  const auto path = four_rows(directory);
  const reports::Report equal = verify(path, second_part(1, 4));
  expect_parts(equal, "shard.overlap", Status::warn);
  EXPECT_EQ(record_of(equal, "shard.overlap").message,
            k_up + ": element [1,0] is in different parts, of rank 0 and of rank 1, with equal bytes");
  VerifyOptions options = second_part(1, 4);
  misread_by_second_rank(options, path, 6);
  const reports::Report differing = verify(path, options);
  expect_parts(differing, "shard.overlap");
  EXPECT_EQ(record_of(differing, "shard.overlap").message,
            k_up +
                ": element [1,0] is in different parts, of rank 0 and of rank 1; element [1,2] differs between rank "
                "0 and rank 1");
  // A byte that is not shared is no matter of the overlap.
  options = second_part(1, 4);
  misread_by_second_rank(options, path, 9);
  expect_parts(verify(path, options), "shard.overlap", Status::warn);
  // Where a rank cannot be loaded nothing is known of its bytes.
  options = second_part(1, 4);
  options.perturbation.placement = [inner = options.perturbation.placement](const Schema& schema,
                                                                            plan::RankPlacement& placement) {
    inner(schema, placement);
    if (placement.rank == 1) {
      placement.locals[schema.find_native(k_query)].pieces.front().global.length[0] += 9;
    }
  };
  const reports::CheckRecord unknown = record_of(verify(path, options), "shard.overlap");
  EXPECT_EQ(unknown.status, Status::fail);
  EXPECT_EQ(unknown.explanation, "the bytes that ranks share were not compared: 1 rank of 2 could not be loaded");
}

TEST(RankParts, WhatIsHeldWholeWhereItIsToBeCutIsNamed) {
  const TemporaryDirectory directory;
  const auto path = four_rows(directory);
  // Both ranks hold all of it: one part, and no two of them overlap.
  VerifyOptions options = second_part(0, 4);
  options.perturbation.placement = [inner = options.perturbation.placement](const Schema& schema,
                                                                            plan::RankPlacement& placement) {
    const std::uint32_t rank = placement.rank;
    placement.rank = 1;
    inner(schema, placement);
    placement.rank = rank;
  };
  const reports::Report report = verify(path, options);
  expect_parts(report, "shard.overlap", Status::warn);
  const std::string message = ": element [0,0] is on 2 ranks, rank 0 and rank 1 among them, and its rule puts it on 1";
  EXPECT_EQ(record_of(report, "shard.overlap").message, k_up + message + ", with equal bytes");
  EXPECT_TRUE(names(record_of(report, "shard.reassembly"), k_up));
  misread_by_second_rank(options, path, 0);
  EXPECT_EQ(record_of(verify(path, options), "shard.overlap").message,
            k_up + message + "; element [0,0] differs between rank 0 and rank 1");
  // Every matrix that tensor parallelism cuts.
  const std::vector<Mutant> all = placement_mutants();
  const Mutant& mutant = mutant_named(all, "placement.replicated");
  const reports::CheckRecord cut = record_of(judged_by(mutant, true), "shard.overlap");
  EXPECT_EQ(cut.status, Status::warn);
  EXPECT_TRUE(names(cut, "model.layers.0.mlp.up_proj.weight"));
  EXPECT_TRUE(names(cut, "model.layers.2.self_attn.k_proj.weight"));
  EXPECT_FALSE(names(cut, "model.norm.weight")) << "every rank holds it";
  const reports::CheckRecord sound = record_of(judged_by(mutant, false), "shard.overlap");
  EXPECT_EQ(sound.status, Status::pass);
  EXPECT_EQ(sound.explanation, "");
}

// A family whose rule itself leaves a matrix whole: nothing is wrong by that rule, and it is told.
TEST(RankParts, MatricesThatTheRuleLeavesWholeAreANote) {
  const TemporaryDirectory directory;
  VerifyOptions options;
  options.topology = "tp=2";
  const reports::Report report = verify(made(directory, "deepseek_v3", "tiny"), options);
  const reports::CheckRecord& record = record_of(report, "shard.overlap");
  EXPECT_EQ(record.status, Status::pass);
  EXPECT_NE(record.explanation.find("held whole where others are cut, as their rule states: "), std::string::npos)
      << record.explanation;
  EXPECT_NE(record.explanation.find(".self_attn."), std::string::npos) << record.explanation;
}

TEST(RankParts, TheWrongAxisOfExpertsIsNamed) {
  const std::vector<Mutant> all = placement_mutants();
  const Mutant& mutant = mutant_named(all, "placement.ep_shard_axis");
  EXPECT_EQ(record_of(judged_by(mutant, false), "shard.bounds").status, Status::pass);
  const reports::CheckRecord record = record_of(judged_by(mutant, true), "shard.bounds");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_TRUE(names(record, mutant.tensors.front())) << testing::PrintToString(record.subjects);
  EXPECT_NE(record.message.find("cuts axis 2"), std::string::npos) << record.message;
}

TEST(RankParts, FilesOfRanksAreNotReadAndThatIsSaid) {
  const reports::Report report = with_second_part(2, 4);
  for (const char* id : {"shard.info", "shard.dtype"}) {
    EXPECT_EQ(record_of(report, id).status, Status::skip) << id;
    EXPECT_NE(record_of(report, id).reason.find("not read yet"), std::string::npos) << id;
  }
}

}  // namespace
}  // namespace weightproof::suites::test
