// SPDX-License-Identifier: Apache-2.0
// The form of a stored checkpoint: everything about names and physical layout that the family alone does not fix. A
// value, found from config, keys, shapes and file metadata before anything is built; an export takes a target form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weightproof {

/// Physical storage of the experts on the native side.
enum class ExpertStorage : std::uint8_t { grouped, te, mok };

struct Form {
  std::string quantization;   ///< "" plain; else the scheme as found: "fp8_block", "mxfp4", "nf4", "mlx_affine", ...
  std::string name_space;     ///< prefix of the stored names: "model.", "language_model.model.", "backbone.", ""
  std::string expert_layout;  ///< "" where the family has one; else "per_expert", "stacked", "stacked_transposed", ...
  std::string generation;     ///< key or adapter generation where several were published, else ""
  bool is_tied = false;       ///< head and embedding are one tensor
  bool has_stored_head = true;
  bool has_mtp = false;  ///< multi-token-prediction tensors are stored
  /// Decoder layers whose keys are stored, where they may be more than the config's; 0 where nobody asked.
  std::uint64_t stored_layers = 0;
  friend bool operator==(const Form&, const Form&) = default;
};

}  // namespace weightproof
