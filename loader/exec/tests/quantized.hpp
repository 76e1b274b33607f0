// SPDX-License-Identifier: Apache-2.0
// A quantized model of this room's tests.
#pragma once

#include "loader/exec/tests/exec_testing.hpp"

namespace weightproof::exec::testing_support {

inline plan::Row row_of(const Catalog& catalog, const std::string& key) {
  const std::size_t at = catalog.index_of(key);
  if (at == SIZE_MAX) throw std::runtime_error("no row " + key);
  return static_cast<plan::Row>(at);
}

/// One codec over rows named like its components.
inline plan::DecodeSource decode_of(const Catalog& catalog, StoredId stored, const codec::Scheme& scheme,
                                    const std::vector<std::pair<codec::Role, std::string>>& parts) {
  plan::DecodeSource source;
  source.stored = stored;
  std::vector<codec::Component> components;
  for (const auto& [role, key] : parts) {
    const plan::Row row = row_of(catalog, key);
    components.push_back({role, key, catalog.tensors()[row].dtype, catalog.tensors()[row].shape});
    source.rows.push_back(row);
  }
  source.codec = codec::make_codec(scheme, std::move(components));
  return source;
}

inline std::vector<std::byte> scales_of(std::uint64_t count) {
  std::vector<std::byte> bytes(count * 4);
  for (std::uint64_t i = 0; i < count; ++i) {
    const float value = 0.001f * static_cast<float>(i % 97 + 1);
    std::memcpy(bytes.data() + 4 * i, &value, 4);
  }
  return bytes;
}

inline codec::Scheme fp8_block() {
  codec::Scheme scheme;
  scheme.id = "fp8_block";
  scheme.block_rows = scheme.block_cols = 128;
  return scheme;
}

/// FP8 blocks stored as they are wanted, transposed into a group, and as part of a fused matrix; MXFP4 experts whose
/// rows alternate between two tensors.
struct Quantized {
  std::shared_ptr<const Schema> schema;
  StoredId plain = k_no_id, turned = k_no_id, part = k_no_id, experts = k_no_id;

  explicit Quantized(bool has_interleaved) {
    SchemaBuilder b("quantized");
    const NativeId native = b.native("plain", {700, 600});
    b.bind(plain = b.stored("plain.weight", {700, 600}), native, b.whole(native));
    const NativeId grouped = b.native("grouped", {2, 300, 200});
    b.bind(turned = b.stored("turned.weight", {200, 300}), grouped, b.whole(grouped).select(0, 1).transpose(0, 1));
    b.bind(b.stored("other.weight", {200, 300}), grouped, b.whole(grouped).select(0, 0).transpose(0, 1));
    const NativeId left = b.native("left", {150, 260});
    const NativeId right = b.native("right", {150, 40});
    part = b.stored("part.weight", {150, 300});
    b.bind(part, b.whole_stored(part).narrow(1, 0, 260), left, b.whole(left));
    b.bind(part, b.whole_stored(part).narrow(1, 260, 40), right, b.whole(right));
    if (has_interleaved) {
      experts = b.stored("experts", {2, 24, 64});
      const NativeId gate = b.native("gate", {2, 12, 64});
      const NativeId up = b.native("up", {2, 12, 64});
      const View pairs = b.whole_stored(experts).unflatten(1, {12, 2});
      b.bind(experts, pairs.select(2, 0), gate, b.whole(gate));
      b.bind(experts, pairs.select(2, 1), up, b.whole(up));
    }
    schema = share(b);
  }

  void add_to(Files& files) const {
    const auto add = [&](const std::string& key, std::uint64_t rows, std::uint64_t cols) {
      const std::uint64_t blocks = (rows + 127) / 128 * ((cols + 127) / 128);
      files.add(key + ".weight", {rows, cols}, DType::f8_e4m3);
      files.add(key + ".weight_scale_inv", {(rows + 127) / 128, (cols + 127) / 128}, DType::f32, scales_of(blocks));
    };
    add("plain", 700, 600);
    add("turned", 200, 300);
    files.next_file();
    add("part", 150, 300);
    files.add("other.weight", {200, 300}, DType::bf16);
    if (experts == k_no_id) return;
    files.add("experts_blocks", {2, 24, 2, 16}, DType::u8)
        .add("experts_scales", {2, 24, 2}, DType::u8, std::vector<std::byte>(2 * 24 * 2, std::byte{121}));
  }

  std::function<void(const Catalog&, plan::Request&)> decodes() const {
    return [this](const Catalog& catalog, plan::Request& request) {
      for (const auto& [id, key] : {std::pair(plain, "plain"), std::pair(turned, "turned"), std::pair(part, "part")}) {
        const std::string weight = std::string(key) + ".weight";
        request.decodes.push_back(decode_of(
            catalog, id, fp8_block(), {{codec::Role::weight, weight}, {codec::Role::scale, weight + "_scale_inv"}}));
      }
      if (experts == k_no_id) return;
      codec::Scheme scheme;
      scheme.id = "mxfp4_blocks";
      scheme.group_size = 32;
      request.decodes.push_back(decode_of(
          catalog, experts, scheme, {{codec::Role::weight, "experts_blocks"}, {codec::Role::scale, "experts_scales"}}));
    };
  }
};

}  // namespace weightproof::exec::testing_support
