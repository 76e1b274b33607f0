// SPDX-License-Identifier: Apache-2.0
// Faults of files: every corruption operator of the fixtures is a mutant. What only a comparison shows is judged by the
// manifest of the clean twin.
#include <algorithm>
#include <fstream>

#include "suites/mutants/file_internal.hpp"
#include "suites/state/digests.hpp"
#include "suites/verify/verify.hpp"

namespace weightproof::suites {
namespace {

std::filesystem::path manifest_of(const std::filesystem::path& checkpoint) {
  std::filesystem::path out = checkpoint;
  out += ".manifest.json";
  if (std::filesystem::exists(out)) {
    return out;
  }
  const storage::Checkpoint clean = storage::read_checkpoint(checkpoint, {}, 1);
  const DecodedState state(clean, {});
  Manifest manifest;
  manifest.tensors = digest_all(state, 1);
  std::ofstream(out, std::ios::binary) << manifest_text(manifest, "weightproof " WEIGHTPROOF_VERSION);
  return out;
}

bool names_one_of(const reports::CheckRecord& record, const std::vector<std::string>& subjects, std::string& named) {
  for (const std::string& subject : record.subjects) {
    if (std::find(subjects.begin(), subjects.end(), subject) != subjects.end()) {
      named = subject;
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Mutant> file_mutants() {
  std::vector<Mutant> out;
  for (const fixtures::CorruptionOperator& row : fixtures::corruption_operators()) {
    Mutant mutant;
    mutant.id = "file." + std::string(row.name);
    mutant.kind = "file";
    mutant.fault = "the file fault '" + std::string(row.name) + "' (" + std::string(row.rule) + ")";
    mutant.fixture = fixtures::clean_twin(row);
    mutant.fixture.corrupt = row.name;
    mutant.checks = {std::string(row.check)};
    out.push_back(std::move(mutant));
  }
  return out;
}

Fate run_file_mutant(const Mutant& mutant, FixtureShelf& shelf, unsigned threads) {
  const fixtures::CorruptionOperator* fault = fixtures::find_corruption(mutant.fixture.corrupt);
  const FixtureShelf::Item& item = shelf.get(mutant.fixture);
  VerifyOptions options;
  options.threads = threads;
  options.perturbation = mutant.perturbation;
  if (fault->needs_twin) {
    fixtures::GenerateOptions twin = mutant.fixture;
    twin.corrupt.clear();
    const std::filesystem::path& clean = shelf.get(twin).path;
    if (fault->check == "value.manifest") {
      options.manifest_file = manifest_of(clean).string();
    } else {
      options.against = clean.string();
    }
  }
  const reports::Report report = verify(item.path, options);
  Fate fate;
  for (const reports::CheckRecord& record : report.checks) {
    if (record.status != reports::Status::pass && record.status != reports::Status::skip) {
      fate.findings.push_back(record.id + ' ' + std::string(to_string(record.status)));
    }
    if (record.id != fault->check) {
      continue;
    }
    // A note is a pass that says something; a skip has to say why.
    const bool is_note = fault->status == "note";
    const bool has_status = to_string(record.status) == (is_note ? std::string_view("pass") : fault->status) &&
                            (!is_note || !record.explanation.empty());
    std::string named;
    if (has_status &&
        (item.made.subjects.empty() || fault->status == "skip" || names_one_of(record, item.made.subjects, named))) {
      fate.check = record.id;
      fate.tensor = named;
      fate.message = record.message + record.reason + record.explanation;
    }
  }
  fate.is_as_wanted = !fate.check.empty();
  return fate;
}

}  // namespace weightproof::suites
