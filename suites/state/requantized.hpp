// SPDX-License-Identifier: Apache-2.0
// A state quantized afresh while it is exported: codes and scales of the linear layers, everything else as it is.
// Bands of rows are read, quantized and forgotten.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "loader/codec/quantize.hpp"
#include "loader/save/export.hpp"
#include "suites/state/decoded_state.hpp"

namespace weightproof::suites {

class RequantizedSource final : public save::ExportSource {
 public:
  /// `state` outlives this.
  RequantizedSource(const DecodedState& state, codec::FreshFormula formula);

  /// Codes under the weight's name or its packed spelling, scales beside them, the rest.
  const std::vector<save::ExportTensor>& tensors() const { return tensors_; }
  /// Errors: nan_not_encodable, internal (a value outside its bound), io_error.
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override;

  const std::vector<std::string>& quantized() const { return quantized_; }  ///< keys of the weights, sorted
  /// Modules of matrices that stay as they are, sorted.
  const std::vector<std::string>& left_alone() const { return left_alone_; }
  std::uint64_t elements() const { return elements_; }
  /// Largest error so far, in halves of the step between codes.
  double error_max() const;
  /// The text of quantization_config, a JSON object.
  std::string config_text() const;

 private:
  enum class Part : std::uint8_t { plain, codes, scales };
  struct Piece {
    const StateTensor* tensor = nullptr;
    Part part = Part::plain;
  };
  struct Matrix {
    std::uint64_t rows = 1, cols = 1;
  };
  bool is_chosen(const StateTensor& tensor) const;
  void add(const StateTensor& tensor);
  std::vector<float> values(const StateTensor& tensor, std::uint64_t first, std::uint64_t count) const;
  float tensor_scale(const StateTensor& tensor, std::uint64_t lead, Matrix matrix);
  std::uint64_t band_rows() const;
  /// Codes and scales of rows [first, first + count) of one matrix.
  std::pair<std::vector<std::byte>, std::vector<std::byte>> quantize(const StateTensor& tensor, std::uint64_t lead,
                                                                     std::uint64_t first, std::uint64_t count);

  const DecodedState& state_;
  codec::FreshFormula formula_;
  std::vector<save::ExportTensor> tensors_;
  std::vector<Piece> pieces_;
  std::vector<std::string> quantized_;
  std::vector<std::string> left_alone_;
  std::uint64_t elements_ = 0;
  mutable std::mutex mutex_;
  std::map<std::pair<const StateTensor*, std::uint64_t>, float> tensor_scales_;
  codec::FreshStatistics statistics_;
};

/// A matrix of a layer that multiplies activations, judged by its name: a projection of a block. Embeddings, heads,
/// routers, norms and encoders of images and sound are none.
bool is_projection(std::string_view key);

}  // namespace weightproof::suites
