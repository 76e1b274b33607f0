// SPDX-License-Identifier: Apache-2.0
// What a load moves: bytes that it reads, bytes that it copies, and what it does with a tensor that has two names.
#include <algorithm>
#include <set>

#include "loader/plan/all_ranks.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/load_runner.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_bytes_per_range = 4096;

// What may be copied out of a buffer: every byte of the result once, less what is read into place.
std::uint64_t copied_at_most(const plan::Plan& plan) {
  std::uint64_t in_place = 0;
  for (const plan::ReadRequest& request : plan.requests()) {
    const auto entries = plan.entries_of(request);
    const bool is_in_place = std::all_of(entries.begin(), entries.end(), [&](const plan::ScatterEntry& entry) {
      const plan::Move& move = plan.moves()[entry.move];
      return move.reason == plan::Reason::contiguous && move.action == plan::Action::write;
    });
    if (!is_in_place) {
      continue;
    }
    // Bytes that a second move takes as well are copied from where the first one has them.
    std::uint64_t end = 0;
    for (const plan::ScatterEntry& entry : entries) {
      const std::uint64_t entry_end = entry.file_offset + entry.bytes;
      in_place += entry_end > end ? entry_end - std::max(end, entry.file_offset) : 0;
      end = std::max(end, entry_end);
    }
  }
  return plan.memory().final_tensor_bytes - std::min(plan.memory().final_tensor_bytes, in_place);
}

}  // namespace

std::uint64_t reads_bound(std::uint64_t owned_bytes, std::uint64_t ranges) {
  return owned_bytes + owned_bytes / 50 + ranges * k_bytes_per_range;
}

void LoadRunner::judge_reads(const Seen& seen, std::uint64_t bytes) {
  const plan::RankFigures figures = plan::figures_of(seen.plan);
  run_.ranges += figures.ranges;
  // A load of everything may read through what lies between its tensors, as long as it is not read twice.
  const std::uint64_t owned =
      seen.window.is_whole ? seen.plan.catalog().bytes() : figures.source_bytes + figures.compared_bytes;
  const std::uint64_t bound = reads_bound(owned, figures.ranges);
  if (bytes <= bound) {
    return;
  }
  if (run_.amplification.empty()) {
    run_.counted_reads = bytes;
    run_.reads_bound = bound;
  }
  run_.amplification.add(
      largest(seen.plan), {},
      ": loading it and what is loaded with it read " + grouped(bytes) + " bytes, allowed are " + grouped(bound));
}

void LoadRunner::judge_copies(const Seen& seen, const exec::LoadAttempt& attempt) {
  const std::uint64_t copied = attempt.counters().copied_bytes;
  const std::uint64_t bound = copied_at_most(seen.plan);
  if (copied <= bound) {
    return;
  }
  if (run_.copies.empty()) {
    run_.counted_copies = copied;
    run_.copies_bound = bound;
  }
  run_.copies.add(
      largest(seen.plan), {},
      ": loading it and what is loaded with it copied " + grouped(copied) + " bytes, allowed are " + grouped(bound));
}

// The config says that head and embedding are one: then one tensor is planned under whatever name, and its elements are
// written once.
void LoadRunner::judge_ties(const plan::Plan& whole) {
  if (!context_.form || !context_.form->is_tied || context_.adapter || context_.has_subset()) {
    return;
  }
  const Schema& schema = *inputs_.schema;
  if (schema.ties().empty()) {
    ++run_.ties_examined;
    const auto head =
        std::find_if(whole.tensors().begin(), whole.tensors().end(),
                     [](const plan::PlannedTensor& tensor) { return tensor.key.ends_with("lm_head.weight"); });
    if (head == whole.tensors().end()) {
      run_.ties.add("lm_head.weight", {}, " is tied to the embedding by the config, and no load knows of it");
    } else {
      run_.ties.add(head->key, {}, " has storage of its own, though the config ties it to the embedding");
    }
    return;
  }
  for (const Tie& tie : schema.ties()) {
    const StoredId alias = schema.find_stored(tie.stored_alias);
    std::set<std::uint32_t> holders;
    std::uint64_t written = 0;
    for (const plan::Move& move : whole.moves()) {
      if (move.stored == k_no_id || (move.stored != tie.stored_source && move.stored != alias)) {
        continue;
      }
      holders.insert(move.tensor);
      written += move.action == plan::Action::write ? whole.target_view(move).element_count() : 0;
    }
    if (holders.empty()) {
      continue;
    }
    ++run_.ties_examined;
    if (holders.size() > 1) {
      for (const std::uint32_t tensor : holders) {
        run_.ties.add(whole.tensors()[tensor].key, {},
                      " is one of " + counted(holders.size(), "storage", "storages") + " for head and embedding");
      }
      continue;
    }
    const plan::PlannedTensor& tensor = whole.tensors()[*holders.begin()];
    const std::uint64_t elements = *element_count(whole.shape_of(tensor));
    if (written != elements) {
      run_.ties.add(tensor.key, {},
                    " of " + grouped(elements) + " elements is filled with " + grouped(written) +
                        " from the names of head and embedding");
    }
  }
}

}  // namespace weightproof::suites
