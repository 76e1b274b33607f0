// SPDX-License-Identifier: Apache-2.0
// Faults of scales have one cause, whatever else fails because of them; a base that cannot be decoded is one error.
#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "fixtures/quantized.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

TEST(ScaleFaults, HaveOneCauseBesideTheTwin) {
  for (const char* fault : {"scale_nan", "scale_dropped", "block_scale_dropped", "scale_grid_transposed",
                            "scale_two_names", "scale_without_weight", "exponents_dropped", "companion_dropped"}) {
    SCOPED_TRACE(fault);
    const TemporaryDirectory directory;
    fixtures::GenerateOptions options = fixtures::clean_twin(*fixtures::find_corruption(fault));
    fixtures::generate(options, directory / "clean");
    options.corrupt = fault;
    fixtures::generate(options, directory / "broken");
    const std::string manifest = (directory / "manifest.json").string();
    ASSERT_EQ(run_tool({"manifest", (directory / "clean").string(), "--out", manifest}).status, 0);
    VerifyOptions beside;
    beside.against = (directory / "clean").string();
    VerifyOptions recorded;
    recorded.manifest_file = manifest;
    for (const VerifyOptions& how : {beside, recorded}) {
      const reports::Report report = verify(directory / "broken", how);
      EXPECT_EQ(reports::count_causes(report).causes, 1U);
      ASSERT_FALSE(report.findings.empty());
      EXPECT_NE(report.findings.front().rule, "value.manifest");
      const reports::CheckRecord& values = record_of(report, "value.manifest");
      EXPECT_NE(values.status, Status::error) << values.reason;
      if (values.status == Status::skip) {
        EXPECT_TRUE(contains(values.reason, "values cannot be decoded where quant.")) << values.reason;
      }
    }
  }
}

TEST(ScaleFaults, ANanScaleIsNamedWithItsWeight) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options = fixtures::clean_twin(*fixtures::find_corruption("scale_nan"));
  fixtures::generate(options, directory / "clean");
  options.corrupt = "scale_nan";
  fixtures::generate(options, directory / "broken");
  const ProcessResult result =
      run_tool({"verify", (directory / "broken").string(), "--against", (directory / "clean").string()});
  EXPECT_EQ(result.status, 1) << result.err;
  const std::string weight = "model.layers.3.mlp.up_proj.weight";
  EXPECT_TRUE(result.out.starts_with("FAIL  Scale is NaN: " + weight + "_scale_inv\n")) << result.out;
  EXPECT_TRUE(contains(result.out, weight + "_scale_inv, the scale of " + weight + ",\n      is NaN")) << result.out;
  EXPECT_TRUE(contains(result.out, "failures have 1 cause")) << result.out;
  EXPECT_FALSE(contains(result.out, "One value everywhere")) << result.out;
}

// A scheme that is decoded is nothing to read about.
TEST(ScaleFaults, ASchemeThatIsDecodedIsNoNote) {
  const TemporaryDirectory directory;
  fixtures::generate_quantized("fp8_block_f32", directory / "model");
  const reports::CheckRecord record = record_of(verify(directory / "model", {}), "quant.unsupported");
  EXPECT_EQ(record.status, Status::pass);
  EXPECT_EQ(record.explanation, "");
  EXPECT_TRUE(contains(record.evidence.find("decoded")->as_string(), "fp8_block x "));
}

// Nothing was compared with such a base, and nothing passes.
TEST(Base, ThatCannotBeDecodedIsOneErrorAndNoPass) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions options = fixtures::clean_twin(*fixtures::find_corruption("scale_dropped"));
  fixtures::generate(options, directory / "clean");
  options.corrupt = "scale_dropped";
  fixtures::generate(options, directory / "broken");
  for (const std::string base : {"broken", "absent"}) {
    VerifyOptions beside;
    beside.against = (directory / base).string();
    const reports::Report report = verify(directory / "clean", beside);
    EXPECT_EQ(findings_of(report), std::vector<std::string>{"value.manifest error"});
    EXPECT_EQ(report.findings.front().title, "The base cannot be compared with");
    for (const char* id : {"keys.export", "layout.qkv", "dtype.narrowed", "value.rounding", "quant.nibble_order"}) {
      EXPECT_EQ(record_of(report, id).status, Status::skip) << id;
    }
  }
}

}  // namespace
}  // namespace weightproof::suites::test
