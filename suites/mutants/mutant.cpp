// SPDX-License-Identifier: Apache-2.0
#include "suites/mutants/mutant.hpp"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "suites/mutants/file_internal.hpp"
#include "suites/verify/verify.hpp"

namespace weightproof::suites {
namespace {

// Every choice that decides what is written.
std::string key_of(const fixtures::GenerateOptions& options) {
  std::string key;
  const auto add = [&key](const std::string& word) { key += word + '\n'; };
  for (const std::string* word : {&options.family, &options.preset, &options.form, &options.dtype, &options.state_dtype,
                                  &options.scale_dtype, &options.config_changes, &options.corrupt}) {
    add(*word);
  }
  for (const std::uint64_t number :
       {options.shard_bytes, std::uint64_t{options.shard_count}, static_cast<std::uint64_t>(options.names),
        static_cast<std::uint64_t>(options.style), static_cast<std::uint64_t>(options.index_style),
        std::uint64_t{options.has_index}, options.seed, std::uint64_t{options.pass}, options.sparse_edge_bytes,
        static_cast<std::uint64_t>(options.tie), std::uint64_t{options.has_extras},
        std::uint64_t{options.has_optional}}) {
    add(std::to_string(number));
  }
  return key;
}

bool complains(const reports::CheckRecord& record) {
  return record.status == reports::Status::fail || record.status == reports::Status::warn ||
         record.status == reports::Status::error;
}

}  // namespace

FixtureShelf::FixtureShelf() {
  std::string name = (std::filesystem::temp_directory_path() / "weightproof-mutants-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "no temporary directory can be made at " + name);
  }
  root_ = name;
}

FixtureShelf::~FixtureShelf() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

const FixtureShelf::Item& FixtureShelf::get(const fixtures::GenerateOptions& options) {
  const std::string key = key_of(options);
  const auto found = items_.find(key);
  if (found != items_.end()) {
    return found->second;
  }
  Item item;
  item.path = root_ / std::to_string(items_.size());
  item.made = fixtures::generate(options, item.path);
  return items_.emplace(key, std::move(item)).first->second;
}

Fate run_mutant(const Mutant& mutant, FixtureShelf& shelf, unsigned threads) {
  if (!mutant.fixture.corrupt.empty()) {
    return run_file_mutant(mutant, shelf, threads);
  }
  const FixtureShelf::Item& item = shelf.get(mutant.fixture);
  VerifyOptions options;
  options.threads = threads;
  options.family = mutant.family;
  options.perturbation = mutant.perturbation;
  options.topology = mutant.topology;
  const reports::Report report = verify(item.path, options);

  Fate fate;
  const std::vector<std::string>& wanted = mutant.tensors.empty() ? item.made.subjects : mutant.tensors;
  for (const reports::CheckRecord& record : report.checks) {
    if (!complains(record)) {
      continue;
    }
    fate.findings.push_back(record.id + ' ' + std::string(to_string(record.status)));
    // A warning does not stop a release, and what could not be carried out names no culprit.
    if (record.status != reports::Status::fail || !fate.check.empty() ||
        (!mutant.checks.empty() &&
         std::find(mutant.checks.begin(), mutant.checks.end(), record.id) == mutant.checks.end())) {
      continue;
    }
    if (wanted.empty()) {
      fate.check = record.id;
      fate.message = record.message;
    }
    for (const std::string& subject : record.subjects) {
      if (std::find(wanted.begin(), wanted.end(), subject) != wanted.end()) {
        fate.check = record.id;
        fate.tensor = subject;
        fate.message = record.message;
        break;
      }
    }
  }
  fate.is_as_wanted = mutant.equivalent.empty() ? !fate.check.empty() : fate.findings.empty();
  return fate;
}

std::span<const MutantList> mutant_lists() {
  static constexpr std::array k_lists = {
      MutantList{"execution", &execution_mutants}, MutantList{"resource", &resource_mutants},
      MutantList{"reference", &reference_mutants}, MutantList{"way_back", &way_back_mutants},
      MutantList{"mapping", &mapping_mutants},     MutantList{"file", &file_mutants},
      MutantList{"codec", &codec_mutants},         MutantList{"placement", &placement_mutants},
  };
  return k_lists;
}

}  // namespace weightproof::suites
