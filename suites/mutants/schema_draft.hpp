// SPDX-License-Identifier: Apache-2.0
// A schema taken apart into rows that can be changed, and put together again by the builder: how mapping mutants are
// made of sound families.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/schema.hpp"

namespace weightproof::suites {

class SchemaDraft {
 public:
  struct Native {
    std::string key;
    Shape shape;
    DTypeRule rule = DTypeRule::weight;
    DType dtype = DType::bf16;
    std::uint32_t layer = k_no_layer;
    bool is_gone = false;  ///< left out of the schema, with its bindings
    ParallelRule parallel = {};
    std::uint32_t expert = k_no_id;
  };
  struct Part {
    std::string role, key;
    Shape shape;
    DType dtype = DType::u8;
    DTypeRule rule = DTypeRule::fixed;
    bool is_optional = false;
  };
  struct Stored {
    std::string key;
    Shape shape;
    DTypeRule rule = DTypeRule::weight;
    DType dtype = DType::bf16;
    std::uint32_t layer = k_no_layer;
    bool is_optional = false;
    std::string absent_rule;
    double absent_value = 0;
    std::string scheme;  ///< empty: stored as itself
    std::vector<Part> parts;
    std::uint64_t block_rows = 0, block_cols = 0;
    bool is_gone = false;
    bool is_tied = false;  ///< made by a tie
  };
  struct Bound {
    BindingKind kind = BindingKind::primary;
    StoredId stored = k_no_id;
    NativeId native = k_no_id;
    View stored_view, native_view;
    double value = 0;
    std::string rule;
  };
  struct Tied {
    std::string alias;
    StoredId stored = k_no_id;
    NativeId native = k_no_id;
    std::string rule;
  };

  explicit SchemaDraft(const Schema& schema);
  /// Rows that are gone are left out; bindings that need one as well. Throws Error(internal) on a misuse.
  Schema build() const;

  /// The only primary binding of a native tensor, or null. By the stored key: the first.
  Bound* binding_of_native(std::string_view key);
  Bound* binding_of_stored(std::string_view key);
  const Native& native_of(const Bound& bound) const { return natives[bound.native]; }
  const Stored& stored_of(const Bound& bound) const { return stored[bound.stored]; }

  std::string family;
  std::vector<Native> natives;
  std::vector<Stored> stored;
  std::vector<Bound> bindings;
  std::vector<Tied> ties;
  std::vector<Drop> drops;
  std::vector<Passthrough> passthroughs;
  std::vector<std::string> defaulted;
};

}  // namespace weightproof::suites
