// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "reports/report.hpp"
#include "reports/value.hpp"

/// JSON text to and from values and reports, for every document the tool prints.
namespace weightproof::reports {

/// A document that cannot be read: not JSON, or not what its schema asks. what() names the place.
class DocumentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Limits of parse_json, which reads files that others wrote.
inline constexpr std::size_t k_json_max_bytes = std::size_t{1} << 30;
inline constexpr std::size_t k_json_max_depth = 64;

/// JSON with members sorted by name; indented by two spaces when `pretty`, without a newline at the end. Invalid UTF-8
/// becomes U+FFFD, control characters are escaped, an integral double keeps its ".0".
std::string to_json(const Value& value, bool pretty = false);

/// Parses one JSON document. Integers of 64 bits stay integers. Throws DocumentError for anything that is not one JSON
/// value, for a name given twice in an object and past the limits above.
Value parse_json(std::string_view text);

/// The document of a report (schema weightproof.report/1) as a value; finish() comes first.
Value to_value(const Report& report);
/// Reads such a document; fields it does not know are ignored. Throws DocumentError where a field is missing or has the
/// wrong type.
Report report_from(const Value& document);
/// parse_json and report_from.
Report read_json(std::string_view text);

/// An error in the form every verb prints.
Value to_value(const ErrorRecord& error);

/// The part of a document that two runs on the same input with the same options share byte for byte: without `run`,
/// `environment`, `timing`, `memory`, `checkpoint.path`, and with the mem.* records reduced to id, status, subjects and
/// total.
Value comparable_part(const Report& report);
/// SHA-256 of that part as compact JSON, 64 hex digits.
std::string comparable_digest(const Report& report);

}  // namespace weightproof::reports
