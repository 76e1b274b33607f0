// SPDX-License-Identifier: Apache-2.0
#include "suites/mutants/norm_offset.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "loader/codec/scalar.hpp"
#include "loader/storage/checkpoint.hpp"

namespace weightproof::suites {
namespace {

// Adds one to the elements of one tensor, whoever reads them.
class NormOffset final : public storage::FileCalls {
 public:
  NormOffset(storage::FileCalls& inner, std::string key) : inner_(inner), key_(std::move(key)) {}

  int open(const char* path, int flags) override {
    const int fd = inner_.open(path, flags);
    if (fd >= 0) {
      const storage::Checkpoint file = storage::read_checkpoint(path, {});
      const StoredTensor* row = file.catalog.find(key_);
      const std::lock_guard lock(mutex_);
      places_.erase(fd);
      if (row != nullptr) {
        places_[fd] = {row->begin, row->begin + row->bytes, row->dtype};
      }
    }
    return fd;
  }

  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    const std::int64_t got = inner_.pread(fd, buffer, bytes, offset);
    add_one(fd, static_cast<std::byte*>(buffer), got, static_cast<std::uint64_t>(offset));
    return got;
  }

  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    const std::int64_t got = inner_.preadv(fd, parts, count, offset);
    std::int64_t left = got;
    auto at = static_cast<std::uint64_t>(offset);
    for (int i = 0; i < count && left > 0; ++i) {
      const auto size = std::min<std::int64_t>(left, static_cast<std::int64_t>(parts[i].iov_len));
      add_one(fd, static_cast<std::byte*>(parts[i].iov_base), size, at);
      left -= size;
      at += static_cast<std::uint64_t>(size);
    }
    return got;
  }

 private:
  struct Place {
    std::uint64_t begin = 0, end = 0;
    DType dtype = DType::bf16;
  };

  void add_one(int fd, std::byte* bytes, std::int64_t count, std::uint64_t offset) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(fd);
    if (found == places_.end() || count <= 0) {
      return;
    }
    const Place& place = found->second;
    const std::uint64_t width = bits_of(place.dtype) / 8;
    for (std::uint64_t at = place.begin; at < place.end; at += width) {
      if (at < offset || at + width > offset + static_cast<std::uint64_t>(count)) {
        continue;
      }
      std::byte* element = bytes + (at - offset);
      if (place.dtype == DType::f32) {
        float value = 0;
        std::memcpy(&value, element, sizeof value);
        value += 1;
        std::memcpy(element, &value, sizeof value);
        continue;
      }
      std::uint16_t code = 0;
      std::memcpy(&code, element, sizeof code);
      const bool is_half = place.dtype == DType::f16;
      const float value =
          codec::float_of_bits(is_half ? codec::f16_to_f32_bits(code) : codec::bf16_to_f32_bits(code)) + 1;
      code = is_half ? codec::f32_bits_to_f16_keep_nan(codec::bits_of_float(value))
                     : codec::f32_bits_to_bf16_keep_nan(codec::bits_of_float(value));
      std::memcpy(element, &code, sizeof code);
    }
  }

  storage::FileCalls& inner_;
  std::string key_;
  std::mutex mutex_;
  std::map<int, Place> places_;
};

}  // namespace

std::unique_ptr<storage::FileCalls> add_one_to(const std::string& key, storage::FileCalls& inner) {
  return std::make_unique<NormOffset>(inner, key);
}

}  // namespace weightproof::suites
