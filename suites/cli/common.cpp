// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/common.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "loader/plan/placement.hpp"
#include "reports/emit.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

[[noreturn]] void io_failure(const std::string& what, const std::filesystem::path& path, const std::string& why,
                             const char* hint) {
  ErrorFacts facts;
  facts.file = path.filename().string();
  facts.hint = hint;
  throw Error(ErrorCode::io_error, what + " " + path.string() + ": " + why, facts);
}

}  // namespace

void require_named_paths(const Arguments& arguments, bool takes_checkpoints) {
  const auto require = [](const std::string& path, ErrorCode code, const std::string& hint) {
    std::error_code error;
    if (path.empty() || std::filesystem::exists(path, error)) {
      return;
    }
    ErrorFacts facts;
    facts.file = std::filesystem::path(path).filename().string();
    facts.hint = hint;
    throw Error(code, path + ": " + (error ? error.message() : std::string("no such file or directory")),
                std::move(facts));
  };
  if (takes_checkpoints) {
    for (const std::string& path : arguments.positionals()) {
      require(path, ErrorCode::no_checkpoint_found, "");
    }
  }
  for (const char* option : {"--against", "--base", "--earlier", "--manifest", "--shards-like"}) {
    require(arguments.text(option), ErrorCode::io_error, std::string("give ") + option + " a path that exists");
  }
}

VerifyOptions verify_options(const Arguments& arguments, Console& console) {
  VerifyOptions options;
  options.selection.keys_only = arguments.flag("--keys-only");
  options.selection.revision = arguments.text("--revision");
  options.selection.variant = arguments.text("--variant");
  options.selection.allow_unexpected = arguments.flag("--allow-unexpected");
  options.family = arguments.text("--family");
  options.include = arguments.texts("--include");
  options.exclude = arguments.texts("--exclude");
  options.allow_missing = arguments.texts("--allow-missing");
  options.expect_file = arguments.text("--expect");
  options.manifest_file = arguments.text("--manifest");
  options.base = arguments.text("--base");
  options.folds_expert_scales = arguments.flag("--gemma-fold");
  options.is_strict = arguments.flag("--strict");
  options.against = arguments.text("--against");
  options.budget_bytes = arguments.bytes("--budget");
  options.topology = arguments.text("--topology");
  if (!options.topology.empty()) {
    plan::parse_topology(options.topology);  // a misspelt one is a mistake of the command, not of the checkpoint
  } else if (arguments.has("--stages")) {
    ErrorFacts facts;
    facts.hint = "give --topology pp=N too";
    throw Error(ErrorCode::usage, "--stages divides the layers of a topology, and there is none", facts);
  }
  options.stages = arguments.text("--stages");
  options.threads = thread_count(arguments.count("--threads").value_or(0));
  options.command = arguments.command();
  options.progress = [&console](std::string_view what, std::uint64_t done, std::uint64_t total) {
    console.progress(what, done, total);
  };
  return options;
}

std::string read_text_file(const std::filesystem::path& path, std::size_t bytes_max) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || std::filesystem::is_directory(path)) {
    io_failure("cannot read", path, errno == 0 ? "not a file" : std::strerror(errno),
               "give a file that exists and can be read");
  }
  const auto size = static_cast<std::uint64_t>(file.tellg());
  if (size > bytes_max) {
    ErrorFacts facts;
    facts.file = path.filename().string();
    facts.expected = grouped(bytes_max);
    facts.actual = grouped(size);
    throw Error(ErrorCode::limit_exceeded,
                path.string() + " has " + grouped(size) + " bytes; at most " + grouped(bytes_max) + " are read", facts);
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  file.seekg(0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file) {
    io_failure("cannot read", path, "the file ended early", "try again when nothing writes to it");
  }
  return text;
}

void make_directory(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    io_failure("cannot create", path, error.message(), "choose a directory that can be written");
  }
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path staging = path;
  staging += ".weightproof-" + std::to_string(::getpid()) + ".tmp";
  std::error_code error;
  {
    std::ofstream file(staging, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) {
      const std::string why = std::strerror(errno);
      std::filesystem::remove(staging, error);
      io_failure("cannot write", path, why, "choose a directory that can be written and has room");
    }
  }
  std::filesystem::rename(staging, path, error);
  if (error) {
    const std::string why = error.message();
    std::filesystem::remove(staging, error);
    io_failure("cannot write", path, why, "choose a directory that can be written");
  }
}

}  // namespace weightproof::suites::cli
