// SPDX-License-Identifier: Apache-2.0
// Indexes of published models of every kind, judged by --keys-only. The figures are literals; where an index and its
// config differ, the row says why.
#include <gtest/gtest.h>

#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

struct IndexRow {
  const char* folder;
  const char* family;
  std::uint64_t tensors;
  std::uint64_t required;    ///< keys that the config asks for, all there
  std::uint64_t unexpected;  ///< all under keys.unexpected
  std::uint64_t total_size;  ///< as the index says
  Status total;              ///< of index.total_size
  const char* why;           ///< what index.total_size says; part of its text
  const char* defaulted = "";
  std::uint64_t dropped = 0;
};
void PrintTo(const IndexRow& row, std::ostream* out) { *out << row.folder; }

class RealFamily : public testing::TestWithParam<IndexRow> {};

TEST_P(RealFamily, KeysAndTotalAreAsKnown) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const IndexRow& row = GetParam();
  VerifyOptions options;
  options.selection.keys_only = true;
  const reports::Report report = verify(data / row.folder, options);
  EXPECT_EQ(report.checkpoint.family, row.family);
  EXPECT_EQ(report.checkpoint.tensors, row.tensors);
  EXPECT_EQ(report.checkpoint.bytes, row.total_size);
  EXPECT_EQ(record_of(report, "keys.family").status, Status::pass) << record_of(report, "keys.family").message;
  const reports::CheckRecord& missing = record_of(report, "keys.missing");
  EXPECT_EQ(missing.status, Status::pass);
  EXPECT_EQ(missing.total, row.required);
  const reports::CheckRecord& unexpected = record_of(report, "keys.unexpected");
  EXPECT_EQ(unexpected.status, row.unexpected == 0 ? Status::pass : Status::fail);
  EXPECT_EQ(unexpected.total, row.unexpected == 0 ? row.tensors : row.unexpected);
  const reports::CheckRecord& total = record_of(report, "index.total_size");
  EXPECT_EQ(total.status, row.total);
  EXPECT_NE((total.message + total.reason + total.explanation).find(row.why), std::string::npos)
      << total.message << total.reason << total.explanation;
  EXPECT_NE(record_of(report, "keys.defaulted").explanation.find(row.defaulted), std::string::npos)
      << record_of(report, "keys.defaulted").explanation;
  EXPECT_EQ(record_of(report, "keys.dropped").subjects.size(), row.dropped);
  const Status mapping = record_of(report, "layout.mapping").status;
  EXPECT_TRUE(mapping == Status::pass || mapping == Status::skip) << record_of(report, "layout.mapping").message;
}

INSTANTIATE_TEST_SUITE_P(
    Indexes, RealFamily,
    testing::Values(
        IndexRow{"gpt-oss-20b", "gpt_oss", 459, 411, 0, 13761264768, Status::pass, "13,761,264,768 follows from"},
        // Five kinds of keys of another attention in 48 layers.
        IndexRow{"qwen3-30b-a3b-transgqa", "qwen3_moe", 19107, 18867, 240, 61066358784, Status::skip,
                 "there is no config.json"},
        IndexRow{"qwen3.5-moe-18b-reap", "qwen3_5_moe", 15973, 15973, 0, 37087995136, Status::pass, "follows from",
                 "multi-token prediction: absent, none of the config's 1 layer is stored"},
        // Routers of 384 rows beside a config that asks for fewer, and recomputed rotary frequencies.
        IndexRow{"kimi-k2-mini-fp8-broken", "deepseek_v3", 2623, 1372, 0, 23860128480, Status::skip,
                 "121,699,872 bytes more than the config asks for", "", 24},
        IndexRow{"mixtral-8x22b-wizardlm2", "mixtral", 1739, 1739, 0, 281241268224, Status::pass, "follows from"},
        IndexRow{"phi3-mini-slerp", "phi3", 195, 195, 0, 7642159104, Status::pass, "follows from"},
        // 437 tensors of the vision tower and 2 of the projector: the config does not tell their shapes.
        IndexRow{"medgemma-27b", "gemma3", 1247, 809, 0, 54864813280, Status::skip, "439 tensors have shapes",
                 "tie_word_embeddings"},
        // Affine codes of a generic scheme: names alone.
        IndexRow{"qwen3.5-27b-mlx-mixed", "qwen3_5", 2180, 851, 0, 20444027360, Status::skip, "mlx_affine",
                 "multi-token prediction: absent"},
        IndexRow{"cosmos-reason2-qwen3vl", "qwen3_vl", 750, 399, 0, 0, Status::skip, "the index says 0"},
        IndexRow{"mimo-7b-mtp", "mimo", 451, 451, 0, 15666819072, Status::pass, "follows from"},
        // 80 routers of 32 x 6144 values are stored in F32 where the config says BF16.
        IndexRow{"minimax-m1", "minimax_m1", 8243, 8243, 0, 912210767872, Status::warn, "31,457,280 bytes less"}),
    [](const auto& row) {
      std::string name;
      for (const char c : std::string_view(row.param.folder)) {
        name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      }
      return name;
    });

}  // namespace
}  // namespace weightproof::suites::test
