// SPDX-License-Identifier: Apache-2.0
// Routed experts. Natively they live in one of three physical layouts; a stored checkpoint holds them one by one or
// stacked. Whoever states a stored tensor says what it is (gate, up, down) in the orientation of a linear weight,
// [out, in]; this class knows where that lies natively.
//
//   grouped  gate_and_up_projs [E, in, 2I] (ungated [E, in, I]), down_projs [E, I, in]: every matrix transposed
//   te       gate_up_linear.weight{e} [2I, in], down_linear.weight{e} [in, I]
//   mok      routed_gate_weights, routed_up_weights [E, I, in], routed_down_weights [E, in, I]
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "adapters/describer.hpp"

namespace weightproof::adapters {

struct ExpertSpec {
  std::uint64_t experts = 0;
  std::uint64_t input = 0;  ///< hidden size, or the latent size
  std::uint64_t width = 0;  ///< I
  bool is_gated = true;
  bool has_bias = false;
  bool has_interleaved_gate = false;  ///< gate and up alternate, natively too: there is no [gate | up] to split
};

class Experts {
 public:
  static constexpr std::uint64_t k_experts_max = 16384;  ///< published models have up to 512

  /// States the native tensors under "<native scope>experts." of the open scope. Throws Error(route_unavailable) for
  /// what a layout cannot hold (mok: biases, ungated or interleaved experts), Error(limit_exceeded) beyond
  /// k_experts_max.
  Experts(Describer& d, const ExpertSpec& spec, ExpertStorage storage, std::string_view native_scope = "experts.");

  // One expert's matrices. `view` is a view of `stored`: gate and up [I, in], both at once [2I, in] (rows of gate
  // first), down [in, I].
  void bind_gate(std::uint64_t expert, StoredId stored, const View& view);
  void bind_up(std::uint64_t expert, StoredId stored, const View& view);
  void bind_gate_up(std::uint64_t expert, StoredId stored, const View& view);
  void bind_down(std::uint64_t expert, StoredId stored, const View& view);
  void bind_gate_bias(std::uint64_t expert, StoredId stored, const View& view);
  void bind_up_bias(std::uint64_t expert, StoredId stored, const View& view);
  void bind_down_bias(std::uint64_t expert, StoredId stored, const View& view);

  // All experts at once: the same with a leading axis of experts. One binding where the native layout is one tensor.
  void bind_all_gate(StoredId stored, const View& view);
  void bind_all_up(StoredId stored, const View& view);
  void bind_all_gate_up(StoredId stored, const View& view);
  void bind_all_down(StoredId stored, const View& view);
  void bind_all_gate_up_bias(StoredId stored, const View& view);
  void bind_all_down_bias(StoredId stored, const View& view);

  const ExpertSpec& spec() const { return spec_; }

 private:
  View gate_up_of(std::uint64_t expert, NativeId& native) const;
  View down_of(std::uint64_t expert, NativeId& native) const;
  static View expert_of(const View& all, const View& first, std::uint64_t expert);

  Describer& d_;
  ExpertSpec spec_;
  ExpertStorage storage_;
  std::uint64_t rows_;  ///< of gate and up together
  // grouped: gate_up, down; mok: gate, up, down; te: one per expert
  NativeId gate_up_ = k_no_id;
  NativeId up_ = k_no_id;
  NativeId down_ = k_no_id;
  NativeId gate_up_bias_ = k_no_id;
  NativeId down_bias_ = k_no_id;
  std::vector<NativeId> te_;  ///< gate_up, down, and with biases theirs, per expert
  View gate_up_view_;         ///< [E, 2I, in]
  View up_view_;
  View down_view_;  ///< [E, in, I]
  View gate_up_bias_view_;
  View down_bias_view_;
  // Of the first expert: gate and up together and apart, and down.
  View first_gate_up_;
  View first_gate_;
  View first_up_;
  View first_down_;
};

/// How the three matrices of an expert are called, without ".weight".
struct ExpertNames {
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
};
inline constexpr ExpertNames k_numbered_experts{"w1", "w3", "w2"};

/// Stored "<stored scope>{e}.gate_proj.weight" and so on, one tensor per expert and matrix; natives under
/// "<native scope>".
void per_expert(Describer& d, const ExpertSpec& spec, ExpertStorage storage,
                std::string_view stored_scope = "mlp.experts.", std::string_view native_scope = "mlp.experts.",
                const ExpertNames& names = {});

/// Stored "<stored scope>gate_up_proj" [E, 2I, in] and "down_proj" [E, in, I].
void stacked_experts(Describer& d, const ExpertSpec& spec, ExpertStorage storage, std::string_view stored_scope,
                     std::string_view native_scope);
/// Stored "<stored scope>gate_up_proj" [E, in, 2I] and "down_proj" [E, I, in]: as natively.
void transposed_stacked_experts(Describer& d, const ExpertSpec& spec, ExpertStorage storage,
                                std::string_view stored_scope, std::string_view native_scope);

}  // namespace weightproof::adapters
