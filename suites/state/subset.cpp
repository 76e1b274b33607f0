// SPDX-License-Identifier: Apache-2.0
#include "suites/state/subset.hpp"

#include <algorithm>

#include "loader/core/glob.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr std::size_t k_names_shown = 3;

std::string quoted_list(const std::vector<std::string>& globs) {
  std::string out;
  for (const std::string& glob : globs) {
    out += (out.empty() ? "'" : ", '") + printable(glob) + "'";
  }
  return out;
}

// Names that the glob's beginning takes, at most as many as are shown.
std::vector<std::string_view> taken_by(std::string_view beginning, std::span<const std::string_view> names) {
  std::vector<std::string_view> out;
  const std::string glob = std::string(beginning) + '*';
  for (const std::string_view name : names) {
    if (matches_glob(glob, name)) {
      out.push_back(name);
      if (out.size() == k_names_shown) {
        break;
      }
    }
  }
  return out;
}

// How far a glob that matches nothing goes: its longest beginning that some name has, and those names.
std::string how_far(std::string_view glob, std::span<const std::string_view> names) {
  std::size_t fits = 0;
  std::size_t fails = glob.size() + 1;
  while (fits + 1 < fails) {
    const std::size_t middle = fits + (fails - fits) / 2;
    (taken_by(glob.substr(0, middle), names).empty() ? fails : fits) = middle;
  }
  const std::string_view beginning = glob.substr(0, fits);
  std::string out;
  for (const std::string_view name : taken_by(beginning, names)) {
    out += (out.empty() ? "" : ", ") + printable(name);
  }
  const bool says_nothing = beginning.find_first_not_of("*?") == std::string_view::npos;
  return (says_nothing ? "there are names such as " : "as far as '" + printable(beginning) + "' it fits ") + out;
}

}  // namespace

EmptySubset explain_empty_subset(const std::vector<std::string>& include, const std::vector<std::string>& exclude,
                                 std::span<const std::string_view> names) {
  EmptySubset out;
  const std::string all = counted(names.size(), "tensor", "tensors");
  if (names.empty()) {
    return {"there is no tensor to select from", "give a checkpoint that has some"};
  }
  const auto is_included = [&](std::string_view name) { return include.empty() || matches_any_glob(include, name); };
  const auto included = static_cast<std::uint64_t>(std::count_if(names.begin(), names.end(), is_included));
  if (included == 0) {
    out.message = "--include " + quoted_list(include) + " takes none of the " + all;
    out.hint = how_far(include.front(), names) +
               "; a glob has to fit the whole name, `weightproof inspect --tensors` lists them";
    return out;
  }
  const std::string left = included == 1 ? "the one" : "all " + grouped(included);
  out.message = "--exclude " + quoted_list(exclude) + " takes " +
                (include.empty() ? left + " of " + all : left + " that --include left of " + all);
  out.hint = "leave something: `weightproof inspect --tensors` lists the names";
  return out;
}

}  // namespace weightproof::suites
