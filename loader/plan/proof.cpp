// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/proof.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "loader/core/hash.hpp"

namespace weightproof::plan {
namespace {

using BindingId = std::uint32_t;

/// Bindings of each tensor of one side, in schema order.
struct Groups {
  std::vector<std::uint32_t> first;  // per tensor, one more at the end
  std::vector<BindingId> ids;
  std::span<const BindingId> of(std::uint32_t tensor) const {
    return {ids.data() + first[tensor], first[tensor + 1] - first[tensor]};
  }
};

template <typename TensorOf>
Groups group(std::span<const Binding> bindings, std::size_t tensors, TensorOf tensor_of) {
  Groups groups;
  groups.first.assign(tensors + 1, 0);
  for (const Binding& binding : bindings) {
    if (tensor_of(binding) != k_no_id) ++groups.first[tensor_of(binding) + 1];
  }
  for (std::size_t i = 1; i <= tensors; ++i) groups.first[i] += groups.first[i - 1];
  std::vector<std::uint32_t> next(groups.first.begin(), groups.first.end() - 1);
  groups.ids.resize(groups.first.back());
  for (BindingId id = 0; id < bindings.size(); ++id) {
    const std::uint32_t tensor = tensor_of(bindings[id]);
    if (tensor != k_no_id) groups.ids[next[tensor]++] = id;
  }
  return groups;
}

/// Shape and views of one question, as numbers.
using Question = std::vector<std::uint64_t>;
struct QuestionHash {
  std::size_t operator()(const Question& question) const { return hash_words(question); }
};

class Prover {
 public:
  Prover(const Schema& schema, Proof& proof) : schema_(schema), proof_(proof) {}

  /// Verdict on the views of the given bindings over one tensor. `is_native` says which side of them.
  const TilingVerdict& verdict(LayoutId shape, std::span<const BindingId> ids, bool is_native) {
    question_.clear();
    question_.push_back(shape);
    for (const BindingId id : ids) {
      const Binding& binding = schema_.bindings()[id];
      question_.push_back(is_native ? binding.native_layout : binding.stored_layout);
      question_.push_back(is_native ? binding.native_offset : binding.stored_offset);
    }
    if (question_.size() == 3 && question_[1] == shape && question_[2] == 0) return exact_;  // the whole, as it is
    const auto known = memo_.find(question_);
    if (known != memo_.end()) return known->second;
    views_.clear();
    for (const BindingId id : ids) {
      const Binding& binding = schema_.bindings()[id];
      views_.push_back(is_native ? schema_.native_view(binding) : schema_.stored_view(binding));
    }
    ++proof_.proofs_done;
    return memo_.emplace(question_, prove_tiling(schema_.layout(shape).extents, views_)).first->second;
  }

 private:
  const Schema& schema_;
  Proof& proof_;
  Question question_;
  std::vector<View> views_;
  std::unordered_map<Question, TilingVerdict, QuestionHash> memo_;
  const TilingVerdict exact_ = [] {
    TilingVerdict verdict;
    verdict.tiling = Tiling::exact;
    return verdict;
  }();
};

std::string_view stored_key(const Schema& schema, StoredId id) {
  return id == k_no_id ? std::string_view() : schema.stored_tensors()[id].key;
}

ProofFault fault_of(const Schema& schema, bool is_native, std::string_view key, const TilingVerdict& verdict,
                    std::span<const BindingId> ids) {
  ProofFault fault;
  fault.is_native = is_native;
  fault.tiling = verdict.tiling;
  fault.key = key;
  fault.coordinate = verdict.coordinate;
  const auto other_key = [&](std::size_t view) {
    const Binding& binding = schema.bindings()[ids[view]];
    return is_native ? stored_key(schema, binding.stored) : schema.native_tensors()[binding.native].key;
  };
  if (verdict.tiling == Tiling::overlap) {
    fault.first_key = other_key(verdict.first_view);
    fault.second_key = other_key(verdict.second_view);
  }
  fault.reason = verdict.reason;
  return fault;
}

/// Which bindings take part, before any proof.
void resolve_actions(const Schema& schema, const KeyCoverage* coverage, const Groups& by_native, Proof& proof) {
  const std::span<const Binding> bindings = schema.bindings();
  proof.actions.resize(bindings.size());
  proof.left_out.assign(schema.native_tensors().size(), LeftOut::no);
  std::vector<LeftOut> why_absent;
  if (coverage != nullptr) {
    why_absent.assign(schema.stored_tensors().size(), LeftOut::no);
    for (const StoredId id : coverage->not_selected) why_absent[id] = LeftOut::not_selected;
    for (const StoredId id : coverage->missing_allowed) why_absent[id] = LeftOut::missing_allowed;
    for (const StoredId id : coverage->missing) why_absent[id] = LeftOut::missing_allowed;
    for (const StoredId id : coverage->absent_optional) why_absent[id] = LeftOut::absent_optional;
  }
  bool has_constants = false;
  for (BindingId id = 0; id < bindings.size(); ++id) {
    const Binding& binding = bindings[id];
    switch (binding.kind) {
      case BindingKind::primary:
        proof.actions[id] = Action::write;
        break;
      case BindingKind::alias:
        proof.actions[id] = Action::compare;
        break;
      case BindingKind::constant:
        proof.actions[id] = Action::fill;
        has_constants = true;
        continue;
    }
    if (coverage != nullptr && coverage->row_of[binding.stored] == k_no_row) proof.actions[id] = Action::inactive;
  }
  if (coverage != nullptr) {
    for (const TieVerdict& tie : coverage->ties) {
      if (tie.state != TieState::from_alias) continue;
      const StoredId alias = schema.find_stored(schema.ties()[tie.tie].stored_alias);
      for (const BindingId id : by_native.of(schema.ties()[tie.tie].source)) {
        if (bindings[id].stored == alias) proof.actions[id] = Action::write;
        // The source is not missed: its storage is filled under its other name.
        if (bindings[id].stored == schema.ties()[tie.tie].stored_source) why_absent[bindings[id].stored] = LeftOut::no;
      }
    }
    for (NativeId native = 0; native < proof.left_out.size(); ++native) {
      bool is_filled = false;
      LeftOut reason = LeftOut::no;
      for (const BindingId id : by_native.of(native)) {
        if (proof.actions[id] == Action::write || proof.actions[id] == Action::fill) is_filled = true;
        if (bindings[id].kind != BindingKind::primary || proof.actions[id] != Action::inactive) continue;
        const LeftOut why = why_absent[bindings[id].stored];
        if (why != LeftOut::no && why != LeftOut::absent_optional) reason = why;
        if (reason == LeftOut::no) reason = why;
      }
      if (reason == LeftOut::absent_optional && is_filled)
        reason = LeftOut::no;  // constants may stand in; proved below
      proof.left_out[native] = reason;
    }
  }
  if (!has_constants) return;
  // A constant that has the place of a stored tensor is its default: not needed where the tensor is there.
  for (BindingId id = 0; id < bindings.size(); ++id) {
    if (proof.actions[id] != Action::fill) continue;
    for (const BindingId other : by_native.of(bindings[id].native)) {
      if (proof.actions[other] == Action::write && bindings[other].native_offset == bindings[id].native_offset &&
          bindings[other].native_layout == bindings[id].native_layout &&
          schema.stored_tensors()[bindings[other].stored].is_optional) {
        proof.actions[id] = Action::inactive;
        break;
      }
    }
  }
}

void prove_native(const Schema& schema, const Groups& by_native, Prover& prover, Proof& proof) {
  std::vector<BindingId> filling;
  std::vector<BindingId> with_aliases;
  for (NativeId native = 0; native < schema.native_tensors().size(); ++native) {
    if (proof.left_out[native] != LeftOut::no) continue;
    const NativeTensor& tensor = schema.native_tensors()[native];
    filling.clear();
    bool has_alias = false;
    for (const BindingId id : by_native.of(native)) {
      if (proof.actions[id] == Action::write || proof.actions[id] == Action::fill) filling.push_back(id);
      has_alias = has_alias || proof.actions[id] == Action::compare;
    }
    const TilingVerdict* verdict = &prover.verdict(tensor.shape, filling, true);
    if (verdict->tiling == Tiling::hole && has_alias) {
      // Aliases fill what nothing else does (heads that are stored once and kept twice).
      with_aliases.clear();
      for (const BindingId id : by_native.of(native)) {
        if (proof.actions[id] != Action::inactive) with_aliases.push_back(id);
      }
      const TilingVerdict& all = prover.verdict(tensor.shape, with_aliases, true);
      if (all.tiling == Tiling::exact) {
        for (const BindingId id : with_aliases) {
          if (proof.actions[id] == Action::compare) proof.actions[id] = Action::write;
        }
        ++proof.native_proved;
        continue;
      }
    }
    if (verdict->tiling == Tiling::exact) {
      ++proof.native_proved;
    } else {
      proof.faults.push_back(fault_of(schema, true, tensor.key, *verdict, filling));
    }
  }
}

/// The stored side does not depend on what is asked for: it is about the mapping.
void prove_stored(const Schema& schema, const KeyCoverage* coverage, Prover& prover, Proof& proof) {
  const std::span<const Binding> bindings = schema.bindings();
  const Groups by_stored = group(bindings, schema.stored_tensors().size(), [](const Binding& b) { return b.stored; });
  std::vector<BindingId> primary;
  for (StoredId stored = 0; stored < schema.stored_tensors().size(); ++stored) {
    if (coverage != nullptr && coverage->row_of[stored] == k_no_row) continue;
    const LogicalTensor& tensor = schema.stored_tensors()[stored];
    const std::span<const BindingId> all = by_stored.of(stored);
    primary.clear();
    for (const BindingId id : all) {
      if (bindings[id].kind == BindingKind::primary) primary.push_back(id);
    }
    // Primaries read each element once; where they do not, aliases have to read the rest.
    const TilingVerdict* verdict = &prover.verdict(tensor.shape, primary, false);
    std::span<const BindingId> asked = primary;
    if (verdict->tiling == Tiling::hole && primary.size() != all.size()) {
      verdict = &prover.verdict(tensor.shape, all, false);
      asked = all;
    }
    if (verdict->tiling == Tiling::exact) {
      ++proof.stored_proved;
    } else {
      proof.faults.push_back(fault_of(schema, false, tensor.key, *verdict, asked));
    }
  }
}

}  // namespace

std::string_view to_string(Action action) {
  constexpr std::array<std::string_view, 4> k_names = {"write", "compare", "fill", "inactive"};
  return k_names[static_cast<std::size_t>(action)];
}

std::string_view to_string(LeftOut reason) {
  constexpr std::array<std::string_view, 4> k_names = {"no", "not_selected", "missing_allowed", "absent_optional"};
  return k_names[static_cast<std::size_t>(reason)];
}

Proof prove_schema(const Schema& schema, const KeyCoverage* coverage) {
  Proof proof;
  const Groups by_native =
      group(schema.bindings(), schema.native_tensors().size(), [](const Binding& b) { return b.native; });
  resolve_actions(schema, coverage, by_native, proof);
  Prover prover(schema, proof);
  prove_native(schema, by_native, prover, proof);
  prove_stored(schema, coverage, prover, proof);
  return proof;
}

Error error_of(const Schema& schema, const ProofFault& fault) {
  ErrorFacts facts;
  const std::string tensor = (fault.is_native ? "native tensor '" : "stored tensor '") + std::string(fault.key) + "'";
  facts.keys.emplace_back(fault.key);
  facts.notes.push_back("family " + std::string(schema.family()));
  const std::string at = to_string(fault.coordinate);
  facts.coordinate.assign(fault.coordinate.begin(), fault.coordinate.end());
  switch (fault.tiling) {
    case Tiling::hole:
      return Error(ErrorCode::dest_not_covered,
                   fault.is_native ? "element " + at + " of " + tensor + " is filled by no stored tensor"
                                   : "element " + at + " of " + tensor + " is read by no binding",
                   std::move(facts));
    case Tiling::overlap: {
      const auto named = [](std::string_view key) {
        return key.empty() ? std::string("a constant") : "'" + std::string(key) + "'";
      };
      for (const std::string_view key : {fault.first_key, fault.second_key}) {
        if (!key.empty()) facts.keys.emplace_back(key);
      }
      const std::string both = named(fault.first_key) + " and by " + named(fault.second_key);
      return Error(ErrorCode::duplicate_destination,
                   fault.is_native ? "element " + at + " of " + tensor + " is filled by " + both
                                   : "element " + at + " of " + tensor + " is read for " + both,
                   std::move(facts));
    }
    default:
      return Error(ErrorCode::dest_not_covered, "coverage of " + tensor + " cannot be proved: " + fault.reason,
                   std::move(facts));
  }
}

}  // namespace weightproof::plan
