// SPDX-License-Identifier: Apache-2.0
// An answer against the reference, tensor by tensor, region by region.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/report.hpp"
#include "suites/explanations/explanation.hpp"
#include "suites/judge/expected.hpp"
#include "suites/judge/result.hpp"

namespace weightproof::suites::judge {

/// Elements of one tensor that differ.
struct ValueDifference {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint64_t elements = 0;
  std::uint64_t differing = 0;
  std::vector<std::uint64_t> coordinate;  ///< of the first
  std::string expected;                   ///< its bits and value: "0x3f80 (1)"
  std::string actual;
  std::string dtype;
  std::string source;
  std::optional<Explanation> explanation;  ///< of the first few of an answer
};

struct Comparison {
  std::vector<std::string> missing;
  std::vector<std::string> missing_heads;  ///< of `missing`: heads of models that are not tied
  std::vector<std::string> unexpected;
  struct Mismatch {
    std::string name, expected, actual;
    std::string remark = {};  ///< what the difference looks like
  };
  std::vector<Mismatch> shapes;
  std::vector<Mismatch> narrowed;      ///< narrower than asked for
  std::vector<Mismatch> narrowed_f32;  ///< of those: F32 state of the family
  std::vector<Mismatch> integers;      ///< integers, booleans, packed bytes that became another dtype
  std::vector<Mismatch> dtypes;        ///< any other dtype than asked for
  std::vector<ValueDifference> values;
  std::vector<ValueDifference> tied;  ///< second names that hold other bytes than their tensor
  std::uint64_t tensors = 0;          ///< compared
  std::uint64_t bytes = 0;
};

/// Reads both sides in windows. Where the names are not those of the checkpoint but of another form of the family,
/// `expected` takes that form. Throws reference::Failure, and Error where the answer cannot be read to its end.
Comparison compare_with_reference(ExpectedState& expected, const Result& result);

struct CaseRecords {
  std::vector<reports::CheckRecord> checks;  ///< one per check, all with the case's name
  std::vector<reports::Finding> findings;    ///< of tensors whose difference was looked into
};
/// `reproduce` is the command that repeats this case alone.
CaseRecords records_of(const Comparison& comparison, const std::string& case_name, const std::string& reproduce);

}  // namespace weightproof::suites::judge
