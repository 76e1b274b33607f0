// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/compare.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

#include "loader/core/error.hpp"
#include "suites/state/elements.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::judge {
namespace {

constexpr std::uint64_t k_window_bytes = 1U << 20U;
constexpr std::size_t k_explained_max = 4;  // tensors of one answer

/// Consecutive boxes of a tensor, row-major, of about k_window_bytes each, with the byte each begins at. Sub-byte
/// elements: whole rows of the last axis alone.
void for_each_box(const reference::Shape& shape, unsigned bits,
                  const std::function<bool(const reference::Box&, std::uint64_t, std::uint64_t)>& visit) {
  const std::uint64_t elements = reference::count_of(shape);
  if (elements == 0) {
    return;
  }
  // The axis that is cut: those behind it are taken whole, those in front one by one.
  std::size_t cut = shape.size();
  std::uint64_t slab = 1;
  while (cut > 0 && slab * shape[cut - 1] * bits / 8 <= k_window_bytes) {
    slab *= shape[--cut];
  }
  if (cut == 0) {
    visit(reference::whole(shape), 0, (elements * bits + 7) / 8);
    return;
  }
  --cut;
  const std::uint64_t rows =
      bits < 8 && cut + 1 == shape.size() ? shape[cut] : std::max<std::uint64_t>(1, k_window_bytes * 8 / (slab * bits));
  reference::Box box = reference::whole(shape);
  for (std::size_t axis = 0; axis < cut; ++axis) {
    box.extent[axis] = 1;
  }
  std::uint64_t offset = 0;
  for (bool is_left = true; is_left;) {
    for (std::uint64_t row = 0; row < shape[cut]; row += rows) {
      box.start[cut] = row;
      box.extent[cut] = std::min(rows, shape[cut] - row);
      const std::uint64_t bytes = box.extent[cut] * slab * bits / 8;
      if (!visit(box, offset, bytes)) {
        return;
      }
      offset += bytes;
    }
    is_left = false;
    for (std::size_t axis = cut; axis-- > 0;) {
      if (++box.start[axis] < shape[axis]) {
        is_left = true;
        break;
      }
      box.start[axis] = 0;
    }
  }
}

std::string element_text(DType dtype, std::span<const std::byte> run, std::size_t index) {
  if (bits_of(dtype) < 8) {
    return hex_of_element(DType::u8, run, index * bits_of(dtype) / 8);
  }
  std::string out = hex_of_element(dtype, run, index);
  if (has_numbers(dtype)) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", number_at(dtype, run, index));
    out += " (" + std::string(text) + ")";
  }
  return out;
}

bool is_nan(DType dtype, std::span<const std::byte> run, std::size_t index) {
  return (is_ordinary_float(dtype) || dtype == DType::f64) && std::isnan(number_at(dtype, run, index));
}

/// Where the bytes of two tensors of one shape and dtype differ.
std::optional<ValueDifference> differing_values(const ExpectedState& expected, const ExpectedTensor& wanted,
                                                const Result& result, const Result::Tensor& found,
                                                reference::Dtype reference_dtype, std::uint64_t& bytes_read) {
  const unsigned bits = bits_of(found.dtype);
  const std::size_t width = std::max<std::size_t>(1, bits / 8);
  // Where bytes only move, the payload of a NaN moves too; what computes a NaN may choose one.
  const bool is_converted = expected.is_converted(wanted, reference_dtype);
  ValueDifference out;
  std::vector<std::byte> theirs;
  for_each_box(wanted.shape, bits, [&](const reference::Box& box, std::uint64_t offset, std::uint64_t bytes) {
    const reference::Bytes ours = expected.region(wanted, box, reference_dtype);
    theirs.resize(static_cast<std::size_t>(bytes));
    result.read(found, offset, theirs);
    bytes_read += bytes;
    if (ours.size() != theirs.size()) {
      throw Error(ErrorCode::internal, "the reference answered a region of another size", ErrorFacts{});
    }
    if (std::memcmp(ours.data(), theirs.data(), theirs.size()) == 0) {
      return true;
    }
    for (std::size_t at = 0; at < theirs.size(); at += width) {
      if (std::memcmp(ours.data() + at, theirs.data() + at, width) == 0 ||
          (is_converted && is_nan(found.dtype, ours, at / width) && is_nan(found.dtype, theirs, at / width))) {
        continue;
      }
      if (out.differing++ == 0) {
        const std::uint64_t flat = (offset + at) * 8 / bits;
        for (const std::uint64_t index : coordinate_of(found.shape, flat)) {
          out.coordinate.push_back(index);
        }
        out.expected = element_text(found.dtype, ours, at / width);
        out.actual = element_text(found.dtype, theirs, at / width);
      }
    }
    return true;
  });
  if (out.differing == 0) {
    return std::nullopt;
  }
  out.name = wanted.name;
  out.shape = wanted.shape;
  out.elements = reference::count_of(wanted.shape);
  out.dtype = std::string(name_of(found.dtype));
  out.source = wanted.source;
  return out;
}

bool is_floating_name(DType dtype) { return is_ordinary_float(dtype) || dtype == DType::f64; }

/// A float of eight bits or less: by itself it is not the number, a scale belongs to it.
bool is_code(DType dtype) { return name_of(dtype).starts_with("F") && !is_floating_name(dtype); }

void note_dtype(const ExpectedTensor& wanted, const Result::Tensor& found, Comparison& out) {
  const reference::Dtype asked = wanted.dtypes.front();
  Comparison::Mismatch row{wanted.name, std::string(reference::name_of(asked)), std::string(name_of(found.dtype))};
  if (reference::is_floating(asked) && bits_of(found.dtype) <= 8 && is_code(found.dtype)) {
    row.remark = "codes that were not decoded, or numbers that were quantized again";
    (wanted.is_state_f32 ? out.narrowed_f32 : out.narrowed).push_back(std::move(row));
  } else if (!reference::is_floating(asked) || !is_floating_name(found.dtype)) {
    out.integers.push_back(std::move(row));
  } else if (bits_of(found.dtype) < reference::bits_of(asked)) {
    (wanted.is_state_f32 ? out.narrowed_f32 : out.narrowed).push_back(std::move(row));
  } else {
    out.dtypes.push_back(std::move(row));
  }
}

TensorSource source_of(const ExpectedState& expected, const ExpectedTensor& tensor, DType dtype,
                       reference::Dtype reference_dtype) {
  Shape shape(tensor.shape);
  return source_of_boxes(
      shape, dtype, [&expected, tensor, reference_dtype](const Coordinate& start, const Extents& length) {
        return expected.region(tensor, {{start.begin(), start.end()}, {length.begin(), length.end()}}, reference_dtype);
      });
}

TensorSource source_of(const Result& result, const Result::Tensor& tensor) {
  return {tensor.shape, tensor.dtype, [&result, &tensor](std::uint64_t offset, std::span<std::byte> target) {
            result.read(tensor, offset, target);
          }};
}

/// What the difference is: of one kind of mistake, or of no kind that is known.
Explanation explain(const ExpectedState& expected, const Result& result, const std::string& name) {
  const Result::Tensor& found = *result.find(name);
  const auto open = [&expected, dtype = found.dtype](std::string_view key) -> std::optional<TensorSource> {
    const ExpectedTensor* tensor = expected.find(key);
    const auto wanted = reference::dtype_named(name_of(dtype));
    const bool has_dtype = tensor != nullptr && wanted && !tensor->dtypes.empty() && tensor->dtypes.front() == *wanted;
    return has_dtype ? std::optional(source_of(expected, *tensor, dtype, *wanted)) : std::nullopt;
  };
  RelatedTensors related;
  for (const ExpectedTensor& tensor : expected.tensors()) {
    related.keys.push_back(tensor.name);
  }
  related.expected = open;
  related.actual = [&result](std::string_view key) -> std::optional<TensorSource> {
    const Result::Tensor* tensor = result.find(key);
    return tensor != nullptr ? std::optional(source_of(result, *tensor)) : std::nullopt;
  };
  const ExpectedTensor& wanted = *expected.find(name);
  return explain_difference(name,
                            source_of(expected, wanted, found.dtype, *reference::dtype_named(name_of(found.dtype))),
                            source_of(result, found), related);
}

/// The part of another rank, where that is what was answered.
std::optional<Explanation> other_rank(const ExpectedState& expected, const Result& result, const std::string& name) {
  const ExpectedTensor& wanted = *expected.find(name);
  const Result::Tensor& found = *result.find(name);
  if (wanted.held.empty() || found.bytes > k_window_bytes) {
    return std::nullopt;
  }
  reference::Bytes theirs(static_cast<std::size_t>(found.bytes));
  result.read(found, 0, theirs);
  const auto rank = expected.rank_holding(wanted, *reference::dtype_named(name_of(found.dtype)), theirs);
  if (!rank) {
    return std::nullopt;
  }
  const std::string own = std::to_string(expected.asked().rank);
  Explanation out =
      explain_difference(name, source_of(expected, wanted, found.dtype, *reference::dtype_named(name_of(found.dtype))),
                         source_of(result, found));
  out.kind = "other_rank";
  out.title = "Part of another rank";
  out.text = "Every element is the one that rank " + std::to_string(*rank) + " of " + expected.asked().topology +
             " holds; asked for was the part of rank " + own + ".";
  out.certainty = Certainty::certain;
  return out;
}

void compare_one(const ExpectedState& expected, const ExpectedTensor& wanted, const Result& result,
                 const Result::Tensor& found, Comparison& out) {
  ++out.tensors;
  const Shape& shape = found.shape;
  if (!std::equal(shape.begin(), shape.end(), wanted.shape.begin(), wanted.shape.end())) {
    const bool is_whole = !wanted.whole_shape.empty() &&
                          std::equal(shape.begin(), shape.end(), wanted.whole_shape.begin(), wanted.whole_shape.end());
    out.shapes.push_back({wanted.name, reference::text_of(wanted.shape), to_string(shape),
                          is_whole ? "that is the whole tensor and not the part of rank " +
                                         std::to_string(expected.asked().rank) + " of " + expected.asked().topology
                                   : std::string()});
    return;
  }
  const auto dtype = reference::dtype_named(name_of(found.dtype));
  if (!dtype || std::find(wanted.dtypes.begin(), wanted.dtypes.end(), *dtype) == wanted.dtypes.end()) {
    note_dtype(wanted, found, out);
    return;
  }
  if (auto difference = differing_values(expected, wanted, result, found, *dtype, out.bytes)) {
    (wanted.same_as.empty() ? out.values : out.tied).push_back(std::move(*difference));
  }
}

/// Names that one side lacks, and shapes that differ.
std::size_t names_apart(const ExpectedState& expected, const Result& result) {
  std::size_t count = 0;
  for (const ExpectedTensor& wanted : expected.tensors()) {
    const Result::Tensor* found = result.find(wanted.name);
    const bool is_apart = found == nullptr ? wanted.need == Need::required
                                           : !std::equal(found->shape.begin(), found->shape.end(), wanted.shape.begin(),
                                                         wanted.shape.end());
    count += is_apart ? 1U : 0U;
  }
  for (const Result::Tensor& found : result.tensors()) {
    count += expected.find(found.name) == nullptr && !expected.find_extra(found.name) ? 1U : 0U;
  }
  return count;
}

/// Where the names are not those of the checkpoint, perhaps they are those of another form.
void take_nearer_form(ExpectedState& expected, const Result& result) {
  const std::size_t before = names_apart(expected, result);
  if (before == 0) {
    return;
  }
  std::vector<reference::Key> keys;
  for (const Result::Tensor& found : result.tensors()) {
    keys.push_back({found.name, {found.shape.begin(), found.shape.end()}});
  }
  ExpectedState::Form form = expected.form();
  if (expected.take_form(std::move(keys)) && names_apart(expected, result) >= before) {
    expected.set_form(std::move(form));
  }
}

}  // namespace

Comparison compare_with_reference(ExpectedState& expected, const Result& result) {
  take_nearer_form(expected, result);
  Comparison out;
  for (const ExpectedTensor& wanted : expected.tensors()) {
    const Result::Tensor* found = result.find(wanted.name);
    if (found != nullptr) {
      compare_one(expected, wanted, result, *found, out);
    } else if (wanted.need == Need::required) {
      out.missing.push_back(wanted.name);
      if (wanted.is_head) {
        out.missing_heads.push_back(wanted.name);
      }
    }
  }
  for (const Result::Tensor& found : result.tensors()) {
    if (expected.find(found.name) != nullptr) {
      continue;
    }
    if (const auto extra = expected.find_extra(found.name)) {
      compare_one(expected, *extra, result, found, out);
    } else {
      out.unexpected.push_back(found.name);
    }
  }
  for (std::size_t i = 0; i < std::min(out.values.size(), k_explained_max); ++i) {
    if (bits_of(result.find(out.values[i].name)->dtype) >= 8 && !out.values[i].shape.empty()) {
      out.values[i].explanation = other_rank(expected, result, out.values[i].name);
      if (!out.values[i].explanation) {
        out.values[i].explanation = explain(expected, result, out.values[i].name);
      }
    }
  }
  return out;
}

}  // namespace weightproof::suites::judge
