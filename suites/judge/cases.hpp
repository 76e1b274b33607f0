// SPDX-License-Identifier: Apache-2.0
// What a subject is asked: every small fixture of every family, stored form and quantization scheme, as a state or as
// an export, in each dtype that was asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

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

/// A checkpoint to be made: a preset of a family in one form, or a quantized checkpoint of no family.
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
  /// "llama/tiny/state/stored"; native names are told: "llama/tiny/native/stored".
  std::string id() const;
};

struct CaseFilter {
  std::vector<std::string> globs;  ///< of Case::id(); empty: all
  std::string preset = "tiny*";    ///< glob of presets
  std::vector<Wanted> wanted = {Wanted::state, Wanted::exported};
  Names names = Names::stored;  ///< of states; an export has stored names
  std::vector<std::string> dtypes = {"stored"};
};

/// In the order of families, presets and forms; cases of one fixture follow one another. Pure.
std::vector<Case> list_cases(const CaseFilter& filter);

/// Writes the fixture into `directory`, which is made. Throws std::exception of the generator.
void write_fixture(const FixtureSpec& fixture, const std::filesystem::path& directory);

}  // namespace weightproof::suites::judge
