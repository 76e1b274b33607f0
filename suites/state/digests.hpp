// SPDX-License-Identifier: Apache-2.0
// Digests of decoded tensors: SHA-256 and XXH3-128 (seed 0) of the little-endian row-major bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "suites/state/decoded_state.hpp"

namespace weightproof::suites {

struct TensorDigest {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::string sha256;  ///< 64 hex digits
  std::string xxh3;    ///< 32 hex digits, canonical
  friend bool operator==(const TensorDigest&, const TensorDigest&) = default;
};

/// What `manifest` writes and reads: digests by key.
struct Manifest {
  std::string layout = "hf";
  std::string dtype = "stored";
  std::string family;  ///< empty: not told
  std::map<std::string, TensorDigest> tensors;
};

/// Both digests of bytes that come piece by piece.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(std::span<const std::byte> bytes);
  /// Once, at the end.
  void finish(TensorDigest& digest);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

using ByteProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Digests of every tensor, on `threads` threads. Throws the first error in the order of the tensors.
std::map<std::string, TensorDigest> digest_all(const DecodedState& state, unsigned threads,
                                               const ByteProgress& progress = {});

/// JSON text of a manifest, and back. parse_manifest throws Error(config_invalid) for what is no manifest.
std::string manifest_text(const Manifest& manifest, std::string_view tool);
Manifest parse_manifest(std::string_view text, const std::string& file);

/// How a state differs from a manifest.
struct ManifestDifference {
  std::vector<std::string> missing;    ///< in the manifest, not in the state
  std::vector<std::string> unlisted;   ///< in the state, not in the manifest
  std::vector<std::string> different;  ///< other digest, dtype or shape
  std::uint64_t equal = 0;
  bool is_empty() const { return missing.empty() && unlisted.empty() && different.empty(); }
};
ManifestDifference compare_manifests(const std::map<std::string, TensorDigest>& expected,
                                     const std::map<std::string, TensorDigest>& found);

/// Runs `work(i)` for i in [0, count) on threads; the exception of the least i is rethrown at the end.
void for_each_index(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work);

}  // namespace weightproof::suites
