// SPDX-License-Identifier: Apache-2.0
// What a subject is told: one JSON document, and the same as environment variables for shell scripts.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "suites/judge/cases.hpp"

namespace weightproof::suites::judge {

/// Exit status by which a subject says that it does not support what is asked; the last line it wrote to standard error
/// is the reason.
inline constexpr int k_status_unsupported = 77;

struct Request {
  Case asked;
  std::filesystem::path checkpoint;
  std::filesystem::path output;
};

/// The document, which follows reports/schema/weightproof.request-1.schema.json.
std::string request_text(const Request& request);
/// JUDGE_CASE, JUDGE_CHECKPOINT, JUDGE_WANTED, JUDGE_NAMES, JUDGE_DTYPE, JUDGE_TOPOLOGY and JUDGE_RANK (both empty
/// where one rank owns everything), JUDGE_OUTPUT, JUDGE_REQUEST.
std::vector<std::pair<std::string, std::string>> request_environment(const Request& request,
                                                                     const std::filesystem::path& document);

}  // namespace weightproof::suites::judge
