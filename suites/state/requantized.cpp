// SPDX-License-Identifier: Apache-2.0
#include "suites/state/requantized.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "loader/core/limits.hpp"
#include "suites/support/json_writer.hpp"

namespace weightproof::suites {
namespace {

using codec::FreshFormula;

constexpr std::string_view k_weight = ".weight";
/// Values of a band that is read column by column.
constexpr std::uint64_t k_turned_bytes = limits::read_bytes_max;

std::uint64_t blocks(std::uint64_t extent, std::uint64_t edge) { return (extent + edge - 1) / edge; }

std::string without(std::string_view text, std::string_view suffix) {
  return std::string(text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text);
}

bool is_wide_float(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32; }

}  // namespace

bool is_projection(std::string_view key) {
  if (key.find("layers.") == std::string_view::npos) {
    return false;
  }
  for (const std::string_view other : {"vision", "visual", "audio", "projector", "router", "norm", "lora_", "conv"}) {
    if (key.find(other) != std::string_view::npos) {
      return false;
    }
  }
  const std::string module = without(key, k_weight);
  const std::string name = module.substr(module.rfind('.') + 1);
  if (!key.ends_with(k_weight)) {
    return name == "gate_up_proj" || name == "down_proj";  // experts in one tensor
  }
  constexpr std::array<std::string_view, 9> names = {"w1",   "w2", "w3", "wq", "wk", "wv", "wo", "query_key_value",
                                                     "dense"};
  return name.ends_with("_proj") || std::find(names.begin(), names.end(), name) != names.end();
}

RequantizedSource::RequantizedSource(const DecodedState& state, FreshFormula formula, bool has_block_experts)
    : state_(state), formula_(formula), has_block_experts_(has_block_experts && formula == FreshFormula::mxfp4) {
  for (const StateTensor& tensor : state.tensors()) {
    add(tensor);
  }
  std::sort(quantized_.begin(), quantized_.end());
  std::sort(left_alone_.begin(), left_alone_.end());
  if (quantized_.empty()) {
    ErrorFacts facts;
    facts.expected = "projections of layers, such as layers.0.mlp.down_proj.weight";
    facts.hint = "`weightproof inspect --tensors` lists the names";
    throw Error(ErrorCode::subset_empty, "nothing here can be quantized afresh", std::move(facts));
  }
}

bool RequantizedSource::is_chosen(const StateTensor& tensor) const {
  const unsigned rank = tensor.shape.rank();
  if (!is_wide_float(tensor.dtype) || !is_projection(tensor.key) || element_count(tensor.shape).value_or(0) == 0) {
    return false;
  }
  if (has_block_experts_) {
    return rank == 3 && !tensor.key.ends_with(k_weight) && tensor.shape[1] % codec::k_fresh_group == 0;
  }
  if (formula_ == FreshFormula::mxfp4) {
    return rank == 2 && tensor.key.ends_with(k_weight) && tensor.shape[1] % codec::k_fresh_group == 0;
  }
  return rank == 2 || rank == 3;
}

RequantizedSource::Matrix RequantizedSource::matrix_of(const StateTensor& tensor) const {
  const Shape& shape = tensor.shape;
  const unsigned rank = shape.rank();
  const std::uint64_t leads = rank == 3 ? shape[0] : 1;
  return has_block_experts_ ? Matrix{leads, shape[rank - 1], shape[rank - 2], true}
                            : Matrix{leads, shape[rank - 2], shape[rank - 1], false};
}

void RequantizedSource::add(const StateTensor& tensor) {
  if (!is_chosen(tensor)) {
    tensors_.push_back({tensor.key, tensor.dtype, tensor.shape, UINT64_MAX});
    pieces_.push_back({&tensor, Part::plain});
    if (is_wide_float(tensor.dtype) && tensor.shape.rank() >= 2 && tensor.key.ends_with(k_weight)) {
      left_alone_.push_back(without(tensor.key, k_weight));
    }
    return;
  }
  const unsigned rank = tensor.shape.rank();
  const std::uint64_t rows = tensor.shape[rank - 2];
  const std::uint64_t cols = tensor.shape[rank - 1];
  std::string weight_key = tensor.key;
  std::string scale_key = tensor.key + "_scale_inv";
  DType code_dtype = DType::f8_e4m3;
  DType scale_dtype = DType::f32;
  Shape codes = tensor.shape;
  Shape scales = tensor.shape;
  switch (formula_) {
    case FreshFormula::fp8_block:
      scales[rank - 2] = blocks(rows, codec::k_fresh_block);
      scales[rank - 1] = blocks(cols, codec::k_fresh_block);
      break;
    case FreshFormula::fp8_tensor:
      scales = rank == 2 ? Shape{} : Shape{tensor.shape[0], 1, 1};
      break;
    case FreshFormula::mxfp4:
      code_dtype = DType::u8;
      scale_dtype = DType::u8;
      if (has_block_experts_) {
        const Matrix matrix = matrix_of(tensor);
        weight_key = tensor.key + "_blocks";
        scale_key = tensor.key + "_scales";
        scales = Shape{matrix.leads, matrix.rows, matrix.cols / codec::k_fresh_group};
        codes = Shape{matrix.leads, matrix.rows, matrix.cols / codec::k_fresh_group, codec::k_fresh_group / 2};
        break;
      }
      weight_key = without(tensor.key, k_weight) + ".weight_packed";
      scale_key = without(tensor.key, k_weight) + ".weight_scale";
      codes[rank - 1] = cols / 2;
      scales[rank - 1] = cols / codec::k_fresh_group;
      break;
  }
  tensors_.push_back({weight_key, code_dtype, codes, UINT64_MAX});
  pieces_.push_back({&tensor, Part::codes});
  tensors_.push_back({scale_key, scale_dtype, scales, UINT64_MAX});
  pieces_.push_back({&tensor, Part::scales});
  quantized_.push_back(tensor.key);
  elements_ += element_count(tensor.shape).value_or(0);
}

std::vector<float> RequantizedSource::values(const StateTensor& tensor, std::uint64_t lead, std::uint64_t first,
                                             std::uint64_t count) const {
  const Matrix matrix = matrix_of(tensor);
  StateTensor wide = tensor;
  wide.dtype = DType::f32;
  wide.bytes = element_count(wide.shape).value_or(0) * 4;
  std::vector<float> out(count * matrix.cols);
  if (!matrix.is_turned || tensor.is_transposed) {
    if (tensor.is_transposed) {  // as its codec has it, rows are rows
      wide.is_transposed = false;
      wide.shape = tensor.codec->natural_shape();
    }
    state_.read(wide, (lead * matrix.rows + first) * matrix.cols * 4, std::as_writable_bytes(std::span(out)));
    return out;
  }
  std::vector<float> line(count);
  for (std::uint64_t col = 0; col < matrix.cols; ++col) {
    const std::uint64_t from = (lead * matrix.cols + col) * matrix.rows + first;
    state_.read(wide, from * 4, std::as_writable_bytes(std::span(line)));
    for (std::uint64_t row = 0; row < count; ++row) {
      out[row * matrix.cols + col] = line[row];
    }
  }
  return out;
}

float RequantizedSource::tensor_scale(const StateTensor& tensor, std::uint64_t lead) {
  const auto key = std::pair(&tensor, lead);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = tensor_scales_.find(key); found != tensor_scales_.end()) {
      return found->second;
    }
  }
  float amax = 0;
  const Matrix matrix = matrix_of(tensor);
  const std::uint64_t step = band_rows(matrix);
  for (std::uint64_t row = 0; row < matrix.rows; row += step) {
    const std::vector<float> band = values(tensor, lead, row, std::min(step, matrix.rows - row));
    amax = std::max(amax, codec::largest_magnitude(band, tensor.key));
  }
  const std::lock_guard lock(mutex_);
  return tensor_scales_[key] = codec::fp8_scale(amax);
}

// Columns of a matrix are read piece by piece, so of these as many at once as a window holds.
std::uint64_t RequantizedSource::band_rows(const Matrix& matrix) const {
  if (matrix.is_turned) {
    return std::clamp<std::uint64_t>(k_turned_bytes / 4 / matrix.cols, 1, matrix.rows);
  }
  return formula_ == FreshFormula::mxfp4 ? 16 : codec::k_fresh_block;
}

std::pair<std::vector<std::byte>, std::vector<std::byte>> RequantizedSource::quantize(const StateTensor& tensor,
                                                                                      std::uint64_t lead,
                                                                                      std::uint64_t first,
                                                                                      std::uint64_t count) {
  const std::uint64_t cols = matrix_of(tensor).cols;
  const std::vector<float> band = values(tensor, lead, first, count);
  std::vector<std::byte> codes(formula_ == FreshFormula::mxfp4 ? band.size() / 2 : band.size());
  std::vector<std::byte> scales;
  codec::FreshStatistics statistics;
  const auto append = [&scales](float scale) {
    const std::size_t at = scales.size();
    scales.resize(at + 4);
    std::memcpy(scales.data() + at, &scale, 4);
  };
  if (formula_ == FreshFormula::mxfp4) {
    for (std::uint64_t at = 0; at < band.size(); at += codec::k_fresh_group) {
      const auto group = std::span(band).subspan(at, codec::k_fresh_group);
      const std::uint8_t scale = codec::mxfp4_scale(codec::largest_magnitude(group, tensor.key));
      codec::mxfp4_codes(group, scale, tensor.key, codes.data() + at / 2, statistics);
      scales.push_back(static_cast<std::byte>(scale));
    }
  } else if (formula_ == FreshFormula::fp8_tensor) {
    const float scale = tensor_scale(tensor, lead);
    codec::fp8_codes(band, scale, tensor.key, codes.data(), statistics);
    append(scale);
  } else {
    for (std::uint64_t left = 0; left < cols; left += codec::k_fresh_block) {
      const std::uint64_t width = std::min(codec::k_fresh_block, cols - left);
      float amax = 0;
      for (std::uint64_t row = 0; row < count; ++row) {
        amax = std::max(amax, codec::largest_magnitude(std::span(band).subspan(row * cols + left, width), tensor.key));
      }
      const float scale = codec::fp8_scale(amax);
      for (std::uint64_t row = 0; row < count; ++row) {
        codec::fp8_codes(std::span(band).subspan(row * cols + left, width), scale, tensor.key,
                         codes.data() + row * cols + left, statistics);
      }
      append(scale);
    }
  }
  const Matrix matrix = matrix_of(tensor);
  const std::uint64_t step = band_rows(matrix);
  const std::uint64_t bands = blocks(matrix.rows, step);
  const std::lock_guard lock(mutex_);
  std::vector<bool>& counted = counted_[&tensor];
  counted.resize(static_cast<std::size_t>(matrix.leads * bands));
  const auto band_index = static_cast<std::size_t>(lead * bands + first / step);
  if (!counted[band_index]) {
    counted[band_index] = true;
    statistics_.add(statistics);
  }
  return {std::move(codes), std::move(scales)};
}

void RequantizedSource::read(std::size_t index, std::uint64_t offset, std::span<std::byte> target) {
  const Piece& piece = pieces_[index];
  const StateTensor& tensor = *piece.tensor;
  if (piece.part == Part::plain || target.empty()) {
    state_.read(tensor, offset, target);
    return;
  }
  const Matrix matrix = matrix_of(tensor);
  if (piece.part == Part::scales && formula_ == FreshFormula::fp8_tensor) {
    std::vector<float> scales;
    for (std::uint64_t lead = 0; lead < matrix.leads; ++lead) {
      scales.push_back(tensor_scale(tensor, lead));
    }
    std::memcpy(target.data(), reinterpret_cast<const std::byte*>(scales.data()) + offset, target.size());
    return;
  }
  // Bytes that one band of rows yields: of a whole band, to find the first one that is asked for.
  const std::uint64_t step = band_rows(matrix);
  const bool is_mx = formula_ == FreshFormula::mxfp4;
  const std::uint64_t code_row = is_mx ? matrix.cols / 2 : matrix.cols;
  const std::uint64_t scale_row =
      is_mx ? matrix.cols / codec::k_fresh_group : blocks(matrix.cols, codec::k_fresh_block) * 4;
  std::uint64_t at = 0;
  const std::uint64_t end = offset + target.size();
  for (std::uint64_t lead = 0; lead < matrix.leads && at < end; ++lead) {
    for (std::uint64_t row = 0; row < matrix.rows && at < end; row += step) {
      const std::uint64_t count = std::min(step, matrix.rows - row);
      const std::uint64_t bytes = piece.part == Part::codes ? count * code_row : is_mx ? count * scale_row : scale_row;
      if (at + bytes > offset) {
        const auto [codes, scales] = quantize(tensor, lead, row, count);
        const std::vector<std::byte>& made = piece.part == Part::codes ? codes : scales;
        const std::uint64_t from = std::max(at, offset);
        const std::uint64_t to = std::min(at + bytes, end);
        std::memcpy(target.data() + (from - offset), made.data() + (from - at), to - from);
      }
      at += bytes;
    }
  }
}

std::optional<std::pair<std::size_t, std::size_t>> RequantizedSource::parts_of(std::string_view key) const {
  for (std::size_t i = 0; i + 1 < pieces_.size(); ++i) {
    if (pieces_[i].part == Part::codes && pieces_[i].tensor->key == key) {
      return std::pair(i, i + 1);
    }
  }
  return std::nullopt;
}

codec::FreshStatistics RequantizedSource::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::string RequantizedSource::config_text() const {
  std::string text;
  JsonWriter json([&text](std::string_view part) { text += part; });
  const auto list = [&](const char* name) {
    json.name(name).begin_array();
    for (const std::string& module : left_alone_) {
      json.value(module);
    }
    json.end_array();
  };
  json.begin_object();
  if (has_block_experts_) {
    json.member("quant_method", "mxfp4");
    list("modules_to_not_convert");
  } else if (formula_ == FreshFormula::mxfp4) {
    json.member("quant_method", "compressed-tensors").member("format", "mxfp4-pack-quantized");
    json.member("quantization_status", "compressed")
        .name("config_groups")
        .begin_object()
        .name("group_0")
        .begin_object();
    json.name("targets").begin_array().value("Linear").end_array().name("weights").begin_object();
    json.member("num_bits", 4).member("type", "float").member("symmetric", true).member("strategy", "group");
    json.member("group_size", codec::k_fresh_group).member("scale_dtype", "torch.uint8");
    json.end_object().end_object().end_object();
    list("ignore");
  } else {
    json.member("quant_method", "fp8").member("fmt", "e4m3").member("activation_scheme", "dynamic");
    json.name("weight_block_size");
    if (formula_ == FreshFormula::fp8_block) {
      json.begin_array().value(codec::k_fresh_block).value(codec::k_fresh_block).end_array();
    } else {
      json.null();
    }
    list("modules_to_not_convert");
  }
  json.member("weightproof_formula", formula_id(formula_)).end_object();
  json.flush();
  return text;
}

}  // namespace weightproof::suites
