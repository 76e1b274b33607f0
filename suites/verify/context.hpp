// SPDX-License-Identifier: Apache-2.0
// What every check of `verify` looks at: one checkpoint read once, its family, and the values' facts when somebody
// asks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/family.hpp"
#include "loader/measure/cache.hpp"
#include "loader/plan/coverage.hpp"
#include "loader/plan/planner.hpp"
#include "loader/storage/checkpoint.hpp"
#include "reports/finding.hpp"
#include "suites/verify/adapter.hpp"
#include "suites/verify/against.hpp"
#include "suites/verify/loads.hpp"
#include "suites/verify/perturbation.hpp"
#include "suites/verify/quantization.hpp"
#include "suites/verify/reference_side.hpp"
#include "suites/verify/scan.hpp"

namespace weightproof::suites {

struct VerifyOptions {
  storage::SelectionOptions selection;
  std::string family;                ///< --family, empty: detect
  std::vector<std::string> include;  ///< globs over keys
  std::vector<std::string> exclude;
  std::vector<std::string> allow_missing;  ///< globs
  std::string expect_file;
  std::string manifest_file;         ///< digests to compare with; empty: none
  std::string against;               ///< another checkpoint to compare with; empty: none
  std::string base;                  ///< --base: the model of an adapter, or what a result was merged from; empty: none
  bool folds_expert_scales = false;  ///< --gemma-fold: each expert's scale is multiplied into its down projection
  plan::TargetDType dtype = plan::TargetDType::stored;  ///< --dtype: of what is loaded and compared with the reference
  std::optional<plan::Route> route;                     ///< --route: of the first load; empty: each tensor's best
  bool is_strict = false;
  unsigned threads = 1;
  /// Memory that loads and what compares them may take; empty: a share of what is available.
  std::optional<std::uint64_t> budget_bytes;
  storage::FileCalls* calls = nullptr;  ///< null: the system's
  Perturbation perturbation;            ///< for mutants; empty: nothing is done wrong
  std::string topology;                 ///< ranks among which the model is divided; empty: that is not asked
  std::string stages;                   ///< layers of each pipeline stage; empty: contiguous chunks
  std::function<void(std::string_view, std::uint64_t, std::uint64_t)> progress;
  std::string command;  ///< for the report
};

/// Why a file could not be examined further: the check that failed on it.
struct FileFault {
  std::string file;
  std::string check;
};

/// Built once for a run; checks read it. Not to be shared between threads.
class Context {
 public:
  /// `base`: the checkpoint of VerifyOptions::base, or null. Errors: usage, where scales are to be folded and the
  /// family has none.
  Context(const VerifyOptions& options, const storage::Checkpoint& checkpoint,
          const storage::Checkpoint* base = nullptr);

  const VerifyOptions& options;
  const storage::Checkpoint& checkpoint;
  const storage::Checkpoint* base;
  /// Where a low-rank adapter is verified.
  std::optional<AdapterState> adapter;
  adapters::Detection detection;
  std::optional<Form> form;
  std::optional<Schema> schema;
  /// What find_form or describe threw. Where the tie flag contradicts the family, the family's policy was then taken;
  /// where two namespaces are mixed, the canonical one.
  std::vector<Error> family_errors;
  /// Why names and shapes cannot be derived from the config; empty where there is a schema.
  std::string no_schema_reason;
  /// True where there is no config.json and the schema follows from what the names and shapes show.
  bool has_inferred_config = false;
  /// True where shapes follow from the schema too, not names alone.
  bool has_schema_shapes = true;
  /// Made by the checks that execute a load.
  LoadRunPointer loads;
  /// Made by the checks that compare with --against.
  AgainstPointer against;
  /// What checks have to say of single tensors beyond their records; they go into the report as they are.
  std::vector<reports::Finding> findings;
  /// Made by the checks of all ranks.
  ExecutedRanksPointer ranks;
  /// Files without a sound header, or absent, with the check that says so.
  std::vector<FileFault> faults;

  /// The error of that code among family_errors, or null.
  const Error* family_error(ErrorCode code) const;
  bool is_keys_only() const { return options.selection.keys_only; }
  /// Key passes --include and --exclude.
  bool selects(std::string_view key) const;
  bool has_subset() const { return !options.include.empty() || !options.exclude.empty(); }
  /// Names on which keys are judged: from the index where there is one, else from the headers. A row is described where
  /// its header could be read.
  const Catalog& keys() const { return *keys_; }
  /// How those names fit the schema. Precondition: there is a schema.
  const plan::KeyCoverage& coverage();
  /// Which of those names are quantized, with their codecs; read on the first call.
  const QuantizedState& quantization();
  /// What the reference finds; asked on the first call.
  const ReferenceSide& reference_side();
  /// Why `keys()` may lack names that are in the checkpoint; empty where it is complete.
  const std::string& incomplete_keys_reason() const { return incomplete_keys_reason_; }
  /// "index.syntax" or the like where the index could not be used; empty otherwise.
  const std::string& index_fault() const { return index_fault_; }
  /// The first fault in words: "model-00002-of-00003.safetensors is missing (index.missing_shard)".
  std::string fault_text() const;

  /// Facts about the values of all selected tensors of sound files; read on the first call.
  const ScanResult& scan();
  bool has_scan() const { return scan_.has_value(); }
  double scan_seconds() const { return scan_seconds_; }
  /// How much of the weight files the page cache holds, now. Not told for more than k_residency_files_max files.
  measure::Residency residency() const;
  /// The same, before any value was read. Empty where none was.
  const std::optional<measure::Residency>& residency_before() const { return residency_before_; }

 private:
  void find_faults();
  void collect_keys();
  void find_schema();
  void find_adapter_schema();
  Catalog own_keys_;  ///< where the names are more than the catalog knows
  const Catalog* keys_ = &own_keys_;
  std::string incomplete_keys_reason_;
  std::string index_fault_;
  std::optional<QuantizedState> quantization_;
  std::optional<plan::KeyCoverage> coverage_;
  std::optional<ReferenceSide> reference_side_;
  std::optional<ScanResult> scan_;
  std::optional<measure::Residency> residency_before_;
  double scan_seconds_ = 0;
};

}  // namespace weightproof::suites
