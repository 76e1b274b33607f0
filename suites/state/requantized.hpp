// SPDX-License-Identifier: Apache-2.0
// A state quantized afresh while it is exported: codes and scales of the linear layers, everything else as it is.
// Bands of rows are read, quantized and forgotten.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loader/codec/quantize.hpp"
#include "loader/save/export.hpp"
#include "suites/state/decoded_state.hpp"

namespace weightproof::suites {

class RequantizedSource final : public save::ExportSource {
 public:
  /// `state` outlives this. `has_block_experts`: MXFP4 as gpt-oss publishes it, where experts are stored [expert, in,
  /// out]: these alone are quantized, as blocks and scales [expert, out, in]. Errors: subset_empty.
  RequantizedSource(const DecodedState& state, codec::FreshFormula formula, bool has_block_experts = false);

  /// Codes under the weight's name or its packed spelling, scales beside them, the rest.
  const std::vector<save::ExportTensor>& tensors() const { return tensors_; }
  /// Errors: nan_not_encodable, internal (a value outside its bound), io_error.
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override;

  const std::vector<std::string>& quantized() const { return quantized_; }  ///< keys of the weights, sorted
  /// Where codes and scales of such a weight are in tensors(); nothing for others.
  std::optional<std::pair<std::size_t, std::size_t>> parts_of(std::string_view key) const;
  /// Modules of matrices that stay as they are, sorted.
  const std::vector<std::string>& left_alone() const { return left_alone_; }
  std::uint64_t elements() const { return elements_; }
  /// Of what was read so far: every element once, however often and in however many pieces it was read.
  codec::FreshStatistics statistics() const;
  /// The text of quantization_config, a JSON object.
  std::string config_text() const;

 private:
  enum class Part : std::uint8_t { plain, codes, scales };
  struct Piece {
    const StateTensor* tensor = nullptr;
    Part part = Part::plain;
  };
  /// The matrices of a tensor as they are quantized: scales run along `cols`.
  struct Matrix {
    std::uint64_t leads = 1, rows = 1, cols = 1;
    bool is_turned = false;  ///< of the tensor these are rows of columns
  };
  bool is_chosen(const StateTensor& tensor) const;
  void add(const StateTensor& tensor);
  Matrix matrix_of(const StateTensor& tensor) const;
  /// Rows [first, first + count) of one matrix, dense.
  std::vector<float> values(const StateTensor& tensor, std::uint64_t lead, std::uint64_t first,
                            std::uint64_t count) const;
  float tensor_scale(const StateTensor& tensor, std::uint64_t lead);
  std::uint64_t band_rows(const Matrix& matrix) const;
  /// Codes and scales of rows [first, first + count) of one matrix.
  std::pair<std::vector<std::byte>, std::vector<std::byte>> quantize(const StateTensor& tensor, std::uint64_t lead,
                                                                     std::uint64_t first, std::uint64_t count);

  const DecodedState& state_;
  codec::FreshFormula formula_;
  bool has_block_experts_;
  std::vector<save::ExportTensor> tensors_;
  std::vector<Piece> pieces_;
  std::vector<std::string> quantized_;
  std::vector<std::string> left_alone_;
  std::uint64_t elements_ = 0;
  mutable std::mutex mutex_;
  std::map<std::pair<const StateTensor*, std::uint64_t>, float> tensor_scales_;
  std::map<const StateTensor*, std::vector<bool>> counted_;  ///< bands that are in statistics_
  codec::FreshStatistics statistics_;
};

/// A matrix of a layer that multiplies activations, judged by its name: a projection of a block. Embeddings, heads,
/// routers, norms and encoders of images and sound are none.
bool is_projection(std::string_view key);

}  // namespace weightproof::suites
