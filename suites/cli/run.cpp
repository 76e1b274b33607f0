// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>

#include "loader/core/error.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/documents.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::size_t k_any_number = std::numeric_limits<std::size_t>::max();

constexpr std::array k_verbs = {
    VerbSpec{"inspect", "CHECKPOINT", "what is in a checkpoint: family, dtypes, files, problems",
             "Describes a directory, one .safetensors file, an index file or a Hugging Face cache directory from its "
             "metadata alone. The exit status is 0 also where problems are found; `verify` judges.",
             "weightproof inspect ./model  # family, dtypes, sizes, problems\n"
             "weightproof inspect ./model --tensors  # every tensor with its file, shape and offset\n"
             "weightproof inspect model.safetensors.index.json --keys-only  # an index without its weights",
             1, 1, &run_inspect},
    VerbSpec{"verify", "CHECKPOINT", "judge a checkpoint: files, names, shapes, ties, values",
             "Runs every check that the input allows and lists those that were skipped with the reason. Weights are "
             "streamed through small buffers, so a checkpoint larger than memory is no problem.",
             "weightproof verify ./model  # judge a checkpoint\n"
             "weightproof verify ./model --report report  # and write report.html, report.json, junit.xml\n"
             "weightproof verify ./model --keys-only  # config.json and index alone, before any download\n"
             "weightproof verify ./model --strict --expect known.json  # for CI",
             1, 1, &run_verify},
    VerbSpec{"plan", "CHECKPOINT", "what a load would do: routes, proof, memory, reads",
             "Made from metadata alone: no weight is read. Every tensor has a route with the reason, every byte a "
             "place, and "
             "the memory is known before anything is allocated.",
             "weightproof plan ./model  # routes, proof, memory\n"
             "weightproof plan ./model --dtype bf16 --budget 256MiB  # refused here if it cannot be done\n"
             "weightproof plan ./model --topology tp=8 --all-ranks  # what each of eight ranks reads and holds",
             1, 1, &run_plan},
    VerbSpec{
        "load", "CHECKPOINT", "execute a load and measure it",
        "Does exactly what `plan` prints, inside the memory that it states, and says what was planned beside what was "
        "measured. --emit writes the loaded state as a checkpoint that says what it is.",
        "weightproof load ./model\n"
        "weightproof load ./model --dtype bf16 --emit ./native",
        1, 1, &run_load},
    VerbSpec{
        "export", "CHECKPOINT --out PATH", "write a checkpoint anew: cast, decoded, split otherwise",
        "Written beside the target, read back and compared, then published in one step: a failed export leaves nothing "
        "under the target's name. config.json and the small files beside the weights go along.",
        "weightproof export ./model --out ./copy  # the same tensors, written by the reference rules\n"
        "weightproof export ./model-fp8 --out ./model-bf16 --dtype bf16  # decode quantized weights\n"
        "weightproof export ./model --out ./split --shard-size 2GB\n"
        "weightproof export ./copy --out ./again --shards-like ./model  # the files of ./model, byte for byte",
        1, 1, &run_export},
    VerbSpec{
        "diff", "A B", "compare two checkpoints, whatever their files, dtypes and quantization",
        "Tensors are decoded and compared by name, streamed. The exit status is 1 where they differ by more than the "
        "tolerance, or where one side has a tensor more.",
        "weightproof diff ./model ./export  # exact\n"
        "weightproof diff ./model-f32 ./model-bf16 --rtol 0.004\n"
        "weightproof diff ./a ./b --ulp 1 --json",
        2, 2, &run_diff},
    VerbSpec{"manifest", "CHECKPOINT", "digests of the decoded tensors, to compare with later",
             "SHA-256 and XXH3-128 of each tensor as it decodes: the same for every way of splitting and storing it.",
             "weightproof manifest ./model --out model.manifest.json\n"
             "weightproof manifest ./download --check model.manifest.json",
             1, 1, &run_manifest},
    VerbSpec{
        "bench", "[CHECKPOINT]", "loading and planning beside bare loops over the same bytes",
        "Every case alternates with its baseline in the same run, what is loaded is compared before it is timed, and "
        "ratios are printed: 1 is as fast as the baseline. Without CHECKPOINT files are made, and removed.",
        "weightproof bench\nweightproof bench ./model --rounds 21 --json\n"
        "weightproof bench --strict  # exit status 1 below 0.8 of a goal",
        0, 1, &run_bench},
    VerbSpec{"fixture", "[FAMILY] --out DIR", "make a synthetic checkpoint, whole or broken in a named way",
             "Checkpoints are deterministic: same family, preset, seed and version give the same bytes. Every element "
             "says by its value which tensor and which coordinate it belongs to.",
             "weightproof fixture --list  # families, presets and faults\n"
             "weightproof fixture llama --out sample  # a small whole checkpoint\n"
             "weightproof fixture --break FAULT --out broken  # a checkpoint with one fault",
             0, 1, &run_fixture},
    VerbSpec{
        "selftest", "", "the checks against planted faults: kill table, survivors, false alarms",
        "Plants every known mutant, one at a time, in the loader, in the reference and in files, and asks whether a "
        "check fails and names the right tensor. Then verifies sound fixtures of every family, and real files "
        "where --data says they are. The status is 1 where a mutant survives or a sound input raises an alarm.",
        "weightproof selftest\n"
        "weightproof selftest --kind file --report report  # faults of files alone, with pages to read\n"
        "weightproof selftest --only 'execution.*llama*'",
        0, 0, &run_selftest},
    VerbSpec{
        "judge", "-- COMMAND...", "drive another loader through the fixtures and judge what it answers",
        "COMMAND is run once a case with the path of a request.json as its last argument; the same stands in JUDGE_* "
        "variables. It writes the state it loaded, or an exported checkpoint, to the path \"output\" and ends with "
        "status 0, or with 77 and a reason where it does not support what is asked. Every byte is compared with the "
        "reference; a command that hangs, crashes or takes too much memory is ended and named. suites/judge/README.md "
        "says more.",
        "weightproof judge -- python3 my_loader.py  # all cases\n"
        "weightproof judge --case 'llama/*' -- ./my-loader  # one family\n"
        "weightproof judge --list  # the cases\n"
        "weightproof judge --report report --keep work -- python3 my_loader.py  # pages, requests and answers\n"
        "weightproof judge --wanted state --case '*gpt_oss*' --dtype bf16 -- sh -c \\\n"
        "  'my-loader \"$JUDGE_CHECKPOINT\" --dtype \"$JUDGE_DTYPE\" -o \"$JUDGE_OUTPUT\"'",
        0, SIZE_MAX, &run_judge},
    VerbSpec{
        "explain", "[ID]", "what a check or an error code means and how to mend it",
        "Without ID all checks and codes are listed.",
        "weightproof explain keys.missing\nweightproof explain SHARD_MISSING\nweightproof explain  # list them all", 0,
        1, &run_explain},
    VerbSpec{"doctor", "", "what this machine offers: CPU, memory, GPU, file system",
             "Says what weightproof found and what it will therefore do, for bug reports and for surprises in timings.",
             "weightproof doctor\nweightproof doctor --json", 0, 0, &run_doctor},
    VerbSpec{"report", "[compare | merge | trend] REPORT.json...", "render reports again, compare, merge, follow them",
             "Reads report.json files that --report wrote. Alone, one is rendered again: into --out, or as the one "
             "--format to stdout. `compare BASE HEAD` says what is new, fixed, still failing and changed though it "
             "passes; status 1 where something new fails or a counter grew past --tolerance; times never count. "
             "`merge` makes one report of shards, ranks or fixture runs, with its own verdict as status. `trend DIR` "
             "follows the reports of a folder, oldest first.",
             "weightproof report report/report.json --out pages\n"
             "weightproof report report/report.json --format github  # annotations of a pull request\n"
             "weightproof report compare base/report.json report/report.json --out pages  # for CI\n"
             "weightproof report merge rank-0/report.json rank-1/report.json --out merged\n"
             "weightproof report trend reports",
             1, k_any_number, &run_report},
    VerbSpec{"adapters", "list | show FAMILY", "the model families, and one family's mapping as a table",
             "`show` prints which stored tensor fills which part of which native tensor. Sizes come from --config, or "
             "from a small built-in configuration.",
             "weightproof adapters list\nweightproof adapters show llama\n"
             "weightproof adapters show qwen3 --config ./model/config.json",
             1, 2, &run_adapters},
};

Error usage(std::string message, std::string hint) {
  ErrorFacts facts;
  facts.hint = std::move(hint);
  return Error(ErrorCode::usage, std::move(message), std::move(facts));
}

int exit_status_of(const Error& error) {
  return class_of(error.code()) == ErrorClass::usage ? k_exit_usage : k_exit_impossible;
}

/// Whatever a verb threw, as an error that can be told.
Error told(const std::exception& failure) {
  if (const auto* error = dynamic_cast<const Error*>(&failure)) {
    return *error;
  }
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) {
    return Error(ErrorCode::alloc_failed, "out of memory");
  }
  ErrorFacts facts;
  facts.hint = "this is a defect of weightproof; report it with the command";
  return Error(ErrorCode::internal, failure.what(), facts);
}

int run_words(std::span<const std::string> words, Console& console, std::string_view& verb_name) {
  if (words.empty()) {
    console.out(help_text());
    return k_exit_usage;
  }
  const std::string& first = words.front();
  if (first == "--help" || first == "-h") {
    console.out(help_text());
    return k_exit_done;
  }
  if (first == "--version" || first == "-V") {
    console.line("weightproof " WEIGHTPROOF_VERSION);
    return k_exit_done;
  }
  if (first == "help") {
    const VerbSpec* verb = words.size() > 1 ? find_verb(words[1]) : nullptr;
    console.out(verb == nullptr ? help_text() : help_text(*verb, true));
    return k_exit_done;
  }
  if (first == "--generate") {
    const std::string_view kind = words.size() == 2 ? std::string_view(words[1]) : std::string_view();
    for (const GeneratedDocument& document : generated_documents()) {
      if (document.name == kind) {
        console.out(document.make());
        return k_exit_done;
      }
    }
    throw usage("--generate wants one word", "it can be man, bash, zsh or fish");
  }
  const VerbSpec* verb = find_verb(first);
  if (verb == nullptr) {
    std::vector<std::string_view> names;
    for (const VerbSpec& row : k_verbs) {
      names.push_back(row.name);
    }
    const std::string_view near = nearest(first, names);
    throw usage("there is no verb '" + printable(first) + "'",
                near.empty() ? "`weightproof --help` lists the verbs" : "did you mean " + std::string(near) + "?");
  }
  verb_name = verb->name;
  const auto rest = words.subspan(1);
  for (const std::string& word : rest) {
    if (word == "--json" || word == "-j") {
      console.set_json(true);  // also for what is wrong with the rest of the command line
    }
    if (word == "--") {
      break;
    }
    if (word == "--help" || word == "-h") {
      console.out(help_text(*verb, word == "--help"));
      return k_exit_done;
    }
    if (word == "--version") {
      console.line("weightproof " WEIGHTPROOF_VERSION);
      return k_exit_done;
    }
  }
  const Arguments arguments = parse_arguments(verb->name, rest);
  console.set_json(arguments.flag("--json"));
  console.set_quiet(arguments.flag("--quiet"));
  const std::string color = arguments.text("--color", "auto");
  console.set_color(color == "always"  ? ColorChoice::always
                    : color == "never" ? ColorChoice::never
                                       : ColorChoice::automatic);
  const std::size_t given = arguments.positionals().size();
  if (given < verb->positionals_min || given > verb->positionals_max) {
    const std::string form =
        "weightproof " + std::string(verb->name) + (verb->form.empty() ? std::string() : ' ' + std::string(verb->form));
    throw usage(given < verb->positionals_min
                    ? std::string(verb->name) + " wants an argument more"
                    : "'" + printable(arguments.positionals()[verb->positionals_max]) + "' is one argument too many",
                "it is written: " + form);
  }
  const auto options = options_of(verb->name);
  const bool has_report = !arguments.flag("--list") && std::any_of(options.begin(), options.end(), [](const auto* row) {
    return row->name == "--report";
  });
  try {
    if (has_report) {
      prepare_report(arguments);
    }
    require_named_paths(arguments, verb->takes_checkpoints());
    return verb->run(arguments, console);
  } catch (const std::exception& failure) {
    leave_error_report(told(failure), arguments);
    throw;
  }
}

}  // namespace

std::span<const VerbSpec> all_verbs() { return k_verbs; }

const VerbSpec* find_verb(std::string_view name) {
  for (const VerbSpec& verb : k_verbs) {
    if (verb.name == name) {
      return &verb;
    }
  }
  return nullptr;
}

int run(std::span<const std::string> words) {
  std::signal(SIGPIPE, SIG_IGN);
  Console console;
  std::string_view verb;
  try {
    int status = k_exit_impossible;
    try {
      status = run_words(words, console, verb);
      console.end_progress();
    } catch (const std::exception& failure) {
      const Error error = told(failure);
      console.error(error, verb);
      status = exit_status_of(error);
    }
    console.flush();
    return status;
  } catch (const BrokenPipe&) {
    return k_exit_done;
  } catch (const Error& error) {  // standard output cannot be written
    console.set_json(false);
    console.error(error, verb);
    return k_exit_impossible;
  }
}

}  // namespace weightproof::suites::cli
