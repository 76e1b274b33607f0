// SPDX-License-Identifier: Apache-2.0
// What a load moves: bytes that it reads, bytes that it copies, and what it does with a tensor that has two names.
#include <algorithm>
#include <set>

#include "loader/core/limits.hpp"
#include "loader/plan/all_ranks.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/load_runner.hpp"

namespace weightproof::suites {
namespace {

// What may be copied out of a buffer into each tensor: every byte of it once, less what is read into place.
std::vector<std::uint64_t> copied_at_most(const plan::Plan& plan) {
  std::vector<std::uint64_t> at_most;
  for (const plan::PlannedTensor& tensor : plan.tensors()) {
    at_most.push_back(tensor.bytes);
  }
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
      const std::uint64_t in_place = entry_end > end ? entry_end - std::max(end, entry.file_offset) : 0;
      std::uint64_t& left = at_most[plan.moves()[entry.move].tensor];
      left -= std::min(left, in_place);
      end = std::max(end, entry_end);
    }
  }
  return at_most;
}

}  // namespace

void LoadRunner::judge_reads(const Seen& seen) {
  run_.ranges += plan::figures_of(seen.plan).ranges;
  const std::uint64_t bytes = calls_.bytes();
  const std::uint64_t bound =
      reads_bound(seen.plan, seen.window.is_whole ? limits::read_gap_bytes_max : plan::k_part_gap_bytes_max);
  if (bytes <= bound) {
    return;
  }
  if (run_.amplification.empty()) {
    run_.counted_reads = bytes;
    run_.reads_bound = bound;
  }
  const std::string sum = "the load read " + grouped(bytes) + " bytes in all, allowed are " + grouped(bound);
  const std::vector<std::string> keys = calls_.overread(seen.plan, bound);
  for (const std::string& key : keys) {
    run_.amplification.add(key, {}, ": more of it was read than is wanted; " + sum);
  }
  if (keys.empty()) {
    run_.amplification.add(largest_of(seen.plan), {}, ": it was loaded, and " + sum);
  }
}

void LoadRunner::judge_copies(const Seen& seen, const exec::LoadAttempt& attempt) {
  const std::vector<std::uint64_t> bounds = copied_at_most(seen.plan);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const std::uint64_t copied = attempt.ledger().copied.at(i);
    if (copied <= bounds[i]) {
      continue;
    }
    if (run_.copies.empty()) {
      run_.counted_copies = copied;
      run_.copies_bound = bounds[i];
    }
    run_.copies.add(
        seen.plan.tensors()[i].key, {},
        ": " + grouped(copied) + " bytes of it were copied out of buffers, allowed are " + grouped(bounds[i]));
  }
}

// What a load wrote for either name, into how many places, and how often the stored embedding was read for it.
void LoadRunner::count_ties(const Seen& seen, const exec::LoadAttempt& attempt) {
  if (seen.window.is_passed_through) {
    return;
  }
  const Schema& schema = *inputs_.schema;
  const plan::Plan& plan = seen.plan;
  tied_.resize(schema.ties().size());
  for (std::size_t t = 0; t < tied_.size(); ++t) {
    const Tie& tie = schema.ties()[t];
    const StoredId alias = schema.find_stored(tie.stored_alias);
    TiedLoad& tied = tied_[t];
    std::set<const std::byte*> storages;
    bool is_decoded = false;
    for (const exec::WrittenRegion& region : attempt.ledger().written) {
      const plan::Move& move = plan.moves()[region.move];
      if (move.stored != k_no_id && (move.stored == tie.stored_source || move.stored == alias)) {
        storages.insert(attempt.bytes(region.tensor).data());
        tied.written += region.region.element_count();
        is_decoded = is_decoded || move.decode != k_no_id;
      }
    }
    if (storages.size() > tied.storages.size()) {
      tied.storages = std::move(storages);
    }
    const plan::Row row = plan.coverage().row_of[tie.stored_source];
    // Of parts the companions may be read for each; so may the scales of codes for each tile.
    if (seen.window.is_whole && !is_decoded && row != plan::k_no_row) {
      tied.read = calls_.bytes_of(row);
    }
  }
}

// The config says that head and embedding are one: then one tensor is planned under whatever name, and what was loaded
// is one place whose elements were written once, from bytes that were read once.
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
  for (std::size_t t = 0; t < schema.ties().size(); ++t) {
    const Tie& tie = schema.ties()[t];
    const StoredId alias = schema.find_stored(tie.stored_alias);
    std::set<std::uint32_t> holders;
    for (const plan::Move& move : whole.moves()) {
      if (move.stored != k_no_id && (move.stored == tie.stored_source || move.stored == alias)) {
        holders.insert(move.tensor);
      }
    }
    if (holders.empty()) {
      continue;
    }
    ++run_.ties_examined;
    const TiedLoad tied = t < tied_.size() ? tied_[t] : TiedLoad{};
    const std::size_t storages = std::max(holders.size(), tied.storages.size());
    if (storages > 1) {
      for (const std::uint32_t tensor : holders) {
        run_.ties.add(whole.tensors()[tensor].key, {},
                      " is one of " + counted(storages, "storage", "storages") + " for head and embedding");
      }
      continue;
    }
    const plan::PlannedTensor& tensor = whole.tensors()[*holders.begin()];
    // Regions of elements that are smaller than a byte are counted in bytes.
    const std::uint64_t elements =
        bits_of(tensor.dtype) % 8 == 0 ? *element_count(whole.shape_of(tensor)) : tensor.bytes;
    if (tied.written != elements) {
      run_.ties.add(tensor.key, {},
                    " of " + grouped(elements) + " elements was filled with " + grouped(tied.written) +
                        " from the names of head and embedding");
      continue;
    }
    const StoredTensor& row = whole.catalog().tensors()[whole.coverage().row_of[tie.stored_source]];
    if (tied.read > row.bytes) {
      run_.ties.add(tensor.key, {},
                    " is read more than once: " + grouped(tied.read) + " bytes for one storage of " +
                        grouped(row.bytes) + " stored bytes");
    }
  }
}

}  // namespace weightproof::suites
