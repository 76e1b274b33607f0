// SPDX-License-Identifier: Apache-2.0
// Lossy exports beside their source: scales of experts that were multiplied in, and codes that were made afresh by a
// formula which the checkpoint states.
#include <algorithm>
#include <cstring>

#include "loader/codec/quantize.hpp"
#include "loader/core/limits.hpp"
#include "suites/state/requantized.hpp"
#include "suites/verify/against_internal.hpp"
#include "suites/verify/quantization.hpp"

namespace weightproof::suites {
namespace {

// One stored tensor and what the formula makes, window by window.
bool is_stored_so(RequantizedSource& made, std::size_t index, const Catalog& keys, ComponentReader& reader) {
  const save::ExportTensor& wanted = made.tensors()[index];
  const StoredTensor* row = keys.find(wanted.key);
  if (row == nullptr || row->dtype != wanted.dtype || !(row->shape == wanted.shape)) {
    return false;
  }
  std::vector<std::byte> ours;
  std::vector<std::byte> theirs;
  for (std::uint64_t at = 0; at < row->bytes; at += limits::read_bytes_max) {
    ours.resize(static_cast<std::size_t>(std::min<std::uint64_t>(limits::read_bytes_max, row->bytes - at)));
    theirs.resize(ours.size());
    reader.read(*row, at, ours);
    made.read(index, at, theirs);
    if (ours != theirs) {
      return false;
    }
  }
  return true;
}

}  // namespace

void fold_as_asked(Context& context, const storage::Checkpoint& base, DecodedState& theirs, DecodedState& ours,
                   Against& against) {
  const auto fold = [](DecodedState& state, const storage::Checkpoint& checkpoint,
                       const std::optional<Schema>& schema) {
    return schema ? state.fold(*schema, declared_decodes(*schema, checkpoint.catalog)).scales : std::size_t{0};
  };
  if (context.options.folds_expert_scales) {
    fold(theirs, base, folding_schema(base, context.options.family));
    against.folded = fold(ours, context.checkpoint, context.schema);
  }
}

void find_folds(Context& context, const storage::Checkpoint& base, const StateOptions& options,
                const DecodedState& theirs, const DecodedState& ours, Against& against) {
  if (context.options.folds_expert_scales || against.difference.count(Equality::different) == 0) {
    return;
  }
  const auto folded = [&](const storage::Checkpoint& checkpoint) -> std::unique_ptr<DecodedState> {
    const std::optional<Schema> schema = folding_schema(checkpoint, context.options.family);
    if (!schema) {
      return nullptr;
    }
    auto state = std::make_unique<DecodedState>(checkpoint, options);
    state->fold(*schema, declared_decodes(*schema, checkpoint.catalog));
    return state;
  };
  find_folded(theirs, folded(base).get(), ours, folded(context.checkpoint).get(), against.difference);
}

void find_stated_codes(Context& context, const DecodedState& theirs, const DecodedState& ours, Against& against) {
  const ConfigValue* stated =
      context.checkpoint.config ? context.checkpoint.config->find("quantization_config.weightproof_formula") : nullptr;
  const auto formula =
      stated != nullptr && stated->as_string() ? codec::formula_of(*stated->as_string()) : std::nullopt;
  if (!formula) {
    return;
  }
  const bool has_blocks = std::any_of(ours.tensors().begin(), ours.tensors().end(), [](const StateTensor& tensor) {
    return tensor.codec && tensor.codec->scheme().id == "mxfp4_blocks";
  });
  std::optional<RequantizedSource> made;
  try {
    made.emplace(theirs, *formula, has_blocks);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::subset_empty) {
      throw;
    }
    return;  // nothing of the base is quantized by it
  }
  ComponentReader reader(context.checkpoint, context.options.calls);
  against.formula = *stated->as_string();
  for (const TensorDifference& row : against.difference.tensors) {
    if (!row.codes || !row.codes->is_nearest() || row.codes->is_first_coded) {
      continue;
    }
    const auto parts = made->parts_of(row.key);
    if (parts && is_stored_so(*made, parts->first, context.keys(), reader) &&
        is_stored_so(*made, parts->second, context.keys(), reader)) {
      against.as_stated.insert(row.key);
    }
  }
}

}  // namespace weightproof::suites
