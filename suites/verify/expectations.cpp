// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/expectations.hpp"

#include <algorithm>

#include "loader/core/check.hpp"
#include "loader/core/config.hpp"
#include "loader/core/error.hpp"
#include "loader/core/glob.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;
using reports::Status;

[[noreturn]] void refuse(const std::string& file, std::size_t entry, const std::string& what, const std::string& hint) {
  ErrorFacts facts;
  facts.file = file;
  facts.hint = hint;
  throw Error(ErrorCode::usage, file + ", entry " + std::to_string(entry + 1) + ": " + what, facts);
}

bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') {
    return false;
  }
  const auto number = [text](std::size_t at, std::size_t size) {
    return parse_count(text.substr(at, size)).value_or(0);
  };
  return parse_count(text.substr(0, 4)).has_value() && number(5, 2) >= 1 && number(5, 2) <= 12 && number(8, 2) >= 1 &&
         number(8, 2) <= 31;
}

std::string shown(const Expectation& expectation) {
  return expectation.check + (expectation.tensor == "*" ? std::string() : " " + printable(expectation.tensor));
}

bool is_finding(const CheckRecord& record) { return record.status == Status::fail || record.status == Status::warn; }

}  // namespace

std::vector<Expectation> parse_expectations(std::string_view text, const std::string& file) {
  const ConfigValue document = ConfigValue::parse(text, file);
  const ConfigValue* list = document.is_array() ? &document : document.find("expect");
  if (list == nullptr || !list->is_array()) {
    refuse(file, 0, "no list of expectations",
           R"(write [{"check": "value.all_zero", "tensor": "*.bias", "reason": "..."}])");
  }
  std::vector<Expectation> out;
  for (std::size_t i = 0; i < list->items().size(); ++i) {
    const ConfigValue& entry = list->items()[i];
    if (!entry.is_object()) {
      refuse(file, i, "not an object", "an entry has check, tensor, reason, until and link");
    }
    Expectation row;
    for (const auto& [name, value] : entry.members()) {
      std::string* const field = name == "check"    ? &row.check
                                 : name == "tensor" ? &row.tensor
                                 : name == "reason" ? &row.reason
                                 : name == "until"  ? &row.until
                                 : name == "link"   ? &row.link
                                                    : nullptr;
      if (field == nullptr) {
        refuse(file, i, "unknown field '" + printable(name) + "'",
               "an entry has check, tensor, reason, until and link");
      }
      if (!value.as_string()) {
        refuse(file, i, "field '" + name + "' is no text", "write it in quotes");
      }
      *field = std::string(*value.as_string());
    }
    if (find_check(row.check) == nullptr) {
      std::vector<std::string_view> ids;
      for (const CheckInfo& info : all_checks()) {
        ids.push_back(info.id);
      }
      const std::string_view near = nearest(row.check, ids);
      refuse(file, i, "no check is called '" + printable(row.check) + "'",
             near.empty() ? "`weightproof explain` lists them" : "did you mean " + std::string(near) + "?");
    }
    if (row.reason.empty()) {
      refuse(file, i, "no reason", "say why this finding is expected");
    }
    if (!row.until.empty() && !is_date(row.until)) {
      refuse(file, i, "'until' is no date", "write it as 2026-12-31");
    }
    out.push_back(std::move(row));
  }
  return out;
}

void apply_expectations(const std::vector<Expectation>& expectations, std::string_view today,
                        std::vector<CheckRecord>& records) {
  CheckBuilder unused("expect.unused");
  CheckBuilder expired("expect.expired");
  CheckBuilder passed("expect.unexpected_pass");
  unused.examined(expectations.size());
  expired.examined(expectations.size());
  passed.examined(expectations.size());
  for (const Expectation& expectation : expectations) {
    if (!expectation.until.empty() && expectation.until < today) {
      expired.subject(shown(expectation));
      continue;  // an expired entry excuses nothing
    }
    const auto record = std::find_if(records.begin(), records.end(),
                                     [&](const CheckRecord& row) { return row.id == expectation.check; });
    if (record == records.end() || record->status == Status::error) {
      unused.subject(shown(expectation));
      continue;
    }
    if (record->status == Status::pass) {
      passed.subject(shown(expectation));
      continue;
    }
    if (!is_finding(*record)) {
      // Skipped: by another entry that took all of it, or because it could not run.
      unused.subject(shown(expectation));
      continue;
    }
    const bool takes_all = expectation.tensor == "*";
    const std::size_t before = record->subjects.size();
    const std::uint64_t total = std::max<std::uint64_t>(record->total, before);
    if (takes_all) {
      record->subjects.clear();
    } else {
      std::erase_if(record->subjects,
                    [&](const std::string& subject) { return matches_glob(expectation.tensor, subject); });
    }
    const std::size_t taken = before - record->subjects.size();
    if (taken == 0 && !takes_all) {
      unused.subject(shown(expectation));
      continue;
    }
    const std::string remark =
        "expected" + (expectation.until.empty() ? std::string() : " until " + expectation.until) + ": " +
        expectation.reason + (expectation.link.empty() ? std::string() : " (" + expectation.link + ")");
    record->total = takes_all ? 0 : total - taken;
    if (record->total == 0) {
      record->explanation = record->message;
      record->status = Status::skip;
      record->reason = remark;
    } else {
      record->explanation +=
          (record->explanation.empty() ? "" : "; ") + counted(taken, "subject was ", "subjects were ") + remark;
    }
  }
  records.push_back(unused.hint("take the entry out of the file")
                        .fail_if_subjects("an entry of the expectation file matched nothing"));
  records.push_back(expired.hint("mend what was expected, or give it a new date with its reason")
                        .fail_if_subjects("an entry of the expectation file is past its date"));
  records.push_back(passed.hint("take the entry out of the file").fail_if_subjects("an expected failure passes now"));
}

}  // namespace weightproof::suites
