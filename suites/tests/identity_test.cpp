// SPDX-License-Identifier: Apache-2.0
// Checkpoints whose family nobody knows: every tensor is itself, whatever its name holds, for every verb by one rule.
#include "fixtures/writer.hpp"
#include "loader/plan/coverage.hpp"
#include "suites/state/identity_schema.hpp"
#include "suites/tests/cli_testing.hpp"

namespace weightproof::suites::test {
namespace {

const std::vector<std::string> k_names = {"a[*]", "a[1]", "a[*].b", "*", "?", "a?", "[*]"};

// Names that read as globs, and others that those globs would take.
std::string write_names(const TemporaryDirectory& directory) {
  std::string header = "{";
  std::string data;
  for (const std::string& name : k_names) {
    const std::string begin = std::to_string(data.size());
    data += std::string(8, static_cast<char>('A' + data.size() / 8));
    header += (header.size() > 1 ? "," : "") + fixtures::json_quote(name) +
              R"(:{"dtype":"F32","shape":[2],"data_offsets":[)" + begin + "," + std::to_string(data.size()) + "]}";
  }
  const std::filesystem::path path = directory / "names.safetensors";
  write_safetensors(path, header + "}", data);
  return path.string();
}

TEST(Identity, NamesAreNoPatterns) {
  const TemporaryDirectory directory;
  const std::string path = write_names(directory);
  const storage::Checkpoint checkpoint = storage::open_checkpoint(path, {});
  // A state that leaves all but one out stands for one whose other tensors are of no weight in any value.
  StateOptions options;
  options.selects = [](std::string_view key) { return key == "a[*]"; };
  const DecodedState state(checkpoint, options);
  ASSERT_EQ(state.tensors().size(), 1U);
  const std::shared_ptr<const Schema> schema = identity_schema(checkpoint.catalog, state);
  ASSERT_EQ(schema->stored_tensors().size(), 1U);
  EXPECT_EQ(schema->stored_tensors()[0].key, "a[*]");
  // One rule for all that is left: a rule for each would have its name as a pattern.
  ASSERT_EQ(schema->drops().size(), 1U);
  const plan::KeyCoverage coverage = plan::check_keys(*schema, checkpoint.catalog);
  EXPECT_TRUE(coverage.is_complete());
  EXPECT_EQ(coverage.dropped.front().rows.size(), k_names.size() - 1);
  EXPECT_EQ(checkpoint.catalog.tensors()[coverage.row_of[0]].key, "a[*]");
  // Where nothing is left there is no rule, so that a name too many would be one.
  const DecodedState whole(checkpoint, {});
  EXPECT_TRUE(identity_schema(checkpoint.catalog, whole)->drops().empty());
}

TEST(Identity, EveryVerbTakesEachTensorForItself) {
  const TemporaryDirectory directory;
  const std::string path = write_names(directory);
  const ProcessResult judged = run_tool({"verify", path});
  EXPECT_EQ(judged.status, 0) << judged.out;
  const std::string out = (directory / "out").string();
  ASSERT_EQ(run_tool({"load", path, "--emit", out}).status, 0);
  EXPECT_EQ(run_tool({"diff", path, out}).status, 0);
  EXPECT_EQ(run_tool({"verify", out}).status, 0);
  const std::string one = (directory / "one").string();
  ASSERT_EQ(run_tool({"export", path, "--include", "a[?].b", "--out", one}).status, 0);
  EXPECT_TRUE(contains(run_tool({"inspect", one, "--tensors"}).out, "a[*].b  F32 [2]"));
  // Floats are weights to every verb, integers are none.
  EXPECT_TRUE(contains(run_tool({"plan", path, "--dtype", "bf16"}).out, "a[*]  BF16 [2]"));
}

}  // namespace
}  // namespace weightproof::suites::test
