// SPDX-License-Identifier: Apache-2.0
#include "adapters/lora_internal.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters::detail {
namespace {

constexpr const char* k_file = "adapter_model.safetensors";

[[noreturn]] void refuse_layout(std::string message, std::string expected, std::string actual,
                                std::vector<std::string> keys, std::string file) {
  ErrorFacts facts;
  facts.file = std::move(file);
  facts.keys = std::move(keys);
  facts.expected = std::move(expected);
  facts.actual = std::move(actual);
  facts.hint =
      "state paramwrapper_layout (\"peft-0.18\" or \"peft-0.19.1\") in automodel_peft_config.json as the tool that "
      "wrote the adapter packs its experts, or write the adapter again";
  throw Error(ErrorCode::adapter_layout_undecided, std::move(message), std::move(facts));
}

}  // namespace

void LoraVotes::add(const LoraExperts& experts, bool is_input, bool is_factor_a, const StoredTensor& row) {
  if (!row.is_described || row.shape.rank() != 2) return;
  // What lies beside the ranks: the axis of features. Old files have inputs and outputs changed over.
  const std::uint64_t in = is_input ? experts.input : experts.width;
  const std::uint64_t out = is_input ? experts.rows() : experts.input;
  const std::uint64_t features = is_factor_a ? row.shape[1] : row.shape[0];
  if (in == out) return;
  if (features == (is_factor_a ? in : out)) new_keys.emplace_back(row.key);
  if (features == (is_factor_a ? out : in)) old_keys.emplace_back(row.key);
}

LoraPacking decide_packing(const LoraVotes& votes, const std::optional<std::string>& stamp,
                           const std::string& some_key) {
  constexpr const char* stamp_file = "automodel_peft_config.json";
  const std::string k_old(to_string(LoraPacking::peft_0_18));
  const std::string k_new(to_string(LoraPacking::peft_0_19_1));
  if (stamp && *stamp != k_old && *stamp != k_new) {
    refuse_layout("the stamp paramwrapper_layout names no known order of packed experts", k_old + " or " + k_new,
                  *stamp, {stamp_file, some_key}, stamp_file);
  }
  if (!votes.old_keys.empty() && !votes.new_keys.empty()) {
    refuse_layout("shapes of packed experts contradict each other: some are of the older generation, some of the newer",
                  "one generation", votes.old_keys[0] + " is " + k_old + ", " + votes.new_keys[0] + " is " + k_new,
                  {votes.old_keys[0], votes.new_keys[0]}, std::string(k_file));
  }
  const bool has_votes = !votes.old_keys.empty() || !votes.new_keys.empty();
  const LoraPacking voted = votes.old_keys.empty() ? LoraPacking::peft_0_19_1 : LoraPacking::peft_0_18;
  if (!has_votes && !stamp) {
    refuse_layout("packed experts could be of either generation: no shape tells, and there is no stamp",
                  "a stamp paramwrapper_layout", "none", {some_key}, std::string(k_file));
  }
  if (!stamp) return voted;
  const LoraPacking stamped = *stamp == k_old ? LoraPacking::peft_0_18 : LoraPacking::peft_0_19_1;
  if (has_votes && voted != stamped) {
    std::vector<std::string> keys = votes.old_keys.empty() ? votes.new_keys : votes.old_keys;
    keys.emplace_back(stamp_file);
    refuse_layout("the stamp paramwrapper_layout contradicts the shapes of packed experts", *stamp,
                  std::string(to_string(voted)) + " by " + keys.front(), keys, stamp_file);
  }
  return stamped;
}

}  // namespace weightproof::adapters::detail
