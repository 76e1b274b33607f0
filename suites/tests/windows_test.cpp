// SPDX-License-Identifier: Apache-2.0
// Loads of verify in windows under a budget: the same verdict as in one piece, faults named inside a window, and memory
// that does not grow with the model.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <random>

#include "fixtures/generate.hpp"
#include "loader/exec/engine.hpp"
#include "reports/json.hpp"
#include "suites/tests/support.hpp"
#include "suites/verify/ledger.hpp"
#include "suites/verify/load_boxes.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

reports::Report verify_small(const std::filesystem::path& path, std::optional<std::uint64_t> budget,
                             Perturbation wrong = {}) {
  VerifyOptions options;
  options.threads = 2;
  options.budget_bytes = budget;
  options.perturbation = std::move(wrong);
  return verify(path, options);
}

constexpr std::string_view k_load_checks[] = {"value.exact",   "value.roundtrip", "value.routes", "mem.budget",
                                              "mem.predicted", "mem.temporaries", "io.ledger",    "io.sentinel",
                                              "io.poison",     "io.reload",       "io.opens"};

class Windows : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Windows, OnePieceAndManyGiveOneVerdict) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.family = GetParam().first;
  made.preset = GetParam().second;
  fixtures::generate(made, directory / "model");
  const reports::Report whole = verify_small(directory / "model", std::nullopt);
  // Small enough that tensors are cut into boxes, so codecs and strided experts meet every kind of edge.
  const bool has_large_granules = made.family == "gpt_oss";
  const reports::Report parts = verify_small(directory / "model", (has_large_granules ? 4U : 1U) << 20U);
  EXPECT_EQ(findings_of(parts), findings_of(whole));
  for (const std::string_view id : k_load_checks) {
    EXPECT_EQ(record_of(whole, id).status, Status::pass) << id << ": " << record_of(whole, id).message;
    EXPECT_EQ(record_of(parts, id).status, Status::pass) << id << ": " << record_of(parts, id).message;
  }
  EXPECT_EQ(record_of(parts, "value.exact").total, record_of(whole, "value.exact").total);
}

INSTANTIATE_TEST_SUITE_P(Families, Windows,
                         testing::Values(std::pair("qwen3_moe", "small"), std::pair("gpt_oss", "small"),
                                         std::pair("qwen3_vl", "small"), std::pair("nemotron_v3", "small"),
                                         std::pair("mistral3_fp8_causal", "small"), std::pair("llama", "small"),
                                         std::pair("llama_nf4", "tiny"), std::pair("ernie4_5", "small")),
                         [](const auto& row) { return std::string(row.param.first); });

// The window that holds the tensor, or a box of it, meets the fault; coordinates are those of the whole tensor.
TEST(Windows, AFaultInABoxIsNamedByTensorAndCoordinate) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.family = "llama";
  made.preset = "small";
  made.config_changes = R"({"vocab_size": 8192})";
  fixtures::generate(made, directory / "model");
  const std::string key = "model.embed_tokens.weight";
  exec::Faults faults{exec::Fault::skip_byte, 0, 0};
  std::uint64_t seen = 0;
  Perturbation wrong;
  wrong.first_load = [&](const plan::Plan& plan, exec::LoadOptions& options) {
    const std::size_t at = plan.find(key);
    if (at != SIZE_MAX && ++seen == 2) {
      faults.tensor = static_cast<std::uint32_t>(at);
      options.faults = &faults;
    }
  };
  const reports::Report report = verify_small(directory / "model", 1U << 20U, std::move(wrong));
  ASSERT_GE(seen, 2U) << "the tensor is one window: no box was met";
  const reports::CheckRecord& record = record_of(report, "value.exact");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_TRUE(names(record, key));
  const std::size_t bracket = record.message.find('[');
  ASSERT_NE(bracket, std::string::npos) << record.message;
  EXPECT_GT(std::stoull(record.message.substr(bracket + 1)), 0U)
      << "a later box does not begin at row 0: " << record.message;
}

// All threads of the plan against one.
TEST(Windows, ThreadsThatShowAreNamed) {
  const TemporaryDirectory directory;
  fixtures::generate({}, directory / "model");
  const std::string key = "model.layers.0.mlp.down_proj.weight";
  exec::Faults faults{exec::Fault::neighbour_range, 0, 0};
  Perturbation wrong;
  wrong.second_load = [&](const plan::Plan& plan, exec::LoadOptions& options) {
    EXPECT_EQ(options.threads, 1U);
    faults.tensor = static_cast<std::uint32_t>(plan.find(key));
    options.faults = &faults;
  };
  const reports::Report sound = verify_small(directory / "model", std::nullopt);
  EXPECT_EQ(record_of(sound, "io.determinism").status, Status::pass) << record_of(sound, "io.determinism").reason;
  const reports::Report report = verify_small(directory / "model", std::nullopt, std::move(wrong));
  EXPECT_EQ(record_of(report, "io.determinism").status, Status::fail);
  EXPECT_TRUE(names(record_of(report, "io.determinism"), key));
}

TEST(Windows, ABudgetThatIsTooSmallIsAnError) {
  const TemporaryDirectory directory;
  fixtures::generate({}, directory / "model");
  const ProcessResult result = run_tool({"verify", (directory / "model").string(), "--budget", "1000", "--json"});
  EXPECT_EQ(result.status, 3);
  const reports::Report report = reports::read_json(result.out);
  EXPECT_EQ(record_of(report, "mem.budget").status, Status::error);
  EXPECT_EQ(record_of(report, "value.exact").status, Status::skip);
}

// The tool as a process of its own, with the peak of its resident set.
std::uint64_t peak_of_tool(const std::vector<std::string>& arguments, std::string& out) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  std::vector<std::string> words = {std::string(WEIGHTPROOF_BINARY_DIR) + "/bin/weightproof"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], STDOUT_FILENO);
    ::close(pipe[0]);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  std::array<char, 1 << 16> buffer{};
  for (ssize_t got = 0; (got = ::read(pipe[0], buffer.data(), buffer.size())) > 0;) {
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  EXPECT_TRUE(WIFEXITED(status)) << out;
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

// A sparse model of many times the budget.
TEST(Windows, MemoryIsBoundByTheBudget) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.family = "llama";
  made.preset = "shape";
  made.config_changes =
      R"({"vocab_size": 8192, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2,
          "num_attention_heads": 16, "num_key_value_heads": 4})";
  made.sparse_edge_bytes = 4096;
  const auto checkpoint = fixtures::generate(made, directory / "model");
  constexpr std::uint64_t budget = 32U << 20U;
  ASSERT_GT(checkpoint.total_bytes, 8 * budget);
  std::string out;
  const std::uint64_t peak =
      peak_of_tool({"verify", (directory / "model").string(), "--budget", "32MiB", "--json", "--threads", "2"}, out);
  const reports::Report report = reports::read_json(out);
  for (const std::string_view id : k_load_checks) {
    EXPECT_EQ(record_of(report, id).status, Status::pass) << id << ": " << record_of(report, id).message;
  }
  std::cout << checkpoint.total_bytes / (1U << 20U) << " MiB verified under 32 MiB, peak of the process "
            << peak / (1U << 20U) << " MiB: " << record_of(report, "mem.budget").explanation << '\n';
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // What the heap keeps of buffers that were freed comes on top; it does not grow with the model.
  EXPECT_LT(peak, budget + (56U << 20U));
#endif
}

TEST(Boxes, AreConsecutiveAndCoverTheBox) {
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{1, 5}, Shape{3, 4, 5}, Shape{2, 1, 3, 1}, Shape{4, 0, 2}}) {
    for (const std::uint64_t most : {1U, 2U, 5U, 7U, 19U, 100U}) {
      std::uint64_t next = 0;
      const Box whole = Box::whole(shape);
      for_each_box(whole, most, [&](const Box& box, std::uint64_t first) {
        EXPECT_EQ(first, next);
        EXPECT_EQ(linear_index(shape, box.start), next);
        EXPECT_TRUE(shape.empty() || box.element_count() <= most);
        next += box.element_count();
      });
      EXPECT_EQ(next, whole.element_count());
    }
  }
}

TEST(Ledger, RangesAreAUnion) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    ByteRanges ranges;
    std::vector<bool> bytes(100, false);
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t begin = random() % 100;
      const std::uint64_t end = begin + random() % (101 - begin);
      ranges.add(begin, end);
      std::fill(bytes.begin() + static_cast<long>(begin), bytes.begin() + static_cast<long>(end), true);
    }
    const std::uint64_t from = random() % 100;
    const std::uint64_t to = from + random() % (101 - from);
    const auto hole = std::find(bytes.begin() + static_cast<long>(from), bytes.begin() + static_cast<long>(to), false);
    const auto end = bytes.begin() + static_cast<long>(to);
    EXPECT_EQ(ranges.first_missing(from, to),
              hole == end ? std::nullopt : std::optional<std::uint64_t>(hole - bytes.begin()));
    EXPECT_EQ(ranges.covered(from, to),
              static_cast<std::uint64_t>(std::count(bytes.begin() + static_cast<long>(from), end, true)));
  }
}

TEST(Ledger, MarksFindTheFirstOfEither) {
  ElementMarks marks;
  marks.reset(200);
  EXPECT_EQ(marks.first_clear(), 0U);
  EXPECT_EQ(marks.mark(0, 130), std::nullopt);
  EXPECT_EQ(marks.first_clear(), 130U);
  EXPECT_EQ(marks.mark(131, 69), std::nullopt);
  EXPECT_EQ(marks.first_clear(), 130U);
  EXPECT_EQ(marks.mark(130, 3), 131U);
  EXPECT_EQ(marks.first_clear(), std::nullopt);
  EXPECT_EQ(marks.mark(64, 64), 64U);
}

// What --dtype and --route ask for is what is loaded and compared, and nothing else is.
TEST(Asked, ADtypeIsLoadedAndComparedWithTheReference) {
  const TemporaryDirectory directory;
  for (const auto& [family, preset] : {std::pair("llama", "tiny"), std::pair("mistral3_fp8_causal", "tiny")}) {
    fixtures::GenerateOptions made;
    made.family = family;
    made.preset = preset;
    fixtures::generate(made, directory / family);
    VerifyOptions options;
    const reports::Report stored = verify(directory / family, options);
    options.dtype = plan::TargetDType::f32;
    const reports::Report widened = verify(directory / family, options);
    EXPECT_EQ(findings_of(widened), findings_of(stored)) << family;
    const reports::CheckRecord& exact = record_of(widened, "value.exact");
    EXPECT_EQ(exact.status, Status::pass) << family << exact.message;
    EXPECT_EQ(exact.total, 2 * record_of(stored, "value.exact").total) << family << ": F32 in the place of BF16";
    // A wrong value there is found too.
    exec::Faults faults{exec::Fault::skip_byte, 0, 0};
    options.perturbation.first_load = [&faults](const plan::Plan& plan, exec::LoadOptions& load) {
      faults.tensor = static_cast<std::uint32_t>(plan.find("model.norm.weight"));
      load.faults = &faults;
    };
    const reports::Report wrong = verify(directory / family, options);
    EXPECT_TRUE(names(record_of(wrong, "value.exact"), "model.norm.weight")) << family;
  }
}

TEST(Asked, ARouteIsTakenOrRefused) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.family = "qwen3_moe";
  made.preset = "tiny";
  fixtures::generate(made, directory / "model");
  VerifyOptions options;
  options.route = plan::Route::materialized;
  const reports::Report whole = verify(directory / "model", options);
  EXPECT_TRUE(findings_of(whole).empty()) << testing::PrintToString(findings_of(whole));
  ASSERT_FALSE(whole.plan.routes.empty());
  for (const reports::RouteRecord& row : whole.plan.routes) {
    EXPECT_EQ(row.route, "materialized");
  }
  // Codes are decoded in a buffer, which `direct` is without: an error, never another route.
  made.family = "gpt_oss";
  fixtures::generate(made, directory / "gpt_oss");
  options.route = plan::Route::direct;
  const reports::Report refused = verify(directory / "gpt_oss", options);
  const reports::CheckRecord& record = record_of(refused, "io.route");
  EXPECT_EQ(record.status, Status::error) << record.message;
  EXPECT_FALSE(record.subjects.empty());
  EXPECT_EQ(reports::exit_status(refused), 3);
}

}  // namespace
}  // namespace weightproof::suites::test
