// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reports/status.hpp"
#include "reports/value.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weightproof::reports {

/// One element's bits as text: what was expected, found or read from the source.
struct BitsValue {
  std::string dtype;    ///< "BF16"
  std::string hex;      ///< "0xBC40"; the bit string is drawn from it
  std::string decimal;  ///< shortest decimal of the value
  std::string text;     ///< instead of bits where the property is no element ("at most 81,561,600 B")
  bool empty() const { return hex.empty() && decimal.empty() && text.empty(); }
};

struct HistogramBin {
  std::string label;
  double share = 0;  ///< 0..1
  bool bad = false;
};

/// Distribution of a difference: ulp, ratio or offset.
struct Histogram {
  std::string what;  ///< "ulp from expected"
  std::vector<HistogramBin> bins;
};

/// Where in the tensor elements differ: shares of at most 32 x 16 bins, row by row.
struct WhereMap {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::vector<double> shares;  ///< rows x columns, 0..1
  std::string unit;            ///< "expert" where a cell is one expert
};

/// Order of named slots as declared and as found.
struct OrderPicture {
  std::vector<std::string> declared;  ///< labels of the slots, first eight and the last
  std::vector<std::string> found;
  std::string axis;  ///< "columns"
};

struct EvidenceLine {
  std::string text;
  std::string certainty;  ///< certain, likely, possible or empty
};

struct Vote {
  std::string name;
  double share = 0;  ///< 0..1
};

/// What a reviewer has to know: a failure, warning or note with its cause.
struct Finding {
  std::string rule;              ///< check id
  std::string key;               ///< tensor or file; the first of `keys`
  std::string property;          ///< what of it; part of the fingerprint
  Status status = Status::fail;  ///< pass: a note
  std::string title;
  std::string explanation;                ///< one or two sentences
  std::vector<std::string> also;          ///< check ids that fail because of this one
  std::vector<std::string> explained_by;  ///< fingerprints of the findings that explain this one; empty: a cause
  std::vector<std::string> keys;          ///< all subjects shown
  std::uint64_t total = 0;                ///< all subjects
  std::vector<std::uint64_t> coordinate;  ///< first difference
  std::vector<std::string> axes;          ///< names of the coordinate's axes
  std::vector<std::uint64_t> shape;       ///< of the tensor
  BitsValue source;
  BitsValue expected;
  BitsValue actual;
  std::optional<std::uint64_t> count;     ///< elements that differ
  std::optional<std::uint64_t> elements;  ///< of how many
  std::optional<Histogram> histogram;
  std::optional<WhereMap> where;
  std::optional<OrderPicture> order;
  std::vector<EvidenceLine> evidence;
  std::vector<Vote> votes;
  std::string reproduce;      ///< one command
  std::string location_file;  ///< description the finding is about, relative
  std::uint32_t location_line = 0;
  std::string change;       ///< against base: "new", "still", "" (no base)
  std::string fingerprint;  ///< 16 hex digits
};

struct Report;

/// Folds the checks of a report into findings: one for every record that failed, could not be carried out, warned or
/// was noted (findings already present for the same rule and key are kept and completed). A failure that another one
/// explains gets `explained_by`, its cause lists it in `also`. Sorted by gravity: failures, errors, warnings, notes;
/// within each new before old, cause before consequence, silent wrong values before missing data before memory, more
/// elements before fewer, then key. Marks the rows of the tensor table, where there is one. Two calls equal one.
void fold_findings(Report& report);

/// Number of failed or errored findings that are causes of their own.
struct CauseCount {
  std::uint64_t failures = 0;
  std::uint64_t causes = 0;
  std::uint64_t fresh = 0;  ///< causes that are new against base
  std::uint64_t old = 0;    ///< causes that failed on base as well
};
CauseCount count_causes(const Report& report);

/// 16 hex digits of SHA-256 over rule, key and property, each followed by a NUL byte, as the UTF-8 that
/// report.json shows. Neither text nor order goes in.
std::string fingerprint_of(std::string_view rule, std::string_view key, std::string_view property);
/// 12 hex digits of SHA-256 over a tensor's key.
std::string tensor_fingerprint(std::string_view key);

}  // namespace weightproof::reports
