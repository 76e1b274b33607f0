// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/fixture_words.hpp"

#include <algorithm>
#include <array>

#include "fixtures/quantized.hpp"
#include "loader/core/error.hpp"
#include "suites/support/shell.hpp"

namespace weightproof::suites::cli {
namespace {

// Options by which a checkpoint may come to lack what a fault damages.
constexpr std::array<std::string_view, 8> k_shaping = {"--preset", "--form",   "--weights", "--set",
                                                       "--tie",    "--sparse", "--shards",  "--shard-size"};

}  // namespace

std::string twin_command(const fixtures::GenerateOptions& options, const Arguments& arguments,
                         const std::string& directory) {
  std::string out = "weightproof fixture " + options.family + " --preset " + options.preset;
  if (!options.form.empty()) {
    out += " --form " + options.form;
  }
  if (options.shard_bytes == 0 && options.shard_count != 1) {
    out += " --shards " + std::to_string(options.shard_count);
  }
  const char* tie = options.tie == fixtures::TieMode::tied          ? "tied"
                    : options.tie == fixtures::TieMode::untied      ? "untied"
                    : options.tie == fixtures::TieMode::absent      ? "absent"
                    : options.tie == fixtures::TieMode::stored_head ? "stored"
                                                                    : nullptr;
  if (tie != nullptr) {
    out += std::string(" --tie ") + tie;
  }
  constexpr std::array<std::string_view, 5> as_given = {"--weights", "--seed", "--shard-size", "--sparse", "--set"};
  return out + arguments.typed(as_given) + " --out " + directory;
}

std::string twin_directory(const std::filesystem::path& directory) {
  std::string name = directory.string();
  while (name.size() > 1 && name.back() == '/') {
    name.pop_back();
  }
  const std::string last = std::filesystem::path(name).filename().string();
  return last == "." || last == ".." ? name + "/../twin" : name + "-twin";
}

void refuse_fault(const fixtures::CorruptionOperator& fault, const fixtures::GenerateOptions& options,
                  const Arguments& arguments, const std::string& reason, const std::filesystem::path& scratch) {
  const std::vector<std::string> found = fixtures::checkpoints_for(fault, scratch);
  const bool is_quantized = options.family == fixtures::k_quantized_family;
  const std::string asked =
      is_quantized && !options.preset.empty() ? options.family + ' ' + options.preset : options.family;
  const std::string given = arguments.typed(k_shaping);
  ErrorFacts facts;
  facts.actual = asked;
  for (const std::string& name : found) {
    facts.expected += (facts.expected.empty() ? "" : ", ") + name;
  }
  // With what was asked for besides, the family's own checkpoint lost what the fault damages.
  if (std::find(found.begin(), found.end(), asked) != found.end() && !given.empty()) {
    facts.hint = "leave out" + given + ", or some of it: in " + asked + " as it is made without, it can be planted";
  } else {
    facts.hint = "it can be planted in " + facts.expected + "; without a family it makes " +
                 fixtures::clean_twin(fault).family + ' ' + fixtures::clean_twin(fault).preset;
  }
  throw Error(ErrorCode::usage, std::string(fault.name) + " cannot be planted in " + asked + ": " + reason,
              std::move(facts));
}

}  // namespace weightproof::suites::cli
