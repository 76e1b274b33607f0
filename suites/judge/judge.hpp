// SPDX-License-Identifier: Apache-2.0
// Drives a foreign command through the fixtures and judges what it answered against the reference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"
#include "suites/judge/cases.hpp"

namespace weightproof::suites::judge {

struct JudgeOptions {
  std::vector<std::string> command;  ///< words; the path of the request comes last
  CaseFilter filter;
  double timeout_s = 120;
  /// Of all processes of the subject together; absent: three quarters of what this machine has left.
  std::optional<std::uint64_t> memory_limit;
  std::filesystem::path keep;  ///< requests, answers and what the subject printed stay here; empty: nothing does
  bool is_strict = false;
  std::string command_line;  ///< for the report
  std::function<void(std::string_view what, std::uint64_t done, std::uint64_t total)> progress;
  std::stop_token stop;
};

/// The report of all cases, finished and folded. Throws Error(usage) where the filter leaves no case, Error(io_error)
/// where nothing can be written.
reports::Report judge(const JudgeOptions& options);

}  // namespace weightproof::suites::judge
