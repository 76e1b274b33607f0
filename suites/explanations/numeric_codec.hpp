// SPDX-License-Identifier: Apache-2.0
// A codec that decodes as another one does, but for one thing done otherwise: to its stored bytes, to its result, or to
// the arithmetic between them. What a mistake looks like, as a value: probes compare with it, mutants are made of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "loader/codec/codec.hpp"

namespace weightproof::suites {

using SharedCodec = std::shared_ptr<const codec::Codec>;
using CodecParts = std::vector<std::vector<std::byte>>;

/// Passes everything on.
class WrappedCodec : public codec::Codec {
 public:
  explicit WrappedCodec(SharedCodec inner) : WrappedCodec(inner, copy_of(*inner)) {}
  /// With other names of the components: their bytes are read from elsewhere.
  WrappedCodec(SharedCodec inner, std::vector<codec::Component> components);
  void byte_runs(const Box& aligned, std::vector<codec::ByteRun>& runs) const override;
  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override;
  bool encode(const Box& aligned, std::span<const std::span<const std::byte>> parts, std::span<const float> values,
              std::byte* weight_out) const override;

 protected:
  static std::vector<codec::Component> copy_of(const codec::Codec& codec) {
    return {codec.components().begin(), codec.components().end()};
  }
  SharedCodec inner_;
};

/// Changes the bytes before they are decoded.
class InputCodec final : public WrappedCodec {
 public:
  using Change = std::function<void(const codec::Codec& inner, const Box& aligned, CodecParts& parts)>;
  InputCodec(SharedCodec inner, Change change) : WrappedCodec(std::move(inner)), change_(std::move(change)) {}
  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override;

 private:
  Change change_;
};

/// Reads all scales for every box, changes them, and hands on those that the box needs.
class ScaleCodec final : public WrappedCodec {
 public:
  using Change = std::function<void(const codec::Component& scale, std::vector<std::byte>& bytes)>;
  ScaleCodec(SharedCodec inner, Change change);
  void byte_runs(const Box& aligned, std::vector<codec::ByteRun>& runs) const override;
  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override;
  bool encode(const Box& aligned, std::span<const std::span<const std::byte>> parts, std::span<const float> values,
              std::byte* weight_out) const override;

 private:
  CodecParts needed_parts(const Box& aligned, std::span<const std::span<const std::byte>> parts) const;
  std::uint32_t scale_ = 0;
  Change change_;
};

/// Block rows counted from the first row of the box instead of the first row of the tensor.
class LocalGridCodec final : public WrappedCodec {
 public:
  explicit LocalGridCodec(SharedCodec inner) : WrappedCodec(std::move(inner)) {}
  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override;
};

/// Changes decoded values, as F32 patterns, and how they are narrowed.
class OutputCodec final : public WrappedCodec {
 public:
  using Value = std::function<std::uint32_t(std::uint32_t bits)>;
  using Narrow = std::function<std::uint16_t(std::uint32_t bits, DType target)>;
  OutputCodec(SharedCodec inner, Value value, Narrow narrow)
      : WrappedCodec(std::move(inner)), value_(std::move(value)), narrow_(std::move(narrow)) {}
  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override;

 private:
  Value value_;    ///< null: as decoded
  Narrow narrow_;  ///< null: to nearest even
};

/// Codes and scales of a box as numbers: value = q * s, once each is widened. `first` and `second` are the two levels
/// of s where there are two (s = first * second or first / second), `shift` is what the zero point adds (-z * s).
struct Elements {
  std::vector<float> q, s, first, second, shift;
};
Elements elements_of(const codec::Codec& codec, const Box& aligned, std::span<const std::span<const std::byte>> parts);

/// Computes q and s otherwise.
class ArithmeticCodec final : public WrappedCodec {
 public:
  /// The exact result (to be rounded once) or a float: element i of a box.
  using Combine = std::function<double(const Elements& elements, std::size_t i)>;
  ArithmeticCodec(SharedCodec inner, Combine combine) : WrappedCodec(std::move(inner)), combine_(std::move(combine)) {}
  void decode(const Box& aligned, std::span<const std::span<const std::byte>> parts, DType target,
              std::byte* out) const override;

 private:
  Combine combine_;
};

/// Position of the component with the role, or SIZE_MAX.
std::size_t component_of(const codec::Codec& codec, codec::Role role);
/// Changes every element of a component that holds scales, in its own dtype, rounded to nearest; exponents are left
/// alone.
void change_scales(const codec::Component& component, std::vector<std::byte>& bytes,
                   const std::function<float(float)>& change);
/// A component of scales that are numbers or exponents, not codes into a table.
bool is_scale_component(const codec::Codec& codec, std::size_t component);

}  // namespace weightproof::suites
