// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/cases.hpp"

#include <algorithm>

#include "fixtures/generate.hpp"
#include "fixtures/schema.hpp"
#include "loader/core/glob.hpp"

namespace weightproof::suites::judge {
namespace {

/// Presets of a family that the filter takes, and its further forms, which no preset of those stands for.
std::vector<FixtureSpec> fixtures_of(const std::string& family, const std::string& preset_glob) {
  std::vector<FixtureSpec> out;
  std::vector<std::string> forms = fixtures::forms(family);
  if (!forms.empty()) {
    forms.erase(forms.begin());  // the default
  }
  for (const std::string& preset : fixtures::presets(family)) {
    if (!matches_glob(preset_glob, preset)) {
      continue;
    }
    out.push_back({family, preset, {}});
    std::erase(forms, fixtures::preset_form(family, preset));
  }
  const bool has_tiny =
      std::any_of(out.begin(), out.end(), [](const FixtureSpec& row) { return row.preset == "tiny"; });
  for (const std::string& form : forms) {
    if (has_tiny) {
      out.push_back({family, "tiny", form});
    }
  }
  return out;
}

}  // namespace

std::string_view to_string(Wanted wanted) { return wanted == Wanted::state ? "state" : "export"; }
std::string_view to_string(Names names) { return names == Names::stored ? "stored" : "native"; }

std::string FixtureSpec::id() const { return family + '/' + preset + (form.empty() ? "" : ':' + form); }

std::string Case::id() const {
  const std::string_view what = names == Names::native ? std::string_view("native") : to_string(wanted);
  return fixture.id() + '/' + std::string(what) + '/' + dtype;
}

std::vector<Case> list_cases(const CaseFilter& filter) {
  std::vector<Case> out;
  for (const std::string& family : fixtures::families()) {
    for (const FixtureSpec& fixture : fixtures_of(family, filter.preset)) {
      for (const Wanted wanted : filter.wanted) {
        for (const std::string& dtype : filter.dtypes) {
          Case row{fixture, wanted, wanted == Wanted::state ? filter.names : Names::stored, dtype};
          if (filter.globs.empty() || matches_any_glob(filter.globs, row.id())) {
            out.push_back(std::move(row));
          }
        }
      }
    }
  }
  return out;
}

void write_fixture(const FixtureSpec& fixture, const std::filesystem::path& directory) {
  fixtures::GenerateOptions options;
  options.family = fixture.family;
  options.preset = fixture.preset;
  options.form = fixture.form;
  fixtures::generate(options, directory);
}

}  // namespace weightproof::suites::judge
