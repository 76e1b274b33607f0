// SPDX-License-Identifier: Apache-2.0
// Exports of what a load produced: of one load that is complete, or of one part after the other where the whole does
// not fit into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "loader/exec/attempt.hpp"
#include "loader/plan/plan.hpp"
#include "loader/save/export.hpp"

namespace weightproof::save {

/// What an export of the plan's tensors lists, in the order of Plan::tensors().
std::vector<ExportTensor> tensors_of(const plan::Plan& plan);

/// The tensors of a complete load into an arena of its own; the attempt stays alive. Throws what
/// LoadAttempt::require_complete() throws.
class LoadedSource : public ExportSource {
 public:
  explicit LoadedSource(const exec::LoadAttempt& attempt);
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override;

 private:
  const exec::LoadAttempt& attempt_;
};

/// Some tensors in memory, for as long as it lives.
class Part {
 public:
  virtual ~Part() = default;
  /// Of the `position`th tensor that the part was asked for.
  virtual std::span<const std::byte> bytes(std::size_t position) const = 0;
};

/// Loads as the export goes along: the tensors of each file, in its order, in parts of at most `part_bytes` (a larger
/// tensor is a part of its own). Two parts are kept, since a window may cross from one into the next; a thread that is
/// copying keeps its part meanwhile. One thread loads each part once; with several, one that lags may load a part
/// again, as does a comparison that fails.
class PartedSource : public ExportSource {
 public:
  /// Loads the tensors at these positions of the export's list. What it throws ends the export.
  using LoadPart = std::function<std::unique_ptr<const Part>(std::span<const std::size_t> tensors)>;

  PartedSource(std::span<const ExportTensor> tensors, std::uint64_t part_bytes, LoadPart load_part);
  void begin_file(std::span<const std::size_t> tensors) override;
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override;
  std::uint64_t parts_loaded() const { return parts_loaded_; }

 private:
  struct Place {
    std::size_t part = SIZE_MAX;
    std::size_t position = 0;
  };
  std::shared_ptr<const Part> part_of(std::size_t part);

  std::vector<std::uint64_t> bytes_;
  std::uint64_t part_bytes_;
  LoadPart load_part_;
  std::vector<Place> places_;                    // by tensor
  std::vector<std::vector<std::size_t>> parts_;  // tensors of the present file
  std::mutex mutex_;
  std::list<std::pair<std::size_t, std::shared_ptr<const Part>>> alive_;  // latest first
  std::uint64_t parts_loaded_ = 0;
};

}  // namespace weightproof::save
