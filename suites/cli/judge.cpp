// SPDX-License-Identifier: Apache-2.0
// judge: drive another loader through the fixtures and judge what it answered.
#include "suites/judge/judge.hpp"

#include "suites/cli/common.hpp"
#include "suites/cli/interrupt.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

judge::CaseFilter filter_of(const Arguments& arguments) {
  judge::CaseFilter filter;
  filter.globs = arguments.texts("--case");
  filter.preset = arguments.text("--preset", filter.preset);
  const std::string topology = arguments.text("--topology");
  const std::string wanted = arguments.text("--wanted", topology.empty() ? "both" : "rank");
  if (wanted == "state") {
    filter.wanted = {judge::Wanted::state};
  } else if (wanted == "export") {
    filter.wanted = {judge::Wanted::exported};
  } else if (wanted == "rank") {
    filter.wanted = {};
  }
  if (wanted == "rank" || wanted == "all") {
    filter.ranks = judge::usual_rank_questions();
  }
  if (!topology.empty()) {
    if (filter.ranks.empty()) {
      ErrorFacts facts;
      facts.hint = "leave out --topology, or ask for --wanted rank or all";
      throw Error(ErrorCode::usage, "--topology asks for what ranks hold, --wanted " + wanted + " does not", facts);
    }
    filter.ranks = {{judge::topology_text(topology), {}}};
  }
  if (arguments.text("--names") == "native") {
    filter.names = judge::Names::native;
  }
  filter.dtypes = {arguments.text("--dtype", "stored")};
  return filter;
}

int list(const judge::CaseFilter& filter, Console& console) {
  const std::vector<judge::Case> cases = judge::list_cases(filter);
  if (cases.empty()) {
    judge::refuse_empty(filter);
  }
  if (!console.is_json()) {
    for (const judge::Case& row : cases) {
      console.line(row.id());
    }
    return k_exit_done;
  }
  JsonWriter json([&console](std::string_view text) { console.out(text); });
  json.begin_object().member("schema", "weightproof.cases/1").name("cases").begin_array();
  for (const judge::Case& row : cases) {
    json.begin_object().compact().member("case", row.id()).member("family", row.fixture.family);
    json.member("wanted", to_string(row.wanted)).member("names", to_string(row.names)).member("dtype", row.dtype);
    if (row.is_of_rank()) {
      json.member("topology", row.topology).member("rank", row.rank);
    }
    json.end_object();
  }
  json.end_array().end_object();
  json.flush();
  console.out("\n");
  return k_exit_done;
}

}  // namespace

int run_judge(const Arguments& arguments, Console& console) {
  judge::JudgeOptions options;
  if (arguments.flag("--list")) {
    return list(filter_of(arguments), console);
  }
  const std::string directory = arguments.text("--report");
  options.filter = filter_of(arguments);
  options.command = arguments.positionals();
  if (options.command.empty()) {
    ErrorFacts facts;
    facts.hint = "it is written: weightproof judge [options] -- COMMAND...";
    throw Error(ErrorCode::usage, "judge wants a command to drive", facts);
  }
  options.timeout_s = arguments.number("--timeout").value_or(options.timeout_s);
  options.memory_limit = arguments.bytes("--memory-limit");
  options.keep = arguments.text("--keep");
  options.is_strict = arguments.flag("--strict");
  options.command_line = arguments.command();
  options.progress = [&console](std::string_view what, std::uint64_t done, std::uint64_t total) {
    console.progress(what, done, total);
  };
  const InterruptGuard interrupt;
  options.stop = interrupt.token();
  reports::Report report = judge::judge(options);
  report.run.commit = arguments.text("--commit");
  console.end_progress();
  if (!directory.empty()) {
    write_report_files(report, directory, arguments.choices("--format"));
  }
  print_report(report, directory, console);
  return reports::exit_status(report);
}

}  // namespace weightproof::suites::cli
