// SPDX-License-Identifier: Apache-2.0
// One quantized tensor and how it is read: which stored bytes cover a box of decoded values, and what those values are.
// All boxes are in global natural coordinates (the decoded shape, in the orientation in which the scheme is defined),
// so a rank's part is a box like any other. A codec holds no weight bytes and no state. Thread rule: immutable, shared
// freely.
//
//   value = RN_target( F32(code) *f32 F32(scale) )   with the order of operations of the scheme; a NaN result is the
//   canonical NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/box.hpp"
#include "loader/core/dtype.hpp"
#include "loader/core/error.hpp"

namespace weightproof::codec {

/// What a stored tensor is to its weight.
enum class Role : std::uint8_t {
  weight,
  scale,
  global_scale,
  zero_point,
  group_index,
  quant_map,
  nested_absmax,
  nested_quant_map,
  quant_state,    ///< JSON text (bitsandbytes)
  weight_shape,   ///< true shape of a packed weight
  weight_format,  ///< layout number (bitsandbytes int8)
  unused  ///< belongs to the weight but decoding needs none of it: activation scales, k_scale; listed as consumed
};
std::string_view to_string(Role role);

struct Component {
  Role role = Role::weight;
  std::string key;
  DType dtype = DType::u8;
  Shape shape;  ///< as stored
};

/// The scheme and the parameters that config and tensors settled together.
struct Scheme {
  std::string id;                ///< one of scheme_ids()
  std::uint64_t block_rows = 0;  ///< fp8_block: rows and columns that share a scale
  std::uint64_t block_cols = 0;
  std::uint64_t group_size = 0;  ///< columns (inputs) that share a scale; 0: the whole row
  unsigned bits = 0;             ///< integer codes
  bool is_symmetric = true;
  bool has_old_packing = false;  ///< ct_pack: floor(32 / bits) fields per word
  unsigned version = 0;          ///< gptq: 1 or 2
  friend bool operator==(const Scheme&, const Scheme&) = default;
};
std::span<const std::string_view> scheme_ids();

/// Stored bytes of one component. Offsets are relative to the component's first byte.
struct ByteRun {
  std::uint32_t component = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const ByteRun&, const ByteRun&) = default;
};

/// How far a decoded value may be from the exact product.
enum class Exactness : std::uint8_t {
  exact,             ///< codes are values of the target type
  correctly_rounded  ///< F32 operations of the scheme, then one rounding to the target
};

/// A small component whose bytes a plan depends on. Read before planning; at most `bytes_max`.
struct Probe {
  std::uint32_t component = 0;
  std::uint64_t bytes_max = 0;
  std::string why;
};

class Codec {
 public:
  virtual ~Codec() = default;

  const Scheme& scheme() const { return scheme_; }
  std::span<const Component> components() const { return components_; }
  /// Decoded shape. Rank 2 or more; leading axes are experts.
  const Shape& natural_shape() const { return natural_shape_; }
  Exactness exactness() const { return exactness_; }
  /// Box edges must be multiples of this (or the tensor's edge): one entry per natural axis.
  const Extents& granule() const { return granule_; }
  /// Smallest box on the granule that holds `box`.
  Box align(const Box& box) const;

  /// Bytes needed to decode an aligned box, grouped by component, ascending offsets within one, adjacent runs merged.
  /// Appends.
  virtual void byte_runs(const Box& aligned, std::vector<ByteRun>& runs) const = 0;

  /// Decodes an aligned box. parts[c] is the concatenation, in order, of the runs that byte_runs() gave for component c
  /// (empty where it gave none). `out` receives the box densely, row-major, in `target` (bf16, f16 or f32):
  /// element_count(box) elements. Errors: dtype_unsupported for another target. Cost: one pass.
  virtual void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
                      std::byte* out) const = 0;

  /// Codes of values under the stored scales: the inverse of decode for values that decode produced. `values` is the
  /// dense box in F32; parts as for decode with parts[weight] ignored; `weight_out` receives the bytes of the weight's
  /// runs. False where the scheme has no such inverse.
  virtual bool encode(const Box& aligned, std::span<const std::span<const std::byte>> parts,
                      std::span<const float> values, std::byte* weight_out) const;

 protected:
  Codec(Scheme scheme, std::vector<Component> components, Shape natural_shape, Extents granule, Exactness exactness);
  /// Position of the first component with the role, or SIZE_MAX.
  std::size_t component_of(Role role) const;

 private:
  Scheme scheme_;
  std::vector<Component> components_;
  Shape natural_shape_;
  Extents granule_;
  Exactness exactness_;
};

/// What must be read before make_codec: empty for most schemes.
std::vector<Probe> probes_of(const Scheme& scheme, std::span<const Component> components);

/// probe_bytes[i] holds the bytes of the i-th entry of probes_of(). Every size is checked against the shapes. Errors
/// (naming keys, found and allowed): scale_missing, scale_shape, quant_config_mismatch, quant_unsupported,
/// limit_exceeded.
std::unique_ptr<const Codec> make_codec(const Scheme& scheme, std::vector<Component> components,
                                        std::span<const std::vector<std::byte>> probe_bytes = {});

/// Bytes of one stored element sequence, for callers that hold component bytes whole.
std::uint64_t component_bytes(const Component& component);

}  // namespace weightproof::codec
