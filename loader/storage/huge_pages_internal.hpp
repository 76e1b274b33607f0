// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace weightproof::storage::detail {

/// Asks for huge pages under the whole 2 MiB blocks of a large buffer that is about to be filled. First touches of
/// small pages cost more than scanning a header does. Only advice: nothing happens where the system has none.
inline void advise_huge_pages(void* buffer, std::size_t bytes) {
  constexpr std::uintptr_t huge_bytes = 2 * 1024 * 1024;
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(buffer) + huge_bytes - 1) & ~(huge_bytes - 1);
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(buffer) + bytes) & ~(huge_bytes - 1);
  if (bytes < 2 * huge_bytes || end <= begin) return;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace weightproof::storage::detail
