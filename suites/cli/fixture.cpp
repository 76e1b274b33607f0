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
#include "suites/cli/fixture_target.hpp"
#include "suites/cli/fixture_words.hpp"
#include "suites/cli/interrupt.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/shell.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

[[noreturn]] void usage(std::string message, std::string hint) {
  ErrorFacts facts;
  facts.hint = std::move(hint);
  throw Error(ErrorCode::usage, std::move(message), std::move(facts));
}

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

fixtures::TieMode tie_mode(const std::string& text) {
  return text == "tied"     ? fixtures::TieMode::tied
         : text == "untied" ? fixtures::TieMode::untied
         : text == "absent" ? fixtures::TieMode::absent
         : text == "stored" ? fixtures::TieMode::stored_head
                            : fixtures::TieMode::as_preset;
}

// The fault of --break, or null.
const fixtures::CorruptionOperator* asked_fault(const Arguments& arguments) {
  const std::string name = arguments.text("--break");
  if (name.empty()) {
    return nullptr;
  }
  const fixtures::CorruptionOperator* fault = fixtures::find_corruption(name);
  if (fault == nullptr) {
    unknown("fault", name, fault_names());
  }
  return fault;
}

fixtures::GenerateOptions asked_options(const Arguments& arguments, const fixtures::CorruptionOperator* fault) {
  if (arguments.positionals().empty() && fault == nullptr) {
    usage("fixture wants a family, or --break with a fault", "`weightproof fixture --list` names the families");
  }
  if (!arguments.has("--out")) {
    usage("fixture wants a directory to write to", "give --out DIR, a directory that does not exist yet or is empty");
  }
  fixtures::GenerateOptions options;
  if (!arguments.positionals().empty()) {
    require_known("family", arguments.positionals().front(), family_names());
    options.family = arguments.positionals().front();
    options.preset = is_quantized_case(options.family) ? std::string() : options.preset;
  }
  if (fault != nullptr) {
    // The checkpoint in which the fault shows.
    options =
        arguments.positionals().empty() ? fixtures::clean_twin(*fault) : fixtures::clean_twin(*fault, options.family);
    if (!fixtures::needs_shards(*fault)) {
      options.shard_count = 1;  // as the same checkpoint is written without the fault
    }
    options.corrupt = fault->name;
  }
  options.preset = arguments.text("--preset", options.preset);
  if (!options.preset.empty()) {
    require_known("preset of " + options.family, options.preset, preset_names(options.family));
  } else if (fault == nullptr) {
    usage("which of the quantized cases?", "give --preset NAME; `weightproof fixture --list` names them");
  }
  if (arguments.has("--form")) {
    options.form = arguments.text("--form");
    require_known("form of " + options.family, options.form, form_names(options.family));
  }
  if (is_quantized_case(options.family)) {
    for (const char* option : {"--weights", "--shard-size", "--tie", "--sparse", "--set"}) {
      if (arguments.has(option)) {
        usage(std::string(option) + " does not go with quantized cases", "leave it out");
      }
    }
  }
  options.dtype = arguments.text("--weights", options.dtype);
  options.seed = arguments.count("--seed").value_or(options.seed);
  options.shard_count = arguments.count("--shards").value_or(options.shard_count);
  if (options.shard_count == 0) {
    usage("no file is too few", "give --shards 1 or more");
  }
  if (arguments.has("--shards") && arguments.has("--shard-size")) {
    usage("--shards and --shard-size both say how to split", "give one of the two");
  }
  options.shard_bytes = arguments.bytes("--shard-size").value_or(options.shard_bytes);
  if (arguments.has("--tie")) {
    options.tie = tie_mode(arguments.text("--tie"));
  }
  options.sparse_edge_bytes = arguments.bytes("--sparse").value_or(options.sparse_edge_bytes);
  if (arguments.has("--set")) {
    options.config_changes = config_changes(arguments.texts("--set"));
  }
  return options;
}

// Of this size a checkpoint is announced: it takes a while and a part of the disk.
constexpr std::uint64_t k_announced_bytes = std::uint64_t{256} << 20U;

void announce(const fixtures::GenerateOptions& options, const FixtureTarget& target, const std::string& directory,
              Console& console) {
  if (is_quantized_case(options.family)) {
    return;  // all are small
  }
  const fixtures::GeneratedCheckpoint planned = fixtures::plan_checkpoint(options);
  const std::uint64_t bytes = fixtures::written_bytes(planned);
  if (bytes >= k_announced_bytes && !console.is_quiet()) {
    console.note("writing " + human_bytes(bytes) + " in " + counted(planned.files.size(), "file", "files") + " to " +
                 shown_path(directory) + (options.sparse_edge_bytes == 0 ? "; --sparse BYTES would leave holes" : ""));
  }
  target.require_space(bytes);
}

fixtures::GeneratedCheckpoint make(const fixtures::GenerateOptions& options, const fixtures::CorruptionOperator* fault,
                                   const Arguments& arguments, const FixtureTarget& target,
                                   const InterruptGuard& interrupt, Console& console) {
  fixtures::GenerateControl control;
  control.stop = interrupt.token();
  control.progress = [&console](std::uint64_t done, std::uint64_t total) { console.progress("writing", done, total); };
  const auto refuse = [&](const std::string& reason) {
    if (fault != nullptr) {
      refuse_fault(*fault, options, arguments, reason, target.staging() / "scratch");
    }
    usage(options.family + ' ' + options.preset + " cannot be made so: " + reason,
          arguments.has("--set") ? "give --set entries under which the family's config still describes a model"
                                 : "`weightproof fixture --list` names what can be made");
  };
  // std::system_error is a std::runtime_error, and an Error is one too.
  try {
    announce(options, target, arguments.text("--out"), console);
    fixtures::GeneratedCheckpoint made = fixtures::generate(options, target.staging(), control);
    console.end_progress();
    return made;
  } catch (const Error&) {
    throw;
  } catch (const fixtures::Stopped& stopped) {
    throw Error(ErrorCode::io_error, stopped.what());  // nobody reads it: the signal takes its course
  } catch (const std::system_error& error) {
    ErrorFacts facts;
    facts.hint = "choose a directory that can be written and has room";
    throw Error(ErrorCode::io_error, error.what(), facts);
  } catch (const fixtures::NothingToDamage& error) {
    refuse(error.what());
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  } catch (const std::runtime_error& error) {
    // A preset that its own family cannot be made from is a defect.
    if (fault == nullptr && !arguments.has("--set") && !arguments.has("--tie") && !arguments.has("--weights")) {
      throw;
    }
    refuse(error.what());
  }
  throw Error(ErrorCode::internal, "not reached");
}

}  // namespace

int run_fixture(const Arguments& arguments, Console& console) {
  if (arguments.flag("--list")) {
    return list_fixtures(console);
  }
  const fixtures::CorruptionOperator* fault = asked_fault(arguments);
  const fixtures::GenerateOptions options = asked_options(arguments, fault);
  const std::filesystem::path directory = arguments.text("--out");
  // A signal is a wish to stop: what is there by then goes, and then the signal takes its course.
  const InterruptGuard interrupt;
  FixtureTarget target(directory);
  if (options.preset.empty()) {
    refuse_fault(*fault, options, arguments, "which of the quantized cases is not said", target.staging() / "scratch");
  }
  fixtures::GeneratedCheckpoint made = make(options, fault, arguments, target, interrupt, console);
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
    const Catalog catalog = storage::read_checkpoint(target.staging(), {}, 1).catalog;
    tensors = catalog.size();
    made.total_bytes = catalog.bytes();
    const auto cases = fixtures::quantized_cases();
    const auto found =
        std::find_if(cases.begin(), cases.end(), [&options](const auto& row) { return row.name == options.preset; });
    if (!planted && !found->check.empty()) {
      planted = {found->name, found->check, found->status};
    }
  }
  target.publish();
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
               shown_path(directory.string()));
  if (planted) {
    std::string subjects;
    for (const std::string& subject : made.subjects) {
      subjects += (subjects.empty() ? "" : ", ") + printable(subject);
    }
    console.line("broken by " + std::string(planted->name) + ": " + std::string(planted->check) + " must report " +
                 (subjects.empty() ? std::string("it") : subjects) +
                 (fault != nullptr && fault->needs_twin ? ", which shows beside the whole twin alone" : ""));
  }
  if (console.is_quiet()) {
    return k_exit_done;
  }
  std::string next = "weightproof verify " + typed_path(directory.string());
  if (fault != nullptr && fault->needs_twin) {
    // Alone it has nothing wrong with it: the twin has to be made first.
    const std::string twin = typed_path(twin_directory(directory));
    console.line("whole twin: " + twin_command(options, arguments, twin));
    next += " --against " + twin;
  } else if (fault != nullptr) {
    console.line("whole twin: " + twin_command(options, arguments, "DIR"));
  }
  console.line("next: " + next);
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
