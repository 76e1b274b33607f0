// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/coverage.hpp"

#include <algorithm>
#include <array>

#include "loader/core/error.hpp"
#include "loader/core/glob.hpp"
#include "loader/plan/planner_internal.hpp"

namespace weightproof::plan {
namespace {

constexpr std::string_view k_extra_state = "_extra_state";
constexpr std::size_t k_keys_in_message = 10;

bool is_selected(const CoverageOptions& options, std::string_view key) {
  if (!options.include.empty() && !matches_any_glob(options.include, key)) return false;
  return !matches_any_glob(options.exclude, key);
}

bool takes_dtype(const LogicalTensor& tensor, DType dtype) {
  switch (tensor.dtype_rule) {
    case DTypeRule::weight:
      return is_ordinary_float(dtype);
    case DTypeRule::f32_state:
      return is_ordinary_float(dtype) && dtype != DType::f64;
    case DTypeRule::fixed:
      return dtype == tensor.dtype;
    case DTypeRule::any:
      return true;
  }
  return true;
}

TieState tie_state(Row source, Row alias) {
  if (source != k_no_row) return alias == k_no_row ? TieState::stored_once : TieState::stored_twice;
  return alias == k_no_row ? TieState::missing : TieState::from_alias;
}

/// Rows that no stored tensor claims: dropped, passed through, excluded, or unexpected.
void classify_unclaimed(const Schema& schema, const Catalog& catalog, const CoverageOptions& options,
                        const std::vector<bool>& claimed, KeyCoverage& out) {
  for (Row row = 0; row < catalog.size(); ++row) {
    if (claimed[row]) continue;
    const std::string_view key = catalog.tensors()[row].key;
    MatchedRows* rule = nullptr;
    bool is_passed_through = false;
    for (MatchedRows& drop : out.dropped) {
      if (matches_glob(drop.pattern, key)) {
        rule = &drop;
        break;
      }
    }
    for (std::size_t i = 0; rule == nullptr && i < schema.passthroughs().size(); ++i) {
      if (key.starts_with(schema.passthroughs()[i].prefix)) {
        rule = &out.passed_through[i];
        is_passed_through = true;
      }
    }
    if (is_passed_through && !is_selected(options, key)) {
      out.excluded.push_back(row);
    } else if (rule != nullptr) {
      rule->rows.push_back(row);
    } else if (matches_any_glob(options.exclude, key)) {
      out.excluded.push_back(row);
    } else if (options.allow_unexpected) {
      out.unexpected_allowed.push_back(row);
    } else {
      out.unexpected.push_back(row);
    }
  }
}

std::string join_keys(const std::vector<std::string>& keys) {
  std::string text;
  for (std::size_t i = 0; i < std::min(keys.size(), k_keys_in_message); ++i) {
    if (i != 0) text += ", ";
    text += '\'' + keys[i] + '\'';
  }
  if (keys.size() > k_keys_in_message) text += ", and " + std::to_string(keys.size() - k_keys_in_message) + " more";
  return text;
}

Diagnostic make(ErrorCode code, std::string message, ErrorFacts facts) {
  return diagnostic_of(Error(code, std::move(message), std::move(facts)));
}

std::string file_of(const Catalog& catalog, Row row) {
  const std::uint32_t file = catalog.tensors()[row].file;
  return file < catalog.files().size() ? catalog.files()[file] : std::string();
}

// What yields a stored tensor, and where; no shape where it is stored as itself.
struct Yielded {
  const Shape* shape = nullptr;
  std::span<const Row> rows;
};

/// `yielded`: by StoredId, or empty.
KeyCoverage judge_keys(const Schema& schema, const Catalog& catalog, const CoverageOptions& options,
                       const std::vector<Yielded>& yielded) {
  KeyCoverage out;
  out.is_subset = options.is_subset();
  out.shapes_checked = options.check_shapes && catalog.is_described();
  const std::span<const LogicalTensor> stored = schema.stored_tensors();
  out.row_of.assign(stored.size(), k_no_row);
  std::vector<bool> claimed(catalog.size(), false);
  std::vector<bool> selected(stored.size(), true);
  for (const Yielded& decoded : yielded) {
    for (const Row row : decoded.rows) claimed[row] = true;
  }

  std::vector<std::string_view> keys(stored.size());
  for (StoredId id = 0; id < stored.size(); ++id) keys[id] = stored[id].key;
  std::vector<Row> found_rows(stored.size());
  catalog.find_all(keys, found_rows);
  for (StoredId id = 0; id < stored.size(); ++id) {
    const LogicalTensor& tensor = stored[id];
    const Yielded decoded = yielded.empty() ? Yielded() : yielded[id];
    const Row row = decoded.shape != nullptr ? decoded.rows.front() : found_rows[id];
    if (row != k_no_row) claimed[row] = true;
    if (out.is_subset && !is_selected(options, tensor.key)) {
      selected[id] = false;
      out.not_selected.push_back(id);
      if (row != k_no_row) out.excluded.push_back(row);
      continue;
    }
    ++out.asked;
    if (row == k_no_row) {
      if (tensor.is_optional) {
        out.absent_optional.push_back(id);
      } else if (matches_any_glob(options.allow_missing, tensor.key)) {
        out.missing_allowed.push_back(id);
      } else {
        out.missing.push_back(id);
      }
      continue;
    }
    ++out.present;
    out.row_of[id] = row;
    const StoredTensor& found = catalog.tensors()[row];
    if (!found.is_described || !options.check_shapes) continue;
    const Shape& shape = decoded.shape != nullptr ? *decoded.shape : found.shape;
    if (shape != schema.shape_of(tensor)) out.shape_mismatches.push_back({id, row, shape});
    if (decoded.shape == nullptr && !takes_dtype(tensor, found.dtype)) out.dtype_mismatches.push_back({id, row, shape});
  }

  for (const Drop& drop : schema.drops()) out.dropped.push_back({drop.pattern, drop.reason, {}});
  out.dropped.push_back({"*" + std::string(k_extra_state), "state of a module that is no weight", {}});
  for (const Passthrough& pass : schema.passthroughs()) out.passed_through.push_back({pass.prefix, pass.reason, {}});
  classify_unclaimed(schema, catalog, options, claimed, out);

  for (std::uint32_t i = 0; i < schema.ties().size(); ++i) {
    const Tie& tie = schema.ties()[i];
    const StoredId alias = schema.find_stored(tie.stored_alias);
    TieVerdict verdict;
    verdict.tie = i;
    verdict.source_row = tie.stored_source == k_no_id ? k_no_row : out.row_of[tie.stored_source];
    verdict.alias_row = alias == k_no_id ? k_no_row : out.row_of[alias];
    verdict.state = tie_state(verdict.source_row, verdict.alias_row);
    const bool source_selected = tie.stored_source == k_no_id || selected[tie.stored_source];
    const bool alias_selected = alias != k_no_id && selected[alias];
    if (verdict.state == TieState::missing && !source_selected && !alias_selected) {
      verdict.state = TieState::outside_selection;
    }
    // One stored copy is enough for one storage, whichever of its names it bears.
    if (verdict.state == TieState::from_alias) std::erase(out.missing, tie.stored_source);
    out.ties.push_back(verdict);
  }

  const auto by_stored_key = [&](StoredId a, StoredId b) { return stored[a].key < stored[b].key; };
  const auto by_row_key = [&](Row a, Row b) { return catalog.tensors()[a].key < catalog.tensors()[b].key; };
  const auto by_mismatch = [&](const ShapeMismatch& a, const ShapeMismatch& b) {
    return by_stored_key(a.stored, b.stored);
  };
  std::sort(out.missing.begin(), out.missing.end(), by_stored_key);
  std::sort(out.missing_allowed.begin(), out.missing_allowed.end(), by_stored_key);
  std::sort(out.absent_optional.begin(), out.absent_optional.end(), by_stored_key);
  std::sort(out.unexpected.begin(), out.unexpected.end(), by_row_key);
  std::sort(out.unexpected_allowed.begin(), out.unexpected_allowed.end(), by_row_key);
  std::sort(out.shape_mismatches.begin(), out.shape_mismatches.end(), by_mismatch);
  std::sort(out.dtype_mismatches.begin(), out.dtype_mismatches.end(), by_mismatch);
  std::sort(out.excluded.begin(), out.excluded.end());
  return out;
}

}  // namespace

std::string_view to_string(TieState state) {
  constexpr std::array<std::string_view, 5> k_names = {"stored_once", "stored_twice", "from_alias", "missing",
                                                       "outside_selection"};
  return k_names[static_cast<std::size_t>(state)];
}

KeyCoverage check_keys(const Schema& schema, const Catalog& catalog, const CoverageOptions& options) {
  std::vector<Yielded> yielded(options.decoded.empty() ? 0 : schema.stored_tensors().size());
  for (const DecodedTensor& decoded : options.decoded) {
    WEIGHTPROOF_ASSERT(decoded.stored < yielded.size() && !decoded.rows.empty());
    yielded[decoded.stored] = {&decoded.shape, decoded.rows};
  }
  return judge_keys(schema, catalog, options, yielded);
}

KeyCoverage check_keys(const Schema& schema, const Catalog& catalog, const CoverageOptions& options,
                       std::span<const DecodeSource> decodes) {
  std::vector<Yielded> yielded(decodes.empty() ? 0 : schema.stored_tensors().size());
  for (const DecodeSource& source : decodes) {
    WEIGHTPROOF_ASSERT(source.stored < yielded.size() && !source.rows.empty());
    yielded[source.stored] = {&source.codec->natural_shape(), source.rows};
  }
  return judge_keys(schema, catalog, options, yielded);
}

std::vector<Diagnostic> coverage_diagnostics(const Schema& schema, const Catalog& catalog,
                                             const KeyCoverage& coverage) {
  std::vector<Diagnostic> result;
  const std::span<const LogicalTensor> stored = schema.stored_tensors();
  if (coverage.is_subset && coverage.asked != 0 && coverage.present == 0) {
    ErrorFacts facts;
    facts.expected = "at least one of " + std::to_string(coverage.asked) + " selected keys";
    facts.actual = "none is stored";
    facts.hint = "compare the selection with the keys that `inspect --tensors` lists";
    for (const StoredId id : coverage.missing) facts.keys.emplace_back(stored[id].key);
    result.push_back(make(ErrorCode::subset_empty, "none of the selected keys is stored", std::move(facts)));
    return result;
  }
  if (!coverage.missing.empty()) {
    ErrorFacts facts;
    for (const StoredId id : coverage.missing) facts.keys.emplace_back(stored[id].key);
    facts.expected = std::to_string(coverage.asked) + " keys of " + std::string(schema.family());
    facts.actual = std::to_string(coverage.present) + " of them";
    const std::string message =
        std::to_string(facts.keys.size()) +
        (facts.keys.size() == 1 ? " required key is missing: " : " required keys are missing: ") +
        join_keys(facts.keys);
    result.push_back(make(ErrorCode::missing_keys, message, std::move(facts)));
  }
  if (!coverage.unexpected.empty()) {
    ErrorFacts facts;
    for (const Row row : coverage.unexpected) facts.keys.emplace_back(catalog.tensors()[row].key);
    facts.file = file_of(catalog, coverage.unexpected.front());
    facts.expected = "keys of " + std::string(schema.family()) + " or of its list of drops";
    facts.hint = "--allow-unexpected lists them and goes on; --exclude GLOB leaves them out";
    const std::string message =
        std::to_string(facts.keys.size()) +
        (facts.keys.size() == 1 ? " stored key is unexpected: " : " stored keys are unexpected: ") +
        join_keys(facts.keys);
    result.push_back(make(coverage.is_subset ? ErrorCode::subset_unknown_keys : ErrorCode::unexpected_keys, message,
                          std::move(facts)));
  }
  for (const ShapeMismatch& mismatch : coverage.shape_mismatches) {
    ErrorFacts facts;
    facts.keys.emplace_back(stored[mismatch.stored].key);
    facts.file = file_of(catalog, mismatch.row);
    facts.expected = to_string(schema.shape_of(stored[mismatch.stored]));
    facts.actual = to_string(mismatch.found);
    const std::string message =
        "tensor '" + facts.keys[0] + "' has shape " + facts.actual + "; the config asks for " + facts.expected;
    result.push_back(make(ErrorCode::shape_mismatch, message, std::move(facts)));
  }
  for (const ShapeMismatch& mismatch : coverage.dtype_mismatches) {
    const LogicalTensor& tensor = stored[mismatch.stored];
    ErrorFacts facts;
    facts.keys.emplace_back(tensor.key);
    facts.file = file_of(catalog, mismatch.row);
    switch (tensor.dtype_rule) {
      case DTypeRule::fixed:
        facts.expected = std::string(name_of(tensor.dtype));
        break;
      case DTypeRule::f32_state:
        facts.expected = "F32, BF16 or F16";
        break;
      default:
        facts.expected = "BF16, F16, F32 or F64";
        break;
    }
    facts.actual = std::string(name_of(catalog.tensors()[mismatch.row].dtype));
    const std::string message =
        "tensor '" + facts.keys[0] + "' is stored as " + facts.actual + "; possible is " + facts.expected;
    result.push_back(make(ErrorCode::dtype_unsupported, message, std::move(facts)));
  }
  for (const TieVerdict& verdict : coverage.ties) {
    if (verdict.state != TieState::missing) continue;
    const Tie& tie = schema.ties()[verdict.tie];
    ErrorFacts facts;
    if (tie.stored_source != k_no_id) facts.keys.emplace_back(stored[tie.stored_source].key);
    facts.keys.push_back(tie.stored_alias);
    facts.hint = "one of the names has to be stored";
    if (tie.rule != k_no_id) facts.notes.push_back(schema.rule(tie.rule));
    const std::string message = "neither name of the tied storage is stored: " + join_keys(facts.keys);
    result.push_back(make(ErrorCode::tied_source_missing, message, std::move(facts)));
  }
  return result;
}

void require_complete(const Schema& schema, const Catalog& catalog, const KeyCoverage& coverage) {
  if (coverage.is_complete()) return;
  std::vector<Diagnostic> diagnostics = coverage_diagnostics(schema, catalog, coverage);
  if (diagnostics.empty()) return;
  Diagnostic& first = diagnostics.front();
  for (std::size_t i = 1; i < std::min(diagnostics.size(), k_keys_in_message); ++i) {
    first.facts.notes.push_back(diagnostics[i].code + ": " + diagnostics[i].message);
  }
  throw Error(error_code_from_string(first.code).value_or(ErrorCode::internal), first.message, std::move(first.facts));
}

}  // namespace weightproof::plan
