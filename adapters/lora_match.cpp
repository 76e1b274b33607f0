// SPDX-License-Identifier: Apache-2.0
// An adapter's names and shapes against its base: which modules they are, and in which form.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "adapters/lora_internal.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

using detail::k_lora_factors;
using Place = detail::LoraPlace;

constexpr std::string_view k_prefix = "base_model.model.";
constexpr std::string_view k_file = "adapter_model.safetensors";

[[noreturn]] void refuse_mixed(std::string what, std::string first, std::string second) {
  ErrorFacts facts;
  facts.file = k_file;
  facts.expected = "one spelling and one form in one adapter";
  facts.actual = first + " beside " + second;
  facts.keys = {std::move(first), std::move(second)};
  facts.hint = "save the adapter again with one tool";
  facts.check = "adapter.config";
  throw Error(ErrorCode::namespace_mixed, std::move(what), std::move(facts));
}

class Matcher {
 public:
  Matcher(const LoraBase& base, const LoraConfig& config, const Catalog& adapter)
      : base_(base), config_(config), adapter_(adapter), targets_(config), names_(base) {
    linears_.resize(base.linears.size());
    experts_.resize(base.experts.size());
    for (const LoraWhole& whole : base.wholes) wholes_.try_emplace(whole.stored, &whole);
  }

  LoraMatch run() {
    find_prefix();
    for (const StoredTensor& row : adapter_.tensors()) add(row);
    out_.modules = modules_.size();
    out_.matched = static_cast<std::size_t>(
        std::count_if(modules_.begin(), modules_.end(), [](const auto& module) { return module.second; }));
    decide_packing();
    decide_ranks();
    collect();
    out_.is_complete_asked = config_.tells_modules();
    if (out_.is_complete_asked) find_absent();
    for (auto* list : {&out_.unmatched, &out_.absent, &out_.untargeted, &out_.unknown, &out_.misnamed}) {
      std::sort(list->begin(), list->end());
    }
    return std::move(out_);
  }

 private:
  struct LinearFound {
    std::vector<const StoredTensor*> rows;
    bool is_native = false;
  };
  struct ExpertsFound {
    std::vector<std::pair<Place, const StoredTensor*>> single;
    std::vector<std::pair<Place, const StoredTensor*>> packed;
    std::optional<bool> is_native;
    std::string first_key;
  };

  void find_prefix() {
    const StoredTensor* with = nullptr;
    const StoredTensor* without = nullptr;
    for (const StoredTensor& row : adapter_.tensors()) {
      (row.key.starts_with(k_prefix) ? with : without) = &row;
    }
    if (with != nullptr && without != nullptr) {
      refuse_mixed("some names begin with 'base_model.model.', others do not", std::string(with->key),
                   std::string(without->key));
    }
    out_.layout.prefix = with != nullptr || without == nullptr ? std::string(k_prefix) : std::string();
  }

  void add(const StoredTensor& row) {
    const std::string_view name = row.key.substr(out_.layout.prefix.size());
    const LoraKey key = lora_key(name);
    if (key.module.empty()) {
      add_whole(row, name);
      return;
    }
    const Place place = names_.find(key.module);
    bool& is_matched = modules_[std::string(key.module)];
    is_matched = is_matched || place.kind != Place::Kind::none;
    out_.layout.has_magnitudes = out_.layout.has_magnitudes || detail::is_magnitude(key.factor);
    if (detail::is_magnitude(key.factor) && !config_.use_dora) out_.untargeted.emplace_back(row.key);
    switch (place.kind) {
      case Place::Kind::none:
        out_.unmatched.emplace_back(row.key);
        return;
      case Place::Kind::linear: {
        const LoraLinear& linear = base_.linears[place.index];
        LinearFound& found = linears_[place.index];
        if (!found.rows.empty() && found.is_native != place.is_native) {
          refuse_mixed("one module under two names", std::string(found.rows[0]->key), std::string(row.key));
        }
        found.is_native = place.is_native;
        found.rows.push_back(&row);
        if (config_.tells_modules() && !targets_.asks(linear)) out_.untargeted.emplace_back(row.key);
        return;
      }
      case Place::Kind::expert:
      case Place::Kind::packed:
        add_expert(place, row);
    }
  }

  void add_expert(const Place& place, const StoredTensor& row) {
    ExpertsFound& found = experts_[place.index];
    const bool is_single = place.kind == Place::Kind::expert;
    const StoredTensor*& other = is_single ? first_packed_ : first_single_;
    (is_single ? first_single_ : first_packed_) = &row;
    if (other != nullptr) {
      refuse_mixed("experts are stored both one by one and packed", std::string(row.key), std::string(other->key));
    }
    if (found.is_native && *found.is_native != place.is_native) {
      refuse_mixed("experts of one layer under two spellings", found.first_key, std::string(row.key));
    }
    if (!found.is_native) found.first_key = std::string(row.key);
    found.is_native = place.is_native;
    (is_single ? found.single : found.packed).emplace_back(place, &row);
    if (!config_.tells_modules()) return;
    const LoraExperts& experts = base_.experts[place.index];
    if (!(is_single ? asks_single(experts, place.matrix, false) : asks_packed(experts, place.is_inner))) {
      out_.untargeted.emplace_back(row.key);
    }
  }

  bool asks_single(const LoraExperts& experts, Place::Matrix matrix, bool is_by_name) const {
    if (matrix == Place::Matrix::gate) return targets_.asks_expert(experts, "gate_proj", experts.gate, is_by_name);
    if (matrix == Place::Matrix::up) return targets_.asks_expert(experts, "up_proj", experts.up, is_by_name);
    return targets_.asks_expert(experts, "down_proj", experts.down, is_by_name);
  }

  /// The outer pair holds the output projection; the input projection where that alone is asked for.
  bool is_input(const LoraExperts& experts, bool is_inner) const {
    return is_inner || (targets_.asks_packed_input(experts) && !targets_.asks_packed_output(experts));
  }
  bool asks_packed(const LoraExperts& experts, bool is_inner) const {
    return is_input(experts, is_inner) ? targets_.asks_packed_input(experts) : targets_.asks_packed_output(experts);
  }

  void add_whole(const StoredTensor& row, std::string_view name) {
    const auto whole = wholes_.find(name);
    const bool is_misnamed = name.find(".lora_") != std::string_view::npos;
    if (is_misnamed || !targets_.saves(name)) {
      (is_misnamed ? out_.misnamed : out_.unknown).emplace_back(row.key);
      return;
    }
    LoraWholePart part;
    part.stored = std::string(name);
    part.native = whole == wholes_.end() ? part.stored : whole->second->native;
    part.shape = whole == wholes_.end() ? row.shape : whole->second->shape;
    if (!whole_natives_.insert(part.native).second)
      refuse_mixed("one tensor under two names", part.native, part.stored);
    out_.layout.wholes.push_back(std::move(part));
  }

  void decide_packing() {
    detail::LoraVotes votes;
    std::string some_key;
    for (std::size_t i = 0; i < experts_.size(); ++i) {
      for (const auto& [place, row] : experts_[i].packed) {
        const LoraKey key = lora_key(row->key);
        if (some_key.empty()) some_key = std::string(row->key);
        votes.add(base_.experts[i], is_input(base_.experts[i], place.is_inner), detail::is_factor_a(key.factor), *row);
      }
    }
    if (some_key.empty()) return;
    out_.layout.packing = detail::decide_packing(votes, config_.packing_stamp, some_key);
    out_.votes = votes.old_keys.size() + votes.new_keys.size();
    out_.is_stamped = config_.packing_stamp.has_value();
  }

  /// The one rank that all these factors have; nothing where they differ or do not tell.
  void decide_ranks() {
    std::set<std::uint64_t> linear_ranks;
    std::set<std::uint64_t> expert_ranks;
    const auto add = [](std::set<std::uint64_t>& ranks, const StoredTensor& row, std::uint64_t count) {
      const LoraKey key = lora_key(row.key);
      if (detail::is_magnitude(key.factor) || !row.is_described || row.shape.rank() != 2 || count == 0) return;
      const std::uint64_t extent = row.shape[detail::is_factor_a(key.factor) ? 0 : 1];
      ranks.insert(extent % count == 0 && extent / count <= LoraConfig::k_rank_max ? extent / count : 0);
    };
    for (const LinearFound& found : linears_) {
      for (const StoredTensor* row : found.rows) add(linear_ranks, *row, 1);
    }
    for (std::size_t i = 0; i < experts_.size(); ++i) {
      for (const auto& [place, row] : experts_[i].single) add(expert_ranks, *row, 1);
      for (const auto& [place, row] : experts_[i].packed) add(expert_ranks, *row, base_.experts[i].count);
    }
    if (!config_.rank_pattern.empty()) return;
    const auto only = [](const std::set<std::uint64_t>& ranks) {
      return ranks.size() == 1 && *ranks.begin() != 0 ? std::optional(*ranks.begin()) : std::nullopt;
    };
    linear_rank_ = only(linear_ranks);
    expert_rank_ = only(expert_ranks);
    if (linear_rank_ && *linear_rank_ != config_.rank) out_.found_rank = linear_rank_;
    if (expert_rank_ && *expert_rank_ != config_.rank && !config_.has_scaled_expert_rank) {
      out_.found_rank = out_.found_rank ? out_.found_rank : expert_rank_;
    }
  }

  void collect() {
    for (std::uint32_t i = 0; i < linears_.size(); ++i) {
      if (linears_[i].rows.empty()) continue;
      const LoraLinear& linear = base_.linears[i];
      const std::uint64_t rank = linear_rank_.value_or(targets_.rank(linear.stored, linear.native));
      out_.layout.linears.push_back({i, rank, linears_[i].is_native});
    }
    for (std::uint32_t i = 0; i < experts_.size(); ++i) {
      const ExpertsFound& found = experts_[i];
      if (found.single.empty() && found.packed.empty()) continue;
      LoraExpertsPart part;
      part.experts = i;
      part.rank = expert_rank_.value_or(targets_.rank(base_.experts[i]));
      part.is_spelled_natively = *found.is_native;
      for (const auto& [place, row] : found.single) {
        part.has_gate = part.has_gate || place.matrix == Place::Matrix::gate;
        part.has_up = part.has_up || place.matrix == Place::Matrix::up;
        part.has_down = part.has_down || place.matrix == Place::Matrix::down;
      }
      for (const auto& [place, row] : found.packed) {
        const bool is_in = is_input(base_.experts[i], place.is_inner);
        part.has_gate = part.has_gate || is_in;
        part.has_up = part.has_up || is_in;
        part.has_down = part.has_down || !is_in;
      }
      out_.layout.experts.push_back(part);
    }
  }

  void find_absent() {
    const auto add = [&](const std::string& module, bool is_embedding) {
      out_.absent.push_back(out_.layout.prefix + module + "." + std::string(k_lora_factors[is_embedding ? 2 : 0]));
      out_.absent.push_back(out_.layout.prefix + module + "." + std::string(k_lora_factors[is_embedding ? 3 : 1]));
    };
    for (std::uint32_t i = 0; i < linears_.size(); ++i) {
      const LoraLinear& linear = base_.linears[i];
      if (linears_[i].rows.empty() && targets_.asks(linear)) add(linear.stored, linear.is_embedding);
    }
    for (std::uint32_t i = 0; i < experts_.size(); ++i) find_absent_experts(i, add);
  }

  template <typename Add>
  void find_absent_experts(std::uint32_t index, const Add& add) {
    const LoraExperts& experts = base_.experts[index];
    const ExpertsFound& found = experts_[index];
    const bool is_native = found.is_native.value_or(false);
    const std::string& parent = is_native ? experts.native : experts.stored;
    std::set<std::pair<std::uint64_t, Place::Matrix>> there;
    for (const auto& [place, row] : found.single) there.insert({place.expert, place.matrix});
    bool has_input = false;
    bool has_output = false;
    for (const auto& [place, row] : found.packed) (is_input(experts, place.is_inner) ? has_input : has_output) = true;
    if (first_single_ == nullptr) {
      const bool wants_input = targets_.asks_packed_input(experts);
      const bool wants_output = targets_.asks_packed_output(experts);
      if (wants_input && !has_input)
        add(parent + (wants_output ? std::string(detail::k_lora_inner) : std::string()), false);
      if (wants_output && !has_output) add(parent, false);
    }
    if (first_packed_ != nullptr) return;
    // Where no expert has factors at all, a bare "gate_proj" may mean dense layers alone: newer libraries have no
    // modules for single experts.
    const bool is_by_name = first_single_ == nullptr;
    for (const Place::Matrix matrix : {Place::Matrix::gate, Place::Matrix::up, Place::Matrix::down}) {
      if ((matrix == Place::Matrix::gate && !experts.is_gated) || !asks_single(experts, matrix, is_by_name)) continue;
      const std::string& stored = matrix == Place::Matrix::gate ? experts.gate
                                  : matrix == Place::Matrix::up ? experts.up
                                                                : experts.down;
      const std::string native = matrix == Place::Matrix::gate ? "gate_proj"
                                 : matrix == Place::Matrix::up ? "up_proj"
                                                               : "down_proj";
      for (std::uint64_t e = 0; e < experts.count; ++e) {
        if (!there.contains({e, matrix}))
          add(parent + "." + std::to_string(e) + "." + (is_native ? native : stored), false);
      }
    }
  }

  const LoraBase& base_;
  const LoraConfig& config_;
  const Catalog& adapter_;
  detail::LoraTargets targets_;
  detail::LoraNames names_;
  LoraMatch out_;
  std::vector<LinearFound> linears_;
  std::vector<ExpertsFound> experts_;
  std::unordered_map<std::string_view, const LoraWhole*> wholes_;
  std::map<std::string, bool> modules_;  // name -> it is in the base
  std::set<std::string> whole_natives_;
  const StoredTensor* first_single_ = nullptr;
  const StoredTensor* first_packed_ = nullptr;
  std::optional<std::uint64_t> linear_rank_;
  std::optional<std::uint64_t> expert_rank_;
};

}  // namespace

std::string_view to_string(LoraPacking packing) {
  switch (packing) {
    case LoraPacking::per_expert:
      return "per_expert";
    case LoraPacking::peft_0_18:
      return "peft-0.18";
    case LoraPacking::peft_0_19_1:
      return "peft-0.19.1";
  }
  return "per_expert";
}

LoraKey lora_key(std::string_view key) {
  for (const std::string_view factor : k_lora_factors) {
    if (key.size() > factor.size() + 1 && key.ends_with(factor) && key[key.size() - factor.size() - 1] == '.') {
      return {key.substr(0, key.size() - factor.size() - 1), factor};
    }
  }
  return {};
}

LoraMatch match_lora(const LoraBase& base, const LoraConfig& config, const Catalog& adapter) {
  return Matcher(base, config, adapter).run();
}

LoraLayout lora_layout(const LoraBase& base, const LoraConfig& config, LoraPacking packing) {
  const detail::LoraTargets targets(config);
  LoraLayout layout;
  layout.packing = packing;
  layout.has_magnitudes = config.use_dora;
  for (std::uint32_t i = 0; i < base.linears.size(); ++i) {
    const LoraLinear& linear = base.linears[i];
    if (targets.asks(linear)) layout.linears.push_back({i, targets.rank(linear.stored, linear.native), false});
  }
  for (std::uint32_t i = 0; i < base.experts.size(); ++i) {
    const LoraExperts& experts = base.experts[i];
    LoraExpertsPart part;
    part.experts = i;
    part.rank = targets.rank(experts);
    if (packing == LoraPacking::per_expert) {
      part.has_gate = experts.is_gated && targets.asks_expert(experts, "gate_proj", experts.gate, false);
      part.has_up = targets.asks_expert(experts, "up_proj", experts.up, false);
      part.has_down = targets.asks_expert(experts, "down_proj", experts.down, false);
    } else {
      part.has_gate = part.has_up = targets.asks_packed_input(experts);
      part.has_down = targets.asks_packed_output(experts);
      part.is_spelled_natively = experts.gate != "gate_proj";  // newer libraries know one name of the packed module
    }
    if (part.has_gate || part.has_up || part.has_down) layout.experts.push_back(part);
  }
  return layout;
}

}  // namespace weightproof::adapters
