// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/work.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <system_error>

#include "loader/core/error.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::judge {

namespace fs = std::filesystem;

WorkDirectory::WorkDirectory(const fs::path& keep) : is_kept_(!keep.empty()) {
  std::error_code error;
  path_ = is_kept_ ? fs::absolute(keep, error)
                   : fs::temp_directory_path(error) / ("weightproof-judge-" + std::to_string(::getpid()));
  fs::create_directories(path_, error);
  if (error) {
    refuse(error.message());
  }
  if (!fs::is_empty(path_, error)) {
    refuse("it is not empty");
  }
}

WorkDirectory::~WorkDirectory() {
  std::error_code error;
  if (!is_kept_) {
    fs::remove_all(path_, error);
  }
}

void WorkDirectory::refuse(const std::string& why) const {
  ErrorFacts facts;
  facts.file = path_.string();
  facts.hint = "give a directory that does not exist yet, or an empty one";
  throw Error(ErrorCode::io_error, "cannot work in " + printable(path_.string()) + ": " + why, facts);
}

void write_text(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) {
    ErrorFacts facts;
    facts.file = path.filename().string();
    facts.hint = "give a directory with room, or set TMPDIR";
    throw Error(ErrorCode::io_error, "cannot write " + printable(path.string()), facts);
  }
}

std::vector<std::pair<std::string, storage::FileIdentity>> identities(const fs::path& directory) {
  std::vector<std::pair<std::string, storage::FileIdentity>> out;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    try {
      out.emplace_back(name, storage::identity_of(entry.path(), name));
    } catch (const Error&) {
      out.emplace_back(name, storage::FileIdentity{});
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

}  // namespace weightproof::suites::judge
