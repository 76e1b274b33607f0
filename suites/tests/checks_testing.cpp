// SPDX-License-Identifier: Apache-2.0
#include "suites/tests/checks_testing.hpp"

#include <stdexcept>

#include "fixtures/generate.hpp"

namespace weightproof::suites::test {

std::string llama_config(bool is_tied) {
  std::string config = std::string(R"({"model_type": "llama", )") + k_small_sizes + "}";
  if (is_tied) {
    config.replace(config.find("false"), 5, "true");
  }
  return config;
}

std::filesystem::path made(const TemporaryDirectory& directory, const std::string& family, const std::string& preset,
                           const std::string& fault) {
  fixtures::GenerateOptions options;
  options.family = family;
  options.preset = preset;
  options.corrupt = fault;
  fixtures::generate(options, directory / "model");
  return directory / "model";
}

const Mutant& mutant_named(const std::vector<Mutant>& all, std::string_view id) {
  for (const Mutant& mutant : all) {
    if (mutant.id == id) {
      return mutant;
    }
  }
  throw std::runtime_error("no mutant " + std::string(id));
}

reports::Report judged_by(const Mutant& mutant, bool is_wrong, const std::string& topology) {
  const TemporaryDirectory directory;
  fixtures::generate(mutant.fixture, directory / "model");
  VerifyOptions options;
  options.threads = 2;
  options.topology = topology.empty() ? mutant.topology : topology;
  if (is_wrong) {
    options.perturbation = mutant.perturbation;
  }
  return verify(directory / "model", options);
}

}  // namespace weightproof::suites::test
