// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/cases.hpp"

#include <algorithm>

#include "fixtures/generate.hpp"
#include "fixtures/quantized.hpp"
#include "fixtures/schema.hpp"
#include "loader/core/error.hpp"
#include "loader/core/glob.hpp"
#include "loader/plan/ranks.hpp"
#include "suites/mutants/planned_family.hpp"
#include "suites/support/text.hpp"

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

/// Quantized checkpoints that are sound. They have no presets: all are as small as tiny ones.
std::vector<FixtureSpec> quantized_fixtures(const std::string& preset_glob) {
  std::vector<FixtureSpec> out;
  for (const fixtures::QuantizedCase& row : fixtures::quantized_cases()) {
    if (row.check.empty() && (matches_glob(preset_glob, "tiny") || matches_glob(preset_glob, row.name))) {
      out.push_back({std::string(fixtures::k_quantized_family), std::string(row.name), {}});
    }
  }
  return out;
}

bool has_routed_experts(const Schema& schema) {
  return std::any_of(schema.native_tensors().begin(), schema.native_tensors().end(), [&](const NativeTensor& tensor) {
    const ParallelKind kind = schema.parallel_rule(tensor).kind;
    return kind == ParallelKind::experts || kind == ParallelKind::expert;
  });
}

bool is_legal(const Schema& schema, const Topology& topology) {
  if (topology.ep > 1 && !has_routed_experts(schema)) {
    return false;
  }
  try {
    const plan::RankLayout layout(schema, topology);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void add_rank_cases(const FixtureSpec& fixture, const CaseFilter& filter, std::vector<Case>& out) {
  const bool is_asked = fixture.form.empty() && (filter.preset != CaseFilter{}.preset || fixture.preset == "tiny");
  if (filter.ranks.empty() || !is_asked) {
    return;
  }
  const std::optional<Schema> schema = schema_of(fixture);
  for (const RankQuestion& question : filter.ranks) {
    const Topology topology = plan::parse_topology(question.topology);
    if (!schema || !is_legal(*schema, topology)) {
      continue;
    }
    for (const std::string& dtype : filter.dtypes) {
      for (std::uint32_t rank = 0; rank < topology.world(); ++rank) {
        const auto& ranks = question.ranks;
        if (ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) {
          out.push_back({fixture, Wanted::state, Names::native, dtype, topology_text(question.topology), rank});
        }
      }
    }
  }
}

}  // namespace

std::vector<RankQuestion> usual_rank_questions() {
  return {{"tp=2", {0, 1}},      {"fsdp=3", {2}},         {"fsdp=2,tp=2", {1, 2}},
          {"pp=2,tp=2", {0, 3}}, {"fsdp=6,ep=3", {1, 4}}, {"fsdp=5,ep=5", {2}}};
}

std::string topology_text(std::string_view topology) {
  const Topology t = plan::parse_topology(topology);
  std::string out;
  for (const auto& [name, size] : {std::pair("pp=", t.pp), std::pair("dp=", t.dp), std::pair("fsdp=", t.fsdp),
                                   std::pair("cp=", t.cp), std::pair("tp=", t.tp), std::pair("ep=", t.ep)}) {
    if (size > 1) {
      out += (out.empty() ? "" : ",") + std::string(name) + std::to_string(size);
    }
  }
  return out.empty() ? "tp=1" : out;
}

std::optional<Schema> schema_of(const FixtureSpec& fixture) {
  const Variant variant{fixture.family, fixture.preset, fixture.form};
  // Of a family that only --family asks for, a checkpoint does not tell what its native tensors are.
  if (fixture.family == "identity" || fixture.family == fixtures::k_quantized_family ||
      !variant.asked_family().empty()) {
    return std::nullopt;
  }
  try {
    return plan_family(variant).schema;
  } catch (const Error&) {
    return std::nullopt;  // a checkpoint that is refused by name, as it ought to be
  }
}

std::string_view to_string(Wanted wanted) { return wanted == Wanted::state ? "state" : "export"; }
std::string_view to_string(Names names) { return names == Names::stored ? "stored" : "native"; }

std::string FixtureSpec::id() const { return family + '/' + preset + (form.empty() ? "" : ':' + form); }

std::string Case::id() const {
  const std::string_view what = is_of_rank()             ? std::string_view("rank")
                                : names == Names::native ? std::string_view("native")
                                                         : to_string(wanted);
  return fixture.id() + '/' + std::string(what) + '/' + dtype +
         (is_of_rank() ? '/' + topology + '/' + std::to_string(rank) : std::string());
}

std::vector<Case> list_cases(const CaseFilter& filter) {
  std::vector<FixtureSpec> all;
  for (const std::string& family : fixtures::families()) {
    for (FixtureSpec& fixture : fixtures_of(family, filter.preset)) {
      all.push_back(std::move(fixture));
    }
  }
  for (FixtureSpec& fixture : quantized_fixtures(filter.preset)) {
    all.push_back(std::move(fixture));
  }
  std::vector<Case> out;
  for (const FixtureSpec& fixture : all) {
    for (const Wanted wanted : filter.wanted) {
      const bool is_native = wanted == Wanted::state && filter.names == Names::native;
      if (is_native && fixture.family == fixtures::k_quantized_family) {
        continue;  // no family names its tensors otherwise
      }
      for (const std::string& dtype : filter.dtypes) {
        out.push_back({fixture, wanted, is_native ? Names::native : Names::stored, dtype});
      }
    }
    add_rank_cases(fixture, filter, out);
  }
  if (!filter.globs.empty()) {
    std::erase_if(out, [&](const Case& row) { return !matches_any_glob(filter.globs, row.id()); });
  }
  return out;
}

namespace {

std::string quoted_list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "'" : ", '") + printable(word) + "'";
  }
  return out;
}

/// What stands for all questions of a filter in a sentence: "--wanted rank --topology tp=7".
std::string question_text(const CaseFilter& filter) {
  std::string out = "--wanted ";
  const bool has_state = std::find(filter.wanted.begin(), filter.wanted.end(), Wanted::state) != filter.wanted.end();
  out += filter.wanted.empty() ? "rank" : filter.wanted.size() == 2 ? "both" : has_state ? "state" : "export";
  if (!filter.wanted.empty() && !filter.ranks.empty()) {
    out = "--wanted all";
  }
  if (filter.ranks.size() == 1) {
    out += " --topology " + filter.ranks.front().topology;
  }
  return filter.names == Names::native ? out + " --names native" : out;
}

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  ErrorFacts facts;
  facts.hint = hint;
  throw Error(ErrorCode::usage, "no case is left: " + message, std::move(facts));
}

}  // namespace

void refuse_empty(const CaseFilter& filter) {
  CaseFilter wider = filter;
  wider.globs.clear();
  const std::size_t asked = list_cases(wider).size();
  if (asked != 0) {
    // The questions that were not asked may have what --case names.
    CaseFilter every = filter;
    every.wanted = CaseFilter{}.wanted;
    every.ranks = usual_rank_questions();
    std::size_t others = list_cases(every).size();
    every.names = Names::native;
    others += list_cases(every).size();
    std::vector<std::string_view> families;
    std::vector<std::string> known = fixtures::families();
    known.emplace_back(fixtures::k_quantized_family);
    families.assign(known.begin(), known.end());
    const std::string& glob = filter.globs.front();
    const std::string word = glob.substr(0, glob.find('/'));
    const std::string_view near = nearest(word, families);
    const bool is_misspelt = others == 0 && !near.empty() && near != word;
    refuse("--case " + quoted_list(filter.globs) + " takes none of the " + std::to_string(asked) + " cases of " +
               question_text(filter),
           others != 0   ? "with --wanted all, or --names native, it takes some; `weightproof judge --list` names them"
           : is_misspelt ? "did you mean " + std::string(near) + "? `weightproof judge --list` names the cases"
                         : "`weightproof judge --list` names the cases");
  }
  wider.preset = "*";
  if (!list_cases(wider).empty()) {
    refuse("--preset '" + printable(filter.preset) + "' takes no preset" +
               (filter.wanted.empty() ? " that " + question_text(filter) + " is possible for" : std::string()),
           "`weightproof fixture --list` names them");
  }
  refuse("no model can be asked " + question_text(filter), "choose sizes that divide heads, layers and experts");
}

void write_fixture(const FixtureSpec& fixture, const std::filesystem::path& directory) {
  fixtures::GenerateOptions options;
  options.family = fixture.family;
  options.preset = fixture.preset;
  options.form = fixture.form;
  fixtures::generate(options, directory);
}

}  // namespace weightproof::suites::judge
