// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/judge.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <iterator>
#include <map>
#include <system_error>

#include "loader/core/error.hpp"
#include "loader/storage/file.hpp"
#include "reference/failure.hpp"
#include "suites/judge/compare.hpp"
#include "suites/judge/request.hpp"
#include "suites/judge/run_subject.hpp"
#include "suites/judge/work.hpp"
#include "suites/support/shell.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/machine.hpp"
#include "suites/verify/verify.hpp"

namespace weightproof::suites::judge {
namespace {

namespace fs = std::filesystem;
using reports::CheckBuilder;
using reports::CheckRecord;

constexpr std::uint64_t k_answer_slack_bytes = 64ULL << 20U;  // over four times what was asked for

/// The last line that says something, for people.
std::string last_line(const std::string& text) {
  std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) {
    return {};
  }
  const std::size_t begin = text.find_last_of("\r\n", end);
  return printable(std::string_view(text).substr(begin == std::string::npos ? 0 : begin + 1, end - begin), 400);
}

/// A number as an option takes it: "0.5", "120".
std::string number_text(double number) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  return {buffer.data(), end};
}

class Judge {
 public:
  explicit Judge(const JudgeOptions& options) : options_(options), work_(options.keep), start_(Clock::now()) {
    const Machine machine = describe_machine();
    if (options.memory_limit) {
      memory_limit_ = *options.memory_limit;
    } else if (machine.memory_available_bytes) {
      memory_limit_ = *machine.memory_available_bytes / 4 * 3;
    }
  }

  reports::Report run() {
    const std::vector<Case> cases = list_cases(options_.filter);
    if (cases.empty()) {
      refuse_empty(options_.filter);
    }
    is_single_ = cases.size() == 1;
    for (std::size_t i = 0; i < cases.size() && !options_.stop.stop_requested(); ++i) {
      if (options_.progress) {
        options_.progress("judging " + cases[i].id(), i, cases.size());
      }
      run_case(cases[i]);
      if (!start_fault_.empty()) {
        break;  // the next case would not start either
      }
    }
    finish(cases);
    return std::move(report_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  CheckBuilder builder(const char* id, const Case& asked) const {
    CheckBuilder out(id);
    out.case_name(asked.id()).evidence("property", asked.id()).evidence("reproduce", reproduce(asked));
    return out;
  }

  std::string reproduce(const Case& asked) const {
    if (is_single_ && !options_.command_line.empty()) {
      return options_.command_line;
    }
    std::string out = "weightproof judge --case '" + asked.id() + "'";
    if (asked.dtype != "stored") {
      out += " --dtype " + asked.dtype;
    }
    if (asked.is_of_rank()) {
      out += " --wanted rank --topology " + asked.topology;
    } else if (asked.names == Names::native) {
      out += " --names native";
    }
    if (options_.filter.preset != CaseFilter{}.preset) {
      out += " --preset " + asked.fixture.preset;
    }
    // What may decide how the case ends.
    if (options_.timeout_s != JudgeOptions{}.timeout_s) {
      out += " --timeout " + number_text(options_.timeout_s);
    }
    if (options_.memory_limit) {
      out += " --memory-limit " + std::to_string(*options_.memory_limit);
    }
    if (options_.is_strict) {
      out += " --strict";
    }
    return out + " -- " + shell_words(options_.command);
  }

  fs::path fixture_directory(const FixtureSpec& fixture) const { return work_.path() / fixture.id() / "checkpoint"; }

  /// Makes the checkpoint of the case where it is not the one that is there.
  void prepare(const FixtureSpec& fixture) {
    if (fixture.id() == present_) {
      return;
    }
    std::error_code error;
    if (!present_.empty() && !work_.is_kept()) {
      fs::remove_all(work_.path() / present_, error);
    }
    present_.clear();
    fs::create_directories(fixture_directory(fixture).parent_path(), error);
    fs::remove_all(fixture_directory(fixture), error);
    write_fixture(fixture, fixture_directory(fixture));
    present_ = fixture.id();
    identities_ = identities(fixture_directory(fixture));
  }

  void run_case(const Case& asked) {
    try {
      prepare(asked.fixture);
      ExpectedState expected(fixture_directory(asked.fixture), asked);
      run_against(asked, expected);
    } catch (const reference::Failure& failure) {
      report_.checks.push_back(
          builder("value.exact", asked)
              .skip(std::string("the reference does not read this checkpoint: ") + failure.what()));
    } catch (const std::runtime_error& failure) {
      report_.checks.push_back(builder("io.error", asked).subject(asked.id()).error(failure.what()));
    }
  }

  void run_against(const Case& asked, ExpectedState& expected) {
    const fs::path directory = work_.path() / asked.id();
    std::error_code error;
    fs::create_directories(directory, error);
    Request request;
    request.asked = asked;
    request.checkpoint = fixture_directory(asked.fixture);
    request.output = directory / (asked.wanted == Wanted::state ? "state.safetensors" : "exported");
    const fs::path document = directory / "request.json";
    write_text(document, request_text(request));

    SubjectCommand command;
    command.words = options_.command;
    command.words.push_back(document.string());
    command.directory = fs::current_path();
    command.environment = request_environment(request, document);
    SubjectLimits limits;
    limits.wall = std::chrono::milliseconds(static_cast<std::int64_t>(options_.timeout_s * 1000));
    limits.memory_bytes = memory_limit_;
    limits.file_bytes = 4 * expected.bytes() + k_answer_slack_bytes;

    const double begin = now();
    const SubjectRun run = run_subject(command, limits, options_.stop);
    if (run.end == SubjectEnd::not_started) {
      start_fault_ = run.fault;
      fs::remove_all(directory, error);
      return;
    }
    measure(asked, run, begin);
    if (work_.is_kept()) {
      write_text(directory / "stdout.txt", run.out);
      write_text(directory / "stderr.txt", run.err);
    }
    if (run.end != SubjectEnd::interrupted) {
      judge_run(asked, expected, request, run, limits);
    }
    if (!work_.is_kept()) {
      fs::remove_all(directory, error);
    }
  }

  void measure(const Case& asked, const SubjectRun& run, double begin) {
    reports::TimingCase timing;
    timing.name = asked.id();
    timing.cache = "unknown";
    timing.seconds = run.seconds;
    report_.timing.cases.push_back(std::move(timing));
    reports::MemoryPart part;
    part.name = asked.id();
    part.begin_s = begin;
    part.end_s = begin + run.seconds;
    part.uncounted = run.peak_bytes;
    report_.memory.parts.push_back(std::move(part));
    peak_ = std::max(peak_, run.peak_bytes);
    largest_ = std::max(largest_, run.largest_peak);
    processes_ = std::max(processes_, run.processes);
    seconds_ += run.seconds;
    ++runs_;
  }

  struct Fault {
    const char* title = "";
    std::string text;  ///< empty: the run ended well
  };
  /// How a run ended, where it did not end well.
  Fault fault_of(const SubjectRun& run, const SubjectLimits& limits) const {
    switch (run.end) {
      case SubjectEnd::not_started:
        break;  // not one case's fault: see add_start_fault()
      case SubjectEnd::timed_out:
        return {"Subject hangs", "the subject was still running after " + number_text(options_.timeout_s) +
                                     " s and was ended (--timeout)"};
      case SubjectEnd::over_memory:
        return {"Subject over its memory", "the subject's processes took " + human_bytes(run.peak_bytes) +
                                               " of memory, allowed are " + human_bytes(limits.memory_bytes) +
                                               " (--memory-limit)"};
      case SubjectEnd::signalled:
        return {"Subject crashes",
                "the subject was ended by " + signal_name(run.signal) +
                    (run.signal == SIGKILL   ? ", as the kernel does where memory runs out"
                     : run.signal == SIGXFSZ ? ": it wrote a file larger than " + human_bytes(limits.file_bytes)
                                             : "")};
      case SubjectEnd::exited:
        if (run.status != 0) {
          // A shell hands on the signal of the command that it ran.
          const int handed_on = run.status > 128 && run.status < 160 ? run.status - 128 : 0;
          return {"Subject fails",
                  "the subject ended with status " + std::to_string(run.status) +
                      (handed_on == 0 ? std::string() : ", which is " + signal_name(handed_on)) +
                      (handed_on == SIGXFSZ ? ": it wrote a file larger than " + human_bytes(limits.file_bytes)
                                            : std::string())};
        }
        break;
      case SubjectEnd::interrupted:
        break;
    }
    return {};
  }

  void judge_run(const Case& asked, ExpectedState& expected, const Request& request, const SubjectRun& run,
                 const SubjectLimits& limits) {
    if (identities(request.checkpoint) != identities_) {
      report_.checks.push_back(builder("io.stale", asked)
                                   .subject("checkpoint")
                                   .hint("a load reads; write to \"output\" alone")
                                   .fail("the subject changed the checkpoint that it was given"));
      present_.clear();  // made anew for the next case
      return;
    }
    if (run.end == SubjectEnd::exited && run.status == k_status_unsupported) {
      const std::string reason = last_line(run.err);
      report_.checks.push_back(
          builder("value.exact", asked)
              .skip("not supported by the subject: " + (reason.empty() ? std::string("no reason given") : reason)));
      return;
    }
    if (const Fault fault = fault_of(run, limits); !fault.text.empty()) {
      const std::string words = last_line(run.err);
      report_.checks.push_back(builder("io.error", asked)
                                   .subject(asked.id())
                                   .evidence("title", fault.title)
                                   .hint("--keep DIR keeps the request and all that the subject printed")
                                   .error(fault.text + (words.empty() ? "" : "; it said: " + words)));
      return;
    }
    try {
      const Result result(request.output, asked.wanted, limits.file_bytes);
      const Comparison comparison = compare_with_reference(expected, result);
      CaseRecords records = records_of(comparison, asked.id(), reproduce(asked));
      std::move(records.checks.begin(), records.checks.end(), std::back_inserter(report_.checks));
      std::move(records.findings.begin(), records.findings.end(), std::back_inserter(report_.findings));
      if (result.quant_fault()) {
        const Error& fault = *result.quant_fault();
        CheckBuilder quant = builder(std::string(fault.check()).c_str(), asked);
        for (const std::string& key : fault.facts().keys) {
          quant.subject(key);
        }
        report_.checks.push_back(quant.code(std::string(to_string(fault.code())))
                                     .hint(fault.facts().hint)
                                     .fail(asked.id() + ": " + fault.message()));
      } else if (asked.wanted == Wanted::exported && result.is_directory()) {
        judge_export(asked, request.output);
      }
      if (run.left_behind > 0) {
        report_.checks.push_back(
            builder("io.interrupted", asked)
                .note("the subject left " + counted(run.left_behind, "process", "processes") + " running; ended here"));
      }
    } catch (const Error& error) {
      report_.checks.push_back(builder("io.error", asked)
                                   .subject(asked.id())
                                   .evidence("title", "Answer unreadable")
                                   .code(std::string(to_string(error.code())))
                                   .hint(error.facts().hint)
                                   .error("the answer cannot be read: " + error.message()));
    }
  }

  /// An exported checkpoint is one for others: what `verify` finds in it counts too.
  void judge_export(const Case& asked, const fs::path& exported) {
    VerifyOptions options;
    options.threads = 1;
    const reports::Report report = verify(exported, options);
    for (CheckRecord record : report.checks) {
      const std::string_view group = reports::group_of(record.id);
      const bool is_about_files = group == "format" || group == "index" || record.id == "quant.config_mismatch";
      if (!is_about_files || record.status == reports::Status::skip || record.status == reports::Status::pass) {
        continue;
      }
      record.case_name = asked.id();
      if (record.status == reports::Status::fail) {
        record.message = asked.id() + ": " + record.message;
      }
      record.evidence["property"] = asked.id();
      record.evidence["reproduce"] = reproduce(asked);
      report_.checks.push_back(std::move(record));
    }
  }

  /// One record for all cases: what is wrong is the command and nothing that was asked of it.
  void add_start_fault(std::size_t cases) {
    const std::string& program = options_.command.front();
    CheckBuilder builder("io.error");
    builder.subject(program).evidence("title", "Subject cannot be started");
    builder.hint(
        "give a program of PATH, or the path of a file that may be executed; a script without an interpreter "
        "line needs its interpreter in front: weightproof judge -- python3 my_loader.py");
    report_.checks.push_back(builder.error("the command cannot be started: " + start_fault_ + "; " +
                                           (runs_ == 0 ? std::string("none") : grouped(runs_)) + " of " +
                                           counted(cases, "case", "cases") + " ran"));
  }

  /// Cases that ended in one way with the same words are one finding: they have one cause.
  void fold_equal_errors() {
    std::map<std::pair<std::string, std::string>, std::vector<const CheckRecord*>> groups;
    for (const CheckRecord& record : report_.checks) {
      if (record.status == reports::Status::error && record.id == "io.error" &&
          record.evidence.find("title") != nullptr) {
        groups[{record.evidence.find("title")->as_string(), record.reason}].push_back(&record);
      }
    }
    for (const auto& [words, records] : groups) {
      if (records.size() < 2) {
        continue;
      }
      reports::Finding finding;
      finding.rule = "io.error";
      finding.status = reports::Status::error;
      finding.title = words.first;
      for (const CheckRecord* record : records) {
        finding.keys.insert(finding.keys.end(), record->subjects.begin(), record->subjects.end());
      }
      finding.total = finding.keys.size();
      finding.explanation = words.second + ". So ended " + counted(records.size(), "case", "cases") + ".";
      finding.property = records.front()->case_name;
      if (!records.front()->hint.empty()) {
        finding.evidence.push_back({records.front()->hint, {}});
      }
      finding.reproduce = records.front()->evidence.find("reproduce")->as_string();
      report_.findings.push_back(std::move(finding));
    }
  }

  void finish(const std::vector<Case>& cases) {
    if (!start_fault_.empty()) {
      add_start_fault(cases.size());
    }
    const bool is_cut = options_.stop.stop_requested() || !start_fault_.empty();
    fold_equal_errors();
    auto& checkpoint = report_.checkpoint;
    checkpoint.path = "fixtures";
    checkpoint.format = "safetensors, made for the purpose";
    std::vector<std::string> families;
    for (const Case& row : cases) {
      families.push_back(row.fixture.family);
    }
    families.erase(std::unique(families.begin(), families.end()), families.end());
    checkpoint.family = families.size() == 1 ? families.front() : std::string();
    if (families.size() > 1) {
      checkpoint.path += " of " + counted(families.size(), "family", "families");
    }
    report_.strict = options_.is_strict;
    std::string words;
    for (const std::string& word : options_.command) {
      words += (words.empty() ? "" : " ") + word;
    }
    const auto policy = [&](const char* name, std::string value, const char* source) {
      report_.policies.push_back({name, std::move(value), source, false});
    };
    policy("subject", words, "option");
    policy("wall time of one case", std::to_string(static_cast<std::uint64_t>(options_.timeout_s)) + " s", "option");
    policy("memory of the subject",
           memory_limit_ == UINT64_MAX ? std::string("no limit is known") : human_bytes(memory_limit_),
           options_.memory_limit ? "option" : "default");
    policy("values", "every byte equal; NaN stays NaN where a value was converted", "default");
    policy("exit status 77", "not supported: skipped with the subject's reason", "default");
    if (std::any_of(cases.begin(), cases.end(), [](const Case& row) { return row.is_of_rank(); })) {
      policy("ranks", "each by itself, as the only process: a part is compared with the indices that the rank holds",
             "default");
    }
    if (is_cut) {
      report_.policies.push_back({"interrupted",
                                  counted(runs_, "case", "cases") + " of " + std::to_string(cases.size()) + " ran",
                                  "option", true});
    }
    if (runs_ > 0) {
      report_.memory.set("subject_tree_peak", peak_, k_peak_method);
      report_.memory.set("subject_process_peak", largest_, "the largest single process, as the kernel counted it");
    }
    report_.memory.set_unavailable("cgroup_peak", "the subject runs in the control group of its caller");
    const Machine machine = describe_machine();
    report_.environment["system"] = machine.system;
    report_.environment["cpu"] = machine.cpu;
    report_.environment["cpu_threads"] = machine.threads;
    report_.environment["subject_processes"] = processes_;
    report_.timing.phases.push_back({"load", seconds_, std::nullopt, ""});
    report_.timing.cache_method = "fixtures were just written: their pages are in memory";
    report_.timing.total_s = now();
    report_.run.tool = "weightproof " WEIGHTPROOF_VERSION;
    report_.run.host = host_name();
    report_.run.command = options_.command_line;
    report_.run.command_base = options_.command_line;
    report_.run.duration_s = now();
    report_.run.title = "judge, " + words;
    reports::finish(report_);
    reports::fold_findings(report_);
  }

  const JudgeOptions& options_;
  WorkDirectory work_;
  Clock::time_point start_;
  std::uint64_t memory_limit_ = UINT64_MAX;
  std::string present_;      ///< fixture whose checkpoint is there
  bool is_single_ = false;   ///< the one case is what the caller asked for: the command repeats it
  std::string start_fault_;  ///< why the command cannot be started
  std::vector<std::pair<std::string, storage::FileIdentity>> identities_;
  reports::Report report_;
  std::uint64_t peak_ = 0;
  std::uint64_t largest_ = 0;
  unsigned processes_ = 0;
  std::uint64_t runs_ = 0;
  double seconds_ = 0;
};

}  // namespace

reports::Report judge(const JudgeOptions& options) {
  Judge run(options);
  return run.run();
}

}  // namespace weightproof::suites::judge
