// SPDX-License-Identifier: Apache-2.0
// Helpers of the reference's own tests: a temporary directory, a minimal writer, a model of values that name their
// place.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "reference/safetensors.hpp"

namespace weightproof::reference::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "weightproof_reference_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// Eight bytes of length, the header text, the data.
inline std::string file_of(const std::string& header, const std::string& data = "") {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + data;
}

struct Tensor {
  std::string key, dtype;
  Shape shape;
  std::string data;
};

inline std::string safetensors_of(const std::vector<Tensor>& tensors) {
  std::string header = "{", data;
  for (const Tensor& tensor : tensors) {
    header += header.size() > 1 ? ",\"" : "\"";
    header += tensor.key + R"(":{"dtype":")" + tensor.dtype + R"(","shape":)" + text_of(tensor.shape) +
              R"(,"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.data.size()) + "]}";
    data += tensor.data;
  }
  return file_of(header + "}", data);
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Real checkpoint data beside the project, or an empty path.
inline std::filesystem::path shared_directory() {
  const char* value = std::getenv("WEIGHTPROOF_SHARED_DIR");
  const std::filesystem::path path = value ? value : "";
  return std::filesystem::is_directory(path) ? path : std::filesystem::path();
}

}  // namespace weightproof::reference::testing
