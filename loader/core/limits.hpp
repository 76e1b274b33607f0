// SPDX-License-Identifier: Apache-2.0
// Every cap on something a file controls, and every tuning constant that two places must agree on.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weightproof::limits {

inline constexpr unsigned rank_max = 8;                             ///< axes of a tensor or a view
inline constexpr std::uint64_t header_bytes_max = 100'000'000;      ///< the format's own cap, decimal
inline constexpr unsigned json_depth_max = 128;                     ///< nesting of ignored JSON values
inline constexpr std::size_t metadata_entries_max = 100'000;        ///< entries of one '__metadata__'
inline constexpr std::size_t extra_fields_max = 1024;               ///< unknown fields of one tensor entry
inline constexpr std::size_t json_values_max = 4'000'000;           ///< values of one config document
inline constexpr std::size_t name_bytes_max = 32 * 1024;            ///< one tensor name, decoded
inline constexpr std::size_t tensors_per_file_max = 2'500'000;      ///< below what 100 MB of header can hold
inline constexpr std::size_t tensors_max = 16'000'000;              ///< over all files of a checkpoint
inline constexpr std::size_t shards_max = 100'000;                  ///< files of a checkpoint
inline constexpr std::size_t config_bytes_max = 64 * 1024 * 1024;   ///< config.json and companions
inline constexpr std::size_t index_bytes_max = 1024 * 1024 * 1024;  ///< model.safetensors.index.json
inline constexpr std::size_t directory_entries_max = 1'000'000;

inline constexpr std::size_t tile_bytes_max = 256 * 1024;       ///< decode tile: fits L2
inline constexpr std::size_t read_bytes_max = 4 * 1024 * 1024;  ///< one read request
inline constexpr std::size_t read_gap_bytes_max = 64 * 1024;    ///< gap that a coalesced read reads through
inline constexpr std::size_t staging_bytes_max = 64 * 1024 * 1024;
inline constexpr std::size_t companion_bytes_max = 16 * 1024 * 1024;

}  // namespace weightproof::limits
