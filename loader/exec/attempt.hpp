// SPDX-License-Identifier: Apache-2.0
// What happened during one load: born with it, and the only place that knows. "Loaded" is what was executed, never what
// was meant.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/error.hpp"
#include "loader/core/view.hpp"
#include "loader/exec/arena.hpp"
#include "loader/exec/digest.hpp"
#include "loader/exec/memory.hpp"
#include "loader/plan/plan.hpp"

namespace weightproof::exec {

enum class Outcome : std::uint8_t { complete, failed, stopped };
std::string_view to_string(Outcome outcome);

struct Counters {
  std::uint64_t requests = 0;         ///< of the plan, executed
  std::uint64_t requested_bytes = 0;  ///< that moves asked for
  std::uint64_t read_bytes = 0;       ///< that came from the files, gaps included
  std::uint64_t opens = 0;
  std::uint64_t tiles = 0;           ///< decoded
  std::uint64_t copies = 0;          ///< from a buffer into a destination
  std::uint64_t copied_bytes = 0;    ///< by these
  std::uint64_t written_bytes = 0;   ///< into destinations, by reads, copies, decodes and fills
  std::uint64_t compared_bytes = 0;  ///< found equal
  std::uint64_t lane_copies = 0;
  std::uint64_t lane_bytes = 0;
  std::uint64_t slot_waits = 0;   ///< times a slot was asked for before its ticket was done
  std::uint64_t hot_digests = 0;  ///< bytes digested as they arrived
  std::uint64_t faults = 0;       ///< deliberate ones, applied
  void add(const Counters& other);
  friend bool operator==(const Counters&, const Counters&) = default;
};

/// Seconds. Prepare and total are of the clock; the others are sums over threads.
struct Phases {
  double prepare = 0;
  double populate = 0;
  double read = 0;
  double transform = 0;  ///< copies, casts, decodes, fills
  double compare = 0;
  double digest = 0;
  double lane = 0;  ///< waiting for slots
  double total = 0;
  void add(const Phases& other);
};

struct SourceRange {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct WrittenRegion {
  std::uint32_t tensor = 0;
  std::uint32_t move = 0;
  View region;  ///< of the dense tensor, in elements; in bytes for elements of less than a byte
};

/// What was read and written, in no order, and what was copied. Only where it was asked for.
struct Ledger {
  std::vector<SourceRange> read;
  std::vector<WrittenRegion> written;
  std::vector<std::uint64_t> copied;  ///< bytes that went from a buffer into each tensor of the plan
};

/// Refers to its plan, which outlives it. A load that did not complete hands nothing out.
class LoadAttempt {
 public:
  LoadAttempt(LoadAttempt&&) noexcept;
  LoadAttempt& operator=(LoadAttempt&&) noexcept;
  ~LoadAttempt();

  Outcome outcome() const;
  bool is_complete() const { return outcome() == Outcome::complete; }
  /// Empty where complete. LOAD_FAILED_PARTIAL once a destination was written to, with the completed keys in
  /// facts().keys and the cause in the notes; before that the cause itself.
  const std::optional<Error>& error() const;
  /// What came first; later ones are its notes.
  const std::optional<Error>& cause() const;
  void require_complete() const;

  const plan::Plan& plan() const;
  /// By position in Plan::tensors(): all that writes it was executed.
  bool is_tensor_complete(std::size_t tensor) const;
  /// In the order of Plan::tensors().
  std::vector<std::string_view> completed_keys() const;
  /// Regions whose moves were executed in full.
  std::vector<View> completed_regions(std::size_t tensor) const;

  const Counters& counters() const;
  const Phases& phases() const;
  const Ledger& ledger() const;
  /// At the end of the load, its buffers released.
  const MemoryStatistics& memory() const;
  unsigned threads() const;

  /// Empty where none was asked for, or why_no_digest() says why.
  std::optional<Digest> digest(std::size_t tensor) const;
  std::string_view why_no_digest() const;

  /// Final storage of a load that was given no destinations. Throws error() unless complete.
  Arena& arena();
  /// Bytes of a tensor of that arena. Throws error() unless complete.
  std::span<const std::byte> bytes(std::size_t tensor) const;
  std::span<const std::byte> bytes(std::string_view key) const;

 private:
  friend class Engine;
  struct State;
  explicit LoadAttempt(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weightproof::exec
