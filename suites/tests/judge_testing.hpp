// SPDX-License-Identifier: Apache-2.0
// What the tests of judge share: a run in this process, and what came of it in words.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "suites/judge/judge.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {

inline const std::string k_subjects = std::string(WEIGHTPROOF_SOURCE_DIR) + "/ci/subjects/";

inline reports::Report judged(const std::vector<std::string>& command, const std::vector<std::string>& globs,
                              const std::function<void(judge::JudgeOptions&)>& change = {}) {
  judge::JudgeOptions options;
  options.command = command;
  options.filter.globs = globs;
  options.timeout_s = 60;
  if (change) {
    change(options);
  }
  return judge::judge(options);
}

/// Our own command line as a subject.
inline std::vector<std::string> own_subject() {
  const std::string tool = std::string(WEIGHTPROOF_BINARY_DIR) + "/bin/weightproof";
  ::setenv("WEIGHTPROOF", tool.c_str(), 1);
  return {k_subjects + "weightproof.sh"};
}

/// A subject in one line of shell.
inline std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

/// A line for each record that did not pass.
inline std::string described(const reports::Report& report) {
  std::string out;
  for (const reports::CheckRecord& record : report.checks) {
    if (record.status != reports::Status::pass) {
      out += record.id + ' ' + std::string(to_string(record.status)) + ' ' + record.case_name + ' ' + record.message +
             record.reason + '\n';
    }
  }
  return out;
}

inline bool has_python_module(const std::string& name) {
  return run_program({"/usr/bin/python3", "-c", "import " + name}).status == 0;
}

#define NEEDS_NUMPY                           \
  if (!has_python_module("numpy")) {          \
    GTEST_SKIP() << "numpy is not installed"; \
  }

}  // namespace weightproof::suites::test
