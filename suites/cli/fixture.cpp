// SPDX-License-Identifier: Apache-2.0
// fixture: a synthetic checkpoint, whole or broken in a named way.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "fixtures/quantized.hpp"
#include "fixtures/schema.hpp"
#include "loader/core/check.hpp"
#include "loader/core/config.hpp"
#include "loader/storage/checkpoint.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

[[noreturn]] void unknown(const std::string& what, const std::string& word, const std::vector<std::string>& known) {
  std::vector<std::string_view> names(known.begin(), known.end());
  const std::string_view near = nearest(word, names);
  ErrorFacts facts;
  facts.hint = near.empty() ? "`weightproof fixture --list` names them all" : "did you mean " + std::string(near) + "?";
  throw Error(ErrorCode::usage, "no " + what + " is called '" + printable(word) + "'", facts);
}

void require_known(const std::string& what, const std::string& word, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), word) == known.end()) {
    unknown(what, word, known);
  }
}

bool is_quantized_case(const std::string& family) { return family == fixtures::k_quantized_family; }

std::vector<std::string> family_names() {
  std::vector<std::string> names = fixtures::families();
  names.emplace_back(fixtures::k_quantized_family);
  return names;
}

// Of the quantized cases the name of the scheme's variant stands in the place of a preset.
std::vector<std::string> preset_names(const std::string& family) {
  if (!is_quantized_case(family)) {
    return fixtures::presets(family);
  }
  std::vector<std::string> names;
  for (const fixtures::QuantizedCase& row : fixtures::quantized_cases()) {
    names.emplace_back(row.name);
  }
  return names;
}

std::vector<std::string> form_names(const std::string& family) {
  return is_quantized_case(family) ? std::vector<std::string>{"specials"} : fixtures::forms(family);
}

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const fixtures::CorruptionOperator& row : fixtures::corruption_operators()) {
    names.emplace_back(row.name);
  }
  return names;
}

int list(Console& console) {
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    json.begin_object().member("schema", "weightproof.fixtures/1").name("families").begin_array();
    for (const std::string& family : fixtures::families()) {
      const auto names = [&json](const char* member, const std::vector<std::string>& list) {
        json.name(member).begin_array();
        json.compact();
        for (const std::string& name : list) {
          json.value(name);
        }
        json.end_array();
      };
      json.begin_object().member("name", family);
      names("presets", fixtures::presets(family));
      names("forms", fixtures::forms(family));
      json.end_object();
    }
    json.end_array().name("faults").begin_array();
    for (const fixtures::CorruptionOperator& row : fixtures::corruption_operators()) {
      const fixtures::GenerateOptions twin = fixtures::clean_twin(row);
      json.begin_object().compact().member("name", row.name).member("check", row.check).member("status", row.status);
      json.member("family", twin.family)
          .member("preset", twin.preset)
          .member("needs_twin", row.needs_twin)
          .end_object();
    }
    json.end_array().name("quantized").begin_array();
    for (const fixtures::QuantizedCase& row : fixtures::quantized_cases()) {
      json.begin_object().compact().member("name", row.name).member("scheme", row.scheme);
      json.member("check", row.check).member("status", row.status).end_object();
    }
    json.end_array().end_object();
    json.flush();
    console.out("\n");
    return k_exit_done;
  }
  const auto row = [&console](std::string left, const std::string& right, std::size_t width) {
    left.append(left.size() < width ? width - left.size() : 1, ' ');
    console.line("  " + left + right);
  };
  console.line(console.styled(Tone::strong, "families and their presets"));
  for (const std::string& family : fixtures::families()) {
    std::string presets;
    for (const std::string& preset : fixtures::presets(family)) {
      presets += (presets.empty() ? "" : ", ") + preset;
    }
    row(family, presets, 24);
  }
  console.line("\n" +
               console.styled(Tone::strong, "quantized tensors without a family: fixture quantized --preset NAME"));
  for (const fixtures::QuantizedCase& each : fixtures::quantized_cases()) {
    row(std::string(each.name),
        each.check.empty() ? std::string(each.scheme) : std::string(each.check) + " (" + std::string(each.status) + ")",
        34);
  }
  console.line("\n" + console.styled(Tone::strong, "faults and the checks that must notice them"));
  for (const fixtures::CorruptionOperator& fault : fixtures::corruption_operators()) {
    row(std::string(fault.name),
        std::string(fault.check) + (fault.status == "fail" ? std::string() : " (" + std::string(fault.status) + ")"),
        34);
  }
  return k_exit_done;
}

// NAME=VALUE as the member of an object; a value that is no JSON is text.
std::string config_changes(const std::vector<std::string>& settings) {
  std::string text;
  JsonWriter json([&text](std::string_view part) { text += part; });
  json.begin_object();
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      ErrorFacts facts;
      facts.hint = "such as --set num_hidden_layers=2";
      throw Error(ErrorCode::usage, "--set wants a name and a value, not '" + printable(setting) + "'", facts);
    }
    const std::string value = setting.substr(equals + 1);
    json.name(setting.substr(0, equals));
    try {
      json.raw(ConfigValue::parse(value, "--set").dump());
    } catch (const Error&) {
      json.value(value);
    }
  }
  json.end_object();
  json.flush();
  return text;
}

// The command that makes the checkpoint without its fault.
std::string twin_command(const fixtures::GenerateOptions& options, const Arguments& arguments) {
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
  for (const char* name : {"--weights", "--seed", "--shard-size", "--sparse"}) {
    if (arguments.has(name)) {
      out += std::string(" ") + name + ' ' + arguments.text(name);
    }
  }
  if (arguments.has("--set")) {
    for (const std::string& setting : arguments.texts("--set")) {
      out += " --set '" + printable(setting) + "'";
    }
  }
  return out + " --out DIR";
}

fixtures::TieMode tie_mode(const std::string& text) {
  return text == "tied"     ? fixtures::TieMode::tied
         : text == "untied" ? fixtures::TieMode::untied
         : text == "absent" ? fixtures::TieMode::absent
         : text == "stored" ? fixtures::TieMode::stored_head
                            : fixtures::TieMode::as_preset;
}

}  // namespace

int run_fixture(const Arguments& arguments, Console& console) {
  if (arguments.flag("--list")) {
    return list(console);
  }
  const std::string fault_name = arguments.text("--break");
  fixtures::GenerateOptions options;
  if (!fault_name.empty()) {
    const fixtures::CorruptionOperator* fault = fixtures::find_corruption(fault_name);
    if (fault == nullptr) {
      unknown("fault", fault_name, fault_names());
    }
    options = fixtures::clean_twin(*fault);  // the checkpoint in which the fault shows
    if (!fixtures::needs_shards(*fault)) {
      options.shard_count = 1;  // as the same checkpoint is written without the fault
    }
  }
  if (arguments.positionals().empty() && fault_name.empty()) {
    ErrorFacts facts;
    facts.hint = "`weightproof fixture --list` names the families";
    throw Error(ErrorCode::usage, "fixture wants a family, or --break with a fault", facts);
  }
  if (!arguments.has("--out")) {
    ErrorFacts facts;
    facts.hint = "give --out DIR, a directory that does not exist yet or is empty";
    throw Error(ErrorCode::usage, "fixture wants a directory to write to", facts);
  }
  if (!arguments.positionals().empty()) {
    require_known("family", arguments.positionals().front(), family_names());
    options.family = arguments.positionals().front();
  }
  if (arguments.has("--preset")) {
    options.preset = arguments.text("--preset");
  } else if (is_quantized_case(options.family) && fault_name.empty()) {
    ErrorFacts facts;
    facts.hint = "give --preset NAME; `weightproof fixture --list` names them";
    throw Error(ErrorCode::usage, "which of the quantized cases?", facts);
  }
  require_known("preset of " + options.family, options.preset, preset_names(options.family));
  if (arguments.has("--form")) {
    options.form = arguments.text("--form");
    require_known("form of " + options.family, options.form, form_names(options.family));
  }
  if (is_quantized_case(options.family)) {
    for (const char* option : {"--weights", "--shard-size", "--tie", "--sparse", "--set"}) {
      if (arguments.has(option)) {
        ErrorFacts facts;
        facts.hint = "leave it out";
        throw Error(ErrorCode::usage, std::string(option) + " does not go with quantized cases", facts);
      }
    }
  }
  options.dtype = arguments.text("--weights", options.dtype);
  options.seed = arguments.count("--seed").value_or(options.seed);
  options.shard_count = arguments.count("--shards").value_or(options.shard_count);
  if (options.shard_count == 0 || (arguments.has("--shards") && arguments.has("--shard-size"))) {
    ErrorFacts facts;
    facts.hint = "give --shards 1 or more, or --shard-size alone";
    throw Error(ErrorCode::usage,
                options.shard_count == 0 ? "no file is too few" : "--shards and --shard-size both say how to split",
                facts);
  }
  options.shard_bytes = arguments.bytes("--shard-size").value_or(options.shard_bytes);
  if (arguments.has("--tie")) {
    options.tie = tie_mode(arguments.text("--tie"));
  }
  options.sparse_edge_bytes = arguments.bytes("--sparse").value_or(options.sparse_edge_bytes);
  if (arguments.has("--set")) {
    options.config_changes = config_changes(arguments.texts("--set"));
  }
  options.corrupt = fault_name;

  const std::filesystem::path directory = arguments.text("--out");
  fixtures::GeneratedCheckpoint made;
  try {
    made = fixtures::generate(options, directory);
  } catch (const std::invalid_argument& error) {
    ErrorFacts facts;
    facts.hint = "--out must be empty or absent; `weightproof fixture --list` names what can be made";
    throw Error(ErrorCode::usage, error.what(), facts);
  } catch (const std::system_error& error) {
    ErrorFacts facts;
    facts.hint = "choose a directory that can be written and has room";
    throw Error(ErrorCode::io_error, error.what(), facts);
  } catch (const std::runtime_error& error) {
    if (!arguments.has("--set")) {
      throw;
    }
    ErrorFacts facts;
    facts.hint = "give --set entries under which the family's config still describes a model";
    throw Error(ErrorCode::usage, error.what(), facts);
  }
  const fixtures::CorruptionOperator* fault = fixtures::find_corruption(fault_name);
  std::uint64_t tensors = made.tensors.size();
  // What a check must complain about: the fault, or what a quantized case was made for.
  struct Planted {
    std::string_view name, check, status;
  };
  std::optional<Planted> planted;
  if (fault != nullptr) {
    planted = {fault->name, fault->check, fault->status};
  }
  if (is_quantized_case(options.family)) {
    const Catalog catalog = storage::read_checkpoint(directory, {}, 1).catalog;
    tensors = catalog.size();
    made.total_bytes = catalog.bytes();
    const auto cases = fixtures::quantized_cases();
    const auto found =
        std::find_if(cases.begin(), cases.end(), [&options](const auto& row) { return row.name == options.preset; });
    if (!planted && !found->check.empty()) {
      planted = {found->name, found->check, found->status};
    }
  }
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    json.begin_object()
        .member("schema", "weightproof.fixture/1")
        .member("family", options.family)
        .member("preset", options.preset);
    json.member("seed", options.seed)
        .member("tensors", tensors)
        .member("bytes", made.total_bytes)
        .name("files")
        .begin_array();
    for (const std::string& file : made.files) {
      json.value(file);
    }
    json.end_array().name("fault");
    if (!planted) {
      json.null();
    } else {
      json.begin_object()
          .member("name", planted->name)
          .member("check", planted->check)
          .member("status", planted->status)
          .name("subjects")
          .begin_array();
      for (const std::string& subject : made.subjects) {
        json.value(subject);
      }
      json.end_array().end_object();
    }
    json.end_object();
    json.flush();
    console.out("\n");
    return k_exit_done;
  }
  console.line("made " + options.family + " " + options.preset + ": " + counted(tensors, "tensor", "tensors") + ", " +
               human_bytes(made.total_bytes) + ", " + counted(made.files.size(), "file", "files") + " in " +
               printable(directory.string()));
  if (planted) {
    std::string subjects;
    for (const std::string& subject : made.subjects) {
      subjects += (subjects.empty() ? "" : ", ") + printable(subject);
    }
    console.line("broken by " + std::string(planted->name) + ": " + std::string(planted->check) + " must report " +
                 (subjects.empty() ? std::string("it") : subjects));
    if (fault != nullptr && !console.is_quiet()) {
      console.line("whole twin: " + twin_command(options, arguments));
    }
  }
  if (!console.is_quiet()) {
    console.line("next: weightproof verify " + printable(directory.string()));
  }
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
