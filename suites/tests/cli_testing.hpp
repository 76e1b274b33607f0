// SPDX-License-Identifier: Apache-2.0
// What the tests of the command line share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "suites/support/shell.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites::test {

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// The rest of the line behind the first `mark`; empty where it does not stand.
inline std::string line_after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) {
    return {};
  }
  text.remove_prefix(at + mark.size());
  return std::string(text.substr(0, text.find('\n')));
}

/// A printed command as somebody types it: a shell takes it apart, and `weightproof` is the command that was built.
inline ProcessResult run_typed(const std::string& command, const std::vector<std::string>& environment = {}) {
  const std::string path = shell_word(std::string(WEIGHTPROOF_BINARY_DIR) + "/bin");
  return run_program({"/bin/sh", "-c", "PATH=" + path + ":$PATH; " + command}, environment);
}

/// One F32 matrix [2, 2] without anything to complain about.
inline std::string sound_file(const std::filesystem::path& path) {
  const std::string data("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40", 16);
  write_safetensors(path, R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}} )", data);
  return path.string();
}

}  // namespace weightproof::suites::test
