// SPDX-License-Identifier: Apache-2.0
#include "suites/state/nearest_codes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "loader/core/error.hpp"

namespace weightproof::suites {
namespace {

/// Elements of a window, where the granule of the codec allows it.
constexpr std::uint64_t k_window_elements = std::uint64_t{1} << 18U;

/// Dense values of whole rows of one matrix of the codec's own shape, read from where the tensor is published, maybe
/// the other way round.
std::vector<float> values_in(const DecodedState& state, const StateTensor& wide, const Box& box, bool is_transposed) {
  const unsigned rank = box.start.rank();
  const std::uint64_t rows = box.length[rank - 2];
  const std::uint64_t cols = box.length[rank - 1];
  const std::uint64_t row = box.start[rank - 2];
  const std::uint64_t begin = rank == 3 ? box.start[0] * wide.shape[1] * wide.shape[2] : 0;
  std::vector<float> out(static_cast<std::size_t>(rows * cols));
  if (!is_transposed) {
    state.read(wide, (begin + row * cols) * 4, std::as_writable_bytes(std::span(out)));
    return out;
  }
  std::vector<float> line(static_cast<std::size_t>(rows));
  for (std::uint64_t col = 0; col < cols; ++col) {
    state.read(wide, (begin + col * wide.shape[rank - 1] + row) * 4, std::as_writable_bytes(std::span(line)));
    for (std::uint64_t k = 0; k < rows; ++k) {
      out[static_cast<std::size_t>(k * cols + col)] = line[static_cast<std::size_t>(k)];
    }
  }
  return out;
}

/// Where an element of such rows is published.
std::uint64_t index_of(const StateTensor& codes, const Box& box, std::uint64_t i) {
  const unsigned rank = box.start.rank();
  const std::uint64_t cols = box.length[rank - 1];
  const std::uint64_t row = box.start[rank - 2] + i / cols;
  const std::uint64_t width = codes.shape[rank - 1];
  const std::uint64_t begin = rank == 3 ? box.start[0] * codes.shape[1] * width : 0;
  return begin + (codes.is_transposed ? i % cols * width + row : row * width + i % cols);
}

void add(CodesVote& vote, const StateTensor& codes, const Box& box, std::span<const float> wanted,
         std::span<const float> found, std::span<const float> nearest) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool is_nearest =
        std::memcmp(&found[i], &nearest[i], 4) == 0 || (std::isnan(found[i]) && std::isnan(nearest[i]));
    const bool tells = found[i] != 0 || nearest[i] != 0;
    vote.told += tells ? 1U : 0U;
    vote.told_nearest += tells && is_nearest ? 1U : 0U;
    vote.nearest += is_nearest ? 1U : 0U;
    const std::uint64_t index = index_of(codes, box, i);
    if (!is_nearest && (vote.nearest == vote.elements + i || index < vote.first)) {
      vote.first = index;
      vote.first_value = wanted[i];
      vote.first_found = found[i];
      vote.first_nearest = nearest[i];
    }
  }
  vote.elements += wanted.size();
}

}  // namespace

std::optional<CodesVote> vote_on_codes(const DecodedState& coded, const StateTensor& codes, const DecodedState& plain,
                                       const StateTensor& values) {
  const codec::Codec& codec = *codes.codec;
  const Shape& shape = codec.natural_shape();
  const unsigned rank = shape.rank();
  if (rank < 2 || rank > 3 || element_count(shape).value_or(0) == 0) {
    return std::nullopt;
  }
  StateTensor wide = values;
  wide.dtype = DType::f32;
  wide.bytes = element_count(shape).value_or(0) * 4;
  const auto components = codec.components();
  const auto weight = static_cast<std::size_t>(
      std::find_if(components.begin(), components.end(),
                   [](const codec::Component& each) { return each.role == codec::Role::weight; }) -
      components.begin());
  const std::uint64_t granule = std::max<std::uint64_t>(1, codec.granule()[rank - 2]);
  const std::uint64_t step = std::max(granule, k_window_elements / shape[rank - 1] / granule * granule);
  CodesVote vote;
  vote.scheme = codec.scheme().id;
  try {
    for (std::uint64_t lead = 0; lead < (rank == 3 ? shape[0] : 1); ++lead) {
      for (std::uint64_t row = 0; row < shape[rank - 2]; row += step) {
        Box box = Box::whole(shape);
        box.start[rank - 2] = row;
        box.length[rank - 2] = std::min(step, shape[rank - 2] - row);
        if (rank == 3) {
          box.start[0] = lead;
          box.length[0] = 1;
        }
        box = codec.align(box);
        std::vector<std::vector<std::byte>> bytes = coded.read_parts(codes, box);
        std::vector<std::span<const std::byte>> parts(bytes.begin(), bytes.end());
        const std::vector<float> wanted = values_in(plain, wide, box, codes.is_transposed);
        std::vector<float> found(wanted.size());
        std::vector<float> nearest(wanted.size());
        codec.decode(box, parts, DType::f32, reinterpret_cast<std::byte*>(found.data()));
        std::vector<std::byte> again(bytes[weight].size());
        if (!codec.encode(box, parts, wanted, again.data())) {
          return std::nullopt;
        }
        parts[weight] = again;
        codec.decode(box, parts, DType::f32, reinterpret_cast<std::byte*>(nearest.data()));
        add(vote, codes, box, wanted, found, nearest);
        if (4 * vote.told_nearest < vote.told) {
          return std::nullopt;  // the rest will not make up for it
        }
      }
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::nan_not_encodable) {
      throw;
    }
    return std::nullopt;  // values that have no codes
  }
  return 4 * vote.told_nearest < 3 * vote.told ? std::nullopt : std::optional(vote);
}

}  // namespace weightproof::suites
