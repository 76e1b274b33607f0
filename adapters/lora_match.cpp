// SPDX-License-Identifier: Apache-2.0
// An adapter's names and shapes against its base: which modules they are, and in which form.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>

#include "adapters/lora_targets_internal.hpp"
#include "loader/core/error.hpp"

namespace weightproof::adapters {
namespace {

constexpr std::string_view k_prefix = "base_model.model.";
constexpr std::string_view k_inner = ".base_layer";
constexpr std::array<std::string_view, 5> k_factors = {"lora_A.weight", "lora_B.weight", "lora_embedding_A",
                                                       "lora_embedding_B", "lora_magnitude_vector"};
constexpr std::string_view k_file = "adapter_model.safetensors";

bool is_magnitude(std::string_view factor) { return factor == k_factors[4]; }
/// The factor beside the input, and the one beside the output.
bool is_a(std::string_view factor) { return factor == k_factors[0] || factor == k_factors[2]; }

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

/// Where a key of a factor belongs.
struct Place {
  enum class Kind : std::uint8_t { none, linear, expert, packed } kind = Kind::none;
  std::uint32_t index = 0;
  std::uint64_t expert = 0;
  enum class Matrix : std::uint8_t { gate, up, down } matrix = Matrix::gate;
  bool is_inner = false;
  bool is_native = false;  ///< spelled natively where the file's spelling is another
};

class Names {
 public:
  explicit Names(const LoraBase& base) : base_(base) {
    for (std::uint32_t i = 0; i < base.linears.size(); ++i) {
      linears_.try_emplace(base.linears[i].stored, Entry{i, false});
    }
    for (std::uint32_t i = 0; i < base.linears.size(); ++i) {
      linears_.try_emplace(base.linears[i].native, Entry{i, true});
    }
    for (std::uint32_t i = 0; i < base.experts.size(); ++i) {
      parents_.try_emplace(base.experts[i].stored, Entry{i, false});
    }
    for (std::uint32_t i = 0; i < base.experts.size(); ++i) {
      parents_.try_emplace(base.experts[i].native, Entry{i, true});
    }
  }

  Place find(std::string_view module) const {
    Place place;
    if (const auto found = linears_.find(module); found != linears_.end()) {
      place.kind = Place::Kind::linear;
      place.index = found->second.index;
      place.is_native = found->second.is_native;
      return place;
    }
    place.is_inner = module.ends_with(k_inner);
    const std::string_view parent = place.is_inner ? module.substr(0, module.size() - k_inner.size()) : module;
    if (const auto found = parents_.find(parent); found != parents_.end()) {
      place.kind = Place::Kind::packed;
      place.index = found->second.index;
      place.is_native = found->second.is_native;
      return place;
    }
    return place.is_inner ? Place{} : find_expert(module);
  }

 private:
  struct Entry {
    std::uint32_t index;
    bool is_native;
  };

  Place find_expert(std::string_view module) const {
    const std::size_t last = module.rfind('.');
    if (last == std::string_view::npos || last == 0) return {};
    const std::size_t before = module.rfind('.', last - 1);
    if (before == std::string_view::npos) return {};
    const std::string_view digits = module.substr(before + 1, last - before - 1);
    const auto found = parents_.find(module.substr(0, before));
    if (found == parents_.end() || digits.empty() || digits.size() > 9 || (digits[0] == '0' && digits.size() > 1)) {
      return {};
    }
    Place place;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), place.expert);
    const LoraExperts& experts = base_.experts[found->second.index];
    if (error != std::errc() || end != digits.data() + digits.size() || place.expert >= experts.count) return {};
    const std::string_view name = module.substr(last + 1);
    const bool is_one_parent = experts.stored == experts.native;
    const auto matrix = [&](std::string_view gate, std::string_view up, std::string_view down) {
      if (experts.is_gated && name == gate) return std::optional(Place::Matrix::gate);
      if (name == up) return std::optional(Place::Matrix::up);
      return name == down ? std::optional(Place::Matrix::down) : std::nullopt;
    };
    auto is = found->second.is_native && !is_one_parent ? std::nullopt : matrix(experts.gate, experts.up, experts.down);
    if (!is && (found->second.is_native || is_one_parent)) {
      is = matrix("gate_proj", "up_proj", "down_proj");
      place.is_native = true;
    }
    if (!is) return {};
    place.kind = Place::Kind::expert;
    place.index = found->second.index;
    place.matrix = *is;
    return place;
  }

  const LoraBase& base_;
  std::unordered_map<std::string_view, Entry> linears_;
  std::unordered_map<std::string_view, Entry> parents_;
};

/// For which generation a packed tensor's shape speaks.
struct Votes {
  std::vector<std::string> old_keys;
  std::vector<std::string> new_keys;

  void add(const LoraExperts& experts, bool is_input, bool is_factor_a, const StoredTensor& row) {
    if (!row.is_described || row.shape.rank() != 2) return;
    // What lies beside the ranks: the axis of features. Old files have inputs and outputs changed over.
    const std::uint64_t in = is_input ? experts.input : experts.width;
    const std::uint64_t out = is_input ? experts.rows() : experts.input;
    const std::uint64_t features = is_factor_a ? row.shape[1] : row.shape[0];
    if (in == out) return;
    if (features == (is_factor_a ? in : out)) new_keys.emplace_back(row.key);
    if (features == (is_factor_a ? out : in)) old_keys.emplace_back(row.key);
  }
};

[[noreturn]] void refuse_layout(std::string message, std::string expected, std::string actual,
                                std::vector<std::string> keys, std::string file) {
  ErrorFacts facts;
  facts.file = std::move(file);
  facts.keys = std::move(keys);
  facts.expected = std::move(expected);
  facts.actual = std::move(actual);
  facts.hint =
      "state paramwrapper_layout (\"peft-0.18\" or \"peft-0.19.1\") in automodel_peft_config.json as the tool that "
      "wrote "
      "the adapter packs its experts, or write the adapter again";
  throw Error(ErrorCode::adapter_layout_undecided, std::move(message), std::move(facts));
}

LoraPacking decide(const Votes& votes, const std::optional<std::string>& stamp, const std::string& some_key) {
  constexpr const char* stamp_file = "automodel_peft_config.json";
  const std::string k_old(to_string(LoraPacking::peft_0_18));
  const std::string k_new(to_string(LoraPacking::peft_0_19_1));
  if (stamp && *stamp != k_old && *stamp != k_new) {
    refuse_layout("the stamp paramwrapper_layout names no known order of packed experts", k_old + " or " + k_new,
                  *stamp, {stamp_file, some_key}, stamp_file);
  }
  if (!votes.old_keys.empty() && !votes.new_keys.empty()) {
    refuse_layout("shapes of packed experts contradict each other: some are of the older generation, some of the newer",
                  "one generation", votes.old_keys[0] + " is " + k_old + ", " + votes.new_keys[0] + " is " + k_new,
                  {votes.old_keys[0], votes.new_keys[0]}, std::string(k_file));
  }
  const bool has_votes = !votes.old_keys.empty() || !votes.new_keys.empty();
  const LoraPacking voted = votes.old_keys.empty() ? LoraPacking::peft_0_19_1 : LoraPacking::peft_0_18;
  if (!has_votes && !stamp) {
    refuse_layout("packed experts could be of either generation: no shape tells, and there is no stamp",
                  "a stamp paramwrapper_layout", "none", {some_key}, std::string(k_file));
  }
  if (!stamp) return voted;
  const LoraPacking stamped = *stamp == k_old ? LoraPacking::peft_0_18 : LoraPacking::peft_0_19_1;
  if (has_votes && voted != stamped) {
    std::vector<std::string> keys = votes.old_keys.empty() ? votes.new_keys : votes.old_keys;
    keys.emplace_back(stamp_file);
    refuse_layout("the stamp paramwrapper_layout contradicts the shapes of packed experts", *stamp,
                  std::string(to_string(voted)) + " by " + keys.front(), keys, stamp_file);
  }
  return stamped;
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
    out_.layout.has_magnitudes = out_.layout.has_magnitudes || is_magnitude(key.factor);
    if (is_magnitude(key.factor) && !config_.use_dora) out_.untargeted.emplace_back(row.key);
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
    Votes votes;
    std::string some_key;
    for (std::size_t i = 0; i < experts_.size(); ++i) {
      for (const auto& [place, row] : experts_[i].packed) {
        const LoraKey key = lora_key(row->key);
        if (some_key.empty()) some_key = std::string(row->key);
        votes.add(base_.experts[i], is_input(base_.experts[i], place.is_inner), is_a(key.factor), *row);
      }
    }
    if (some_key.empty()) return;
    out_.layout.packing = decide(votes, config_.packing_stamp, some_key);
    out_.votes = votes.old_keys.size() + votes.new_keys.size();
    out_.is_stamped = config_.packing_stamp.has_value();
  }

  /// The one rank that all these factors have; nothing where they differ or do not tell.
  void decide_ranks() {
    std::set<std::uint64_t> linear_ranks;
    std::set<std::uint64_t> expert_ranks;
    const auto add = [](std::set<std::uint64_t>& ranks, const StoredTensor& row, std::uint64_t count) {
      const LoraKey key = lora_key(row.key);
      if (is_magnitude(key.factor) || !row.is_described || row.shape.rank() != 2 || count == 0) return;
      const std::uint64_t extent = row.shape[is_a(key.factor) ? 0 : 1];
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
      out_.absent.push_back(out_.layout.prefix + module + "." + std::string(k_factors[is_embedding ? 2 : 0]));
      out_.absent.push_back(out_.layout.prefix + module + "." + std::string(k_factors[is_embedding ? 3 : 1]));
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
      if (wants_input && !has_input) add(parent + (wants_output ? std::string(k_inner) : std::string()), false);
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
  Names names_;
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
  for (const std::string_view factor : k_factors) {
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
