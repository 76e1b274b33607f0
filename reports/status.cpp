// SPDX-License-Identifier: Apache-2.0
#include "reports/status.hpp"

namespace weightproof::reports {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::pass:
      return "pass";
    case Status::fail:
      return "fail";
    case Status::warn:
      return "warn";
    case Status::skip:
      return "skip";
    case Status::error:
      return "error";
  }
  return "error";
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::error:
      return "error";
  }
  return "error";
}

std::optional<Status> status_from(std::string_view text) {
  for (const Status status : {Status::pass, Status::fail, Status::warn, Status::skip, Status::error}) {
    if (to_string(status) == text) {
      return status;
    }
  }
  return std::nullopt;
}

std::optional<Verdict> verdict_from(std::string_view text) {
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::error}) {
    if (to_string(verdict) == text) {
      return verdict;
    }
  }
  return std::nullopt;
}

}  // namespace weightproof::reports
