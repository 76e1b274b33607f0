// SPDX-License-Identifier: Apache-2.0
// From native state back to stored tensors: the bindings of the schema that led there, seen from the other side. What
// comes out is a schema again, so that the plan, the proof, the routes and the memory of the way back are those of a
// load.
//
//   load     stored tensors --bindings--> native tensors
//   export   native tensors --the same--> stored tensors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/core/box.hpp"
#include "loader/exec/attempt.hpp"
#include "loader/plan/planner.hpp"
#include "loader/save/export.hpp"

namespace weightproof::save {

/// In the schemas of the way back, stored and native have changed places.
struct WayBack {
  std::shared_ptr<const Schema> primaries;  ///< null where there are none
  std::shared_ptr<const Schema> aliases;    ///< tensors that repeat others: a tied head; null where there are none
  std::vector<bool> is_alias;               ///< per wanted tensor
};

/// `wanted`: what is to be written, in the shapes and dtypes in which it was read. Tensors that the schema does not
/// know pass through under their own name. Errors: tensor_not_mapped (nothing native becomes it), shape_mismatch.
WayBack way_back(const Schema& schema, std::span<const ExportTensor> wanted);

/// A plan of the way back and what it yielded.
struct Restored {
  std::unique_ptr<const plan::Plan> plan;
  std::unique_ptr<const exec::LoadAttempt> attempt;  ///< complete
};

/// Stored tensors out of native state, window by window: as many of them at once as fit, and boxes of one that is
/// larger. Windows follow the order of a file, so an export makes each once.
class RestoredSource : public ExportSource {
 public:
  /// Executes a plan whose sources are native tensors. Called by one thread at a time.
  using Execute = std::function<exec::LoadAttempt(const plan::Plan&)>;
  struct Options {
    std::uint64_t window_bytes = 256U << 20U;
    std::uint32_t threads = 1;
    std::optional<std::uint64_t> budget_bytes;  ///< of every plan, beyond its final storage
  };

  /// `natives` describes the native tensors where they lie; everything given outlives this.
  RestoredSource(const WayBack& way, std::span<const ExportTensor> wanted, std::shared_ptr<const Catalog> natives,
                 Options options, Execute execute);
  void begin_file(std::span<const std::size_t> tensors) override;
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override;
  std::uint64_t windows_made() const { return windows_made_; }

 private:
  struct Part {
    std::size_t tensor = 0;
    Box box;
    std::uint64_t first_byte = 0;  // in the dense tensor
    std::uint64_t bytes = 0;
  };
  struct Window {
    std::vector<Part> parts;
    std::uint64_t bytes = 0;
    bool is_alias = false;
  };
  void append(std::size_t tensor);
  void make(std::size_t window);
  const Schema& schema_of(const Window& window) const { return window.is_alias ? *way_.aliases : *way_.primaries; }

  const WayBack& way_;
  std::span<const ExportTensor> wanted_;
  std::shared_ptr<const Catalog> natives_;
  Options options_;
  Execute execute_;
  std::mutex mutex_;
  std::vector<Window> windows_;                       // of the present file
  std::vector<std::vector<std::size_t>> windows_of_;  // per wanted tensor, ascending
  std::optional<plan::PlanBasis> bases_[2];           // primaries, aliases
  std::size_t made_ = SIZE_MAX;
  Restored restored_;
  std::uint64_t windows_made_ = 0;
};

}  // namespace weightproof::save
