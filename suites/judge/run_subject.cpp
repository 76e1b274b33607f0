// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/run_subject.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "loader/core/error.hpp"
#include "suites/judge/process_tree.hpp"

extern char** environ;

namespace weightproof::suites::judge {
namespace {

using Clock = std::chrono::steady_clock;

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void close() {
    if (number_ >= 0) {
      ::close(number_);
      number_ = -1;
    }
  }

 private:
  int number_;
};

[[noreturn]] void throw_system(const char* what) {
  const int number = errno;
  ErrorFacts facts;
  facts.actual = std::generic_category().message(number);
  facts.hint = "try again when this machine has processes and file descriptors to spare";
  throw Error(ErrorCode::io_error, std::string(what) + ": " + facts.actual, facts);
}

struct Pipe {
  Descriptor read;
  Descriptor write;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw_system("no pipe to the subject can be made");
    }
    read = Descriptor(ends[0]);
    write = Descriptor(ends[1]);
  }
};

/// The last bytes of a stream.
class Tail {
 public:
  void add(const char* bytes, std::size_t count) {
    text_.append(bytes, count);
    if (text_.size() > 2 * k_output_bytes) {
      text_.erase(0, text_.size() - k_output_bytes);
    }
  }
  std::string take() {
    if (text_.size() > k_output_bytes) {
      text_.erase(0, text_.size() - k_output_bytes);
    }
    return std::move(text_);
  }

 private:
  std::string text_;
};

/// Reads what is there; false where nothing was. The end of the stream closes `from`.
bool drain(Descriptor& from, Tail& into) {
  std::array<char, 1 << 16> buffer;
  const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
  if (got > 0) {
    into.add(buffer.data(), static_cast<std::size_t>(got));
    return true;
  }
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    from.close();
  }
  return false;
}

std::vector<std::string> environment_of(const SubjectCommand& command) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool is_replaced = std::any_of(command.environment.begin(), command.environment.end(), [&](const auto& row) {
      return text.starts_with(row.first) && text.substr(row.first.size()).starts_with('=');
    });
    if (!is_replaced) {
      out.emplace_back(text);
    }
  }
  for (const auto& [name, value] : command.environment) {
    out.push_back(name + '=' + value);
  }
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) {
    out.push_back(word.data());
  }
  out.push_back(nullptr);
  return out;
}

struct Child {
  const char* const* words;
  char* const* environment;
  const char* directory;
  int out, err, fault;
  std::uint64_t file_bytes;
  pid_t parent;
};

/// In the child: only what may be called between fork and exec.
[[noreturn]] void become(const Child& child) {
  ::setsid();  // a session of its own: a key on the terminal reaches it through this process alone
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) {
    ::_exit(127);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &usual, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(child.out, STDOUT_FILENO);
  ::dup2(child.err, STDERR_FILENO);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (child.file_bytes != UINT64_MAX) {
    const rlimit size{child.file_bytes, child.file_bytes};
    ::setrlimit(RLIMIT_FSIZE, &size);
  }
  // Where memory runs out for all, the kernel takes this one first.
  const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (score >= 0) {
    [[maybe_unused]] const ssize_t written = ::write(score, "1000", 4);
  }
  if (::chdir(child.directory) == 0) {
    ::execvpe(child.words[0], const_cast<char* const*>(child.words), child.environment);
  }
  const int number = errno;
  [[maybe_unused]] const ssize_t written = ::write(child.fault, &number, sizeof number);
  ::_exit(127);
}

/// How often the tree is looked at: closely at first, since a small subject is soon over.
std::chrono::milliseconds interval_after(Clock::duration elapsed) {
  const auto each = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed) / 20;
  return std::clamp(each, std::chrono::milliseconds(2), std::chrono::milliseconds(50));
}

std::uint64_t own_peak() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

SubjectRun run_subject(const SubjectCommand& command, const SubjectLimits& limits, const std::stop_token& stop) {
  SubjectRun run;
  Pipe out;
  Pipe err;
  Pipe fault;
  std::vector<std::string> words = command.words;
  std::vector<std::string> environment = environment_of(command);
  const auto argv = pointers_to(words);
  const auto envp = pointers_to(environment);
  const std::string directory = command.directory.string();
  const Child child{argv.data(),     envp.data(),       directory.c_str(), out.write.get(),
                    err.write.get(), fault.write.get(), limits.file_bytes, ::getpid()};

  const ProcessTree tree;
  const std::uint64_t judge_peak = own_peak();  // a child's figure begins with that of the process it was copied from
  const auto start = Clock::now();
  const pid_t process = ::fork();
  if (process < 0) {
    throw_system("no process can be made for the subject");
  }
  if (process == 0) {
    become(child);
  }
  out.write.close();
  err.write.close();
  fault.write.close();
  int start_fault = 0;
  const bool has_started = ::read(fault.read.get(), &start_fault, sizeof start_fault) != sizeof start_fault;
  ::fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(err.read.get(), F_SETFL, O_NONBLOCK);

  Tail out_tail;
  Tail err_tail;
  const Descriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  std::optional<SubjectEnd> ended;
  const auto deadline = start + limits.wall;
  while (!ended) {
    const TreeMemory memory = ProcessTree::memory_of(tree.members());
    run.peak_bytes = std::max({run.peak_bytes, memory.bytes, memory.largest_peak});
    run.largest_peak = std::max(run.largest_peak, memory.largest_peak);
    run.processes = std::max(run.processes, memory.processes);
    siginfo_t state{};
    if (::waitid(P_PID, static_cast<id_t>(process), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid != 0) {
      ended = state.si_code == CLD_EXITED ? SubjectEnd::exited : SubjectEnd::signalled;
      break;
    }
    const auto now = Clock::now();
    if (memory.bytes > limits.memory_bytes) {
      ended = SubjectEnd::over_memory;
    } else if (now >= deadline) {
      ended = SubjectEnd::timed_out;
    } else if (stop.stop_requested()) {
      ended = SubjectEnd::interrupted;
    } else {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now) + std::chrono::milliseconds(1);
      std::array<pollfd, 3> waits = {pollfd{out.read.get(), POLLIN, 0}, pollfd{err.read.get(), POLLIN, 0},
                                     pollfd{handle.get(), POLLIN, 0}};
      ::poll(waits.data(), waits.size(), static_cast<int>(std::min(left, interval_after(now - start)).count()));
      if (waits[0].revents != 0) {
        drain(out.read, out_tail);
      }
      if (waits[1].revents != 0) {
        drain(err.read, err_tail);
      }
    }
  }
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  run.left_behind = tree.end(process);
  int status = 0;
  rusage usage{};
  ::wait4(process, &status, 0, &usage);
  const std::uint64_t largest = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  if (largest > judge_peak) {
    run.largest_peak = std::max(run.largest_peak, largest);
    run.peak_bytes = std::max(run.peak_bytes, largest);
  }
  while (out.read.is_open() && drain(out.read, out_tail)) {
  }
  while (err.read.is_open() && drain(err.read, err_tail)) {
  }
  run.out = out_tail.take();
  run.err = err_tail.take();
  run.end = *ended;
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  run.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (run.end == SubjectEnd::exited && run.peak_bytes > limits.memory_bytes) {
    run.end = SubjectEnd::over_memory;  // between two looks, but the kernel saw it
  }
  if (!has_started) {
    run.end = SubjectEnd::not_started;
    run.fault = std::generic_category().message(start_fault);
  }
  return run;
}

}  // namespace weightproof::suites::judge
