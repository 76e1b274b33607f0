// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/target.hpp"

#include <string>
#include <system_error>

#include "loader/core/error.hpp"

namespace weightproof::suites::cli {

void require_target(const std::filesystem::path& target, std::string_view option, Standing standing, bool has_replace) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string name(option);
  fs::path path = fs::absolute(target).lexically_normal();
  if (!path.has_filename()) {
    path = path.parent_path();  // written with a slash at its end
  }
  const fs::path parent = path.parent_path();
  if (!fs::is_directory(parent, error)) {
    ErrorFacts facts;
    facts.hint = "make it first, or give " + name + " another path";
    throw Error(ErrorCode::io_error,
                "there is no directory " + parent.string() + " to write " + path.filename().string() + " into",
                std::move(facts));
  }
  const fs::file_status status = fs::symlink_status(path, error);
  const bool is_directory = fs::is_directory(status);
  const bool is_free =
      !fs::exists(status) || standing == Standing::anything ||
      (standing == Standing::file ? !is_directory : is_directory && fs::is_empty(path, error) && !error);
  if (is_free) {
    return;
  }
  ErrorFacts facts;
  facts.expected = "a name that is free";
  facts.hint = standing == Standing::file
                   ? "give " + name + " the path of a file"
                   : "give " + name + " another path, " +
                         (has_replace ? "or --replace to put the new one in its place" : "or remove what stands there");
  throw Error(ErrorCode::target_exists,
              path.string() + (standing == Standing::file ? " is a directory" : " exists already"), std::move(facts));
}

}  // namespace weightproof::suites::cli
