// SPDX-License-Identifier: Apache-2.0
// Quantized weights: which stored tensors belong together, and the value of one element of what they decode to.
// Every scheme: widen codes and scales to F32, combine with IEEE F32 operations in the order of the scheme, round once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "reference/config.hpp"
#include "reference/mapping.hpp"
#include "reference/safetensors.hpp"

namespace weightproof::reference {

/// Random access to stored tensors in small blocks that are kept until `bytes_max` are held, then all dropped.
class Blocks {
 public:
  static constexpr std::uint64_t k_block_bytes = 8192;

  Blocks(const Checkpoint& checkpoint, std::uint64_t bytes_max) : checkpoint_(&checkpoint), bytes_max_(bytes_max) {
    slots_.resize(checkpoint.tensors().size());
  }
  std::uint8_t byte(const TensorEntry& entry, std::uint64_t offset) {
    return std::to_integer<std::uint8_t>(*at(entry, offset));
  }
  /// The code of one element, in the low bits. Sub-byte elements: low bits of a byte first. Not for F6.
  std::uint64_t code(const TensorEntry& entry, std::uint64_t flat) {
    // Little-endian, and no element straddles a block: k_block_bytes is a multiple of every width.
    switch (bits_of(entry.dtype)) {
      case 8:
        return byte(entry, flat);
      case 16:
        return join<2>(at(entry, flat * 2));
      case 32:
        return join<4>(at(entry, flat * 4));
      case 64:
        return join<8>(at(entry, flat * 8));
      case 4:
        return std::uint64_t{byte(entry, flat / 2)} >> (flat % 2 * 4) & 15u;
      default:
        throw Failure("DTYPE_UNSUPPORTED", "'" + entry.key + "' has 6-bit elements");
    }
  }

 private:
  const Checkpoint* checkpoint_;
  std::uint64_t bytes_max_, bytes_ = 0;
  std::vector<std::vector<std::unique_ptr<std::byte[]>>> slots_;

  template <std::size_t Width>
  static std::uint64_t join(const std::byte* first) {
    std::uint64_t code = 0;
    for (std::size_t i = 0; i < Width; ++i) code |= std::to_integer<std::uint64_t>(first[i]) << (8 * i);
    return code;
  }
  const std::byte* at(const TensorEntry& entry, std::uint64_t offset) {
    const auto& blocks = slots_[static_cast<std::size_t>(&entry - checkpoint_->tensors().data())];
    const auto number = static_cast<std::size_t>(offset / k_block_bytes);
    if (number < blocks.size() && blocks[number] && offset < entry.end - entry.begin)
      return blocks[number].get() + offset % k_block_bytes;
    return load(entry, offset);
  }
  const std::byte* load(const TensorEntry& entry, std::uint64_t offset);
};

/// F32 bits of one element; NaN is 7fc00000.
using Element = std::function<std::uint32_t(const Coord&)>;

/// A tensor as a reader of the model sees it: stored elements, or decoded ones under the name of the weight.
struct Logical {
  std::string name;
  Shape shape;
  std::string scheme = "plain";
  const TensorEntry* weight = nullptr;      // The codes; of a plain tensor, the tensor itself.
  std::vector<std::string> companions;      // Every other stored key that takes part.
  std::function<Element(Blocks&)> decoder;  // Empty for plain tensors.
};

struct Overlay {
  std::vector<Logical> tensors;                 // Sorted by name.
  std::map<std::string, std::string> consumed;  // Stored key -> what it serves, or why it is dropped.
  std::vector<std::string> warnings;
};

/// Groups the tensors of a checkpoint. `quantization`: the quantization config, or null.
/// Throws Failure (SCALE_MISSING, SCALE_ORPHAN, SCALE_SHAPE, QUANT_UNSUPPORTED, QUANT_CONFIG_MISMATCH).
Overlay find_overlay(const Checkpoint& checkpoint, const Config& config, const Json* quantization);

}  // namespace weightproof::reference
