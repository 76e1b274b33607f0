// SPDX-License-Identifier: Apache-2.0
// XXH3-128 (seed 0) of the bytes of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weightproof::exec {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};
/// Canonical form: 32 hexadecimal digits, high word first.
std::string to_string(const Digest& digest);

/// Empty where digests can be made; else why not.
std::string_view digest_unavailable();
Digest digest_of(std::span<const std::byte> bytes);

/// The same over bytes that come piece by piece.
class DigestStream {
 public:
  DigestStream();
  DigestStream(DigestStream&&) noexcept;
  DigestStream& operator=(DigestStream&&) noexcept;
  ~DigestStream();
  void update(std::span<const std::byte> bytes);
  Digest finish() const;

 private:
  void* state_ = nullptr;
};

}  // namespace weightproof::exec
