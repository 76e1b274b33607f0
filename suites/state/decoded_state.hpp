// SPDX-License-Identifier: Apache-2.0
// A checkpoint as a list of decoded tensors under their stored names: what digests, comparisons and exports see.
// Nothing is held but windows: a state larger than memory is streamed.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/codec/codec.hpp"
#include "loader/codec/detect.hpp"
#include "loader/core/schema.hpp"
#include "loader/plan/planner.hpp"
#include "loader/storage/checkpoint.hpp"

namespace weightproof::suites {

struct StateTensor {
  std::string key;  ///< logical: "x.weight" for x.weight_packed and its companions
  Shape shape;
  DType dtype = DType::bf16;         ///< of what read() yields
  DType stored_dtype = DType::bf16;  ///< of the stored tensor, of the codes where `codec`
  std::uint64_t bytes = 0;
  std::uint32_t row = 0;                      ///< catalog row; of the codes where `codec`
  std::shared_ptr<const codec::Codec> codec;  ///< null: stored as itself
  std::vector<std::uint32_t> parts;           ///< catalog row of each component of the codec
  bool is_folded = false;                     ///< what it scaled has been multiplied by it: it reads as ones
  bool is_transposed = false;  ///< the codec's matrices are published the other way round; `shape` is the published one
};

struct StateOptions {
  plan::TargetDType dtype = plan::TargetDType::stored;
  /// Which keys; null: all.
  std::function<bool(std::string_view)> selects;
  /// Coded tensors in the shape of their codec. Else in the shape in which they are published without codes.
  bool has_codec_shapes = false;
  /// Says which tensors keep F32; null: nobody knows.
  const Schema* schema = nullptr;
  /// What texts about two states call this one: "the base".
  std::string called = "the checkpoint";
};

class DecodedState {
 public:
  /// `checkpoint` is sound, described, and outlives this. Errors: quant_unsupported and what detection finds wrong
  /// (scale_missing, ...); dtype_unsupported naming the tensor.
  DecodedState(const storage::Checkpoint& checkpoint, const StateOptions& options);
  DecodedState(const DecodedState&) = delete;
  DecodedState& operator=(const DecodedState&) = delete;
  ~DecodedState();

  struct Folded {
    std::size_t scales = 0;
    std::size_t ones = 0;  ///< of those, that were ones: multiplied in they change nothing
  };
  /// Multiplies each expert's scale into the weight that the family declares to be made of both; the scale itself reads
  /// as ones from then on. Not beside other calls. Precondition: all parts are selected. Errors: io_error,
  /// file_changed.
  Folded fold(const Schema& schema, std::vector<plan::DecodeSource> declared);

  /// In the order of the catalog.
  const std::vector<StateTensor>& tensors() const { return tensors_; }
  /// Null where there is none.
  const StateTensor* find(std::string_view key) const;
  std::uint64_t bytes() const { return bytes_; }
  const std::string& called() const { return called_; }
  /// Schemes that are decoded, sorted; empty: nothing is.
  std::vector<std::string> schemes() const;

  /// Fills `target` with the dense row-major bytes of the tensor from byte `offset`. Whole elements (whole bytes for
  /// narrower ones). Any number of threads at once. Errors: io_error, file_changed.
  void read(const StateTensor& tensor, std::uint64_t offset, std::span<std::byte> target) const;

  /// The stored bytes that an aligned box of the codec's own shape needs, one run for each component, as Codec::decode
  /// takes them. Precondition: there is a codec. Errors: io_error, file_changed.
  std::vector<std::vector<std::byte>> read_parts(const StateTensor& tensor, const Box& aligned) const;

  /// Calls `use` with consecutive pieces of at most limits::read_bytes_max, whole elements each.
  void stream(const StateTensor& tensor,
              const std::function<void(std::uint64_t offset, std::span<const std::byte>)>& use) const;

 private:
  struct Band;
  const storage::File& file(std::uint32_t index) const;
  void add_plain(std::uint32_t row, const StateOptions& options);
  void read_stored(const StoredTensor& row, std::uint64_t offset, std::span<std::byte> target) const;
  void read_decoded(const StateTensor& tensor, std::uint64_t offset, std::span<std::byte> target) const;
  std::vector<std::byte> decode_band(const StateTensor& tensor, std::uint64_t lead, std::uint64_t first_row,
                                     std::uint64_t rows) const;
  std::vector<std::byte> decode_box(const StateTensor& tensor, const Box& box) const;

  const storage::Checkpoint& checkpoint_;
  std::string called_;
  std::vector<StateTensor> tensors_;
  std::vector<std::pair<std::string_view, std::uint32_t>> by_key_;
  std::uint64_t bytes_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<storage::File>> files_;
};

/// dtype that quantized tensors decode to where none is asked for: the config's, else BF16.
DType decoded_dtype(const ConfigValue* config);

}  // namespace weightproof::suites
