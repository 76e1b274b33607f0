// SPDX-License-Identifier: Apache-2.0
// A reviewer's minute, with pages that the command made of faults that were really planted: the first screen names what
// is wrong and in which tensor.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "loader/storage/checkpoint.hpp"
#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "suites/explanations/rounding.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

struct Planted {
  const char* name;
  const char* kind;  ///< words that the page has to use; one of several, between bars
  const char* key;
  /// Makes a report in `directory`/report.
  void (*plant)(const std::filesystem::path& directory);
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

fixtures::GenerateOptions options_of(const char* family, const char* preset) {
  fixtures::GenerateOptions options;
  options.family = family;
  options.preset = preset;
  return options;
}

// The bytes of one tensor, read from or written into its file.
std::string bytes_of(const std::filesystem::path& checkpoint, std::string_view key, const std::string* replacement) {
  const storage::Checkpoint opened = storage::read_checkpoint(checkpoint, {}, 1);
  const StoredTensor* row = opened.catalog.find(key);
  EXPECT_NE(row, nullptr) << key;
  const std::filesystem::path file = opened.path_of(row->file);
  std::string bytes = read_file(file);
  const std::string before = bytes.substr(row->begin, row->bytes);
  if (replacement != nullptr) {
    EXPECT_EQ(replacement->size(), row->bytes) << key;
    bytes.replace(row->begin, row->bytes, *replacement);
    write_file(file, bytes);
  }
  return before;
}

void diff(const std::filesystem::path& directory, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"diff", (directory / "clean").string(), (directory / "broken").string(), "--report",
                                    (directory / "report").string()};
  words.insert(words.end(), more.begin(), more.end());
  const ProcessResult result = run_tool(words);
  EXPECT_EQ(result.status, 1) << result.out << result.err;
}

void swap_gate_and_up(const std::filesystem::path& directory) {
  for (const char* side : {"clean", "broken"}) {
    fixtures::generate(options_of("llama", "small"), directory / side);
  }
  const std::string gate = "model.layers.1.mlp.gate_proj.weight";
  const std::string up = "model.layers.1.mlp.up_proj.weight";
  const std::string bytes = bytes_of(directory / "broken", gate, nullptr);
  const std::string other = bytes_of(directory / "broken", up, &bytes);
  bytes_of(directory / "broken", gate, &other);
  diff(directory);
}

void leave_a_stale_shard(const std::filesystem::path& directory) {
  fixtures::GenerateOptions options = options_of("llama", "small");
  options.shard_count = 3;
  fixtures::generate(options, directory / "clean");
  fixtures::generate(options, directory / "broken");
  options.seed = 99;
  fixtures::generate(options, directory / "earlier");
  const std::string shard = "model-00002-of-00003.safetensors";
  std::filesystem::copy_file(directory / "earlier" / shard, directory / "broken" / shard,
                             std::filesystem::copy_options::overwrite_existing);
  diff(directory, {"--earlier", (directory / "earlier").string()});
}

void truncate_to_bf16(const std::filesystem::path& directory) {
  std::string wide;
  std::string narrow;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < 4096; ++i) {
    state = state * 1664525U + 1013904223U;
    const float value = (static_cast<float>(state >> 8U) / 16777216.0F - 0.5F) / 16;
    wide.append(reinterpret_cast<const char*>(&value), 4);
    const std::uint16_t cut = round_to(value, DType::bf16, RoundingMode::toward_zero);
    narrow.append(reinterpret_cast<const char*>(&cut), 2);
  }
  std::filesystem::create_directories(directory / "clean");
  std::filesystem::create_directories(directory / "broken");
  write_safetensors(directory / "clean/model.safetensors",
                    R"({"lm_head.weight":{"dtype":"F32","shape":[64,64],"data_offsets":[0,16384]}} )", wide);
  write_safetensors(directory / "broken/model.safetensors",
                    R"({"lm_head.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192]}} )", narrow);
  diff(directory);
}

void lose_the_tied_head(const std::filesystem::path& directory) {
  fixtures::GenerateOptions options = fixtures::clean_twin(*fixtures::find_corruption("untied_head_missing"));
  options.corrupt = "untied_head_missing";
  fixtures::generate(options, directory / "broken");
  const ProcessResult result =
      run_tool({"verify", (directory / "broken").string(), "--report", (directory / "report").string()});
  EXPECT_EQ(result.status, 1) << result.out << result.err;
}

// The kernel's figure where it can be had, else the allocator's.
void exceed_the_bound(const std::filesystem::path& directory) {
  for (const char* check : {"mem.peak", "mem.predicted"}) {
    for (const Mutant& mutant : resource_mutants()) {
      if (mutant.checks != std::vector<std::string>{check}) {
        continue;
      }
      const std::filesystem::path broken = directory / ("broken-" + std::string(check));
      fixtures::generate(mutant.fixture, broken);
      VerifyOptions options;
      options.perturbation = mutant.perturbation;
      const reports::Report report = verify(broken, options);
      if (record_of(report, check).status != reports::Status::fail) {
        continue;
      }
      std::filesystem::create_directories(directory / "report");
      write_file(directory / "report/report.html", reports::emit_html(report));
      write_file(directory / "report/report.json", reports::emit_json(report));
      return;
    }
  }
  FAIL() << "no memory fault was noticed";
}

void double_a_scale(const std::filesystem::path& directory) {
  fixtures::GenerateOptions options = fixtures::clean_twin(*fixtures::find_corruption("scale_nan"));
  for (const char* side : {"clean", "broken"}) {
    fixtures::generate(options, directory / side);
  }
  const storage::Checkpoint opened = storage::read_checkpoint(directory / "broken", {}, 1);
  for (const StoredTensor& row : opened.catalog.tensors()) {
    if (!row.key.ends_with("layers.0.self_attn.q_proj.weight_scale_inv") &&
        !row.key.ends_with("layers.0.self_attn.q_proj.weight_scale")) {
      continue;
    }
    // Twice the value: one more in the exponent.
    std::string bytes = bytes_of(directory / "broken", row.key, nullptr);
    const std::size_t width = bits_of(row.dtype) / 8;
    const unsigned shift = row.dtype == DType::f32 ? 23 : 7;
    for (std::size_t at = 0; at < bytes.size(); at += width) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes.data() + at, width);
      word += 1U << shift;
      std::memcpy(bytes.data() + at, &word, width);
    }
    bytes_of(directory / "broken", row.key, &bytes);
  }
  diff(directory);
}

const Planted k_planted[] = {
    {"gate_up", "Gate and up swapped", "model.layers.1.mlp.gate_proj.weight", &swap_gate_and_up},
    {"stale", "Stale copy", "model.layers.", &leave_a_stale_shard},
    {"truncated", "Truncated instead of rounded to BF16", "lm_head.weight", &truncate_to_bf16},
    {"head", "Head lost", "lm_head.weight", &lose_the_tied_head},
    {"memory", "Memory peak over its bound|Temporary outlives its part|Measured is not what was predicted", "model.",
     &exceed_the_bound},
    {"scale", "Wrong scale: ratio 2", "model.layers.0.self_attn.q_proj.weight", &double_a_scale},
};

class Minute : public testing::TestWithParam<Planted> {};

// The verdict sentence of a page, without markup.
std::string verdict_of(const std::string& html) {
  const std::size_t from = html.find("<h1>");
  const std::string title =
      from == std::string::npos ? std::string() : html.substr(from, html.find("</h1>", from) - from);
  std::string flat;
  for (std::size_t i = 0; i < title.size(); ++i) {
    if (title[i] == '<') {
      i = title.find('>', i);
    } else {
      flat += title[i];
    }
  }
  return flat;
}

std::string lower(std::string text) {
  for (char& c : text) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return text;
}

// Which of the words stand there; empty where none do.
std::string kind_in(const std::string& verdict, std::string_view kinds) {
  while (!kinds.empty()) {
    const std::size_t end = kinds.find('|');
    const std::string kind(kinds.substr(0, end));
    if (lower(verdict).find(lower(kind)) != std::string::npos) {
      return kind;
    }
    kinds.remove_prefix(end == std::string_view::npos ? kinds.size() : end + 1);
  }
  return {};
}

TEST_P(Minute, TheVerdictNamesFaultAndTensor) {
  const TemporaryDirectory directory;
  GetParam().plant(directory.path());
  const std::string verdict = verdict_of(read_file(directory / "report/report.html"));
  EXPECT_NE(kind_in(verdict, GetParam().kind), "") << verdict;
  EXPECT_NE(verdict.find(GetParam().key), std::string::npos) << verdict;
  const std::string valid = validate("weightproof.report-1", read_file(directory / "report/report.json"));
  EXPECT_TRUE(valid.empty() || valid == "skipped") << valid;
}

INSTANTIATE_TEST_SUITE_P(Faults, Minute, testing::ValuesIn(k_planted),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Explained, ASecondCheckpointTellsWhichLayoutIsWrong) {
  const TemporaryDirectory directory;
  swap_gate_and_up(directory.path());
  VerifyOptions options;
  options.against = (directory / "clean").string();
  const reports::Report report = verify(directory / "broken", options);
  const reports::CheckRecord& record = record_of(report, "layout.gate_up_order");
  EXPECT_EQ(record.status, reports::Status::fail);
  EXPECT_TRUE(names(record, "model.layers.1.mlp.gate_proj.weight"));
  EXPECT_TRUE(names(record, "model.layers.1.mlp.up_proj.weight"));
  for (const char* id : {"layout.transpose", "layout.qkv", "layout.rope", "layout.expert_order"}) {
    EXPECT_EQ(record_of(report, id).status, reports::Status::pass) << id;
  }
  EXPECT_EQ(report.findings.front().title, "Gate and up swapped");
}

// One tensor whose blocks of rows lie in another order, and the check that has to say so.
struct Misplaced {
  const char* check;
  const char* family;
  const char* form;
  const char* key;
  std::size_t blocks;                              ///< equal parts of its bytes
  std::size_t (*source)(std::size_t destination);  ///< block that lies there
};
void PrintTo(const Misplaced& misplaced, std::ostream* out) { *out << misplaced.check; }

const Misplaced k_misplaced[] = {
    // 8 query, 2 key and 2 value heads: keys and values exchanged.
    {"layout.qkv", "phi3", "", "model.layers.2.self_attn.qkv_proj.weight", 12,
     [](std::size_t i) { return i < 8 ? i : (i < 10 ? i + 2 : i - 2); }},
    {"layout.gate_up_interleave", "phi3", "", "model.layers.1.mlp.gate_up_proj.weight", 688,
     [](std::size_t i) { return i / 2 + i % 2 * 344; }},
    // Heads of 16 rows, their halves interleaved.
    {"layout.rope", "llama", "", "model.layers.3.self_attn.q_proj.weight", 128,
     [](std::size_t i) { return i / 16 * 16 + i % 16 / 2 + i % 2 * 8; }},
    {"layout.expert_order", "qwen3_moe", "stacked", "model.layers.1.mlp.experts.down_proj", 8,
     [](std::size_t i) { return 7 - i; }},
};

class MisplacedRows : public testing::TestWithParam<Misplaced> {};

TEST_P(MisplacedRows, AreNamedByTheCheckOfTheirKindAlone) {
  const Misplaced& wrong = GetParam();
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made = options_of(wrong.family, "small");
  made.form = wrong.form;
  for (const char* side : {"clean", "broken"}) {
    fixtures::generate(made, directory / side);
  }
  const std::string bytes = bytes_of(directory / "broken", wrong.key, nullptr);
  const std::size_t block = bytes.size() / wrong.blocks;
  ASSERT_EQ(block * wrong.blocks, bytes.size());
  std::string moved;
  for (std::size_t i = 0; i < wrong.blocks; ++i) {
    moved += bytes.substr(wrong.source(i) * block, block);
  }
  ASSERT_NE(moved, bytes);
  bytes_of(directory / "broken", wrong.key, &moved);
  VerifyOptions options;
  options.against = (directory / "clean").string();
  const reports::Report report = verify(directory / "broken", options);
  for (const char* id : {"layout.qkv", "layout.gate_up_order", "layout.gate_up_interleave", "layout.transpose",
                         "layout.expert_order", "layout.rope"}) {
    const reports::CheckRecord& record = record_of(report, id);
    const bool is_it = std::string_view(id) == wrong.check;
    EXPECT_EQ(record.status, is_it ? reports::Status::fail : reports::Status::pass) << id << ": " << record.message;
    EXPECT_EQ(names(record, wrong.key), is_it) << id;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MisplacedRows, testing::ValuesIn(k_misplaced), [](const auto& row) {
  std::string name = row.param.check;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST(Explained, ATensorThatDiffersFromTheReferenceHasAFinding) {
  FixtureShelf shelf;
  std::size_t seen = 0;
  for (const Mutant& mutant : execution_mutants()) {
    VerifyOptions options;
    options.perturbation = mutant.perturbation;
    const reports::Report report = verify(shelf.get(mutant.fixture).path, options);
    if (record_of(report, "value.exact").status != reports::Status::fail) {
      continue;
    }
    for (const std::string& key : record_of(report, "value.exact").subjects) {
      const auto finding = std::find_if(report.findings.begin(), report.findings.end(), [&key](const auto& row) {
        return row.rule == "value.exact" && row.key == key;
      });
      ASSERT_NE(finding, report.findings.end()) << mutant.id << ' ' << key;
      EXPECT_FALSE(finding->expected.hex.empty()) << mutant.id;
      EXPECT_NE(finding->expected.hex, finding->actual.hex) << mutant.id;
      EXPECT_TRUE(finding->where.has_value()) << mutant.id;
    }
    if (++seen == 5) {
      return;
    }
  }
  EXPECT_GT(seen, 0U) << "no mutant fails value.exact";
}

bool have_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (run_program({"/bin/sh", "-c", std::string("command -v ") + name}, {"PATH=/usr/local/bin:/usr/bin:/bin"})
            .status == 0) {
      return true;
    }
  }
  return false;
}

TEST(MinuteInABrowser, TheFirstViewportHoldsFaultAndTensor) {
  if (!have_browser()) {
    GTEST_SKIP() << "no Chromium is installed";
  }
  const TemporaryDirectory directory;
  std::string list = "[";
  for (const Planted& planted : k_planted) {
    const std::filesystem::path made = directory / planted.name;
    planted.plant(made);
    std::filesystem::create_directories(directory / ("fault-" + std::string(planted.name)));
    std::filesystem::copy_file(made / "report/report.html",
                               directory / ("fault-" + std::string(planted.name)) / "report.html");
    const std::string kind = kind_in(verdict_of(read_file(made / "report/report.html")), planted.kind);
    ASSERT_NE(kind, "") << planted.name;
    list += (list.size() == 1 ? "" : ",") + std::string("{\"name\":\"") + planted.name + "\",\"kind\":\"" + kind +
            "\",\"key\":\"" + planted.key + "\"}";
  }
  write_file(directory / "faults.json", list + "]");
  const ProcessResult seen =
      run_program({"/usr/bin/env", "python3", std::string(WEIGHTPROOF_SOURCE_DIR) + "/reports/tests/browser.py",
                   "check", "planted", directory.path().string()},
                  {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + directory.path().string()});
  EXPECT_EQ(seen.status, 0) << seen.out << seen.err;
}

}  // namespace
}  // namespace weightproof::suites::test
