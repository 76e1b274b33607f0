// SPDX-License-Identifier: Apache-2.0
// Bytes that loads read and copy: what is too much is named, and what is not is left alone.
#include "fixtures/generate.hpp"
#include "loader/core/limits.hpp"
#include "loader/core/schema.hpp"
#include "loader/exec/engine.hpp"
#include "loader/plan/planner.hpp"
#include "loader/storage/checkpoint.hpp"
#include "reports/json.hpp"
#include "suites/tests/checks_testing.hpp"
#include "suites/verify/counting_calls.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

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
class WholeFiles final : public PlainCalls {
 public:
  using PlainCalls::PlainCalls;
  int open(const char* path, int flags) override {
    const int fd = PlainCalls::open(path, flags);
    std::vector<std::byte> block(std::filesystem::file_size(path));
    pread(fd, block.data(), block.size(), 0);
    return fd;
  }
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

// Two second copies, each before the tensor that the other one's request writes: the first of them is read again.
TEST(ReadsBound, HoldsForComparisonsThatComeBack) {
  constexpr std::uint64_t bytes = 3 << 19;  // two of them in a read
  const TemporaryDirectory directory;
  std::string header;
  SchemaBuilder builder("pairs");
  const Shape shape = {bytes / 2};
  const NativeId first = builder.native("first", shape);
  const NativeId second = builder.native("second", shape);
  for (const char* key : {"a", "b", "c", "d"}) {
    const auto at = static_cast<std::uint64_t>(key[0] - 'a') * bytes;
    header += std::string(header.empty() ? "{" : ", ") + "\"" + key + R"(": {"dtype": "BF16", "shape": [)" +
              std::to_string(bytes / 2) + R"(], "data_offsets": [)" + std::to_string(at) + ", " +
              std::to_string(at + bytes) + "]}";
    const StoredId stored = builder.stored(key, shape);
    const NativeId native = key[0] == 'b' || key[0] == 'c' ? first : second;
    if (key[0] == 'b' || key[0] == 'd') {
      builder.bind(stored, native, builder.whole(native));
    } else {
      builder.alias(stored, builder.whole_stored(stored), native, builder.whole(native), "repeats it");
    }
  }
  write_safetensors(directory / "model.safetensors", header + "}", std::string(4 * bytes, '\0'));
  const storage::Checkpoint checkpoint = storage::open_checkpoint(directory.path(), {});
  const plan::Source source{"pairs", std::shared_ptr<const Catalog>(&checkpoint.catalog, [](const Catalog*) {})};
  const plan::Plan plan =
      plan::make_plan(std::make_shared<const Schema>(std::move(builder).finish()), std::span(&source, 1), {}, {});
  ASSERT_EQ(plan.requests().size(), 2U);
  CountingCalls calls;
  calls.watch(checkpoint.catalog, checkpoint.root);
  const storage::Checkpoint* opened = &checkpoint;
  exec::load(plan, exec::SourceFiles::of(std::span(&opened, 1), calls)).require_complete();
  EXPECT_EQ(calls.bytes(), 5 * bytes);
  EXPECT_EQ(calls.bytes_of(0), 2 * bytes);
  const std::uint64_t bound = reads_bound(plan, limits::read_gap_bytes_max);
  // The copy of the other one may be early or late, by threads.
  EXPECT_EQ(bound, 6 * bytes + 6 * bytes / 50);
  EXPECT_EQ(calls.overread(plan, bound), Names{});
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

}  // namespace
}  // namespace weightproof::suites::test
