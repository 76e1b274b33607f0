// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reports/status.hpp"
#include "reports/value.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weightproof::reports {

/// Tensors of one module over all layers; the columns of TensorTable refer to it.
struct TensorClass {
  std::string module;   ///< label of the map's row
  std::string pattern;  ///< key with {} for the layer and {e} for the expert
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::vector<std::string> stored;  ///< names it is stored under (weight and companions)
  std::string native;
  std::string native_dtype;
  std::vector<std::uint64_t> native_shape;
  std::string route;
  std::string reason;
  std::string placement;
  std::vector<std::string> checks;
};

/// One tensor: indices into the tables beside it.
struct TensorRow {
  std::uint32_t cls = 0;
  std::int32_t layer = -1;   ///< -1: outside the layers
  std::int32_t expert = -1;  ///< -1: no expert of its own
  Status verdict = Status::pass;
  char change = '.';  ///< against base: '.' same, 'n' new, 'f' fixed, 's' still
  std::uint32_t file = 0;
  std::string digest;  ///< 16 hex digits, or empty
};

/// The tensors of a checkpoint for map and drawer; written as columns.
struct TensorTable {
  std::vector<std::string> files;
  std::vector<TensorClass> classes;
  std::vector<TensorRow> rows;
  /// Key of a row.
  std::string key(const TensorRow& row) const;
};

/// What is known of one tensor when the table is made.
struct TensorFacts {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::string file;
  std::string digest;               ///< 16 hex digits, or empty
  std::vector<std::string> stored;  ///< names it is stored under where they are not the key alone
  std::string native;
  std::string native_dtype;
  std::vector<std::uint64_t> native_shape;
  std::string route;
  std::string reason;
  std::string placement;
};

/// Makes a TensorTable from keys: the first number of a key is its layer, the number after `experts` its expert, and
/// keys that differ in these alone, with one dtype, shape and route, are a class. Verdicts come from the findings
/// (fold_findings()).
class TensorTableBuilder {
 public:
  void add(std::string_view key, const TensorFacts& facts);
  TensorTable take();

 private:
  TensorTable table_;
  std::map<std::string, std::uint32_t> classes_;
  std::map<std::string, std::uint32_t> files_;
};

/// A fact of a comparison with a base report.
struct CompareEntry {
  std::string rule;  ///< check id, or the name of a counter
  std::string key;   ///< subject, or empty
  std::string text;  ///< for people
  std::string fingerprint;
  Status status = Status::pass;  ///< of the head (of the base where fixed)
  Value base;                    ///< counters: value on the base
  Value head;
  bool gates = true;  ///< times only inform
  friend bool operator==(const CompareEntry&, const CompareEntry&) = default;
};

struct CompareInfo {
  std::string base;  ///< commit or label
  std::string head;
  std::vector<CompareEntry> fresh;  ///< `new` in JSON
  std::vector<CompareEntry> fixed;
  std::vector<CompareEntry> still;
  std::vector<CompareEntry> changed_passing;
};

/// A planted fault and what became of it.
struct MutantRecord {
  std::string id;
  std::string fault;
  std::string area;
  std::string subject;  ///< tensor it was planted in
  bool killed = false;
  bool named = false;     ///< the right tensor was named
  std::string caught_by;  ///< check id
  std::string note;
};

struct SelftestInfo {
  std::vector<MutantRecord> mutants;
  std::uint64_t good_inputs = 0;  ///< good fixtures and valid real files
  std::uint64_t false_alarms = 0;
  std::vector<std::string> alarms;  ///< what gave a false alarm
};

}  // namespace weightproof::reports
