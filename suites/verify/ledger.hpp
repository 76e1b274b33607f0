// SPDX-License-Identifier: Apache-2.0
// The conservation ledger of loads, checked apart from the plan: what was read is what the files hold minus declared
// drops, and what was written fills every tensor exactly once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/catalog.hpp"
#include "loader/exec/attempt.hpp"
#include "loader/plan/coverage.hpp"

namespace weightproof::suites {

/// A union of ranges of one file: sorted, disjoint, neighbours joined.
class ByteRanges {
 public:
  void add(std::uint64_t begin, std::uint64_t end);
  /// First byte of [begin, end) that is in no range.
  std::optional<std::uint64_t> first_missing(std::uint64_t begin, std::uint64_t end) const;
  /// Bytes of [begin, end) that are in some range.
  std::uint64_t covered(std::uint64_t begin, std::uint64_t end) const;
  std::size_t size() const { return ranges_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin -> end
};

/// One bit per element of a tensor, for whatever is to be visited exactly once.
class ElementMarks {
 public:
  void reset(std::uint64_t elements);
  /// First element of the run that was marked before, or nothing.
  std::optional<std::uint64_t> mark(std::uint64_t begin, std::uint64_t count);
  std::optional<std::uint64_t> first_clear() const;

 private:
  std::vector<std::uint64_t> words_;
  std::uint64_t elements_ = 0;
};

struct LedgerFault {
  std::string key;
  std::string what;  ///< "element [2, 0] was written by nobody"
};

class LedgerChecker {
 public:
  /// `coverage` and `proof_left_out` say what is declared to be left out; the catalog what there is.
  explicit LedgerChecker(const Catalog& catalog) : catalog_(catalog), read_(catalog.files().size()) {}

  /// Books one load, and finds what its destinations lack. `origin[i]` is where the part of Plan::tensors()[i] begins
  /// in the whole tensor.
  void add(const plan::Plan& plan, const exec::Ledger& ledger, std::span<const Coordinate> origin,
           std::vector<LedgerFault>& faults);

  /// After all loads: rows that should have been read and were not, whole, and those that were dropped and read all the
  /// same. `is_declared[row]`: left out on purpose.
  void finish(const std::vector<bool>& is_declared, std::vector<LedgerFault>& faults) const;

  std::uint64_t regions() const { return regions_; }
  std::uint64_t ranges() const { return ranges_; }

 private:
  const Catalog& catalog_;
  std::vector<ByteRanges> read_;  // by file
  ElementMarks marks_;
  std::uint64_t regions_ = 0;
  std::uint64_t ranges_ = 0;
};

}  // namespace weightproof::suites
