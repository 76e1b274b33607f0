// SPDX-License-Identifier: Apache-2.0
// Integers with scale and zero point: compressed-tensors, AWQ, GPTQ, ModelOpt, plain int8. And the bitsandbytes code
// books.
#include <algorithm>

#include "reference/schemes/schemes_internal.hpp"

namespace weightproof::reference::schemes {
namespace {

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

// (q - z) *f32 s; the difference is an exact integer, zero is +0.
std::uint32_t affine(std::int64_t q, std::int64_t z, float s) { return canonical(static_cast<float>(q - z) * s); }

void need_rank(Entry tensor, std::size_t rank) {
  if (tensor->shape.size() != rank) refuse_shape(tensor, tensor, "must have " + std::to_string(rank) + " axes");
}
void need_dtype(Entry tensor, Dtype dtype) {
  if (tensor->dtype != dtype)
    throw Failure("QUANT_CONFIG_MISMATCH", "'" + tensor->key + "' is " + std::string(name_of(tensor->dtype)) +
                                               ", must be " + std::string(name_of(dtype)));
}

}  // namespace

void refuse_shape(Entry weight, Entry companion, const std::string& why) {
  throw Failure("SCALE_SHAPE", "'" + companion->key + "' " + text_of(companion->shape) + " beside '" + weight->key +
                                   "' " + text_of(weight->shape) + ": " + why);
}

float scale_value(Blocks& blocks, Entry scale, std::uint64_t flat) {
  const std::uint64_t code = blocks.code(*scale, flat);
  return as_float(scale->dtype == Dtype::u8 ? widen_e8m0(static_cast<std::uint32_t>(code))
                                            : to_f32(scale->dtype, code));
}

std::int64_t integer_value(Blocks& blocks, Entry tensor, std::uint64_t flat) {
  const std::uint64_t code = blocks.code(*tensor, flat);
  switch (tensor->dtype) {
    case Dtype::i8:
      return static_cast<std::int8_t>(code);
    case Dtype::i16:
      return static_cast<std::int16_t>(code);
    case Dtype::i32:
      return static_cast<std::int32_t>(code);
    case Dtype::i64:
    case Dtype::u8:
    case Dtype::u16:
    case Dtype::u32:
      return static_cast<std::int64_t>(code);
    default:
      throw Failure("DTYPE_UNSUPPORTED", "'" + tensor->key + "' holds no integers");
  }
}

std::uint32_t stream_field(Blocks& blocks, Entry words, std::uint64_t first_word, std::uint64_t index, unsigned bits) {
  // Bit by bit: a field may straddle two words.
  std::uint32_t field = 0;
  for (unsigned b = 0; b < bits; ++b) {
    const std::uint64_t bit = index * bits + b;
    const std::uint64_t word = blocks.code(*words, first_word + bit / 32);
    field |= static_cast<std::uint32_t>(word >> (bit % 32) & 1) << b;
  }
  return field;
}

std::optional<std::uint64_t> number_in(const Json* object, std::string_view name) {
  const Json* value = object ? object->find(name) : nullptr;
  if (value && value->natural()) return *value->natural();
  return std::nullopt;
}
std::string text_in(const Json* object, std::string_view name) {
  const Json* value = object ? object->find(name) : nullptr;
  return value && value->text() ? *value->text() : std::string();
}

Logical ct_pack(const std::string& name, Entry packed, Entry scale, Entry shape_tensor, Entry zero, Entry group_index,
                std::optional<unsigned> declared_bits, std::optional<std::uint64_t> group_size,
                const Checkpoint& checkpoint) {
  need_dtype(packed, Dtype::i32);
  const std::size_t rank = packed->shape.size();
  if (rank != 2 && rank != 3) refuse_shape(packed, packed, "must be a matrix or a stack of matrices");
  if (shape_tensor == nullptr) throw Failure("SCALE_MISSING", "'" + name + "_shape' is absent");
  const std::uint64_t dims = count_of(shape_tensor->shape);
  if (dims < 2 || dims > rank) refuse_shape(packed, shape_tensor, "must hold the shape of the weight");
  Blocks blocks_once(checkpoint, 1 << 20);
  const auto extent = [&](std::uint64_t k) {
    return static_cast<std::uint64_t>(integer_value(blocks_once, shape_tensor, k));
  };
  const std::size_t lead = rank - 2;
  const std::uint64_t O = extent(dims - 2), I = extent(dims - 1), W = packed->shape[lead + 1];
  if (packed->shape[lead] != O || O == 0 || count_of(packed->shape) == 0 || I == 0 || I > W * 32)
    refuse_shape(packed, shape_tensor, "says " + text_of({O, I}));

  // Bits: from the config, else the smallest number that explains the width.
  unsigned bits = declared_bits.value_or(0);
  for (unsigned b = 1; bits == 0 && b <= 8; ++b)
    if (ceil_divide(I * b, 32) == W) bits = b;
  if (bits == 0 || bits > 8)
    throw Failure("QUANT_CONFIG_MISMATCH", "no number of bits explains the width of '" + packed->key + "'");
  const bool is_dense = ceil_divide(I * bits, 32) == W;
  if (!is_dense && ceil_divide(I, 32 / bits) != W)
    throw Failure("QUANT_CONFIG_MISMATCH", "'" + packed->key + "' has " + std::to_string(W) + " words per row, " +
                                               std::to_string(I) + " fields of " + std::to_string(bits) +
                                               " bits need " + std::to_string(ceil_divide(I * bits, 32)));

  Shape shape = packed->shape;
  shape[lead + 1] = I;
  const std::uint64_t E = lead ? shape[0] : 1, S = count_of(scale->shape);
  // [.., O, G], or one scale per row, or one for all.
  const std::uint64_t G = S == 1 ? 1 : S / (E * O);
  if (S != 1 && (G == 0 || S != E * O * G)) refuse_shape(packed, scale, "is no [O, groups]");
  const std::uint64_t g =
      group_size && *group_size > 0 && ceil_divide(I, *group_size) == G ? *group_size : ceil_divide(I, G);
  bool use_index = group_index != nullptr && count_of(group_index->shape) == I;
  for (std::uint64_t i = 0; use_index && i < I; ++i) {
    const std::int64_t group = integer_value(blocks_once, group_index, i);
    if (group == -1)
      use_index = false;
    else if (group < 0 || static_cast<std::uint64_t>(group) >= G)
      refuse_shape(packed, group_index, "names a group that is not there");
  }
  const std::uint64_t zero_rows = ceil_divide(O * bits, 32);
  if (zero && (count_of(zero->shape) != E * zero_rows * G || zero->dtype != Dtype::i32))
    refuse_shape(packed, zero, "is no packed [O, groups]");

  Logical tensor = logical(name, shape, "ct_pack", packed, {scale, shape_tensor, zero, group_index});
  tensor.decoder = [=](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      const std::uint64_t e = lead ? c[0] : 0, row = c[lead], column = c[lead + 1];
      const std::uint64_t first_word = (e * O + row) * W;
      std::uint32_t field;
      if (is_dense) {
        field = stream_field(blocks, packed, first_word, column, bits);
      } else {  // Older files: whole fields only, unused bits on top of each word.
        const std::uint64_t per_word = 32 / bits;
        field = static_cast<std::uint32_t>(blocks.code(*packed, first_word + column / per_word) >>
                                           (column % per_word * bits)) &
                ((1u << bits) - 1);
      }
      const std::int64_t offset = std::int64_t{1} << (bits - 1);
      const std::uint64_t group =
          use_index ? static_cast<std::uint64_t>(integer_value(blocks, group_index, column)) : column / g;
      std::int64_t z = 0;
      if (zero) {
        // Zero points are packed along the rows: word w of a column of groups holds the rows 32w/bits and on.
        std::uint32_t zero_field = 0;
        for (unsigned b = 0; b < bits; ++b) {
          const std::uint64_t bit = row * bits + b;
          const std::uint64_t word = blocks.code(*zero, (e * zero_rows + bit / 32) * G + group);
          zero_field |= static_cast<std::uint32_t>(word >> (bit % 32) & 1) << b;
        }
        z = zero_field - offset;
      }
      return affine(field - offset, z, scale_value(blocks, scale, S == 1 ? 0 : (e * O + row) * G + group));
    };
  };
  return tensor;
}

Logical int8_affine(const std::string& name, Entry weight, Entry scale, Entry zero) {
  need_dtype(weight, Dtype::i8);
  const Shape shape = weight->shape;
  if (shape.size() != 2) refuse_shape(weight, weight, "must be a matrix");
  const std::uint64_t O = shape[0], I = shape[1], S = count_of(scale->shape);
  const std::uint64_t G = S == 1 ? 1 : O == 0 ? 0 : S / O;
  if (S != 1 && (G == 0 || S != O * G || I % G != 0))
    refuse_shape(weight, scale, "is no scalar, [O], [O,1] or [O, groups]");
  if (zero && count_of(zero->shape) != S) refuse_shape(weight, zero, "must have as many elements as the scale");
  Logical tensor = logical(name, shape, "int8", weight, {scale, zero});
  tensor.decoder = [=](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      const std::uint64_t s = S == 1 ? 0 : c[0] * G + c[1] / (I / G);
      return affine(integer_value(blocks, weight, c[0] * I + c[1]), zero ? integer_value(blocks, zero, s) : 0,
                    scale_value(blocks, scale, s));
    };
  };
  return tensor;
}

// Byte (r, c) holds rows 2r (low nibble) and 2r+1 (high nibble), two's complement.
Logical int4_rows(const std::string& name, Entry weight, Entry scale) {
  need_rank(weight, 2);
  const std::uint64_t O = weight->shape[0] * 2, I = weight->shape[1], S = count_of(scale->shape);
  const std::uint64_t G = S == 1 ? 1 : O == 0 ? 0 : S / O;
  if (S != 1 && (G == 0 || S != O * G || I % G != 0)) refuse_shape(weight, scale, "is no [O, groups]");
  Logical tensor = logical(name, {O, I}, "int4_rows", weight, {scale});
  tensor.decoder = [=](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      const int code = blocks.byte(*weight, c[0] / 2 * I + c[1]) >> (c[0] % 2 * 4) & 15;
      return affine(code < 8 ? code : code - 16, 0, scale_value(blocks, scale, S == 1 ? 0 : c[0] * G + c[1] / (I / G)));
    };
  };
  return tensor;
}

Logical awq(const std::string& name, Entry qweight, Entry qzeros, Entry scales) {
  for (Entry tensor : {qweight, qzeros, scales}) need_rank(tensor, 2);
  need_dtype(qweight, Dtype::i32);
  need_dtype(qzeros, Dtype::i32);
  const std::uint64_t I = qweight->shape[0], O = qweight->shape[1] * 8, G = scales->shape[0];
  if (scales->shape != Shape{G, O} || G == 0 || I % G != 0) refuse_shape(qweight, scales, "is no [groups, out]");
  if (qzeros->shape != Shape{G, O / 8}) refuse_shape(qweight, qzeros, "is no [groups, out/8]");
  Logical tensor = logical(name, {O, I}, "awq", qweight, {qzeros, scales});
  tensor.decoder = [=](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      const std::uint64_t o = c[0], i = c[1], group = i / (I / G);
      // Field k of a word holds output column 0,2,4,6,1,3,5,7 [k]: even columns first.
      const std::uint64_t column = o % 8, k = column % 2 == 0 ? column / 2 : 4 + column / 2;
      const auto field = [&](Entry words, std::uint64_t row) {
        return static_cast<std::int64_t>(blocks.code(*words, row * (O / 8) + o / 8) >> (4 * k) & 15);
      };
      return affine(field(qweight, i), field(qzeros, group), scale_value(blocks, scales, group * O + o));
    };
  };
  return tensor;
}

Logical gptq(const std::string& name, Entry qweight, Entry qzeros, Entry scales, Entry g_idx, const Json* config) {
  for (Entry tensor : {qweight, qzeros, scales}) need_rank(tensor, 2);
  need_dtype(qweight, Dtype::i32);
  need_dtype(qzeros, Dtype::i32);
  const std::uint64_t O = scales->shape[1], G = scales->shape[0];
  const std::uint64_t bits = O == 0 ? 0 : qzeros->shape[1] * 32 / O;
  if ((bits != 2 && bits != 3 && bits != 4 && bits != 8) || qzeros->shape != Shape{G, O * bits / 32} ||
      O * bits % 32 != 0)
    refuse_shape(qweight, qzeros, "is no [groups, out*bits/32] of 2, 3, 4 or 8 bits");
  if (const auto declared = number_in(config, "bits"); declared && *declared != bits)
    throw Failure("QUANT_CONFIG_MISMATCH", "the config says " + std::to_string(*declared) + " bits, '" + qzeros->key +
                                               "' holds " + std::to_string(bits));
  const std::uint64_t I = qweight->shape[0] * 32 / bits;
  if (qweight->shape[1] != O || I * bits % 32 != 0 || G == 0) refuse_shape(qweight, scales, "is no [groups, out]");
  const auto declared_group = number_in(config, "group_size");
  const std::uint64_t g = declared_group && *declared_group > 0 ? *declared_group : ceil_divide(I, G);
  if (g_idx && count_of(g_idx->shape) != I) refuse_shape(qweight, g_idx, "must have one entry per input");
  if (!g_idx && ceil_divide(I, g) != G)
    refuse_shape(qweight, scales, "has another number of groups than the config says");
  const bool says_v2 = text_in(config, "checkpoint_format") == "gptq_v2";
  const Json* sym = config ? config->find("sym") : nullptr;
  const bool is_symmetric = sym && sym->truth() && *sym->truth();

  Logical tensor = logical(name, {O, I}, "gptq", qweight, {qzeros, scales, g_idx});
  tensor.decoder = [=, b = static_cast<unsigned>(bits)](Blocks& blocks) -> Element {
    const std::uint64_t words_per_row = O * b / 32;
    const auto zero_field = [=, &blocks](std::uint64_t group, std::uint64_t o) {
      return stream_field(blocks, qzeros, group * words_per_row, o, b);
    };
    // v1 stores z - 1. Symmetric files are told by their fields: all 2^(b-1) is v2 whatever the config says.
    bool is_v2 = says_v2;
    if (is_symmetric) {
      bool all_v2 = true, all_v1 = true;
      for (std::uint64_t group = 0; group < G; ++group)
        for (std::uint64_t o = 0; o < O; ++o) {
          const std::uint32_t field = zero_field(group, o);
          all_v2 = all_v2 && field == 1u << (b - 1);
          all_v1 = all_v1 && field == (1u << (b - 1)) - 1;
        }
      if (all_v2) is_v2 = true;
      if (all_v1) is_v2 = false;
    }
    return [=, &blocks](const Coord& c) {
      const std::uint64_t o = c[0], i = c[1];
      std::uint64_t group = i / g;
      if (g_idx) {
        const std::int64_t named = integer_value(blocks, g_idx, i);
        if (named < 0 || static_cast<std::uint64_t>(named) >= G)
          refuse_shape(qweight, g_idx, "names group " + std::to_string(named));
        group = static_cast<std::uint64_t>(named);
      }
      std::uint32_t q = 0;  // Input rows are packed down the column: bit i*b of the column's stream.
      for (unsigned k = 0; k < b; ++k) {
        const std::uint64_t bit = i * b + k;
        q |= static_cast<std::uint32_t>(blocks.code(*qweight, bit / 32 * O + o) >> (bit % 32) & 1) << k;
      }
      const std::uint32_t field = zero_field(group, o);
      const std::uint32_t z = is_v2 ? field : (field + 1) & ((1u << b) - 1);
      return affine(q, z, scale_value(blocks, scales, group * O + o));
    };
  };
  return tensor;
}

Logical bnb4(const std::string& name, Entry weight, Entry absmax, Entry map, Entry state, Entry nested_absmax,
             Entry nested_map, const Checkpoint& checkpoint) {
  if (!map || !state) throw Failure("SCALE_MISSING", "'" + weight->key + "' lacks its quant_map or quant_state");
  const Bytes raw = checkpoint.read_elements(state->key, whole(state->shape));
  if (raw.size() > (1 << 16)) throw Failure("LIMIT_EXCEEDED", "'" + state->key + "' is too large");
  std::string text;
  for (std::byte byte : raw) text += static_cast<char>(byte);
  const Json json = parse_json(text);
  const auto blocksize = number_in(&json, "blocksize");
  const Json* dims = json.find("shape");
  if (!blocksize || *blocksize == 0 || !dims || !dims->array())
    throw Failure("QUANT_CONFIG_MISMATCH", "'" + state->key + "' lacks blocksize or shape");
  Shape shape;
  for (const Json& extent : *dims->array()) {
    if (!extent.natural() || *extent.natural() > (std::uint64_t{1} << 40) || shape.size() == 8)
      throw Failure("QUANT_CONFIG_MISMATCH", "'" + state->key + "' has no sound shape");
    shape.push_back(*extent.natural());
  }
  std::uint64_t count = 1;
  for (std::uint64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count))
      throw Failure("ValidationOverflow", "shape in '" + state->key + "' overflows");
  const std::uint64_t bs = *blocksize, block_count = ceil_divide(count, bs);
  if (weight->end - weight->begin != ceil_divide(count, 2)) refuse_shape(weight, state, "says " + text_of(shape));
  if (count_of(absmax->shape) != block_count) refuse_shape(weight, absmax, "one number per block is needed");
  if (count_of(map->shape) != 16 || map->dtype != Dtype::f32) refuse_shape(weight, map, "must hold 16 numbers");
  const bool is_nested = absmax->dtype == Dtype::u8;
  const std::uint64_t nested_bs = number_in(&json, "nested_blocksize").value_or(256);
  const Json* offset_json = json.find("nested_offset");
  const float offset = offset_json ? static_cast<float>(offset_json->number()) : 0.0f;
  if (is_nested) {
    if (!nested_absmax || !nested_map || nested_bs == 0)
      throw Failure("SCALE_MISSING", "'" + weight->key + "' lacks its nested_absmax or nested_quant_map");
    if (count_of(nested_map->shape) != 256) refuse_shape(weight, nested_map, "must hold 256 numbers");
    if (count_of(nested_absmax->shape) < ceil_divide(block_count, nested_bs))
      refuse_shape(weight, nested_absmax, "too few numbers");
  }
  Logical tensor = logical(name, shape, "bnb4", weight, {absmax, map, state, nested_absmax, nested_map});
  tensor.decoder = [=](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      std::uint64_t k = 0;
      for (std::size_t axis = 0; axis < shape.size(); ++axis) k = k * shape[axis] + c[axis];
      const unsigned code = std::uint32_t{blocks.byte(*weight, k / 2)} >> (k % 2 == 0 ? 4 : 0) & 15u;  // High nibble first.
      const std::uint64_t b = k / bs;
      float scale;
      if (is_nested) {
        const float inner = scale_value(blocks, nested_map, blocks.code(*absmax, b));
        const float product = inner * scale_value(blocks, nested_absmax, b / nested_bs);
        scale = product + offset;
      } else {
        scale = scale_value(blocks, absmax, b);
      }
      return canonical(scale_value(blocks, map, code) * scale);
    };
  };
  return tensor;
}

Logical bnb8(const std::string& name, Entry weight, Entry scb) {
  need_rank(weight, 2);
  if (count_of(scb->shape) != weight->shape[0]) refuse_shape(weight, scb, "one number per row is needed");
  Logical tensor = logical(name, weight->shape, "bnb8", weight, {scb});
  tensor.decoder = [=, I = weight->shape[1]](Blocks& blocks) -> Element {
    return [=, &blocks](const Coord& c) {
      const float q = static_cast<float>(integer_value(blocks, weight, c[0] * I + c[1]));
      const float product = q * scale_value(blocks, scb, c[0]);
      return canonical(product * as_float(0x3c010204));  // 1/127 as F32.
    };
  };
  return tensor;
}

}  // namespace weightproof::reference::schemes
