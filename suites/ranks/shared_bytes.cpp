// SPDX-License-Identifier: Apache-2.0
#include "suites/ranks/shared_bytes.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace weightproof::suites {
namespace {

constexpr std::uint32_t k_nobody = std::numeric_limits<std::uint32_t>::max();

}  // namespace

SharedBytes::SharedBytes(const plan::Plan& whole, const std::vector<RankFinding>& overlaps) {
  for (const RankFinding& finding : overlaps) {
    const std::size_t at = whole.find(finding.tensor);
    if (at != SIZE_MAX) {
      const plan::PlannedTensor& planned = whole.tensors()[at];
      Tensor& tensor = tensors_[finding.tensor];
      tensor.shape = whole.shape_of(planned);
      tensor.bytes.resize(planned.bytes);
      tensor.owners.assign(*element_count(tensor.shape), k_nobody);
    }
  }
}

void SharedBytes::add(std::uint32_t rank, const RankState& state) {
  for (auto& [key, tensor] : tensors_) {
    const std::size_t at = state.plan->find(key);
    if (at == SIZE_MAX || !tensor.difference.empty()) {
      continue;
    }
    const plan::PlannedTensor& planned = state.plan->tensors()[at];
    const Shape& local_shape = state.plan->shape_of(planned);
    const std::size_t size = tensor.bytes.size() / std::max<std::size_t>(tensor.owners.size(), 1);
    const std::span<const std::byte> held = state.bytes(at);
    for (const LocalPiece& piece : state.placement.locals[planned.id].pieces) {
      const std::uint64_t count = piece.global.element_count();
      for (std::uint64_t i = 0; i < count; ++i) {
        Coordinate global = coordinate_of(piece.global.length, i);
        Coordinate local = global;
        for (unsigned axis = 0; axis < global.rank(); ++axis) {
          global[axis] += piece.global.start[axis];
          local[axis] += piece.local.start[axis];
        }
        const auto element = static_cast<std::size_t>(linear_index(tensor.shape, global));
        const std::byte* const ours = held.data() + linear_index(local_shape, local) * size;
        std::byte* const known = tensor.bytes.data() + element * size;
        std::uint32_t& owner = tensor.owners[element];
        if (owner == k_nobody) {
          owner = rank;
          std::memcpy(known, ours, size);
        } else if (std::memcmp(known, ours, size) != 0) {
          tensor.difference = "element " + to_string(global) + " differs between rank " + std::to_string(owner) +
                              " and rank " + std::to_string(rank);
          break;
        }
      }
    }
  }
}

std::string_view SharedBytes::difference(const std::string& tensor) const {
  const auto found = tensors_.find(tensor);
  return found == tensors_.end() ? std::string_view() : found->second.difference;
}

}  // namespace weightproof::suites
