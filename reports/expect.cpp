// SPDX-License-Identifier: Apache-2.0
#include "reports/expect.hpp"

#include <algorithm>

#include "reports/json.hpp"
#include "reports/rules.hpp"
#include "reports/text_internal.hpp"

namespace weightproof::reports {
namespace {

bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') {
    return false;
  }
  const auto number = [&](std::size_t at, std::size_t length) {
    int value = 0;
    for (std::size_t i = at; i < at + length; ++i) {
      if (text[i] < '0' || text[i] > '9') {
        return -1;
      }
      value = value * 10 + (text[i] - '0');
    }
    return value;
  };
  const int year = number(0, 4);
  const int month = number(5, 2);
  const int day = number(8, 2);
  if (year < 1 || month < 1 || month > 12 || day < 1) {
    return false;
  }
  constexpr int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return day <= days[month - 1] + (leap && month == 2 ? 1 : 0);
}

// One class "[...]" at the start of the pattern; its length, 0 where it is not closed.
std::size_t class_length(std::string_view pattern) {
  const std::size_t close = pattern.find(']', 2);
  return close == std::string_view::npos ? 0 : close + 1;
}

bool in_class(std::string_view set, char c) {
  const bool negated = set.size() > 2 && (set[1] == '!' || set[1] == '^');
  bool found = false;
  for (std::size_t i = negated ? 2 : 1; i + 1 < set.size(); ++i) {
    if (i + 3 < set.size() && set[i + 1] == '-') {
      found = found || (c >= set[i] && c <= set[i + 2]);
      i += 2;
    } else {
      found = found || set[i] == c;
    }
  }
  return found != negated;
}

struct Use {
  bool expired = false;
  bool covered = false;  // covered a failure
  bool ran_and_passed = false;
};

std::string name_of(const Expectation& e) { return e.check + " " + e.tensor; }

bool live_match(const Expectation& e, const Use& use, const std::string& id, std::string_view subject) {
  return !use.expired && e.check == id && glob_match(e.tensor, subject);
}

std::string note_of(const Expectation& e) {
  return "Failed as expected until " + e.until + ": " + e.reason +
         (e.link.empty() ? std::string() : " (" + e.link + ")");
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t mark = 0;
  while (t < text.size()) {
    const std::size_t set = p < pattern.size() && pattern[p] == '[' ? class_length(pattern.substr(p)) : 0;
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (set > 0 && in_class(pattern.substr(p, set), text[t])) {
      p += set;
      ++t;
    } else if (p < pattern.size() && set == 0 && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

std::vector<Expectation> parse_expectations(std::string_view json) {
  const Value document = parse_json(json);
  const Value* list = &document;
  if (document.is_object()) {
    list = document.find("expect");
  }
  if (list == nullptr || list->if_array() == nullptr) {
    throw DocumentError("an expectation file is a list of entries, or an object with the list under \"expect\"");
  }
  std::vector<Expectation> out;
  for (std::size_t i = 0; i < list->if_array()->size(); ++i) {
    const Value& item = (*list->if_array())[i];
    const std::string where = "entry " + std::to_string(i);
    if (!item.is_object()) {
      throw DocumentError(where + ": must be an object");
    }
    Expectation e;
    for (const auto& [name, value] : *item.if_object()) {
      std::string* field = name == "check"    ? &e.check
                           : name == "tensor" ? &e.tensor
                           : name == "reason" ? &e.reason
                           : name == "until"  ? &e.until
                           : name == "link"   ? &e.link
                                              : nullptr;
      if (field == nullptr) {
        throw DocumentError(where + ": unknown field \"" + cut_text(spell_out(name), 80) + "\"");
      }
      if (value.if_string() == nullptr) {
        throw DocumentError(where + ": \"" + name + "\" must be a string");
      }
      *field = *value.if_string();
    }
    if (find_rule(e.check) == nullptr) {
      throw DocumentError(where + ": unknown check \"" + cut_text(spell_out(e.check), 80) + "\"");
    }
    if (e.tensor.empty() || e.reason.empty()) {
      throw DocumentError(where + ": \"tensor\" and \"reason\" must not be empty");
    }
    if (!is_date(e.until)) {
      throw DocumentError(where + ": \"until\" must be a date YYYY-MM-DD");
    }
    out.push_back(std::move(e));
  }
  return out;
}

void apply_expectations(Report& report, const std::vector<Expectation>& expectations, std::string_view today) {
  std::vector<Use> uses(expectations.size());
  for (std::size_t i = 0; i < expectations.size(); ++i) {
    uses[i].expired = std::string_view(expectations[i].until) < today;
  }
  std::vector<CheckRecord> added;
  for (CheckRecord& check : report.checks) {
    if (check.status == Status::pass || check.status == Status::warn) {
      for (std::size_t i = 0; i < expectations.size(); ++i) {
        uses[i].ran_and_passed = uses[i].ran_and_passed || expectations[i].check == check.id;
      }
    }
    if (check.status != Status::fail) {
      continue;
    }
    // Every subject goes to the first entry that covers it.
    std::vector<std::vector<std::string>> covered(expectations.size());
    std::vector<std::string> kept;
    for (const std::string& subject : check.subjects) {
      std::size_t i = 0;
      while (i < expectations.size() && !live_match(expectations[i], uses[i], check.id, subject)) {
        ++i;
      }
      (i < expectations.size() ? covered[i] : kept).push_back(subject);
    }
    std::uint64_t hidden = check.total > check.subjects.size() ? check.total - check.subjects.size() : 0;
    std::uint64_t gone = 0;
    for (std::size_t i = 0; i < expectations.size(); ++i) {
      const Expectation& e = expectations[i];
      const bool whole = e.tensor == "*" && !uses[i].expired && e.check == check.id;
      const std::uint64_t also = whole ? hidden : 0;
      if (covered[i].empty() && also == 0 && !(whole && check.subjects.empty())) {
        continue;
      }
      uses[i].covered = true;
      hidden -= also;
      gone += covered[i].size() + also;
      CheckRecord note = check;
      note.status = Status::pass;
      note.subjects = covered[i];
      note.total = covered[i].size() + also;
      note.explanation = note_of(e);
      added.push_back(std::move(note));
    }
    if (kept.empty() && hidden == 0 &&
        (gone > 0 || std::any_of(expectations.begin(), expectations.end(), [&](const Expectation& e) {
           const Use& use = uses[static_cast<std::size_t>(&e - expectations.data())];
           return check.subjects.empty() && e.tensor == "*" && live_match(e, use, check.id, "");
         }))) {
      check.id.clear();  // taken out below
    } else {
      check.subjects = std::move(kept);
      check.total -= std::min(check.total, gone);
    }
  }
  std::erase_if(report.checks, [](const CheckRecord& check) { return check.id.empty(); });
  report.checks.insert(report.checks.end(), added.begin(), added.end());

  CheckBuilder unused("expect.unused");
  CheckBuilder expired("expect.expired");
  CheckBuilder passed("expect.unexpected_pass");
  unused.examined(expectations.size());
  expired.examined(expectations.size());
  passed.examined(expectations.size());
  for (std::size_t i = 0; i < expectations.size(); ++i) {
    if (uses[i].expired) {
      expired.subject(name_of(expectations[i]));
    } else if (!uses[i].covered && uses[i].ran_and_passed) {
      passed.subject(name_of(expectations[i]));
    } else if (!uses[i].covered) {
      unused.subject(name_of(expectations[i]));
    }
  }
  unused.hint("remove the entries, or mend their check id and tensor glob");
  expired.hint("mend the failure, or set a later date with a reason");
  passed.hint("the failure is gone: remove the entries");
  report.checks.push_back(unused.fail_if_subjects("An entry of the expectation file matched nothing."));
  report.checks.push_back(
      expired.fail_if_subjects("An entry of the expectation file is past its date and covers nothing."));
  report.checks.push_back(passed.fail_if_subjects("What was expected to fail passed."));
}

}  // namespace weightproof::reports
