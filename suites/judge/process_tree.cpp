// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/process_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace weightproof::suites::judge {
namespace {

constexpr int k_rounds_max = 2000;  // of ending what is born meanwhile, a millisecond each

/// A small file of /proc; empty where the process is gone.
std::string kernel_text(const std::string& path) {
  std::string text;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return text;
  }
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(descriptor, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(descriptor);
  return text;
}

/// The entries of a directory of /proc that are numbers.
std::vector<pid_t> numbers_in(const std::string& path) {
  std::vector<pid_t> out;
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) {
    return out;
  }
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    pid_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) {
      out.push_back(number);
    }
  }
  ::closedir(directory);
  return out;
}

/// The `index`-th blank-separated number behind `from`.
std::uint64_t number_at(std::string_view text, unsigned index) {
  for (; index > 0; --index) {
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos) {
      return 0;
    }
    text.remove_prefix(blank + 1);
  }
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string of_process(pid_t process, const char* name) { return "/proc/" + std::to_string(process) + "/" + name; }

pid_t parent_of(pid_t process) {
  const std::string stat = kernel_text(of_process(process, "stat"));
  const std::size_t end = stat.rfind(')');  // the name before it may hold anything
  return end == std::string::npos ? 0 : static_cast<pid_t>(number_at(std::string_view(stat).substr(end + 1), 2));
}

bool has_lists_of_children() {
  static const bool has = ::access(("/proc/self/task/" + std::to_string(::getpid()) + "/children").c_str(), R_OK) == 0;
  return has;
}

void add_listed(pid_t process, std::set<pid_t>& into) {
  for (const pid_t thread : numbers_in(of_process(process, "task"))) {
    const std::string text = kernel_text(of_process(process, "task/") + std::to_string(thread) + "/children");
    const char* at = text.data();
    const char* const end = text.data() + text.size();
    while (at < end) {
      pid_t child = 0;
      const auto [next, error] = std::from_chars(at, end, child);
      if (error != std::errc()) {
        break;
      }
      into.insert(child);
      at = next + (next < end ? 1 : 0);
    }
  }
}

}  // namespace

std::set<pid_t> children_of(pid_t process) {
  std::set<pid_t> out;
  if (has_lists_of_children()) {
    add_listed(process, out);
    return out;
  }
  for (const pid_t candidate : numbers_in("/proc")) {
    if (parent_of(candidate) == process) {
      out.insert(candidate);
    }
  }
  return out;
}

ProcessTree::ProcessTree() : own_(children_of(::getpid())) {
  ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

ProcessTree::~ProcessTree() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }

std::set<pid_t> ProcessTree::members() const {
  std::set<pid_t> out;
  std::vector<pid_t> open;
  for (const pid_t child : children_of(::getpid())) {
    if (own_.count(child) == 0) {
      open.push_back(child);
    }
  }
  while (!open.empty()) {
    const pid_t process = open.back();
    open.pop_back();
    if (!out.insert(process).second) {
      continue;
    }
    for (const pid_t child : children_of(process)) {
      open.push_back(child);
    }
  }
  return out;
}

TreeMemory ProcessTree::memory_of(const std::set<pid_t>& processes) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  TreeMemory memory;
  for (const pid_t process : processes) {
    const std::uint64_t pages = number_at(kernel_text(of_process(process, "statm")), 1);
    if (pages == 0) {
      continue;  // gone, or about to be reaped
    }
    memory.bytes += pages * page;
    ++memory.processes;
    const std::string status = kernel_text(of_process(process, "status"));
    const std::size_t line = status.find("\nVmHWM:");
    if (line != std::string::npos) {
      const std::size_t digits = status.find_first_of("0123456789", line);
      if (digits != std::string::npos) {
        memory.largest_peak =
            std::max(memory.largest_peak, number_at(std::string_view(status).substr(digits), 0) * 1024);
      }
    }
  }
  return memory;
}

unsigned ProcessTree::end(pid_t kept) const {
  std::set<pid_t> seen;
  for (int round = 0; round < k_rounds_max; ++round) {
    ::kill(kept, SIGKILL);
    siginfo_t state{};
    const bool is_over =
        ::waitid(P_PID, static_cast<id_t>(kept), &state, WEXITED | WNOHANG | WNOWAIT) != 0 || state.si_pid != 0;
    std::set<pid_t> now = members();
    now.erase(kept);
    if (now.empty() && is_over) {
      break;  // it was over before this look, so that nobody is left who could start another
    }
    for (const pid_t process : now) {
      ::kill(process, SIGKILL);
      seen.insert(process);
    }
    const timespec moment{0, 1'000'000};
    ::nanosleep(&moment, nullptr);
    for (const pid_t process : now) {
      ::waitpid(process, nullptr, WNOHANG);  // those that came back to this process
    }
  }
  return static_cast<unsigned>(seen.size());
}

}  // namespace weightproof::suites::judge
