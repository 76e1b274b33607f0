// SPDX-License-Identifier: Apache-2.0
// Memory across processes: what `plan` prints is what the allocator of `load` counts, nothing to speak of is taken past
// it, a budget holds to the byte, and the kernel agrees.
#include <cstdlib>
#include <iostream>

#include "fixtures/generate.hpp"
#include "loader/core/config.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

constexpr std::uint64_t k_allowance = 8U << 20U;

std::uint64_t number(const std::string& json, std::string_view path) {
  const ConfigValue document = ConfigValue::parse(json, "output");
  const ConfigValue* value = document.find(path);
  EXPECT_NE(value, nullptr) << path;
  return value == nullptr || !value->as_integer() ? 0 : static_cast<std::uint64_t>(*value->as_integer());
}

std::string run(std::vector<std::string> words) {
  words.emplace_back("--json");
  const ProcessResult result = run_tool(words);
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  return result.out;
}

struct Case {
  const char* name;
  const char* family;
  const char* preset;
  std::vector<std::string> options;
};

class Prediction : public testing::TestWithParam<Case> {};

TEST_P(Prediction, OfAPlanIsWhatALoadCounts) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made;
  made.family = GetParam().family;
  made.preset = GetParam().preset;
  fixtures::generate(made, directory / "model");
  const auto with = [&](const char* verb) {
    std::vector<std::string> words = {verb, (directory / "model").string()};
    words.insert(words.end(), GetParam().options.begin(), GetParam().options.end());
    return words;
  };
  const std::string plan = run(with("plan"));
  const std::string load = run(with("load"));
  const std::uint64_t predicted = number(plan, "predicted_peak.peak");
  EXPECT_GT(predicted, 0U);
  EXPECT_EQ(number(load, "memory.figures.allocator_peak.bytes"), predicted);
  EXPECT_EQ(number(load, "memory.bound"), number(plan, "predicted_peak.beyond_final"));
  EXPECT_GT(number(load, "measured.bytes_read"), 0U);
  EXPECT_EQ(number(load, "measured.bytes_read"), number(load, "planned.bytes"));
  const std::string verdict = validate("weightproof.load-1", load);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
}

INSTANTIATE_TEST_SUITE_P(Cases, Prediction,
                         testing::Values(Case{"direct", "llama", "small", {"--threads", "2"}},
                                         Case{"one_thread", "qwen3_moe", "small", {"--threads", "1"}},
                                         Case{"cast", "qwen3_moe", "small", {"--dtype", "f32", "--threads", "3"}},
                                         Case{"materialized", "qwen3_moe", "small", {"--route", "materialized"}},
                                         Case{"decoded", "gpt_oss", "small", {"--threads", "2"}},
                                         Case{"decoded_fp8", "mistral3_fp8_causal", "small", {"--dtype", "f32"}},
                                         Case{"decoded_blocks", "deepseek_v3", "small", {"--threads", "3"}},
                                         Case{"decoded_whole", "gpt_oss", "small", {"--route", "materialized"}},
                                         Case{"stored_layout", "nemotron_v3", "small", {"--layout", "hf"}}),
                         [](const auto& row) { return std::string(row.param.name); });

// The matrices of real models, few of them: tensors of many tiles, scales that many tiles share.
TEST(RealMatrices, PredictionIsCountAndPlannedIsRead) {
  struct Model {
    const char* family;
    const char* changes;
  };
  for (const Model& model :
       {Model{"mistral3_fp8_vlm", R"({"text_config/num_hidden_layers": 1, "text_config/vocab_size": 512,
                                      "vision_config/num_hidden_layers": 1})"},
        Model{"gpt_oss", R"({"num_hidden_layers": 1, "vocab_size": 512, "num_local_experts": 4})"}}) {
    SCOPED_TRACE(model.family);
    const TemporaryDirectory directory;
    fixtures::GenerateOptions made;
    made.family = model.family;
    made.preset = "shape";
    made.config_changes = model.changes;
    made.sparse_edge_bytes = 4096;
    fixtures::generate(made, directory / "model");
    const std::string path = (directory / "model").string();
    for (const char* threads : {"1", "2", "3"}) {
      SCOPED_TRACE(threads);
      const std::string plan = run({"plan", path, "--threads", threads});
      const std::string load = run({"load", path, "--threads", threads, "--no-digest"});
      EXPECT_EQ(number(load, "memory.figures.allocator_peak.bytes"), number(plan, "predicted_peak.peak"));
      EXPECT_EQ(number(load, "measured.bytes_read"), number(load, "planned.bytes"));
      EXPECT_LE(number(plan, "predicted_peak.staging"), 64U << 20U);
      EXPECT_LE(number(plan, "predicted_peak.companion"), 16U << 20U);
      EXPECT_EQ(number(plan, "predicted_peak.whole"), 0U) << "nothing is held whole";
    }
  }
}

TEST(Budget, HoldsAtItsLeastAndFailsOneByteBelow) {
  const TemporaryDirectory directory;
  for (const char* family : {"llama", "gpt_oss"}) {
    fixtures::GenerateOptions made;
    made.family = family;
    made.preset = "small";
    const std::string path = (directory / family).string();
    fixtures::generate(made, path);
    const ProcessResult refused = run_tool({"plan", path, "--budget", "1", "--json"});
    EXPECT_EQ(refused.status, 3);
    EXPECT_NE((refused.out + refused.err).find("BUDGET_TOO_SMALL"), std::string::npos) << refused.out << refused.err;
    const ConfigValue error = ConfigValue::parse(refused.out.empty() ? refused.err : refused.out, "output");
    const ConfigValue* expected = error.find("expected");
    ASSERT_NE(expected, nullptr) << refused.out << refused.err;
    const std::uint64_t least = std::stoull(std::string(*expected->as_string()));
    const std::string load = run({"load", path, "--budget", std::to_string(least)});
    EXPECT_LE(number(load, "memory.figures.allocator_peak.bytes"),
              number(load, "memory.figures.final_storage.bytes") + least);
    for (const char* verb : {"plan", "load"}) {
      const ProcessResult below = run_tool({verb, path, "--budget", std::to_string(least - 1), "--json"});
      EXPECT_EQ(below.status, 3) << verb;
      EXPECT_NE((below.out + below.err).find("BUDGET_TOO_SMALL"), std::string::npos) << below.out << below.err;
      EXPECT_NE((below.out + below.err).find(std::to_string(least)), std::string::npos) << "says what would do";
    }
  }
}

TEST(Bench, SaysEveryCaseWithItsBaseline) {
  const std::string bench = run({"bench", "--size", "8MiB", "--rounds", "1"});
  const std::string verdict = validate("weightproof.bench-1", bench);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  const ConfigValue document = ConfigValue::parse(bench, "output");
  const ConfigValue* cases = document.find("cases");
  ASSERT_NE(cases, nullptr);
  EXPECT_GE(cases->items().size(), 5U);
  for (const ConfigValue& row : cases->items()) {
    EXPECT_EQ(row.find("ratios")->items().size(), 1U);
    EXPECT_FALSE(row.find("baseline")->as_string()->empty());
  }
}

// Sanitizers stand in the place of the counting library, and their memory is in every figure of the kernel.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_SANITIZERS() GTEST_SKIP() << "a sanitizer's memory is in every figure of this build"
#else
#define SKIP_UNDER_SANITIZERS() static_cast<void>(0)
#endif

fixtures::GeneratedCheckpoint make_large(const std::filesystem::path& path, std::uint64_t bytes) {
  fixtures::GenerateOptions made;
  made.family = "llama";
  made.preset = "shape";
  const std::uint64_t layers = std::max<std::uint64_t>(1, bytes / (134U << 20U));  // 134 MiB a layer
  made.config_changes = R"({"vocab_size": 4096, "hidden_size": 2048, "intermediate_size": 8192,
      "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": )" +
                        std::to_string(layers) + "}";
  made.sparse_edge_bytes = 4096;
  return fixtures::generate(made, path);
}

// Sizes for a machine of one's own: WEIGHTPROOF_TEST_LOAD_BYTES.
std::uint64_t load_bytes() {
  const char* asked = std::getenv("WEIGHTPROOF_TEST_LOAD_BYTES");
  return asked == nullptr ? 256U << 20U : std::strtoull(asked, nullptr, 10);
}

// VmHWM - before - final <= predicted + 8 MiB.
TEST(Kernel, AgreesWithThePrediction) {
  SKIP_UNDER_SANITIZERS();
  const TemporaryDirectory directory;
  make_large(directory / "model", load_bytes());
  const std::string load = run({"load", (directory / "model").string(), "--threads", "2"});
  const std::uint64_t growth = number(load, "memory.figures.growth.bytes");
  const std::uint64_t final_bytes = number(load, "memory.figures.final_storage.bytes");
  const std::uint64_t bound = number(load, "memory.bound");
  std::cout << (final_bytes >> 20U) << " MiB loaded: grew by " << growth << " bytes, final storage " << final_bytes
            << ", beyond it " << (growth > final_bytes ? growth - final_bytes : 0) << " of at most "
            << bound + k_allowance << '\n';
  EXPECT_GE(growth, final_bytes / 2) << "nothing was loaded, or nothing was measured";
  EXPECT_LE(growth, final_bytes + bound + k_allowance);
}

TEST(Interposed, NothingToSpeakOfIsTakenPastTheAllocator) {
  SKIP_UNDER_SANITIZERS();
  const TemporaryDirectory directory;
  make_large(directory / "model", 134U << 20U);
  fixtures::GenerateOptions many;
  many.family = "qwen3_moe";
  many.preset = "small";
  many.config_changes = R"({"num_experts": 256, "num_hidden_layers": 4})";
  fixtures::generate(many, directory / "many");
  for (const char* name : {"model", "many"}) {
    const std::string report = (directory / "report").string();
    const ProcessResult result =
        run_tool({"load", (directory / name).string(), "--json", "--threads", "2"},
                 {std::string("LD_PRELOAD=") + WEIGHTPROOF_INTERPOSE_LIBRARY, "WEIGHTPROOF_INTERPOSE_OUT=" + report});
    ASSERT_EQ(result.status, 0) << result.err;
    const std::string counted = read_file(report);
    ASSERT_FALSE(counted.empty()) << "the counting library was not loaded";
    const std::uint64_t taken = std::stoull(counted);
    const std::uint64_t allocator = number(result.out, "memory.figures.allocator_peak.bytes");
    const std::uint64_t metadata =
        number(run({"plan", (directory / name).string(), "--threads", "2"}), "predicted_peak.metadata");
    // Metadata is stated, and counted by the allocator, but lies in ordinary memory.
    const std::uint64_t in_allocator = allocator - metadata;
    std::cout << name << ": malloc, new and mmap " << taken << ", the allocator " << in_allocator << ", metadata "
              << metadata << ", past it " << (taken > in_allocator ? taken - in_allocator : 0) << '\n';
    EXPECT_GE(taken, in_allocator) << "the library does not see what the allocator takes";
    EXPECT_LE(taken, in_allocator + metadata + k_allowance);
  }
}

TEST(Interposed, SeesWhatIsTaken) {
  SKIP_UNDER_SANITIZERS();
  const TemporaryDirectory directory;
  const std::string report = (directory / "report").string();
  fixtures::generate({}, directory / "model");
  const ProcessResult result =
      run_tool({"load", (directory / "model").string()},
               {std::string("LD_PRELOAD=") + WEIGHTPROOF_INTERPOSE_LIBRARY, "WEIGHTPROOF_INTERPOSE_OUT=" + report});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string counted = read_file(report);
  const std::size_t space = counted.find(' ');
  ASSERT_NE(space, std::string::npos) << counted;
  EXPECT_GT(std::stoull(counted), 10'000U);              // the heap
  EXPECT_GT(std::stoull(counted.substr(space)), 4096U);  // the arena is a mapping
}

}  // namespace
}  // namespace weightproof::suites::test
