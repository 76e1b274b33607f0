// SPDX-License-Identifier: Apache-2.0
#include "reports/tests/support.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

namespace weightproof::reports::test {

TempDir::TempDir() {
  static std::atomic<int> counter{0};
  path_ = std::filesystem::temp_directory_path() /
          ("weightproof-reports-" + std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)));
  std::filesystem::create_directories(path_);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TempDir::write(std::string_view name, std::string_view bytes) const {
  const std::filesystem::path file = path_ / name;
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::pair<int, std::string> run(const std::string& command) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) {
    return {-1, {}};
  }
  std::string out;
  std::array<char, 4096> buffer{};
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    out.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, out};
}

std::string quoted(const std::filesystem::path& path) {
  std::string out = "'";
  for (const char c : path.string()) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

bool have(const std::string& command) { return run("command -v " + command).first == 0; }

std::string golden_difference(std::string_view name, std::string_view text) {
  const std::filesystem::path file = std::filesystem::path(WEIGHTPROOF_SOURCE_DIR) / "reports/tests/golden" / name;
  if (const char* update = std::getenv("WEIGHTPROOF_UPDATE_SNAPSHOTS");
      update != nullptr && std::string_view(update) == "1") {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    return {};
  }
  const std::string want = read_file(file);
  if (want == text) {
    return {};
  }
  std::istringstream a(want);
  std::istringstream b{std::string(text)};
  std::string left;
  std::string right;
  for (int line = 1;; ++line) {
    const bool more_left = static_cast<bool>(std::getline(a, left));
    const bool more_right = static_cast<bool>(std::getline(b, right));
    if (!more_left && !more_right) {
      return "texts differ in their last line end";
    }
    if (more_left != more_right || left != right) {
      return std::string(name) + " line " + std::to_string(line) + "\n  golden: " + (more_left ? left : "(end)") +
             "\n  now:    " + (more_right ? right : "(end)") + "\nWEIGHTPROOF_UPDATE_SNAPSHOTS=1 rewrites it";
    }
  }
}

}  // namespace weightproof::reports::test
