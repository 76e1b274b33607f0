// SPDX-License-Identifier: Apache-2.0
#include "suites/selftest/selftest.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "loader/core/glob.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/machine.hpp"
#include "suites/verify/verify.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;

struct KindCount {
  std::uint64_t planted = 0;
  std::uint64_t killed = 0;
  std::uint64_t equivalent = 0;
  std::vector<std::string> survivors;
  std::vector<std::string> loud;  ///< called equivalent, and not
};

class Selftest {
 public:
  explicit Selftest(const SelftestOptions& options) : options_(options) {}

  void run_list(const MutantList& list) {
    const std::vector<Mutant> mutants = list.make();
    FixtureShelf shelf;
    KindCount& count = kinds_[std::string(list.kind)];
    for (std::size_t i = 0; i < mutants.size(); ++i) {
      if (selects(mutants[i].id)) {
        run_one(mutants[i], shelf, count);
      }
      tell(std::string("mutants of kind ") + std::string(list.kind), i + 1, mutants.size());
    }
  }

  void run_input(const SoundInput& input, FixtureShelf& shelf) {
    if (!selects(input.name)) {
      return;
    }
    std::filesystem::path path;
    if (input.path.empty()) {
      path = shelf.get(input.fixture).path;
    } else if (options_.real_data.empty()) {
      ++absent_;
      return;
    } else {
      path = options_.real_data / input.path;
    }
    ++self_.good_inputs;
    VerifyOptions verify_options;
    verify_options.threads = options_.threads;
    verify_options.selection.keys_only = input.is_keys_only;
    std::vector<std::string> findings;
    try {
      const reports::Report report = verify(path, verify_options);
      for (const reports::CheckRecord& record : report.checks) {
        const bool is_deserved =
            record.status != reports::Status::fail &&
            std::find(input.deserved.begin(), input.deserved.end(), record.id) != input.deserved.end();
        if (!is_deserved && record.status != reports::Status::pass && record.status != reports::Status::skip) {
          findings.push_back(record.id + ' ' + std::string(to_string(record.status)));
        }
      }
    } catch (const Error& error) {
      findings.push_back(std::string(to_string(error.code())) + ": " + error.message());
    }
    if (!findings.empty()) {
      alarm(input.name, findings.front());
    }
  }

  reports::Report report() {
    reports::Report report;
    for (const auto& [kind, count] : kinds_) {
      CheckBuilder builder("selftest." + kind);
      builder.examined(count.planted).evidence("killed", count.killed).evidence("equivalent", count.equivalent);
      for (const std::string& id : count.survivors) {
        builder.subject(id);
      }
      builder.hint("a check has to be written, or mended, that fails on this fault and names its tensor");
      report.checks.push_back(
          count.planted == 0
              ? builder.skip("no mutant of this kind is selected")
              : builder.fail_if_subjects(counted(count.survivors.size(), "mutant survives", "mutants survive") +
                                         " of " + grouped(count.planted)));
    }
    CheckBuilder alarms("selftest.false_alarms");
    alarms.examined(self_.good_inputs);
    for (const std::string& name : loud_) {
      alarms.subject(name);
    }
    if (absent_ > 0) {
      alarms.evidence("absent", counted(absent_, "real file is", "real files are") + " not on this machine");
    }
    report.checks.push_back(
        self_.good_inputs == 0
            ? alarms.skip("no sound input is selected")
            : alarms.fail_if_subjects(counted(loud_.size(), "sound input raises", "sound inputs raise") + " an alarm" +
                                      (self_.alarms.empty() ? std::string() : ": " + self_.alarms.front())));
    report.selftest = self_;
    return report;
  }

 private:
  bool selects(const std::string& name) const { return options_.only.empty() || matches_any_glob(options_.only, name); }
  void tell(const std::string& what, std::uint64_t done, std::uint64_t total) const {
    if (options_.progress) {
      options_.progress(what, done, total);
    }
  }
  void alarm(const std::string& name, const std::string& what) {
    ++self_.false_alarms;
    self_.alarms.push_back(name + ": " + what);
    loud_.push_back(name);
  }

  void run_one(const Mutant& mutant, FixtureShelf& shelf, KindCount& count) {
    const Fate fate = run_mutant(mutant, shelf, options_.threads);
    if (!mutant.equivalent.empty()) {
      // Nothing can come out different, so a finding is a false alarm.
      ++count.equivalent;
      ++self_.good_inputs;
      if (!fate.is_as_wanted) {
        alarm(mutant.id, fate.findings.empty() ? "a finding" : fate.findings.front());
      }
      return;
    }
    ++count.planted;
    reports::MutantRecord record;
    record.id = mutant.id;
    record.fault = mutant.fault;
    record.area = mutant.kind;
    record.killed = fate.is_as_wanted;
    record.named = fate.is_as_wanted;
    record.caught_by = fate.check;
    record.subject = !fate.tensor.empty()     ? fate.tensor
                     : mutant.tensors.empty() ? std::string()
                                              : mutant.tensors.front();
    if (fate.is_as_wanted) {
      ++count.killed;
    } else {
      record.note =
          fate.findings.empty() ? "nobody complained" : "complaints, none on the tensor: " + fate.findings.front();
      count.survivors.push_back(mutant.id);
    }
    self_.mutants.push_back(std::move(record));
  }

  const SelftestOptions& options_;
  std::map<std::string, KindCount> kinds_;
  reports::SelftestInfo self_;
  std::vector<std::string> loud_;
  std::uint64_t absent_ = 0;
};

}  // namespace

reports::Report selftest(std::span<const MutantList> lists, std::span<const SoundInput> inputs,
                         const SelftestOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::string started = utc_now();
  Selftest run(options);
  for (const MutantList& list : lists) {
    if (options.kind.empty() || options.kind == list.kind) {
      run.run_list(list);
    }
  }
  FixtureShelf shelf;
  for (std::size_t i = 0; i < inputs.size() && options.kind.empty(); ++i) {
    run.run_input(inputs[i], shelf);
    if (options.progress) {
      options.progress("sound inputs", i + 1, inputs.size());
    }
  }
  reports::Report report = run.report();
  report.run.tool = "weightproof " WEIGHTPROOF_VERSION;
  report.run.title = "selftest";
  report.run.command = report.run.command_base = options.command;
  report.run.start = started;
  report.run.host = host_name();
  report.run.duration_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.checkpoint.format = "fixtures";
  reports::finish(report);
  reports::fold_findings(report);
  return report;
}

std::string kill_table(const reports::Report& report) {
  const auto padded = [](std::string text, std::size_t width) {
    text.append(text.size() < width ? width - text.size() : 1, ' ');
    return text;
  };
  std::string out = padded("kind", 14) + padded("planted", 10) + padded("killed", 10) + "by\n";
  std::map<std::string, std::vector<const reports::MutantRecord*>> kinds;
  for (const reports::MutantRecord& mutant : report.selftest->mutants) {
    kinds[mutant.area].push_back(&mutant);
  }
  std::uint64_t killed = 0;
  for (const auto& [kind, mutants] : kinds) {
    std::map<std::string, std::uint64_t> checks;
    std::uint64_t count = 0;
    for (const reports::MutantRecord* mutant : mutants) {
      if (mutant->killed) {
        ++count;
        ++checks[mutant->caught_by];
      }
    }
    killed += count;
    std::vector<std::pair<std::uint64_t, std::string>> most;
    for (const auto& [check, kills] : checks) {
      most.emplace_back(kills, check);
    }
    std::sort(most.begin(), most.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, most.size()); ++i) {
      text += (i == 0 ? "" : ", ") + most[i].second + " (" + grouped(most[i].first) + ")";
    }
    if (most.size() > 3) {
      text += " and " + counted(most.size() - 3, "check", "checks") + " more";
    }
    out += padded(kind, 14) + padded(grouped(mutants.size()), 10) + padded(grouped(count), 10) + text + '\n';
  }
  out += '\n' + counted(report.selftest->mutants.size(), "mutant", "mutants") + ", " + grouped(killed) +
         " killed under the right tensor's name; ";
  out += report.selftest->good_inputs == 0
             ? "no sound input was selected, so false alarms were not looked for\n"
             : counted(report.selftest->false_alarms, "false alarm", "false alarms") + " in " +
                   counted(report.selftest->good_inputs, "sound input", "sound inputs") + '\n';
  for (const reports::MutantRecord& mutant : report.selftest->mutants) {
    if (!mutant.killed) {
      out += "survives  " + mutant.id + ": " + mutant.fault + " (" + mutant.note + ")\n";
    }
  }
  for (const std::string& text : report.selftest->alarms) {
    out += "alarm     " + printable(text, 400) + '\n';
  }
  return out;
}

}  // namespace weightproof::suites
