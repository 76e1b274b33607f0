// SPDX-License-Identifier: Apache-2.0
// What the tests of this room share: a directory that goes away, the command as a process, records by id.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"
#include "suites/verify/verify.hpp"

namespace weightproof::suites::test {

/// Removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

struct ProcessResult {
  int status = -1;  ///< exit status, or -signal
  std::string out;
  std::string err;
};
enum class Stdout { captured, closed_pipe, full_device };
/// Runs the command that was built beside the tests. `environment` entries are NAME=value on top of a small clean one.
ProcessResult run_tool(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {},
                       Stdout out = Stdout::captured);
/// Any program by its path, with the same environment.
ProcessResult run_program(const std::vector<std::string>& words, const std::vector<std::string>& environment = {},
                          Stdout out = Stdout::captured);

/// The folder of real checkpoints, or nothing where it is absent.
std::filesystem::path real_data();

void write_file(const std::filesystem::path& path, std::string_view bytes);
std::string read_file(const std::filesystem::path& path);

/// A .safetensors file with F32, BF16, ... tensors given as header JSON (without the length) and data.
void write_safetensors(const std::filesystem::path& path, std::string_view header, std::string_view data);

/// The one record of that id; a test failure where there is none or more.
const reports::CheckRecord& record_of(const reports::Report& report, std::string_view id);
bool names(const reports::CheckRecord& record, std::string_view subject);
/// "id status" of every record that failed, warned or could not be carried out.
std::vector<std::string> findings_of(const reports::Report& report);

/// Validates a document against reports/schema/<name>.schema.json. Empty: valid; else what is wrong. "skipped" where
/// the validator is not installed.
std::string validate(std::string_view schema, std::string_view document);

}  // namespace weightproof::suites::test
