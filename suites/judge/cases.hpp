// SPDX-License-Identifier: Apache-2.0
// What a subject is asked: every small fixture of every family, stored form and quantization scheme, as a state, as an
// export or as what one rank of a topology holds, in each dtype that was asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/schema.hpp"

namespace weightproof::suites::judge {

enum class Wanted : std::uint8_t {
  state,    ///< what the program holds after a load
  exported  ///< a checkpoint for others
};
enum class Names : std::uint8_t {
  stored,  ///< as the checkpoint names and shapes its tensors
  native   ///< as the running model of the family does
};
std::string_view to_string(Wanted wanted);
std::string_view to_string(Names names);

/// A checkpoint to be made: a preset of a family in one form, or a quantized checkpoint of no family, whose preset is
/// the quantized case.
struct FixtureSpec {
  std::string family;
  std::string preset;
  std::string form;  ///< empty: the preset's
  /// "llama/tiny", "deepseek_v4/tiny:base".
  std::string id() const;
};

struct Case {
  FixtureSpec fixture;
  Wanted wanted = Wanted::state;
  Names names = Names::stored;
  std::string dtype = "stored";  ///< stored, bf16, f32, f16
  /// Not empty: the state is what `rank` of this topology holds, by native names. Sizes above one alone: "tp=2,fsdp=2".
  std::string topology = {};
  std::uint32_t rank = 0;
  bool is_of_rank() const { return !topology.empty(); }
  /// "llama/tiny/state/stored"; native names and ranks are told: "llama/tiny/native/stored",
  /// "llama/tiny/rank/stored/tp=2/1".
  std::string id() const;
};

/// Ranks of one topology that are asked about, of every fixture of a family that it is legal for.
struct RankQuestion {
  std::string topology;
  std::vector<std::uint32_t> ranks;  ///< empty: all of them
};
/// A few ranks that between them show each rule: components, chunks that do not divide, one cut after the other, stages
/// of layers, experts.
std::vector<RankQuestion> usual_rank_questions();
/// A topology as cases write it. Throws Error(usage) for one that is misspelt.
std::string topology_text(std::string_view topology);

struct CaseFilter {
  std::vector<std::string> globs;  ///< of Case::id(); empty: all
  std::string preset = "tiny*";    ///< glob of presets
  std::vector<Wanted> wanted = {Wanted::state, Wanted::exported};
  Names names = Names::stored;  ///< of states; an export has stored names
  std::vector<std::string> dtypes = {"stored"};
  /// Asked of the preset tiny of each family in its first form, or of all that `preset` takes where it is not the
  /// default.
  std::vector<RankQuestion> ranks = {};
};

/// The native tensors of a fixture with the rules by which ranks share them; nothing where it is of no family.
std::optional<Schema> schema_of(const FixtureSpec& fixture);

/// In the order of families, presets and forms, quantized checkpoints last; cases of one fixture follow one another.
/// Topologies that a fixture cannot be divided by are left out. Pure.
std::vector<Case> list_cases(const CaseFilter& filter);
/// Which part of a filter that leaves no case took the last of them. Always throws Error(usage).
[[noreturn]] void refuse_empty(const CaseFilter& filter);

/// Writes the fixture into `directory`, which is made. Throws std::exception of the generator.
void write_fixture(const FixtureSpec& fixture, const std::filesystem::path& directory);

}  // namespace weightproof::suites::judge
