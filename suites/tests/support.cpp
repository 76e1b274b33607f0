// SPDX-License-Identifier: Apache-2.0
#include "suites/tests/support.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace weightproof::suites::test {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) {
    out.push_back(word.data());
  }
  out.push_back(nullptr);
  return out;
}

void drain(int descriptor, std::string& text, bool& is_open) {
  std::array<char, 1 << 16> buffer{};
  const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
  if (got > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  } else {
    is_open = false;
  }
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  static std::atomic<unsigned> next{0};
  path_ = std::filesystem::temp_directory_path() /
          ("weightproof-suites-" + std::to_string(::getpid()) + "-" + std::to_string(next++));
  std::filesystem::create_directories(path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

ProcessResult run_program(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                          Stdout out_kind) {
  std::vector<std::string> argv_words = words;
  std::vector<std::string> env_words = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TERM=dumb"};
  env_words.insert(env_words.end(), environment.begin(), environment.end());
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) {
      env_words.push_back(std::string(name) + "=" + value);
    }
  }
  const auto argv = pointers_to(argv_words);
  const auto envp = pointers_to(env_words);
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  EXPECT_EQ(::pipe(out.data()), 0);
  EXPECT_EQ(::pipe(err.data()), 0);
  if (out_kind == Stdout::closed_pipe) {
    ::close(out[0]);  // before the child exists: nobody will ever read
  }
  const pid_t child = ::fork();
  if (child == 0) {
    int target = out[1];
    if (out_kind == Stdout::full_device) {
      target = ::open("/dev/full", O_WRONLY);
    }
    ::dup2(target, STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    if (out_kind != Stdout::closed_pipe) {
      ::close(out[0]);
    }
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    ::close(err[0]);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  ProcessResult result;
  bool out_open = out_kind != Stdout::closed_pipe;
  bool err_open = true;
  while (out_open || err_open) {
    std::array<pollfd, 2> waits = {pollfd{out_open ? out[0] : -1, POLLIN, 0},
                                   pollfd{err_open ? err[0] : -1, POLLIN, 0}};
    ::poll(waits.data(), waits.size(), -1);
    if (out_open && waits[0].revents != 0) {
      drain(out[0], result.out, out_open);
    }
    if (err_open && waits[1].revents != 0) {
      drain(err[0], result.err, err_open);
    }
  }
  if (out_kind != Stdout::closed_pipe) {
    ::close(out[0]);
  }
  ::close(err[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return result;
}

ProcessResult run_tool(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                       Stdout out) {
  std::vector<std::string> words = {std::string(WEIGHTPROOF_BINARY_DIR) + "/bin/weightproof"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program(words, environment, out);
}

std::filesystem::path real_data() {
  const char* root = std::getenv("WEIGHTPROOF_SHARED_DIR");
  if (root == nullptr) {
    return {};
  }
  const std::filesystem::path path = std::filesystem::path(root) / "data";
  return std::filesystem::exists(path) ? path : std::filesystem::path{};
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good()) << path;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_safetensors(const std::filesystem::path& path, std::string_view header, std::string_view data) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) {
    bytes += static_cast<char>((header.size() >> (8 * i)) & 0xFFU);
  }
  bytes += header;
  bytes += data;
  write_file(path, bytes);
}

const reports::CheckRecord& record_of(const reports::Report& report, std::string_view id) {
  const reports::CheckRecord* found = nullptr;
  for (const reports::CheckRecord& record : report.checks) {
    if (record.id == id) {
      EXPECT_EQ(found, nullptr) << id << " has two records";
      found = &record;
    }
  }
  static const reports::CheckRecord none;
  EXPECT_NE(found, nullptr) << id << " has no record";
  return found == nullptr ? none : *found;
}

bool names(const reports::CheckRecord& record, std::string_view subject) {
  for (const std::string& name : record.subjects) {
    if (name == subject) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> findings_of(const reports::Report& report) {
  std::vector<std::string> out;
  for (const reports::CheckRecord& record : report.checks) {
    if (record.status == reports::Status::fail || record.status == reports::Status::warn ||
        record.status == reports::Status::error) {
      out.push_back(record.id + " " + std::string(to_string(record.status)));
    }
  }
  return out;
}

std::string validate(std::string_view schema, std::string_view document) {
  if (!std::filesystem::exists("/usr/bin/python3")) {
    return "skipped";
  }
  const TemporaryDirectory directory;
  write_file(directory / "document.json", document);
  const std::string source = WEIGHTPROOF_SOURCE_DIR;
  const ProcessResult result = run_program({"/usr/bin/python3", source + "/reports/tests/validate.py",
                                            source + "/reports/schema/" + std::string(schema) + ".schema.json",
                                            (directory / "document.json").string()});
  return result.status == 0 ? std::string() : result.status == 77 ? std::string("skipped") : result.out + result.err;
}

}  // namespace weightproof::suites::test
