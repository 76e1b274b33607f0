// SPDX-License-Identifier: Apache-2.0
// All loads of one run of `verify`: the model window by window, each loaded, loaded again under other circumstances and
// on other routes, and compared. Steps in files by subject; nothing here outlives load_run_of().
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "loader/exec/engine.hpp"
#include "loader/measure/memory.hpp"
#include "reference/model.hpp"
#include "suites/verify/counting_calls.hpp"
#include "suites/verify/load_run.hpp"

namespace weightproof::suites {

// What destinations and staging hold before anything is written there: NaN in every float, and something else.
inline constexpr std::byte k_first_fill{0xFF};
inline constexpr std::byte k_second_fill{0x5A};
inline constexpr std::byte k_poison{0xA5};

/// How a budget is spent: two loads side by side, and the reference's cache of file blocks.
struct Shares {
  std::uint64_t cache = 0;
  std::uint64_t load = 0;     // one of the two, metadata apart
  std::uint64_t staging = 0;  // of it
  std::uint64_t window = 0;   // of it
};

class LoadRunner {
 public:
  LoadRunner(Context& context, LoadRun& run) : context_(context), run_(run), wrong_(context.options.perturbation) {}
  void execute();

 private:
  // One window under the first load's eyes.
  struct Seen {
    const LoadWindow& window;
    const plan::Plan& plan;
    std::vector<Coordinate> origins;
  };
  // load_runner.cpp: windows, and what is to be said of all of them.
  void set_budget(const plan::Plan& whole);
  void run_window(const LoadWindows& windows, const LoadWindow& window);
  exec::LoadAttempt load(const plan::Plan& plan, const exec::LoadOptions& options);
  void finish_ledger(const plan::Plan& whole);
  void progress();

  // load_traffic.cpp
  void judge_reads(const Seen& seen);
  void judge_copies(const Seen& seen, const exec::LoadAttempt& attempt);
  void count_ties(const Seen& seen, const exec::LoadAttempt& attempt);
  void judge_ties(const plan::Plan& whole);

  // load_memory.cpp
  exec::LoadAttempt first_load(const Seen& seen);
  void judge_memory(const Seen& seen, const exec::LoadAttempt& attempt);
  void judge_peak(const Seen& seen, const exec::LoadAttempt& attempt, const measure::ProcessMemory& before);

  // load_compare.cpp
  void compare_second(const Seen& seen, const exec::LoadAttempt& first);
  void compare_reference(const Seen& seen, const exec::LoadAttempt& first);
  void compare_routes(const LoadWindows& windows, const Seen& seen, const exec::LoadAttempt& first);
  std::string place(const Seen& seen, std::size_t tensor, std::uint64_t byte) const;
  // Native tensors of the reference that no load knows of.
  void require_same_tensors(const plan::Plan& whole);

  Context& context_;
  LoadRun& run_;
  const Perturbation& wrong_;
  LoadInputs inputs_;
  Shares shares_;
  CountingCalls calls_;
  std::unique_ptr<storage::FileCalls> perturbed_calls_;
  std::unique_ptr<exec::SourceFiles> sources_;
  std::unique_ptr<reference::Model> model_;
  std::unique_ptr<LedgerChecker> ledger_;
  // What the first loads did for each tie of the schema.
  struct TiedLoad {
    std::set<const std::byte*> storages;  // of one load
    std::uint64_t written = 0;            // elements, by all of them
    std::uint64_t read = 0;               // bytes of the source, where one load has everything
  };
  std::vector<TiedLoad> tied_;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace weightproof::suites
