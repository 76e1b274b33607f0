// SPDX-License-Identifier: Apache-2.0
// How much of a file lies in the page cache, and how to bring it out or in. A speed without this is no speed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "loader/measure/figure.hpp"

namespace weightproof::measure {

enum class CacheClass : std::uint8_t {
  cold,    ///< at most 1 % resident
  mixed,   ///< in between
  warm,    ///< at least 99 % resident
  unknown  ///< could not be told
};
std::string_view to_string(CacheClass cache_class);

struct Residency {
  Figure resident;          ///< bytes, whole pages cut to the length of the file
  std::uint64_t total = 0;  ///< bytes of the files
  CacheClass cache_class() const;
};

/// One regular file. cachestat(2) where the kernel has it; else mincore(2), whose answer for a file that the caller may
/// not write is made up by the kernel and therefore not taken. Never throws.
Residency read_residency(const std::filesystem::path& path);
/// Sum over files; unavailable where it is for any of them.
Residency read_residency(std::span<const std::filesystem::path> paths);

/// Writes dirty pages back and asks the kernel to forget the file; then counts. A filesystem may keep pages (tmpfs
/// keeps all): the result says what is left. Empty `fault` on success of the calls.
struct Eviction {
  Residency left;
  std::string fault;
};
Eviction evict(const std::filesystem::path& path);

/// Reads the file once, so that it is warm. Empty on success, else the reason.
std::string warm(const std::filesystem::path& path);

}  // namespace weightproof::measure
