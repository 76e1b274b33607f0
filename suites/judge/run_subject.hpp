// SPDX-License-Identifier: Apache-2.0
// One run of a foreign command under limits: it and whatever it starts end with it, whatever it does.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace weightproof::suites::judge {

struct SubjectCommand {
  std::vector<std::string> words;  ///< program (looked up in PATH) and arguments
  std::filesystem::path directory;
  /// Added to the environment of this process.
  std::vector<std::pair<std::string, std::string>> environment;
};

struct SubjectLimits {
  std::chrono::milliseconds wall{120'000};
  std::uint64_t memory_bytes = UINT64_MAX;  ///< of all processes of the subject together, resident
  std::uint64_t file_bytes = UINT64_MAX;    ///< of one file it writes
};

enum class SubjectEnd : std::uint8_t {
  exited,       ///< with `status`
  signalled,    ///< by `signal`, which did not come from here
  timed_out,    ///< ended at the wall time limit
  over_memory,  ///< ended at the memory limit
  interrupted,  ///< the caller wished to stop
  not_started   ///< `fault` says why
};

struct SubjectRun {
  SubjectEnd end = SubjectEnd::not_started;
  int status = 0;
  int signal = 0;
  std::string fault;
  double seconds = 0;
  std::uint64_t peak_bytes = 0;    ///< of the whole process tree: largest sampled sum, or the largest single process
  std::uint64_t largest_peak = 0;  ///< largest single process, as the kernel counted it
  unsigned processes = 0;          ///< most at once
  unsigned left_behind = 0;        ///< processes that outlived the command, ended here
  std::string out;                 ///< the last k_output_bytes of standard output and error
  std::string err;
};

/// What is kept of each stream; the rest is read and thrown away.
inline constexpr std::size_t k_output_bytes = 64 << 10;
/// How SubjectRun::peak_bytes is measured, for reports.
inline constexpr const char* k_peak_method =
    "sum of the resident sets of all processes of the subject, sampled from /proc, and the kernel's peak of each";

/// Errors of the subject are in the result. Throws Error(io_error) where this process can make neither pipe nor child.
SubjectRun run_subject(const SubjectCommand& command, const SubjectLimits& limits, const std::stop_token& stop = {});

/// "SIGSEGV".
std::string signal_name(int signal);

}  // namespace weightproof::suites::judge
