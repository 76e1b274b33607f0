// SPDX-License-Identifier: Apache-2.0
// A family: which stored keys it knows, under which native name each of their elements appears, and by which rule.
// The rules are stated per element in rules.cpp; here they are only named.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference/config.hpp"

namespace weightproof::reference {

/// How the elements of a native tensor are found. N native, S stored; e expert, h input, i output of a projection.
enum class Rule {
  same,            // N[c] = S[c]
  same_f32,        // the same, native storage is F32 whatever is stored
  same_kept,       // the same, and a stored F32 is never narrowed by a cast
  squeeze_f32,     // N[e] = S[0][e], F32
  expert_gate,     // N[e][h][i] = S_e[i][h]
  expert_up,       // N[e][h][I+i] = S_e[i][h]
  expert_up_only,  // N[e][h][i] = S_e[i][h]
  expert_down,     // N[e][i][h] = S_e[h][i]
  bias_gate,       // N[e][i] = S_e[i]
  bias_up,         // N[e][I+i] = S_e[i]
  bias_only,       // N[e][i] = S_e[i]
  stacked_swap,    // N[e][b][a] = S[e][a][b]
  stacked_gate,    // N[e][h][i] = S[e][i][h]
  stacked_up,      // N[e][h][I+i] = S[e][i][h]
  stacked_down,    // N[e][i][h] = S[e][h][i]; with a fold, times per_expert_scale[e]
  fold_scale,      // per_expert_scale[e] of the same layer's stacked_down, where folding was asked for
  rows_q,          // N = S rows [0, Nq*D)
  rows_k,          // N = S rows [Nq*D, (Nq+Nk)*D)
  rows_v,          // N = S rows [(Nq+Nk)*D, (Nq+2Nk)*D)
  group_q,         // N row g(r+2)D + t = S row g*r*D + t, t in [0, rD)
  group_k,         // N row g(r+2)D + rD + t = S row gD + t, t in [0, D)
  group_v,         // N row g(r+2)D + (r+1)D + t = S row gD + t
  alternate_gate,  // N row 2i = S row i
  alternate_up     // N row 2i+1 = S row i
};

/// One line of a family. `stored` and `native` are patterns: '#' a decimal number, '{a,b}' one of several words, '*' at
/// the end the rest of the key (at least one character). The k-th '#' or '{}' of `native` stands for the k-th of
/// `stored`. An empty `native` is the stored key itself. For expert rules the last '#' of `stored` is the expert.
struct Line {
  std::string stored;
  std::string native;
  Rule rule = Rule::same;
};

/// A way to spell the keys of a family: each prefix on the left is read as the one on the right; the first that fits.
struct Spelling {
  std::string name;  // The prefix in front of "layers.#." in the file.
  std::vector<std::pair<std::string, std::string>> prefixes;
};

/// A native tensor that exists although no key is stored: every element is `value`. Present once per layer whose native
/// tensor `beside` exists; its shape is `shape`, or the first extent of `beside` where `shape` is empty.
struct Default {
  std::string native;
  std::string beside;
  std::vector<std::uint64_t> shape;
  float value = 0;
  bool is_f32 = false;
  bool is_required = false;  // No default: `native` must be stored wherever `beside` is.
};

enum class Tie { both, tied_only, untied_only };

struct Family {
  std::string id;
  bool takes_any_key = false;  // identity: unknown keys are native tensors of the same name.
  std::vector<Line> lines;
  std::vector<std::string> dropped;  // Patterns of keys that are known and not loaded.
  std::vector<Spelling> spellings;   // Empty: "model." and the bare namespace.
  std::vector<Default> defaults;
  Tie tie = Tie::untied_only;
  std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";  // Native names.
  bool drops_layers_beyond_count = false;    // Keys of layer N >= layer_count are dropped.
  std::optional<std::uint64_t> layer_count;  // Absent: num_hidden_layers of the config.
};

struct NativeTensor;
struct MappingOptions {
  bool fold_expert_scale = false;  // gemma4: multiply per_expert_scale into down_projs.
  bool names_only = false;         // Shapes are not known: names are mapped, pull and home must not be called.
  /// For tests of what compares with the reference: states a native tensor wrongly. Aliases follow their primary.
  std::function<void(NativeTensor&)> misstate;
};

/// The family of that id. Throws Failure(USAGE) for an unknown id.
Family family_of(const std::string& id, const Config& config, const MappingOptions& options = {});
/// All ids, sorted.
std::vector<std::string> family_ids();

}  // namespace weightproof::reference
