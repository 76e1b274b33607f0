// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/fixture_target.hpp"

#include <unistd.h>

#include <string>
#include <system_error>
#include <vector>

#include "loader/core/error.hpp"
#include "loader/storage/checkpoint.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(ErrorCode code, const std::string& message, const char* hint) {
  ErrorFacts facts;
  facts.hint = hint;
  throw Error(code, message, std::move(facts));
}

constexpr const char* k_choose = "give --out DIR, a directory that does not exist yet or is empty";

}  // namespace

FixtureTarget::FixtureTarget(fs::path directory) : directory_(fs::absolute(directory).lexically_normal()) {
  if (!directory_.has_filename()) {
    directory_ = directory_.parent_path();  // written with a slash at its end
  }
  std::error_code error;
  const fs::file_status status = fs::status(directory_, error);
  if (fs::exists(status)) {
    if (!fs::is_directory(status)) {
      refuse(ErrorCode::usage, directory_.string() + " is no directory", k_choose);
    }
    const bool is_empty = fs::is_empty(directory_, error);
    if (!error && !is_empty) {
      refuse(ErrorCode::usage, "there is something in " + directory_.string() + " already", k_choose);
    }
    is_inside_ = true;
  }
  const fs::path place = is_inside_ ? directory_ : directory_.parent_path();
  for (fs::path above = place; !above.empty() && !fs::exists(above, error); above = above.parent_path()) {
    made_ = above;
  }
  staging_ = place / ("." + directory_.filename().string() + std::string(storage::k_staging_infix) +
                      std::to_string(::getpid()));
  fs::create_directories(staging_, error);
  if (error) {
    const std::string why = error.message();
    remove_made();
    refuse(ErrorCode::io_error, "cannot write to " + directory_.string() + ": " + why,
           "choose a directory that can be written");
  }
}

FixtureTarget::~FixtureTarget() {
  if (!is_published_) {
    remove_made();
  }
}

void FixtureTarget::remove_made() noexcept {
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
  if (made_.empty()) {
    return;
  }
  // Upwards as far as they are empty: another program may have put something there meanwhile.
  for (fs::path above = staging_.parent_path(); fs::remove(above, ignored) && above != made_;) {
    above = above.parent_path();
  }
}

void FixtureTarget::require_space(std::uint64_t bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(staging_, error);
  if (!error && space.available < bytes) {
    refuse(ErrorCode::io_error,
           directory_.string() + " would take " + human_bytes(bytes) + ", and " + human_bytes(space.available) +
               " are free there",
           "free some space, write to another disk, or give --sparse BYTES, which leaves holes");
  }
}

void FixtureTarget::publish() {
  std::error_code error;
  if (!is_inside_) {
    fs::rename(staging_, directory_, error);
  } else {
    std::vector<fs::path> entries;
    for (fs::directory_iterator entry(staging_, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      entries.push_back(entry->path());
    }
    for (const fs::path& entry : entries) {
      if (!error) {
        fs::rename(entry, directory_ / entry.filename(), error);
      }
    }
    if (!error) {
      fs::remove(staging_, error);
    }
  }
  if (error) {
    refuse(ErrorCode::io_error, "cannot put the fixture at " + directory_.string() + ": " + error.message(),
           "choose a directory that can be written");
  }
  is_published_ = true;
}

}  // namespace weightproof::suites::cli
