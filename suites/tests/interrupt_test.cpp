// SPDX-License-Identifier: Apache-2.0
// A signal while a verb works: nothing that looks finished is left, and the process ends by that signal.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "fixtures/generate.hpp"
#include "suites/cli/interrupt.hpp"
#include "suites/tests/support.hpp"

namespace weightproof::suites {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

pid_t start_tool(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::string(WEIGHTPROOF_BINARY_DIR) + "/bin/weightproof");
  std::vector<char*> argv;
  for (std::string& word : arguments) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int stream : {1, 2}) ::posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
  pid_t process = -1;
  EXPECT_EQ(::posix_spawn(&process, argv[0], &actions, nullptr, argv.data(), environ), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  return process;
}

// As much as takes a while to write, and next to nothing on the disk.
void make_large(const fs::path& path) {
  fixtures::GenerateOptions made;
  made.family = "llama";
  made.preset = "shape";
  made.config_changes = R"({"vocab_size": 4096, "hidden_size": 2048, "intermediate_size": 8192,
      "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 8})";
  made.sparse_edge_bytes = 4096;
  fixtures::generate(made, path);
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename());
  return names;
}

// The signal goes out when the export has begun to put its files together.
void interrupt_an_export(int signal) {
  const TemporaryDirectory directory;
  make_large(directory / "from");
  const fs::path place = directory / "place";
  fs::create_directory(place);
  const pid_t process = start_tool({"export", (directory / "from").string(), "--out", (place / "out").string()});
  ASSERT_GT(process, 0);
  int status = 0;
  bool has_begun = false;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    if (!has_begun && !fs::is_empty(place)) {
      has_begun = true;
      ::kill(process, signal);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(has_begun) << "the export ended before it began";
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself, with status " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), signal);
  EXPECT_EQ(names_in(place), std::vector<std::string>{});
}

TEST(Interrupt, AnExportLeavesNothingBehind) {
  interrupt_an_export(SIGINT);
  interrupt_an_export(SIGTERM);
}

// The signal goes out when a part of the fixture is there.
void interrupt_a_fixture(int signal) {
  const TemporaryDirectory directory;
  const fs::path place = directory / "place";
  const pid_t process = start_tool({"fixture", "llama", "--preset", "shape", "--set", "num_hidden_layers=64", "--set",
                                    "hidden_size=1024", "--out", (place / "above/out").string()});
  ASSERT_GT(process, 0);
  const auto has_begun = [&] {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(place, error)) {
      if (entry.path().extension() == ".safetensors" && entry.file_size(error) > (8U << 20U)) return true;
    }
    return false;
  };
  int status = 0;
  bool is_sent = false;
  while (::waitpid(process, &status, WNOHANG) == 0) {
    EXPECT_FALSE(fs::exists(place / "above/out")) << "under its name it is whole";
    if (!is_sent && has_begun()) {
      is_sent = true;
      ::kill(process, signal);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(is_sent) << "the fixture was made before it was seen";
  ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself, with status " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), signal);
  EXPECT_FALSE(fs::exists(place)) << "nor the directories made for it";
}

TEST(Interrupt, AFixtureLeavesNothingBehind) {
  interrupt_a_fixture(SIGINT);
  interrupt_a_fixture(SIGTERM);
}

TEST(Interrupt, ASignalIsAWishToStopAndThenTakesItsCourse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const cli::InterruptGuard guard;
        ::kill(::getpid(), SIGTERM);
        while (!guard.token().stop_requested()) std::this_thread::yield();
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(Interrupt, WithoutASignalTheMaskIsAsBefore) {
  sigset_t before;
  sigset_t during;
  sigset_t after;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  for (int i = 0; i < 200; ++i) {
    const cli::InterruptGuard guard;
    EXPECT_FALSE(guard.token().stop_requested());
    ::pthread_sigmask(SIG_BLOCK, nullptr, &during);
  }
  ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
  EXPECT_EQ(::sigismember(&during, SIGINT), 1);
  for (int number = 1; number < SIGRTMAX; ++number)
    EXPECT_EQ(::sigismember(&after, number), ::sigismember(&before, number)) << number;
}

}  // namespace
}  // namespace weightproof::suites
