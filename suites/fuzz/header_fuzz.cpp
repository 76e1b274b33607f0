// SPDX-License-Identifier: Apache-2.0
// Any bytes as a .safetensors file: loader and reference accept and reject the same files and read the same table.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "loader/core/error.hpp"
#include "loader/storage/header.hpp"
#include "reference/failure.hpp"
#include "reference/safetensors.hpp"
#include "suites/fuzz/fuzz.hpp"

namespace {

using weightproof::suites::fuzz::disagree;

struct Entry {
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const Entry&, const Entry&) = default;
};
using Table = std::map<std::string, Entry>;

// Empty class: accepted.
std::string read_by_reference(const std::uint8_t* data, std::size_t size, Table& table) {
  try {
    const auto header = weightproof::reference::parse_header({reinterpret_cast<const std::byte*>(data), size}, size);
    for (const auto& tensor : header.tensors) {
      table[tensor.key] = {tensor.shape, tensor.begin, tensor.end};
    }
    return {};
  } catch (const weightproof::reference::Failure& failure) {
    return failure.kind();
  }
}

std::string read_by_loader(const std::uint8_t* data, std::size_t size, Table& table) {
  const int descriptor = ::memfd_create("input", 0);
  if (descriptor < 0) {
    std::abort();
  }
  for (std::size_t done = 0; done < size;) {
    const ssize_t wrote = ::write(descriptor, data + done, size - done);
    if (wrote <= 0) {
      std::abort();
    }
    done += static_cast<std::size_t>(wrote);
  }
  const auto file = weightproof::storage::File::open("/proc/self/fd/" + std::to_string(descriptor), "input");
  const auto header = weightproof::storage::read_header(file);
  ::close(descriptor);
  if (header.error) {
    const std::string_view name = format_name_of(header.error->code());
    return std::string(name.empty() ? to_string(header.error->code()) : name);
  }
  for (const auto& tensor : header.tensors) {
    const auto extents = tensor.shape.span();
    table[std::string(tensor.name)] = {
        {extents.begin(), extents.end()}, header.data_begin() + tensor.begin, header.data_begin() + tensor.end};
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Table expected;
  Table found;
  const std::string expected_class = read_by_reference(data, size, expected);
  const std::string found_class = read_by_loader(data, size, found);
  if (found_class == "LIMIT_EXCEEDED") {
    return 0;  // the loader's own caps
  }
  if (expected_class.empty() != found_class.empty()) {
    disagree("reference '" + expected_class + "', loader '" + found_class + "'");
  }
  if (expected != found) {
    disagree("two tables");
  }
  return 0;
}
