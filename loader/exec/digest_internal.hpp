// SPDX-License-Identifier: Apache-2.0
// Digests of tensors while they are loaded: of bytes as they arrive where a tensor is one run, of the whole when it is
// complete otherwise. The order in which pieces arrive does not matter.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "loader/exec/destination.hpp"
#include "loader/exec/digest.hpp"
#include "loader/plan/plan.hpp"

namespace weightproof::exec {

/// What one running digest takes, rounded up.
inline constexpr std::uint64_t k_digest_stream_bytes = 1024;

/// Thread-safe.
class DigestBook {
 public:
  explicit DigestBook(const plan::Plan& plan);
  /// Bytes of a dense tensor in host memory, at their place. Every byte once, in pieces of any order.
  void arrived(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes);
  /// The tensor is complete; makes the digest unless all bytes arrived one by one.
  void complete(std::size_t tensor, const Destination& destination);
  /// At the end of a load that is complete.
  std::vector<Digest> take();

 private:
  struct Running {
    DigestStream stream;
    std::uint64_t next = 0;
    std::map<std::uint64_t, std::span<const std::byte>> waiting;
    bool is_busy = false;
  };
  const plan::Plan& plan_;
  std::mutex mutex_;
  std::vector<Digest> digests_;
  std::vector<bool> is_done_;
  std::unordered_map<std::size_t, Running> running_;
};

}  // namespace weightproof::exec
