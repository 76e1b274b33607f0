// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/sources.hpp"

#include <utility>

#include "loader/core/error.hpp"

namespace weightproof::exec {

SourceFiles::SourceFiles(std::vector<SourceFile> files, storage::FileCalls& calls)
    : slots_(std::make_unique<Slot[]>(files.size())), count_(files.size()), calls_(&calls) {
  for (std::size_t i = 0; i < files.size(); ++i) slots_[i].source = std::move(files[i]);
}

SourceFiles::SourceFiles(SourceFiles&& other) noexcept
    : slots_(std::move(other.slots_)),
      count_(std::exchange(other.count_, 0)),
      calls_(other.calls_),
      opens_(other.opens_.load()) {}

SourceFiles::~SourceFiles() = default;

SourceFiles SourceFiles::of(std::span<const storage::Checkpoint* const> checkpoints, storage::FileCalls& calls) {
  std::vector<SourceFile> files;
  for (const storage::Checkpoint* checkpoint : checkpoints) {
    for (const std::string& name : checkpoint->catalog.files()) {
      SourceFile file{checkpoint->root / name, name, std::nullopt};
      for (const storage::Shard& shard : checkpoint->shards) {
        if (shard.name == name && shard.header) file.identity = shard.header->identity;
      }
      files.push_back(std::move(file));
    }
  }
  return SourceFiles(std::move(files), calls);
}

const storage::File& SourceFiles::file(std::uint32_t index) const {
  if (index >= count_) {
    throw Error(ErrorCode::internal,
                "file " + std::to_string(index) + " of " + std::to_string(count_) + " was asked for");
  }
  Slot& slot = slots_[index];
  if (slot.is_open.load(std::memory_order_acquire)) return slot.file;
  const std::lock_guard lock(mutex_);
  if (slot.is_open.load(std::memory_order_relaxed)) return slot.file;
  opens_.fetch_add(1, std::memory_order_relaxed);
  storage::File file = storage::File::open(slot.source.path, slot.source.name, *calls_);
  if (slot.source.identity) file.require_identity(*slot.source.identity);
  slot.file = std::move(file);
  slot.is_open.store(true, std::memory_order_release);
  return slot.file;
}

void SourceFiles::require_unchanged() const {
  for (std::size_t i = 0; i < count_; ++i) {
    const Slot& slot = slots_[i];
    if (slot.is_open.load(std::memory_order_acquire)) slot.file.require_identity(slot.file.identity());
  }
}

}  // namespace weightproof::exec
