// SPDX-License-Identifier: Apache-2.0
// What a report says of a plan adds up: every stored byte is moved, decoded or dropped with a reason.
#include "suites/verify/plan_record.hpp"

#include "adapters/family.hpp"
#include "fixtures/generate.hpp"
#include "loader/plan/planner.hpp"
#include "suites/state/decoded_state.hpp"
#include "suites/tests/support.hpp"
#include "suites/verify/quantization.hpp"

namespace weightproof::suites::test {
namespace {

reports::PlanInfo planned(const fixtures::GenerateOptions& options) {
  const TemporaryDirectory directory;
  fixtures::generate(options, directory / "model");
  const storage::Checkpoint checkpoint = storage::read_checkpoint(directory / "model", {}, 1);
  const auto detection = adapters::detect(&*checkpoint.config, checkpoint.catalog, {});
  const Form form = detection.family->find_form(*checkpoint.config, checkpoint.catalog);
  const auto schema =
      std::make_shared<const Schema>(detection.family->describe(*checkpoint.config, form, ExpertStorage::grouped));
  const std::shared_ptr<const Catalog> catalog(&checkpoint.catalog, [](const Catalog*) {});
  const QuantizedState state = read_quantization(checkpoint, *catalog, nullptr);
  plan::Request request;
  request.decoded_dtype = decoded_dtype(&*checkpoint.config);
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    std::vector<plan::Row> rows;
    for (const codec::Component& component : state.found.tensors[i].components) {
      rows.push_back(static_cast<plan::Row>(catalog->index_of(component.key)));
    }
    request.decodes.push_back({schema->find_stored(state.found.tensors[i].key), state.codecs[i], std::move(rows)});
  }
  const std::vector<plan::Source> sources = {{"model", catalog}};
  return plan_record_of(plan::make_plan(schema, sources, {}, request));
}

fixtures::GenerateOptions options_of(const char* family, const char* preset) {
  fixtures::GenerateOptions options;
  options.family = family;
  options.preset = preset;
  return options;
}

TEST(PlanRecord, EveryByteIsAccountedFor) {
  for (const auto& [family, preset] :
       {std::pair("llama", "small"), std::pair("gemma", "tiny"), std::pair("qwen3_moe", "tiny"),
        std::pair("deepseek_v3", "tiny"), std::pair("gpt_oss", "tiny")}) {
    const reports::PlanInfo record = planned(options_of(family, preset));
    ASSERT_TRUE(record.coverage.has_value()) << family;
    EXPECT_EQ(record.coverage->unaccounted(), 0) << family;
    EXPECT_EQ(record.coverage->exact, record.coverage->native_tensors) << family;
    EXPECT_EQ(record.coverage->holes + record.coverage->overlaps + record.coverage->undecided, 0U) << family;
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
    for (const reports::RouteRecord& route : record.routes) {
      EXPECT_FALSE(route.reason.empty()) << family;
      tensors += route.count;
      bytes += route.stored_bytes;
    }
    EXPECT_GE(tensors, record.coverage->native_tensors) << family;
    EXPECT_EQ(bytes + record.coverage->dropped_bytes, record.coverage->stored_bytes) << family;
    EXPECT_GE(*record.bytes_planned, *record.bytes_minimum) << family;
    EXPECT_GT(*record.predicted_peak, 0U) << family;
  }
}

TEST(PlanRecord, ConvertedBytesAreNotCalledMoved) {
  const reports::PlanInfo plain = planned(options_of("llama", "small"));
  EXPECT_EQ(plain.coverage->decoded_bytes, 0U);
  EXPECT_GT(plain.coverage->moved_bytes, 0U);
  const reports::PlanInfo coded = planned(options_of("deepseek_v3", "tiny"));
  EXPECT_GT(coded.coverage->decoded_bytes, 0U);
  // Classes of tensors, not tensors: a layer's number is no part of them.
  for (const reports::RouteRecord& route : coded.routes) {
    EXPECT_EQ(route.tensors.find("layers.0."), std::string::npos) << route.tensors;
  }
}

}  // namespace
}  // namespace weightproof::suites::test
