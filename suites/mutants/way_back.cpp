// SPDX-License-Identifier: Apache-2.0
// Mutants of the way back: native state that does not become what it came from, and files that are laid out otherwise.
#include <utility>

#include "loader/exec/engine.hpp"
#include "loader/save/export.hpp"
#include "suites/mutants/mutant.hpp"

namespace weightproof::suites {
namespace {

Mutant of_load(const fixtures::GenerateOptions& fixture, std::string_view place, exec::Fault fault,
               const std::string& tensor) {
  Mutant mutant;
  mutant.id = "way_back." + std::string(to_string(fault)) + "." + std::string(place);
  mutant.kind = "way_back";
  mutant.fault = "one stored tensor is made again with " + std::string(to_string(fault));
  mutant.fixture = fixture;
  mutant.perturbation.back_load = [faults = std::make_shared<exec::Faults>(), fault, tensor](
                                      const plan::Plan& plan, exec::LoadOptions& options) {
    const std::size_t at = plan.find(tensor);
    if (at != SIZE_MAX) {
      *faults = {fault, static_cast<std::uint32_t>(at), 0};
      options.faults = faults.get();
    }
  };
  mutant.tensors = {tensor};
  mutant.checks = {"value.roundtrip"};
  return mutant;
}

Mutant of_files(std::string_view what, std::string_view file, std::function<void(save::ExportOptions&)> wrong) {
  Mutant mutant;
  mutant.id = "way_back." + std::string(what);
  mutant.kind = "way_back";
  mutant.fault = "files are written with another " + std::string(what);
  mutant.fixture.family = "llama";
  mutant.fixture.shard_count = 2;
  mutant.perturbation.way_back = std::move(wrong);
  mutant.tensors = {std::string(file)};
  mutant.checks = {"value.roundtrip"};
  return mutant;
}

}  // namespace

std::vector<Mutant> way_back_mutants() {
  std::vector<Mutant> mutants;
  fixtures::GenerateOptions direct;
  direct.family = "llama";
  direct.shard_count = 2;
  fixtures::GenerateOptions strided;
  strided.family = "qwen3_moe";
  strided.preset = "tiny_all_moe";
  fixtures::GenerateOptions decoded;
  decoded.family = "gpt_oss";
  for (const exec::Fault fault : exec::all_faults()) {
    mutants.push_back(of_load(direct, "direct", fault, "model.layers.0.mlp.down_proj.weight"));
    mutants.push_back(of_load(strided, "strided", fault, "model.layers.0.mlp.experts.1.up_proj.weight"));
    mutants.push_back(of_load(decoded, "decoded", fault, "model.layers.0.self_attn.q_proj.weight"));
  }
  mutants.push_back(of_files("metadata", "model-00002-of-00002.safetensors", [](save::ExportOptions& options) {
    if (options.layout) options.layout->files.back().metadata = storage::Metadata{{"format", "np"}};
  }));
  mutants.push_back(of_files("file_name", "model-00001-of-00002.safetensors", [](save::ExportOptions& options) {
    if (options.layout) options.layout->files.front().name = "other.safetensors";
  }));
  mutants.push_back(of_files("index", "model.safetensors.index.json", [](save::ExportOptions& options) {
    if (options.layout) options.layout->index_style = storage::IndexStyle::torch;
  }));
  return mutants;
}

}  // namespace weightproof::suites
