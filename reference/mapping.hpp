// SPDX-License-Identifier: Apache-2.0
// The mapping in pull form: for one native coordinate, the one stored coordinate its value comes from; and back.
// Keys and native tensors are numbered: a key by its place in the sorted key list, a native tensor by its place in the
// sorted list of native names. A mapping is a value; its functions are pure and may be called from many threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/detect.hpp"
#include "reference/family.hpp"
#include "reference/safetensors.hpp"

namespace weightproof::reference {

/// A logical stored tensor: stored bytes, or what a quantized weight decodes to, under the weight's name.
struct Key {
  std::string name;
  Shape shape;
};

struct Coord {
  std::array<std::uint64_t, 8> at{};
  std::uint64_t& operator[](std::size_t axis) { return at[axis]; }
  std::uint64_t operator[](std::size_t axis) const { return at[axis]; }
  bool operator==(const Coord&) const = default;
};

enum class Kind { stored, constant };
struct Place {
  Kind kind = Kind::stored;
  int key = -1;
  Coord at;
  float value = 0;      // Of a constant.
  int factor_key = -1;  // >= 0: the stored value is multiplied by element factor_at of this 1-D key (gemma4 fold).
  std::uint64_t factor_at = 0;
};
struct Home {
  int native = -1;
  Coord at;
};

struct NativeTensor {
  std::string name;
  Shape shape;
  bool is_f32 = false;      // Native storage is F32 whatever is stored.
  bool keeps_f32 = false;   // A stored F32 is not narrowed by an asked dtype.
  int alias_of = -1;        // >= 0: the same storage as this native tensor (tied head).
  bool is_default = false;  // No key is stored; `rule` says what stands in.
  std::string rule;         // In words, for reports.
  std::vector<int> keys;    // The keys its elements come from.
  /// Element of this tensor -> stored element. Coordinates are not checked.
  std::function<Place(const Coord&)> pull;
  /// Any `run` native elements, counted row-major from a multiple of `run`, lie in one key in order, `step` stored
  /// elements apart, along one stored axis if step is not 1. Holds for every rule; a test compares it with pull,
  /// element by element.
  std::uint64_t run = 1, step = 1;
};

enum class Use { weight, alias, dropped, unexpected };
struct Fate {
  Use use = Use::unexpected;
  std::string reason;  // Which pattern or rule decided.
  int native = -1;     // alias: of which native tensor.
  /// weight: stored element -> the native tensor it is in. For a split key the native tensor depends on the coordinate.
  /// Empty for a scale that was folded into other values: there is no way back.
  std::function<Home(const Coord&)> home;
};

class Mapping {
 public:
  /// Throws Failure (NAMESPACE_MIXED, MISSING_KEYS, SHAPE_MISMATCH, TIED_FLAG_CONFLICT, TIED_SOURCE_MISSING, ...).
  static Mapping build(const std::string& family, const Config& config, std::vector<Key> keys,
                       const MappingOptions& options = {});

  const std::string& family() const { return family_; }
  const std::string& name_space() const { return name_space_; }
  const std::vector<Key>& keys() const { return keys_; }
  const std::vector<NativeTensor>& native_tensors() const { return natives_; }
  int native_id(std::string_view name) const;  // -1 if unknown.
  int key_id(std::string_view name) const;     // -1 if unknown.
  /// The stored place of one native element. An alias answers with the place of its primary.
  Place pull(int native, const Coord& at) const { return natives_[static_cast<std::size_t>(native)].pull(at); }
  const Fate& fate(int key) const { return fates_[static_cast<std::size_t>(key)]; }
  /// The native place of one stored element; only for keys whose use is weight.
  Home home(int key, const Coord& at) const { return fate(key).home(at); }
  /// Keys the family does not know.
  std::vector<std::string> unexpected() const;
  /// Rules that were taken, not read: an absent tie flag, absent optional tensors.
  const std::vector<std::string>& defaulted() const { return defaulted_; }

 private:
  friend class Assembly;
  friend class AdapterAssembly;
  std::string family_, name_space_;
  std::vector<Key> keys_;
  std::vector<NativeTensor> natives_;
  std::vector<Fate> fates_;
  std::vector<std::string> defaulted_;
};

}  // namespace weightproof::reference
