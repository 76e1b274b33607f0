// SPDX-License-Identifier: Apache-2.0
// Mutants: one wrong thing each, in the loader, in the reference or in the files. A harness that lets one live proves
// nothing about what that one does wrong. Lists are values, one file per kind; a test and the verb `selftest` run them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/generate.hpp"
#include "suites/verify/perturbation.hpp"

namespace weightproof::suites {

struct Mutant {
  std::string id;                     ///< unique: "execution.skip_row.llama.first"
  std::string kind;                   ///< "execution", "reference", "resource", "mapping", "codec", "placement", "file"
  std::string fault;                  ///< one sentence: what is done wrong
  fixtures::GenerateOptions fixture;  ///< the sound checkpoint that it meets; `corrupt` for faults of files
  Perturbation perturbation;
  std::string topology;  ///< the ranks that it meets; empty: one
  /// A failing check must name one of these. Empty: those of the fixture's fault; where it has none either, whom the
  /// check blames does not matter (memory, files).
  std::vector<std::string> tensors;
  std::vector<std::string> checks;  ///< ids of which one must fail; empty: any
  std::string family;               ///< --family; empty: detected
  /// Ids that complain about the checkpoint itself, whoever loads it: its numbers have to be such. Empty: none may.
  std::vector<std::string> fixture_findings;
  /// Why nothing can come out different. Such a mutant must yield no finding at all; all others must be killed.
  std::string equivalent;
};

/// What became of a mutant.
struct Fate {
  bool is_as_wanted = false;  ///< killed; or, where it is equivalent, without any finding
  std::string check;          ///< that killed it
  std::string tensor;         ///< that the check named
  std::string message;
  std::vector<std::string> findings;  ///< "id status" of every check that complains
};

/// Sound checkpoints on disk, each generated once and removed at the end. Not for threads.
class FixtureShelf {
 public:
  FixtureShelf();
  ~FixtureShelf();
  FixtureShelf(const FixtureShelf&) = delete;
  FixtureShelf& operator=(const FixtureShelf&) = delete;

  struct Item {
    std::filesystem::path path;
    fixtures::GeneratedCheckpoint made;
  };
  /// Throws what fixtures::generate throws.
  const Item& get(const fixtures::GenerateOptions& options);

 private:
  std::filesystem::path root_;
  std::map<std::string, Item> items_;
};

/// Verifies the mutant's checkpoint with what it does wrong.
Fate run_mutant(const Mutant& mutant, FixtureShelf& shelf, unsigned threads = 1);

/// One list of mutants and its kind.
struct MutantList {
  std::string_view kind;
  std::vector<Mutant> (*make)();
};
/// All lists, in the order in which they are run.
std::span<const MutantList> mutant_lists();

/// Loads that do not do what their plan says.
std::vector<Mutant> execution_mutants();
/// Loads that take more than their plan says.
std::vector<Mutant> resource_mutants();
/// Faults of files: every corruption operator of the fixtures.
std::vector<Mutant> file_mutants();
std::vector<Mutant> reference_mutants();
std::vector<Mutant> way_back_mutants();
/// Families that bind wrongly: every operator on every family and form in which it moves an element.
std::vector<Mutant> mapping_mutants();
/// Codecs that decode otherwise.
std::vector<Mutant> codec_mutants();
/// Ranks that hold something else than they should.
std::vector<Mutant> placement_mutants();

}  // namespace weightproof::suites
