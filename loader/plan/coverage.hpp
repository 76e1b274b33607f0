// SPDX-License-Identifier: Apache-2.0
// Key coverage: do the stored keys and shapes fit what the schema asks for? Decided on names and shapes alone, so it is
// both the first step of every plan and all that is asked where there are no weight files. Nothing is thrown for what a
// checkpoint lacks or has too much: the verdict lists it. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/catalog.hpp"
#include "loader/core/diagnostic.hpp"
#include "loader/core/schema.hpp"

namespace weightproof::plan {

/// Position in Catalog::tensors().
using Row = std::uint32_t;
inline constexpr Row k_no_row = UINT32_MAX;

/// A stored tensor that a codec yields from rows of other names, dtypes and shapes.
struct DecodedTensor {
  StoredId stored = k_no_id;
  Shape shape;            ///< what the codec yields
  std::vector<Row> rows;  ///< weight first, then its companions
};

/// Which keys are asked for, and what is forgiven. All globs are over stored keys (loader/core/glob.hpp).
struct CoverageOptions {
  std::vector<std::string> include;        ///< empty: all keys
  std::vector<std::string> exclude;        ///< wins over `include`; such keys are never unexpected either
  std::vector<std::string> allow_missing;  ///< keys that may be absent
  bool allow_unexpected = false;
  bool check_shapes = true;  ///< false where stored rows are not what the codec yields (quantized by names alone)
  std::vector<DecodedTensor> decoded;  ///< each stored tensor at most once
  bool is_subset() const { return !include.empty() || !exclude.empty(); }
};

struct ShapeMismatch {
  StoredId stored = k_no_id;
  Row row = k_no_row;
  Shape found;
};

/// Rows that a rule of the schema takes out of the question.
struct MatchedRows {
  std::string pattern;  ///< glob of a drop, or prefix of a passthrough
  std::string reason;
  std::vector<Row> rows;  ///< in catalog order
};

/// How two names of one storage were found.
enum class TieState : std::uint8_t {
  stored_once,       ///< the source alone: the head is that same storage
  stored_twice,      ///< both: their values must be equal
  from_alias,        ///< the alias alone: it stands in for the source
  missing,           ///< neither
  outside_selection  ///< not asked for
};
std::string_view to_string(TieState state);

struct TieVerdict {
  std::uint32_t tie = 0;  ///< position in Schema::ties()
  TieState state = TieState::missing;
  Row source_row = k_no_row;
  Row alias_row = k_no_row;
};

/// Lists are sorted by key unless said otherwise, so that verdicts of equal inputs are equal.
struct KeyCoverage {
  std::vector<Row> row_of;                ///< per StoredId: its row, k_no_row where absent or not asked for
  std::vector<StoredId> missing;          ///< asked for, required, absent, not forgiven
  std::vector<StoredId> missing_allowed;  ///< ... forgiven by `allow_missing`
  std::vector<StoredId> absent_optional;  ///< optional and absent: `absent_rule` says what happens
  std::vector<StoredId> not_selected;     ///< left out by include/exclude, in schema order
  std::vector<Row> unexpected;            ///< stored, and nothing in the schema knows it
  std::vector<Row> unexpected_allowed;    ///< ... forgiven by `allow_unexpected`
  std::vector<Row> excluded;              ///< stored and left out by include/exclude, in catalog order
  std::vector<ShapeMismatch> shape_mismatches;
  std::vector<ShapeMismatch> dtype_mismatches;  ///< stored dtype that the schema's rule does not take
  std::vector<MatchedRows> dropped;             ///< one per Schema::drops(), then the rule for `_extra_state`
  std::vector<MatchedRows> passed_through;      ///< one per Schema::passthroughs()
  std::vector<TieVerdict> ties;                 ///< one per Schema::ties()
  std::size_t asked = 0;                        ///< stored tensors asked for
  std::size_t present = 0;                      ///< of these, found
  bool is_subset = false;
  bool shapes_checked = false;  ///< false where the catalog knows names alone, or shapes were not asked

  bool is_complete() const {
    return missing.empty() && unexpected.empty() && shape_mismatches.empty() && dtype_mismatches.empty() &&
           !(is_subset && asked != 0 && present == 0);
  }
};

/// Cost: one look-up per stored tensor plus one glob per drop for each row that no stored tensor claims.
KeyCoverage check_keys(const Schema& schema, const Catalog& catalog, const CoverageOptions& options = {});

/// The verdict in words: one diagnostic per violated fact (MISSING_KEYS, UNEXPECTED_KEYS or SUBSET_UNKNOWN_KEYS,
/// SHAPE_MISMATCH per tensor, DTYPE_UNSUPPORTED per tensor, TIED_SOURCE_MISSING, SUBSET_EMPTY), empty where coverage is
/// complete. facts.keys holds all keys concerned, the message the first ten.
std::vector<Diagnostic> coverage_diagnostics(const Schema& schema, const Catalog& catalog, const KeyCoverage& coverage);

/// Throws the first of coverage_diagnostics() as Error.
void require_complete(const Schema& schema, const Catalog& catalog, const KeyCoverage& coverage);

}  // namespace weightproof::plan
