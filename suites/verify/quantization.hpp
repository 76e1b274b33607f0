// SPDX-License-Identifier: Apache-2.0
// The quantized side of a checkpoint as the checks see it: what detection found, a codec for every tensor that can be
// decoded, and the rows that they take together. Small values on which codecs depend (probes) are read here; weights
// are not.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/codec/codec.hpp"
#include "loader/codec/detect.hpp"
#include "loader/core/schema.hpp"
#include "loader/plan/coverage.hpp"
#include "loader/plan/plan.hpp"
#include "loader/storage/checkpoint.hpp"

namespace weightproof::adapters {
struct Family;
}

namespace weightproof::suites {

struct QuantizedState {
  codec::Quantization found;
  std::vector<std::shared_ptr<const codec::Codec>> codecs;  ///< one per found.tensors; null where none could be made
  std::vector<Diagnostic> diagnostics;                      ///< of detection, then of shapes and probes
  std::string undecodable;  ///< why values cannot be decoded at all; empty where they can
};

/// `keys` may know names alone; codecs are then null. Errors of probes become diagnostics.
QuantizedState read_quantization(const storage::Checkpoint& checkpoint, const Catalog& keys, storage::FileCalls* calls);

/// Why the values of the checkpoint cannot be told, with the check that says so; empty where they can.
std::string why_undecodable(const QuantizedState& state);

/// What coverage must know: logical tensor, decoded shape and the rows that yield it. Where a shape cannot be known the
/// schema's is taken: names alone are then asked.
std::vector<plan::DecodedTensor> decoded_tensors(const QuantizedState& state, const Schema& schema,
                                                 const Catalog& keys);

/// What the family itself declares between tensors that are not quantized: a fold of experts' scales that was asked
/// for. Without those of which a part is not there; coverage names it.
std::vector<plan::DecodedTensor> declared_tensors(const Schema& schema, const Catalog& keys);
/// The same with their codecs. Precondition: all rows are described. Errors: as codec::make_codec().
std::vector<plan::DecodeSource> declared_decodes(const Schema& schema, const Catalog& keys);

/// The schema under which a checkpoint's scales of experts are multiplied in; nothing where its family has none, or
/// cannot be told.
std::optional<Schema> folding_schema(const storage::Checkpoint& checkpoint, std::string_view family = {});
/// What --gemma-fold cannot go with, for every verb that has it. Errors: usage, naming the family, where it has no
/// scales of experts to fold (null: no family is known), and where a subset of the keys is asked for, which may part an
/// expert from its scale.
void require_foldable(const adapters::Family* family, bool has_include, bool has_exclude);

/// Reads the bytes of stored tensors of a checkpoint, opening each file once. Not for threads.
class ComponentReader {
 public:
  ComponentReader(const storage::Checkpoint& checkpoint, storage::FileCalls* calls);
  /// `bytes` bytes from `offset` of a row's data. Throws io_error, file_changed.
  void read(const StoredTensor& row, std::uint64_t offset, std::span<std::byte> target);

 private:
  const storage::Checkpoint* checkpoint_;
  storage::FileCalls* calls_;
  std::vector<std::unique_ptr<storage::File>> files_;
};

/// The codec of one tensor as the loader makes it, without whatever a mutant does to it; null where none can be made.
std::shared_ptr<const codec::Codec> sound_codec(const codec::QuantizedTensor& tensor, const Catalog& keys,
                                                ComponentReader& reader);

}  // namespace weightproof::suites
