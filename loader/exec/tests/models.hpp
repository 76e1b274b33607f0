// SPDX-License-Identifier: Apache-2.0
// The model of this room's tests: every kind of move once.
#pragma once

#include "loader/exec/tests/exec_testing.hpp"

namespace weightproof::exec::testing_support {

/// Runs, renames, small tensors with gaps, a transposed and a stacked expert matrix, interleaved halves, a fused
/// matrix, a column part, a tied head, a constant, an empty tensor and a scalar.
struct Model {
  std::shared_ptr<const Schema> schema;

  explicit Model(std::uint64_t hidden = 48, std::uint64_t inner = 33, std::uint64_t experts = 3) {
    SchemaBuilder b("model");
    const StoredId embed = b.stored("embed.weight", {70, hidden});
    const NativeId native_embed = b.native("embed", {72, hidden});
    b.bind(embed, native_embed, b.whole(native_embed).narrow(0, 0, 70));
    b.constant(native_embed, b.whole(native_embed).narrow(0, 70, 2), 0, "padded vocabulary");
    b.alias(b.stored("head.weight", {70, hidden}), View::whole({70, hidden}), native_embed,
            b.whole(native_embed).narrow(0, 0, 70), "tied head");
    for (int layer = 0; layer < 3; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      b.identity(prefix + "norm.weight", {hidden}, DTypeRule::f32_state, static_cast<std::uint32_t>(layer));
      b.identity(prefix + "scale", {}, DTypeRule::any);
    }
    const NativeId qkv = b.native("qkv", {3 * inner, hidden});
    for (unsigned i = 0; i < 3; ++i) {
      const std::string key = std::string("self.") + "qkv"[i];
      b.bind(b.stored(key, {inner, hidden}), qkv, b.whole(qkv).narrow(0, i * inner, inner));
    }
    const NativeId gate_up = b.native("experts.gate_up", {experts, hidden, 2 * inner});
    const NativeId down = b.native("experts.down", {experts, inner, hidden});
    const NativeId mixed = b.native("experts.interleaved", {experts, hidden, 2 * inner});
    for (unsigned e = 0; e < experts; ++e) {
      const std::string prefix = "experts." + std::to_string(e) + ".";
      const View grouped = b.whole(gate_up).select(0, e);
      b.bind(b.stored(prefix + "gate", {inner, hidden}), gate_up, grouped.narrow(1, 0, inner).transpose(0, 1));
      b.bind(b.stored(prefix + "up", {inner, hidden}), gate_up, grouped.narrow(1, inner, inner).transpose(0, 1));
      b.bind(b.stored(prefix + "down", {hidden, inner}), down, b.whole(down).select(0, e).transpose(0, 1));
      const View pairs = b.whole(mixed).select(0, e).unflatten(1, {inner, 2});
      b.bind(b.stored(prefix + "w1", {inner, hidden}), mixed, pairs.select(2, 0).transpose(0, 1));
      b.bind(b.stored(prefix + "w3", {inner, hidden}), mixed, pairs.select(2, 1).transpose(0, 1));
    }
    // One stored tensor taken apart by columns.
    const StoredId both = b.stored("both", {20, 2 * hidden});
    const NativeId left = b.native("left", {20, hidden});
    const NativeId right = b.native("right", {hidden, 20});
    b.bind(both, View::whole({20, 2 * hidden}).narrow(1, 0, hidden), left, b.whole(left));
    b.bind(both, View::whole({20, 2 * hidden}).narrow(1, hidden, hidden).transpose(0, 1), right, b.whole(right));
    b.identity("empty", {0, 4});
    b.identity("table", {5, 3}, DTypeRule::any);
    b.drop("*.inv_freq", "recomputed");
    schema = share(b);
    hidden_ = hidden;
    inner_ = inner;
    experts_ = experts;
  }

  void add_to(Files& files, DType dtype = DType::bf16, bool has_head = true) const {
    files.add("embed.weight", {70, hidden_}, dtype);
    for (int layer = 0; layer < 3; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      files.add(prefix + "norm.weight", {hidden_}, is_ordinary_float(dtype) ? DType::f32 : dtype);
      files.add(prefix + "rotary.inv_freq", {3}, DType::f32);
      files.add(prefix + "scale", {}, DType::f32);
    }
    files.next_file();
    for (unsigned i = 0; i < 3; ++i)
      files.add(
          std::string("self.") + "qkv" [i], { inner_, hidden_ }, dtype);
    for (unsigned e = 0; e < experts_; ++e) {
      const std::string prefix = "experts." + std::to_string(e) + ".";
      for (const char* name : {"gate", "up", "w1", "w3"}) files.add(prefix + name, {inner_, hidden_}, dtype);
      files.add(prefix + "down", {hidden_, inner_}, dtype);
    }
    files.next_file();
    if (has_head) files.add("head.weight", {70, hidden_}, dtype, files.find("embed.weight").bytes);
    files.add("both", {20, 2 * hidden_}, dtype).add("empty", {0, 4}, dtype).add("table", {5, 3}, DType::i64);
  }

 private:
  std::uint64_t hidden_ = 0;
  std::uint64_t inner_ = 0;
  std::uint64_t experts_ = 0;
};

}  // namespace weightproof::exec::testing_support
