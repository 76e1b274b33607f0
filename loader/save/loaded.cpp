// SPDX-License-Identifier: Apache-2.0
#include "loader/save/loaded.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "loader/core/error.hpp"

namespace weightproof::save {
namespace {

constexpr std::size_t k_parts_alive = 2;

void copy_range(std::span<const std::byte> bytes, std::uint64_t offset, std::span<std::byte> target) {
  WEIGHTPROOF_ASSERT(offset <= bytes.size() && target.size() <= bytes.size() - offset);
  std::memcpy(target.data(), bytes.data() + offset, target.size());
}

}  // namespace

std::vector<ExportTensor> tensors_of(const plan::Plan& plan) {
  std::vector<ExportTensor> tensors;
  tensors.reserve(plan.tensors().size());
  for (const plan::PlannedTensor& tensor : plan.tensors()) {
    tensors.push_back({std::string(tensor.key), tensor.dtype, plan.shape_of(tensor)});
  }
  return tensors;
}

LoadedSource::LoadedSource(const exec::LoadAttempt& attempt) : attempt_(attempt) { attempt.require_complete(); }

void LoadedSource::read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) {
  copy_range(attempt_.bytes(tensor), offset, target);
}

PartedSource::PartedSource(std::span<const ExportTensor> tensors, std::uint64_t part_bytes, LoadPart load_part)
    : part_bytes_(part_bytes), load_part_(std::move(load_part)), places_(tensors.size()) {
  bytes_.reserve(tensors.size());
  for (const ExportTensor& tensor : tensors) bytes_.push_back(byte_count(tensor.shape, tensor.dtype).value_or(0));
}

void PartedSource::begin_file(std::span<const std::size_t> tensors) {
  const std::lock_guard lock(mutex_);
  alive_.clear();
  parts_.clear();
  std::uint64_t open_bytes = 0;
  for (const std::size_t tensor : tensors) {
    const bool fits = !parts_.empty() && open_bytes <= part_bytes_ && bytes_[tensor] <= part_bytes_ - open_bytes;
    if (!fits) {
      parts_.emplace_back();
      open_bytes = 0;
    }
    places_[tensor] = {parts_.size() - 1, parts_.back().size()};
    parts_.back().push_back(tensor);
    open_bytes += bytes_[tensor];
  }
}

std::shared_ptr<const Part> PartedSource::part_of(std::size_t part) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(alive_.begin(), alive_.end(), [&](const auto& entry) { return entry.first == part; });
  if (found != alive_.end()) {
    alive_.splice(alive_.begin(), alive_, found);
    return alive_.front().second;
  }
  // The oldest goes first, so that there are never more than meant, not even while the next one is loaded.
  while (alive_.size() >= k_parts_alive) alive_.pop_back();
  std::shared_ptr<const Part> loaded = load_part_(parts_[part]);
  ++parts_loaded_;
  alive_.emplace_front(part, loaded);
  return loaded;
}

void PartedSource::read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) {
  const Place place = places_[tensor];
  WEIGHTPROOF_ASSERT(place.part < parts_.size());
  copy_range(part_of(place.part)->bytes(place.position), offset, target);
}

}  // namespace weightproof::save
