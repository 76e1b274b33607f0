// SPDX-License-Identifier: Apache-2.0
// report: render a report again from its report.json, compare two, merge several, follow many.
#include "reports/report.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "reports/compare.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

using Words = std::span<const std::string>;

[[noreturn]] void wants(const std::string& what, std::string hint) {
  ErrorFacts facts;
  facts.hint = std::move(hint);
  throw Error(ErrorCode::usage, what, std::move(facts));
}

reports::Report read_report(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, reports::k_json_max_bytes);
  reports::Report report;
  try {
    report = reports::read_json(text);
  } catch (const reports::DocumentError& error) {
    ErrorFacts facts;
    facts.file = path.filename().string();
    facts.hint = "give a report.json that --report wrote";
    throw Error(ErrorCode::config_invalid, path.string() + " is no report: " + error.what(), facts);
  }
  reports::finish(report);
  reports::fold_findings(report);
  return report;
}

// Writes --out where it is given. True where a single --format went to stdout instead of everything else.
bool deliver(const reports::Report& report, const Arguments& arguments, Console& console) {
  const std::string directory = arguments.text("--out");
  const std::vector<std::string> formats = arguments.choices("--format");
  if (!directory.empty()) {
    write_report_files(report, directory, formats);
    return false;
  }
  if (formats.empty()) {
    return false;
  }
  if (formats.size() > 1) {
    wants("several formats want a directory to write to", "give --out DIR, or one format for stdout");
  }
  if (console.is_json()) {
    wants("--json and --format both want stdout", "leave out one of them, or give --out DIR");
  }
  console.out(rendered(report, formats.front()));
  return true;
}

int render(Words words, const Arguments& arguments, Console& console) {
  const reports::Report report = read_report(words.front());
  if (!deliver(report, arguments, console)) {
    print_report(report, arguments.text("--out"), console);
  }
  return k_exit_done;
}

int merge(Words words, const Arguments& arguments, Console& console) {
  std::vector<reports::Report> parts;
  for (const std::string& word : words) {
    parts.push_back(read_report(word));
  }
  const reports::Report report = reports::merge(std::move(parts));
  if (!deliver(report, arguments, console)) {
    print_report(report, arguments.text("--out"), console);
  }
  return reports::exit_status(report);
}

void list_changes(const char* word, Tone tone, const std::vector<reports::CompareEntry>& entries, Console& console) {
  constexpr std::size_t listed_max = 40;
  for (std::size_t i = 0; i < std::min(entries.size(), listed_max); ++i) {
    const reports::CompareEntry& entry = entries[i];
    std::string left = word;
    left.append(left.size() < 7 ? 7 - left.size() : 0, ' ');
    std::string rule = entry.rule;
    rule.append(rule.size() < 22 ? 22 - rule.size() : 1, ' ');
    console.line("  " + console.styled(tone, left) + "  " + rule + printable(entry.text, 400));
  }
  if (entries.size() > listed_max) {
    console.line("  and " + grouped(entries.size() - listed_max) + " more; --json lists them all");
  }
}

// Checks that stopped for one reason are one change: the reason.
std::vector<reports::CompareEntry> folded(const std::vector<reports::CompareEntry>& entries) {
  constexpr std::string_view words = " no longer runs: ";
  std::map<std::string, std::vector<const reports::CompareEntry*>> by_reason;
  for (const reports::CompareEntry& entry : entries) {
    if (const std::size_t at = entry.text.find(words); at != std::string::npos) {
      by_reason[entry.text.substr(at + words.size())].push_back(&entry);
    }
  }
  std::vector<reports::CompareEntry> out;
  for (const reports::CompareEntry& entry : entries) {
    const std::size_t at = entry.text.find(words);
    const auto group = at == std::string::npos ? by_reason.end() : by_reason.find(entry.text.substr(at + words.size()));
    if (group == by_reason.end() || group->second.size() == 1) {
      out.push_back(entry);
    } else if (group->second.front() == &entry) {
      out.push_back(entry);
      out.back().rule = counted(group->second.size(), "check", "checks");
      out.back().text = "no longer run: " + group->first;
    }
  }
  return out;
}

int compare(Words words, const Arguments& arguments, Console& console) {
  const reports::Report base = read_report(words[0]);
  reports::Report head = read_report(words[1]);
  reports::CompareOptions options;
  options.counter_tolerance = arguments.number("--tolerance").value_or(options.counter_tolerance);
  options.base_label = base.run.commit.empty() ? "base" : base.run.commit;
  options.head_label = head.run.commit.empty() ? "head" : head.run.commit;
  reports::apply_compare(head, base, options);
  const reports::CompareInfo& changes = *head.compare;
  const int status = reports::exit_status(changes);
  if (deliver(head, arguments, console)) {
    return status;
  }
  if (console.is_json()) {
    print_report(head, arguments.text("--out"), console);
    return status;
  }
  const auto failing =
      std::count_if(changes.fresh.begin(), changes.fresh.end(), [](const reports::CompareEntry& entry) {
        return entry.status == reports::Status::fail || entry.status == reports::Status::error;
      });
  console.line(console.styled(status == 0 ? Tone::pass : Tone::fail, status == 0 ? "SAME OR BETTER" : "WORSE") + "  " +
               counted(static_cast<std::uint64_t>(failing), "new failure", "new failures") + " against " +
               printable(changes.base) + "; " + grouped(changes.fixed.size()) + " fixed, " +
               grouped(changes.still.size()) + " still there, " + grouped(changes.changed_passing.size()) + " changed");
  list_changes("new", Tone::fail, changes.fresh, console);
  list_changes("fixed", Tone::pass, changes.fixed, console);
  list_changes("still", Tone::warn, changes.still, console);
  list_changes("changed", Tone::muted, folded(changes.changed_passing), console);
  return status;
}

void write_trend_json(const std::vector<reports::TrendPoint>& points, Console& console) {
  JsonWriter json([&console](std::string_view text) { console.out(text); });
  json.begin_object().member("schema", "weightproof.trend/1").name("points").begin_array();
  const auto optional = [&json](const char* name, const auto& value) {
    json.name(name);
    if (value) {
      json.value(*value);
    } else {
      json.null();
    }
  };
  for (const reports::TrendPoint& point : points) {
    json.begin_object().member("label", point.label).member("start", point.start);
    json.name("verdict");
    if (point.note.empty()) {
      json.value(to_string(point.verdict));
    } else {
      json.null();
    }
    json.name("summary").begin_object().compact();
    json.member("pass", point.summary.pass).member("fail", point.summary.fail).member("warn", point.summary.warn);
    json.member("skip", point.summary.skip).member("error", point.summary.error).end_object();
    json.member("causes", point.causes);
    optional("allocator_peak", point.allocator_peak);
    optional("bytes_read", point.bytes_read);
    optional("total_s", point.total_s);
    json.member("note", point.note).end_object();
  }
  json.end_array().end_object();
  json.flush();
  console.out("\n");
}

int trend(Words words, const Arguments& arguments, Console& console) {
  if (!arguments.choices("--format").empty()) {
    wants("a trend has no --format", "it prints tab-separated lines, and one document with --json");
  }
  std::vector<reports::TrendPoint> points;
  try {
    points = reports::read_trend(words.front());
  } catch (const reports::DocumentError& error) {
    ErrorFacts facts;
    facts.hint = "give a folder that holds report.json files, or folders with one each";
    throw Error(ErrorCode::io_error, std::string("cannot read reports: ") + error.what(), facts);
  }
  if (const std::string directory = arguments.text("--out"); !directory.empty()) {
    make_directory(directory);
    write_text_file(std::filesystem::path(directory) / "trend.tsv", reports::emit_trend(points));
  }
  if (console.is_json()) {
    write_trend_json(points, console);
  } else {
    console.out(reports::emit_trend(points));
  }
  return k_exit_done;
}

struct Action {
  std::string_view name;
  std::string_view form;
  std::size_t least;
  std::size_t most;
  int (*run)(Words words, const Arguments& arguments, Console& console);
};
constexpr std::array k_actions = {
    Action{"compare", "BASE/report.json HEAD/report.json", 2, 2, &compare},
    Action{"merge", "REPORT.json REPORT.json...", 1, SIZE_MAX, &merge},
    Action{"trend", "DIR", 1, 1, &trend},
};

}  // namespace

int run_report(const Arguments& arguments, Console& console) {
  const Words words = arguments.positionals();
  for (const Action& action : k_actions) {
    if (words.front() != action.name) {
      continue;
    }
    const Words rest = words.subspan(1);
    if (rest.size() < action.least || rest.size() > action.most) {
      wants("report " + std::string(action.name) + " got " + counted(rest.size(), "path", "paths"),
            "it is written: weightproof report " + std::string(action.name) + ' ' + std::string(action.form));
    }
    return action.run(rest, arguments, console);
  }
  if (words.size() > 1) {
    wants("report has no action '" + printable(words.front()) + "'",
          "it is written: weightproof report REPORT.json, or with compare, merge or trend before the paths");
  }
  return render(words, arguments, console);
}

}  // namespace weightproof::suites::cli
