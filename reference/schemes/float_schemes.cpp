// SPDX-License-Identifier: Apache-2.0
// FP8, MXFP8, MXFP4 and NVFP4.
#include "reference/schemes/schemes_internal.hpp"

namespace weightproof::reference::schemes {
namespace {

std::uint64_t flat_of(const Shape& shape, const Coord& c) {
  std::uint64_t flat = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) flat = flat * shape[axis] + c[axis];
  return flat;
}

Logical logical(const std::string& name, const Shape& shape, const std::string& scheme, Entry weight,
                std::vector<Entry> companions) {
  Logical tensor;
  tensor.name = name;
  tensor.shape = shape;
  tensor.scheme = scheme;
  tensor.weight = weight;
  for (Entry companion : companions)
    if (companion) tensor.companions.push_back(companion->key);
  return tensor;
}

// The E2M1 code of flat element k: two per byte, low nibble first.
std::uint32_t nibble(Blocks& blocks, Entry packed, std::uint64_t k) {
  return std::uint32_t{blocks.byte(*packed, k / 2)} >> (k % 2 * 4) & 15u;
}

// Where the scale of an element lies in the scale tensor.
using ScaleIndex = std::function<std::uint64_t(const Coord&)>;

ScaleIndex scale_index(Entry weight, Entry scale, Grid grid, const Shape& heads) {
  const Shape &W = weight->shape, &S = scale->shape;
  if (count_of(S) == 1) return [](const Coord&) { return std::uint64_t{0}; };  // [], [1], [1,1]
  if (W.size() != 2 && W.size() != 3)
    refuse_shape(weight, scale, "a scale that is no scalar needs a matrix or a stack of matrices");
  const std::size_t lead = W.size() - 2;  // Axes in front of the matrix: none, or the expert.
  const std::uint64_t E = lead ? W[0] : 1, O = W[lead], I = W[lead + 1];

  if (lead && (S == Shape{E} || S == Shape{E, 1, 1} || S == Shape{E, 1})) return [](const Coord& c) { return c[0]; };
  if (!lead && S == Shape{O}) return [](const Coord& c) { return c[0]; };
  if (!lead && S.size() == 1 && S[0] == heads.size()) {
    // One scale per original projection of a fused one.
    std::uint64_t rows = 0;
    for (std::uint64_t part : heads) rows += part;
    if (rows == O)
      return [heads](const Coord& c) {
        std::uint64_t part = 0;
        for (std::uint64_t limit = heads[0]; c[0] >= limit; limit += heads[part]) ++part;
        return part;
      };
  }
  if (!lead && S.size() == 1 && S[0] == 2 && O % 2 == 0) return [O](const Coord& c) { return c[0] / (O / 2); };
  if (lead && S == Shape{E, O}) return [O](const Coord& c) { return c[0] * O + c[1]; };

  // A grid of blocks, [.., ceil(O/bm), ceil(I/bn)]. Without a block size from the config: what fits.
  if (S.size() != W.size() || (lead && S[0] != E)) refuse_shape(weight, scale, "is no broadcast of the weight");
  const std::uint64_t R = S[lead], C = S[lead + 1];
  const auto fits = [&](std::uint64_t bm, std::uint64_t bn) {
    return R == ceil_divide(O, bm) && C == ceil_divide(I, bn);
  };
  if (grid.rows == 0 || grid.columns == 0 || !fits(grid.rows, grid.columns)) {
    const bool is_padded =
        grid.rows != 0 && grid.columns != 0 && R >= ceil_divide(O, grid.rows) && C >= ceil_divide(I, grid.columns);
    if (R == O && C == 1)
      grid = {1, I};
    else if (scale->dtype == Dtype::u8 && fits(1, 32))
      grid = {1, 32};
    else if (!is_padded && grid.rows == 0 && fits(128, 128))
      grid = {128, 128};
    else if (!is_padded)
      refuse_shape(weight, scale, "does not cover the weight");
  }
  return [=](const Coord& c) { return ((lead ? c[0] : 0) * R + c[lead] / grid.rows) * C + c[lead + 1] / grid.columns; };
}

}  // namespace

Logical fp8(const std::string& name, Entry weight, Entry scale, Grid grid, const Shape& heads) {
  if (count_of(weight->shape) != 0 && count_of(scale->shape) == 0) refuse_shape(weight, scale, "is empty");
  Logical tensor = logical(name, weight->shape, scale->dtype == Dtype::u8 ? "mxfp8" : "fp8", weight, {scale});
  const ScaleIndex index = scale_index(weight, scale, grid, heads);
  tensor.decoder = [=, shape = weight->shape](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      const float q = as_float(to_f32(weight->dtype, blocks.code(*weight, flat_of(shape, c))));
      return canonical(q * scale_value(blocks, scale, index(c)));
    };
  };
  return tensor;
}

Logical mxfp4_blocks(const std::string& name, Entry packed, Entry scales) {
  Shape groups = packed->shape;
  if (groups.size() < 2 || groups.back() != 16) refuse_shape(packed, scales, "blocks must end in 16 bytes");
  groups.pop_back();
  if (scales->shape != groups) refuse_shape(packed, scales, "one scale per block of 32 is needed");
  Shape shape = groups;
  shape.back() *= 32;
  Logical tensor = logical(name, shape, "mxfp4", packed, {scales});
  tensor.decoder = [=](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      const std::uint64_t k = flat_of(shape, c);
      return canonical(as_float(widen(k_e2m1, nibble(blocks, packed, k))) * scale_value(blocks, scales, k / 32));
    };
  };
  return tensor;
}

Logical mxfp4_packed(const std::string& name, Entry weight, Entry scale) {
  Shape shape = weight->shape;
  if (shape.empty()) refuse_shape(weight, scale, "a packed weight has at least one axis");
  if (weight->dtype != Dtype::f4) shape.back() *= 2;
  Shape groups = shape;
  if (shape.back() % 32 != 0) refuse_shape(weight, scale, "columns are no multiple of 32");
  groups.back() /= 32;
  if (scale->shape != groups) refuse_shape(weight, scale, "one scale per 32 columns is needed");
  Logical tensor = logical(name, shape, "mxfp4", weight, {scale});
  tensor.decoder = [=](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      const std::uint64_t k = flat_of(shape, c);
      return canonical(as_float(widen(k_e2m1, nibble(blocks, weight, k))) * scale_value(blocks, scale, k / 32));
    };
  };
  return tensor;
}

Logical nvfp4(const std::string& name, Entry weight, Entry scale, Entry global, bool global_divides) {
  Shape shape = weight->shape;
  if (shape.empty()) refuse_shape(weight, scale, "a packed weight has at least one axis");
  if (weight->dtype != Dtype::f4) shape.back() *= 2;
  if (shape.back() % 16 != 0) refuse_shape(weight, scale, "columns are no multiple of 16");
  Shape groups = shape;
  groups.back() /= 16;
  if (scale->dtype == Dtype::u8 && scale->shape.size() == 1)
    throw Failure("QUANT_UNSUPPORTED", "'" + scale->key + "' is swizzled");
  if (scale->shape != groups) refuse_shape(weight, scale, "one scale per 16 columns is needed");
  const bool per_expert = shape.size() == 3 && count_of(global->shape) == shape[0] && shape[0] != 1;
  if (count_of(global->shape) != 1 && !per_expert)
    refuse_shape(weight, global, "must be one number, or one per expert");
  Logical tensor = logical(name, shape, "nvfp4", weight, {scale, global});
  tensor.decoder = [=](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      const std::uint64_t k = flat_of(shape, c);
      const float s1 = scale_value(blocks, scale, k / 16), s2 = scale_value(blocks, global, per_expert ? c[0] : 0);
      const float s = global_divides ? s1 / s2 : s1 * s2;
      return canonical(as_float(widen(k_e2m1, nibble(blocks, weight, k))) * s);
    };
  };
  return tensor;
}

}  // namespace weightproof::reference::schemes
