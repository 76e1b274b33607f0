// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "fixtures/schema.hpp"
#include "suites/selftest/selftest.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_bytes_max = std::uint64_t{64} << 20U;  // presets of a real model's size are left out

// Files that other people wrote and that are known to be sound, with the warnings that they deserve.
struct RealRow {
  const char* path;
  bool is_keys_only;
  const char* deserved;
};
constexpr RealRow k_real[] = {
    {"st-silero-vad-16k/silero_vad_16k.safetensors", false, ""},
    {"st-julia-all-dtypes/model.safetensors", false, "quant.unscaled"},
    {"st-julia-all-dtypes/sharded", false, "quant.unscaled"},
    {"st-dotnet-fixtures/with_metadata.safetensors", false, "value.all_zero"},
    {"st-cpp-syoyo/model.safetensors", false, ""},
    {"st-hf2q-unaligned", false, "value.all_zero"},
    {"st-r-hello/hello.safetensors", false, "value.all_zero"},
    {"st-candle-codes/jfk-codes.safetensors", false, ""},
    {"st-hadamards/hadamards.safetensors", false, ""},
    {"st-runai/test.safetensors", false, ""},
    {"st-fastsafetensors/a.safetensors", false, ""},
    {"st-fastsafetensors/b.safetensors", false, ""},
    {"st-nutllm/tiny.safetensors", false, "value.all_zero"},
    {"st-diff-pair/diff_old.safetensors", false, ""},
    {"st-diff-pair/diff_new.safetensors", false, ""},
    {"lora-gpt2/adapter_model.safetensors", false, ""},
    {"model-danbev-simple/model.safetensors", false, "index.referenced_file"},
    {"model-mnist-tinygrad/mlp.safetensors", false, ""},
    {"model-burn-multi-layer/multi_layer.safetensors", false, ""},
    {"st-coffeevampir/model.safetensors", false, ""},
    {"st-hostile-metadata/script_injection.safetensors", false, ""},
    {"llama-3.2-3b-one-tensor-per-shard", true, ""},
    {"smollm3-3b", true, ""},
    {"devstral-small-2507", true, ""},
    {"gemma-2b-tied", true, ""},
    {"qwen3-1.7b-mlx", true, ""},
};

// Families of which the report rightly says a word: what the word is about stands in their files.
constexpr std::pair<std::string_view, std::string_view> k_deserved[] = {
    {"identity", "quant.unscaled"},      // every dtype of the format, bare F8 among them
    {"qwen3_mlx", "quant.unsupported"},  // a scheme that is recognised and cannot be decoded
};

bool is_coded(std::string_view dtype) { return dtype.starts_with("F8") || dtype == "F4" || dtype == "I8"; }

// The form of a preset whose config was written for another one: coded weights beside a config of plain ones, or the
// reverse. quant.config_mismatch is right about those.
bool contradicts_config(const fixtures::GeneratedCheckpoint& planned) {
  const bool has_config = planned.config && planned.config->find("\"quantization_config\"") != std::string::npos;
  const bool has_codes = std::any_of(planned.tensors.begin(), planned.tensors.end(), [](const auto& row) {
    return is_coded(row.tensor.dtype) || row.tensor.key.ends_with("_blocks");
  });
  return has_config != has_codes;
}

// A preset in its own form is sound by definition; another form may not fit its config, or not expand from it.
bool is_sound(const fixtures::GenerateOptions& options) {
  try {
    const fixtures::GeneratedCheckpoint planned = fixtures::plan_checkpoint(options);
    return planned.total_bytes <= k_bytes_max && (options.form.empty() || !contradicts_config(planned));
  } catch (const std::runtime_error&) {
    if (options.form.empty()) {
      throw;
    }
    return false;
  }
}

}  // namespace

std::vector<SoundInput> sound_inputs() {
  std::vector<SoundInput> out;
  for (const std::string& family : fixtures::families()) {
    for (const std::string& preset : fixtures::presets(family)) {
      std::set<std::string> forms = {std::string()};
      for (const std::string& form : fixtures::forms(family)) {
        forms.insert(form);
      }
      for (const std::string& form : forms) {
        SoundInput input;
        input.fixture.family = family;
        input.fixture.preset = preset;
        input.fixture.form = form;
        input.name = family + '/' + preset + (form.empty() ? std::string() : '/' + form);
        if (!is_sound(input.fixture)) {
          continue;
        }
        for (const auto& [known, check] : k_deserved) {
          if (known == family) {
            input.deserved.emplace_back(check);
          }
        }
        out.push_back(std::move(input));
      }
    }
  }
  for (const RealRow& row : k_real) {
    SoundInput input;
    input.name = std::string("real/") + row.path;
    input.path = row.path;
    input.is_keys_only = row.is_keys_only;
    if (*row.deserved != '\0') {
      input.deserved.emplace_back(row.deserved);
    }
    out.push_back(std::move(input));
  }
  return out;
}

}  // namespace weightproof::suites
