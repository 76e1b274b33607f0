// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/records.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::Value;

void add_facts(CheckBuilder& builder, const ErrorFacts& facts) {
  if (!facts.expected.empty()) {
    builder.expected(facts.expected);
  }
  if (!facts.actual.empty()) {
    builder.actual(facts.actual);
  }
  if (!facts.hint.empty()) {
    builder.hint(facts.hint);
  }
  if (!facts.file.empty()) {
    builder.evidence("file", facts.file);
  }
  if (facts.byte_offset) {
    builder.evidence("byte_offset", *facts.byte_offset);
  }
  if (!facts.coordinate.empty()) {
    builder.evidence("coordinate", Value::array_of(facts.coordinate));
  }
  if (!facts.notes.empty()) {
    builder.evidence("notes", Value::array_of(facts.notes));
  }
}

// Facts about a file as a whole: the file is to blame, its tensors are evidence.
bool is_about_files(std::string_view id) {
  return id.starts_with("format.") || id == "index.path" || id == "index.missing_shard";
}

void add_subjects(CheckBuilder& builder, std::string_view id, const ErrorFacts& facts) {
  constexpr std::size_t shown_tensors = 8;
  const bool blames_file = is_about_files(id) && !facts.file.empty();
  if (blames_file || (facts.keys.empty() && !facts.file.empty())) {
    builder.subject(facts.file);
  }
  if (!blames_file || facts.keys.size() == 1) {
    for (const std::string& key : facts.keys) {
      builder.subject(key);
    }
    return;
  }
  if (!facts.keys.empty()) {
    const auto end = facts.keys.begin() + static_cast<std::ptrdiff_t>(std::min(shown_tensors, facts.keys.size()));
    builder.evidence("tensors", Value::array_of(std::vector<std::string>(facts.keys.begin(), end)));
    builder.evidence("tensors_total", facts.keys.size());
  }
}

std::string with_rest(const std::string& message, std::size_t rest) {
  return rest == 0 ? message : message + " (and " + grouped(rest) + " more of the kind)";
}

}  // namespace

reports::CheckRecord record_of_diagnostics(const Context& context, std::string_view id, std::uint64_t examined,
                                           const std::string& undecided) {
  return record_of(context.checkpoint.diagnostics, id, examined, undecided);
}

reports::CheckRecord record_of(std::span<const Diagnostic> diagnostics, std::string_view id, std::uint64_t examined,
                               const std::string& undecided) {
  std::array<std::vector<const Diagnostic*>, 3> by_severity;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.check == id) {
      by_severity[static_cast<std::size_t>(diagnostic.severity)].push_back(&diagnostic);
    }
  }
  CheckBuilder builder{std::string(id)};
  builder.examined(examined);
  for (const Severity severity : {Severity::fail, Severity::warn, Severity::note}) {
    const auto& found = by_severity[static_cast<std::size_t>(severity)];
    if (found.empty()) {
      continue;
    }
    for (const Diagnostic* diagnostic : found) {
      add_subjects(builder, id, diagnostic->facts);
    }
    const Diagnostic& first = *found.front();
    add_facts(builder, first.facts);
    const std::string message = with_rest(first.message, found.size() - 1);
    if (severity == Severity::note) {
      return undecided.empty() ? builder.note(message) : builder.skip(undecided);
    }
    builder.code(first.code);
    std::size_t milder = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(severity); ++i) {
      milder += by_severity[i].size();
    }
    if (milder > 0) {
      builder.explanation("also seen: " +
                          by_severity[severity == Severity::fail && !by_severity[1].empty() ? 1 : 0].front()->message);
    }
    return severity == Severity::fail ? builder.fail(message) : builder.warn(message);
  }
  return undecided.empty() ? builder.pass() : builder.skip(undecided);
}

reports::CheckRecord failed_record(std::string_view id, const Error& error) {
  CheckBuilder builder{std::string(id)};
  add_subjects(builder, id, error.facts());
  add_facts(builder, error.facts());
  builder.code(std::string(to_string(error.code())));
  return builder.fail(error.message());
}

reports::CheckRecord error_record(std::string_view id, const Error& error) {
  CheckBuilder builder{std::string(id)};
  add_subjects(builder, id, error.facts());
  add_facts(builder, error.facts());
  builder.code(std::string(to_string(error.code())));
  return builder.error(error.message());
}

std::string listed(const std::vector<std::string>& names, std::size_t shown) {
  std::string out;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i) {
    out += (i == 0 ? "" : ", ") + printable(names[i], 120);
  }
  if (names.size() > shown) {
    out += " and " + grouped(names.size() - shown) + " more";
  }
  return out;
}

std::string coordinate_text(const Shape& shape, std::uint64_t index) { return to_string(coordinate_of(shape, index)); }

}  // namespace weightproof::suites
