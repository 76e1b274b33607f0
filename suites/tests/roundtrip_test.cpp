// SPDX-License-Identifier: Apache-2.0
// There and back: what a load put into native storage, taken out through the same bindings, is the file again, byte for
// byte; and by which route every kind of tensor travels.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "suites/cli/verbs.hpp"
#include "suites/mutants/planned_family.hpp"
#include "suites/tests/load_testing.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {
namespace {

class RoundTrip : public testing::TestWithParam<Variant> {};

// Bytes of one stored tensor, collected from the native tensors that hold its elements.
std::vector<std::byte> taken_out(const LoadedModel& model, StoredId stored, std::size_t bytes, std::size_t width) {
  std::vector<std::byte> out(bytes, std::byte{0xEE});
  for (const Binding& binding : model.schema().bindings()) {
    if (binding.kind != BindingKind::primary || binding.stored != stored) {
      continue;
    }
    const auto native = model.bytes(model.schema().native_tensors()[binding.native].key);
    const View from = model.schema().native_view(binding);
    const View to = model.schema().stored_view(binding);
    for (std::uint64_t i = 0; i < from.element_count(); ++i) {
      const Coordinate at = coordinate_of(from.extents(), i);
      const auto source = native.subspan(static_cast<std::size_t>(from.storage_index(at)) * width, width);
      std::copy(source.begin(), source.end(), out.begin() + static_cast<std::ptrdiff_t>(to.storage_index(at) * width));
    }
  }
  return out;
}

TEST_P(RoundTrip, EveryStoredByteComesBack) {
  const TemporaryDirectory directory;
  const Variant& variant = GetParam();
  fixtures::generate(variant.options(), directory / "model");
  LoadedModel model(directory / "model", {.family = variant.asked_family()});
  model.load().require_complete();
  std::uint64_t bytes = 0;
  std::uint64_t decoded = 0;
  std::uint64_t passed = 0;
  for (const StateTensor& tensor : model.state().tensors()) {
    std::vector<std::byte> stored(static_cast<std::size_t>(tensor.bytes));
    model.state().read(tensor, 0, stored);
    const StoredId id = model.schema().find_stored(tensor.key);
    if (id == k_no_id) {
      for (const Passthrough& tower : model.schema().passthroughs()) {
        if (tensor.key.starts_with(tower.prefix)) {
          const auto native = model.bytes(model.schema().passed_native_name(tensor.key));
          EXPECT_TRUE(std::equal(native.begin(), native.end(), stored.begin(), stored.end())) << tensor.key;
          passed += stored.size();
          break;
        }
      }
      continue;  // dropped: told under keys.dropped
    }
    ASSERT_GE(bits_of(tensor.dtype), 8U);
    EXPECT_EQ(taken_out(model, id, stored.size(), bits_of(tensor.dtype) / 8), stored) << tensor.key;
    (tensor.codec ? decoded : bytes) += stored.size();
  }
  EXPECT_GT(bytes + decoded, 0U);
  std::cout << "round trip " << variant.name() << ": " << bytes << " bytes identical, " << passed << " passed through"
            << (decoded == 0 ? ""
                             : ", " + std::to_string(decoded) + " decoded (declared: coding again is another matter)")
            << "\n";
}

INSTANTIATE_TEST_SUITE_P(Tiny, RoundTrip, testing::ValuesIn(variants_of("tiny")),
                         [](const auto& row) { return row.param.name(); });

// The verb, for every family and form that is stored plainly: the same files.
TEST(RoundTrip, TheVerbWritesTheSameFiles) {
  std::size_t identical = 0;
  std::set<std::string> families;
  for (const Variant& variant : variants_of("tiny")) {
    if (variant.preset != "tiny" && variant.form.empty()) {
      continue;
    }
    const TemporaryDirectory directory;
    fixtures::generate(variant.options(), directory / "model");
    const std::vector<std::string> words = {"export",
                                            (directory / "model").string(),
                                            "--dtype",
                                            "stored",
                                            "--quiet",
                                            "--shards-like",
                                            (directory / "model").string(),
                                            "--out",
                                            (directory / "back").string()};
    const bool is_coded = !DecodedState(storage::open_checkpoint(directory / "model", {}), {}).schemes().empty();
    if (is_coded) {
      continue;  // decoded on the way: another number of files and bytes, declared by the verb
    }
    testing::internal::CaptureStdout();
    const int status = cli::run(words);
    testing::internal::GetCapturedStdout();
    ASSERT_EQ(status, 0) << variant.name();
    EXPECT_EQ(read_file(directory / "back" / "model.safetensors"), read_file(directory / "model" / "model.safetensors"))
        << variant.name();
    EXPECT_EQ(read_file(directory / "back" / "config.json"), read_file(directory / "model" / "config.json"));
    ++identical;
    families.insert(variant.fixture);
  }
  EXPECT_GE(identical, 45U);
  EXPECT_GE(families.size(), 34U) << testing::PrintToString(families);
}

// D: whole runs of rows land as they are; V: unchanged, with other strides; B: values or dtype change.
char class_of(const plan::Plan& plan, const plan::Move& move) {
  if (move.route == plan::Route::materialized) {
    return 'M';
  }
  if (move.route == plan::Route::bounded) {
    return 'B';
  }
  if (move.reason == plan::Reason::contiguous) {
    return 'D';
  }
  // Strided only between groups of rows: a scatter of contiguous ranges.
  for (const View& view : {plan.source_view(move), plan.target_view(move)}) {
    std::uint64_t run = 1;
    unsigned axes = 0;
    for (unsigned axis = view.rank(); axis-- > 0 && view.strides()[axis] == run;) {
      run *= view.extents()[axis];
      ++axes;
    }
    if (axes < 2) {
      return 'V';
    }
  }
  return 'D';
}

struct Classes {
  const char* fixture;
  const char* preset;
  const char* plain;    ///< what is no routed expert
  const char* experts;  ///< gate, up and down; empty: none
};
void PrintTo(const Classes& row, std::ostream* out) { *out << row.fixture << " " << row.preset; }

class RouteClasses : public testing::TestWithParam<Classes> {};

TEST_P(RouteClasses, AreTheBestThatTheTableOfCapabilitiesStates) {
  const Classes& row = GetParam();
  const Variant variant{row.fixture, row.preset, fixtures::preset_form(row.fixture, row.preset)};
  const TemporaryDirectory directory;
  fixtures::generate(variant.options(), directory / "model");
  const LoadedModel model(directory / "model", {.family = variant.asked_family()});
  std::set<char> plain;
  std::set<char> experts;
  std::string culprits;
  for (const plan::Move& move : model.plan().moves()) {
    if (move.reason == plan::Reason::constant) {
      continue;
    }
    const std::string_view key = model.plan().tensors()[move.tensor].key;
    const bool is_expert = key.ends_with("gate_and_up_projs") || key.ends_with("down_projs");
    const char found = class_of(model.plan(), move);
    (is_expert ? experts : plain).insert(found);
    if (std::string_view(is_expert ? row.experts : row.plain).find(found) == std::string_view::npos) {
      culprits += std::string(key) + " " + found + "\n";
    }
  }
  EXPECT_EQ(std::string(plain.begin(), plain.end()), row.plain) << culprits;
  EXPECT_EQ(std::string(experts.begin(), experts.end()), row.experts) << culprits;
}

INSTANTIATE_TEST_SUITE_P(
    Table, RouteClasses,
    testing::Values(Classes{"nemotron_v3", "tiny", "D", "V"}, Classes{"ling_v2", "tiny", "D", "V"},
                    Classes{"mistral3_fp8_causal", "tiny", "BD", ""}, Classes{"mistral3_fp8_vlm", "tiny", "BD", ""},
                    Classes{"gpt_oss", "tiny", "D", "B"}, Classes{"gpt_oss_bf16", "tiny", "D", "D"},
                    Classes{"gemma4_moe", "tiny", "D", "V"}, Classes{"qwen3_moe", "tiny", "D", "V"},
                    Classes{"qwen3_moe", "tiny_stacked", "D", "V"}, Classes{"qwen3_next", "tiny", "D", "V"},
                    Classes{"qwen3_omni_moe", "tiny", "D", "V"}, Classes{"ernie4_5", "tiny", "D", ""},
                    Classes{"ernie4_5_moe", "tiny", "D", "V"}, Classes{"glm4_moe", "tiny", "D", "V"},
                    Classes{"hy_v3", "tiny", "D", "V"}, Classes{"hy_mt2", "tiny", "D", "V"},
                    Classes{"laguna", "tiny", "D", "V"}, Classes{"deepseek_v3", "tiny", "BD", "B"},
                    Classes{"deepseek_v3", "tiny_bf16", "D", "V"}, Classes{"llama", "tiny", "D", ""},
                    Classes{"qwen2", "tiny", "D", ""}, Classes{"qwen3", "tiny", "D", ""},
                    Classes{"dense_combined", "tiny", "DV", ""}, Classes{"qwen3_vl_moe", "tiny", "D", "D"},
                    Classes{"qwen3_5_moe", "tiny", "D", "V"}, Classes{"qwen3_5_moe", "tiny_split", "D", "V"},
                    Classes{"qwen3_5_moe", "tiny_fp8_experts", "D", "B"}, Classes{"minimax_m2", "tiny", "BD", "B"},
                    Classes{"minimax_m2", "tiny_bf16", "D", "V"}, Classes{"kimi_linear", "tiny", "D", "V"},
                    Classes{"step3p5", "tiny", "D", "V"}, Classes{"mistral4", "tiny", "BD", "B"},
                    Classes{"deepseek_v4", "tiny", "BD", "B"}, Classes{"deepseek_v4", "tiny_base", "BD", "B"},
                    Classes{"deepseek_v4", "tiny_bf16", "D", "V"}),
    [](const auto& row) { return std::string(row.param.fixture) + "_" + row.param.preset; });

}  // namespace
}  // namespace weightproof::suites::test
