// SPDX-License-Identifier: Apache-2.0
// A checkpoint as native state, region by region. Nothing is held but the header and a bounded cache of file blocks.
// Not thread safe: one Model belongs to one thread.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "reference/detect.hpp"
#include "reference/mapping.hpp"
#include "reference/quantized.hpp"
#include "reference/safetensors.hpp"

namespace weightproof::reference {

struct ModelOptions {
  std::optional<Dtype> dtype;  // BF16, F16 or F32 for every floating tensor; absent: as stored.
  std::string family;          // Empty: as detected. An id of family_ids(), in whichever form it is stored.
  MappingOptions mapping;
  std::filesystem::path base;  // Not empty: the checkpoint is a low-rank adapter of the model there.
  std::uint64_t cache_bytes_max = 256u << 20;  // Of file blocks.
};

class Model {
 public:
  /// A directory, file or index (Checkpoint::open). The config is config.json beside it, if there is one; the
  /// quantization config the one inside it, else hf_quant_config.json, quantize_config.json or quant_config.json.
  /// Throws Failure.
  static Model open(const std::filesystem::path& path, const ModelOptions& options = {});
  ~Model();
  Model(Model&&) noexcept;

  const Checkpoint& checkpoint() const;
  const Config& config() const;
  const Detection& detection() const;
  const Mapping& mapping() const;
  const Overlay& overlay() const;

  /// The dtype of native storage: F32 for FP32 state; the asked dtype for floating tensors; decoded tensors without an
  /// asked dtype: the config's, else BF16; everything else as stored.
  Dtype native_dtype(int native) const;
  /// The number of a native tensor. Throws Failure(TensorNotFound).
  int native_or_fail(std::string_view native) const;
  /// Elements of a box of a native tensor, dense, row-major. Throws Failure (TensorNotFound, SliceOutOfRange, ...).
  Bytes region(std::string_view native, const Box& box) const;
  Bytes region(std::string_view native, const Box& box, Dtype dtype) const;
  Bytes region(int native, const Box& box) const;
  /// With a dtype: cast to it instead of native_dtype. Integer tensors keep theirs.
  Bytes region(int native, const Box& box, Dtype dtype) const;
  /// One element: dtype code in the low bits, found by the pull alone. The slow form of region().
  std::uint64_t element(int native, const Coord& at, Dtype dtype) const;
  /// Stored elements as they are in the file.
  Bytes stored_region(std::string_view key, const Box& box) const { return checkpoint().read_elements(key, box); }
  /// Elements of a logical tensor (decoded where it is quantized), in its own shape.
  Bytes logical_region(std::string_view name, const Box& box, Dtype dtype) const;

  /// Visits a native tensor in row-major windows of at most bytes_max bytes (at least one row of the last axis).
  void for_each_window(int native, std::uint64_t bytes_max,
                       const std::function<void(const Box&, const Bytes&)>& visit) const;
  /// True if the second copy of a tied head, where one is stored, equals the embedding byte for byte; true if there is
  /// none.
  bool tied_copies_agree() const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// config.json of a directory, if there is one, and where it has no quantization config the one from a file of its own:
/// hf_quant_config.json, quantize_config.json or quant_config.json.
struct ModelConfig {
  Config config;
  Json beside;
  /// Null where nothing is said. Valid as long as this value.
  const Json* quantization() const;
};
ModelConfig read_model_config(const std::filesystem::path& directory);

/// The way out: what stored key `key` of a target mapping (another spelling, stacked or single experts, the same form)
/// holds when this model is exported to it. Element by element through Mapping::home. Throws Failure
/// (TENSOR_NOT_MAPPED, ...).
Bytes export_region(const Model& model, const Mapping& target, int key, const Box& box, Dtype dtype);

}  // namespace weightproof::reference
