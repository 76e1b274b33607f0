// SPDX-License-Identifier: Apache-2.0
// Reads the golden vectors (fixtures/golden) for the codec tests: a small safetensors file whole in memory, and the
// catalog over it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "loader/core/catalog.hpp"

namespace weightproof::codec::testing {

struct GoldenFile {
  std::map<std::string, std::vector<std::byte>> bytes;
  Catalog catalog;
};

inline std::filesystem::path golden_folder() {
  return std::filesystem::path(WEIGHTPROOF_SOURCE_DIR) / "fixtures" / "golden";
}

inline GoldenFile read_golden(const std::string& name) {
  std::ifstream stream(golden_folder() / name, std::ios::binary);
  if (!stream) throw std::runtime_error("golden file missing: " + name);
  const std::string all((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, all.data(), 8);
  const auto header = nlohmann::json::parse(all.substr(8, header_bytes));
  GoldenFile file;
  CatalogBuilder builder;
  builder.add_file(name);
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__") continue;
    const std::uint64_t begin = entry["data_offsets"][0].get<std::uint64_t>();
    const std::uint64_t end = entry["data_offsets"][1].get<std::uint64_t>();
    StoredTensor tensor{.key = key, .shape = {}, .begin = 8 + header_bytes + begin, .bytes = end - begin, .file = 0};
    for (const auto& extent : entry["shape"]) tensor.shape.push_back(extent.get<std::uint64_t>());
    tensor.dtype = dtype_from_name(entry["dtype"].get<std::string>()).value();
    tensor.is_described = true;
    builder.add_copy(tensor);
    const auto* data = reinterpret_cast<const std::byte*>(all.data()) + 8 + header_bytes;
    file.bytes[key] = std::vector<std::byte>(data + begin, data + end);
  }
  file.catalog = std::move(builder).finish();
  return file;
}

inline nlohmann::json read_json(const std::string& name) {
  std::ifstream stream(golden_folder() / name);
  return nlohmann::json::parse(stream);
}

}  // namespace weightproof::codec::testing
