// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "reports/report.hpp"

namespace weightproof::reports {

CheckBuilder::CheckBuilder(std::string id, std::size_t cap) : cap_(cap) {
  record_.id = std::move(id);
  record_.suite = std::string(group_of(record_.id));
}

CheckBuilder& CheckBuilder::subject(std::string_view name) {
  ++subjects_total_;
  // Sorted insertion: the kept subjects are the same whatever order they were reported in.
  auto& kept = record_.subjects;
  const auto at = std::lower_bound(kept.begin(), kept.end(), name);
  if (at == kept.end() && kept.size() >= cap_) {
    return *this;
  }
  kept.emplace(at, name);
  if (kept.size() > cap_) {
    kept.pop_back();
  }
  return *this;
}

CheckBuilder& CheckBuilder::examined(std::uint64_t count) {
  examined_ += count;
  return *this;
}
CheckBuilder& CheckBuilder::message(std::string text) {
  record_.message = std::move(text);
  return *this;
}
CheckBuilder& CheckBuilder::explanation(std::string text) {
  record_.explanation = std::move(text);
  return *this;
}
CheckBuilder& CheckBuilder::expected(Value value) {
  record_.expected = std::move(value);
  return *this;
}
CheckBuilder& CheckBuilder::actual(Value value) {
  record_.actual = std::move(value);
  return *this;
}
CheckBuilder& CheckBuilder::hint(std::string text) {
  record_.hint = std::move(text);
  return *this;
}
CheckBuilder& CheckBuilder::code(std::string text) {
  record_.code = std::move(text);
  return *this;
}
CheckBuilder& CheckBuilder::case_name(std::string text) {
  record_.case_name = std::move(text);
  return *this;
}
CheckBuilder& CheckBuilder::evidence(std::string_view name, Value value) {
  record_.evidence[name] = std::move(value);
  return *this;
}

CheckRecord CheckBuilder::make(Status status) {
  CheckRecord record = record_;
  record.status = status;
  record.shown = record.subjects.size();
  record.total = subjects_total_ > 0 ? subjects_total_ : examined_;
  if (subjects_total_ > 0 && examined_ > 0) {
    record.evidence["examined"] = examined_;
  }
  return record;
}

CheckRecord CheckBuilder::pass() { return make(Status::pass); }

CheckRecord CheckBuilder::note(std::string explanation) {
  record_.explanation = std::move(explanation);
  return make(Status::pass);
}

CheckRecord CheckBuilder::fail(std::string message) {
  record_.message = std::move(message);
  return make(Status::fail);
}

CheckRecord CheckBuilder::warn(std::string message) {
  record_.message = std::move(message);
  return make(Status::warn);
}

CheckRecord CheckBuilder::skip(std::string reason) {
  record_.reason = std::move(reason);
  return make(Status::skip);
}

CheckRecord CheckBuilder::error(std::string reason) {
  record_.reason = std::move(reason);
  return make(Status::error);
}

CheckRecord CheckBuilder::fail_if_subjects(std::string message) {
  return has_subjects() ? fail(std::move(message)) : pass();
}

CheckRecord CheckBuilder::warn_if_subjects(std::string message) {
  return has_subjects() ? warn(std::move(message)) : pass();
}

}  // namespace weightproof::reports
