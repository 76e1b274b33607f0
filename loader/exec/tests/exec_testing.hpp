// SPDX-License-Identifier: Apache-2.0
// Small checkpoints on disk, plans over them, and an oracle that walks the moves element by element over the bytes of
// the files held in memory.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "loader/codec/scalar.hpp"
#include "loader/core/tiling.hpp"
#include "loader/exec/engine.hpp"
#include "loader/plan/planner.hpp"
#include "loader/storage/checkpoint.hpp"
#include "loader/storage/writer.hpp"

namespace weightproof::exec::testing_support {

class Folder {
 public:
  Folder() {
    static std::atomic<unsigned> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("weightproof_exec_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Bytes that tell tensor and place apart.
inline std::vector<std::byte> coded_bytes(std::string_view key, std::uint64_t count) {
  std::uint64_t state = 0x9e3779b97f4a7c15u;
  for (const char c : key) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::vector<std::byte> bytes(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t x = state + (i + 1) * 0xd6e8feb86659fd93u;
    x ^= x >> 31;
    bytes[i] = static_cast<std::byte>((x * 0xbf58476d1ce4e5b9u) >> 56);
  }
  return bytes;
}

struct Stored {
  std::string key;
  DType dtype = DType::bf16;
  Shape shape;
  std::vector<std::byte> bytes;
};

/// A checkpoint of one or more files, written with the format's own header style unless `shift` unaligns the data.
class Files {
 public:
  Files& add(const std::string& key, const Shape& shape, DType dtype = DType::bf16) {
    return add(key, shape, dtype, coded_bytes(key, *byte_count(shape, dtype)));
  }
  Files& add(const std::string& key, const Shape& shape, DType dtype, std::vector<std::byte> bytes) {
    if (shards_.empty()) shards_.emplace_back();
    shards_.back().push_back({key, dtype, shape, std::move(bytes)});
    return *this;
  }
  Files& next_file() {
    shards_.emplace_back();
    return *this;
  }
  /// Gives every data buffer an odd offset: headers without padding.
  Files& unaligned() {
    style_ = storage::HeaderStyle::consolidator;
    return *this;
  }

  void write() {
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      std::vector<storage::TensorSpec> specs;
      for (const Stored& tensor : shards_[i]) specs.push_back({tensor.key, tensor.dtype, tensor.shape});
      storage::HeaderPlan header = storage::plan_header(specs, std::nullopt, style_);
      if (style_ == storage::HeaderStyle::consolidator && header.bytes.size() % 2 == 0) {
        // One more space in the header text makes the offset odd.
        std::uint64_t length = 0;
        std::memcpy(&length, header.bytes.data(), 8);
        ++length;
        std::memcpy(header.bytes.data(), &length, 8);
        header.bytes += ' ';
      }
      std::ofstream file(path_of(i), std::ios::binary);
      file << header.bytes;
      for (const storage::PlannedTensor& planned : header.tensors) {
        const Stored& tensor = shards_[i][planned.source];
        file.write(reinterpret_cast<const char*>(tensor.bytes.data()),
                   static_cast<std::streamsize>(tensor.bytes.size()));
      }
      ASSERT_TRUE(file.good());
    }
  }
  std::filesystem::path path_of(std::size_t shard) const {
    const std::string name = shards_.size() == 1 ? "model.safetensors"
                                                 : "model-0000" + std::to_string(shard + 1) + "-of-0000" +
                                                       std::to_string(shards_.size()) + ".safetensors";
    return folder_.path() / name;
  }
  const Stored& find(std::string_view key) const {
    for (const auto& shard : shards_) {
      for (const Stored& tensor : shard) {
        if (tensor.key == key) return tensor;
      }
    }
    throw std::runtime_error("no tensor " + std::string(key));
  }
  const Folder& folder() const { return folder_; }

 private:
  Folder folder_;
  std::vector<std::vector<Stored>> shards_;
  storage::HeaderStyle style_ = storage::HeaderStyle::reference;
};

inline std::shared_ptr<const Schema> share(SchemaBuilder& builder) {
  return std::make_shared<const Schema>(std::move(builder).finish());
}

/// A checkpoint on disk, its plan and its sources.
struct Case {
  std::unique_ptr<storage::Checkpoint> checkpoint;
  std::unique_ptr<plan::Plan> plan;
  SourceFiles sources(storage::FileCalls& calls = storage::FileCalls::system()) const {
    const storage::Checkpoint* const all[] = {checkpoint.get()};
    return SourceFiles::of(all, calls);
  }
};

inline Case make_case(Files& files, const std::shared_ptr<const Schema>& schema, plan::Request request = {},
                      const std::function<void(const Catalog&, plan::Request&)>& complete = {}) {
  files.write();
  Case result;
  result.checkpoint = std::make_unique<storage::Checkpoint>(storage::open_checkpoint(files.folder().path(), {}));
  const auto catalog = std::make_shared<const Catalog>(result.checkpoint->catalog);
  if (complete) complete(*catalog, request);
  const plan::Source source{"base", catalog};
  result.plan = std::make_unique<plan::Plan>(plan::make_plan(schema, std::span(&source, 1), {}, request));
  return result;
}

/// What the arena must hold: every move that writes, element by element. Bytes that nothing writes are `rest`.
inline std::vector<std::byte> oracle(const plan::Plan& plan, const Files& files, std::byte rest = std::byte{0}) {
  std::vector<std::byte> arena(plan.memory().final_bytes, rest);
  const auto get_bits = [](const std::byte* bytes, std::uint64_t bit, unsigned bits) {
    std::uint64_t value = 0;
    for (unsigned b = 0; b < bits; ++b) {
      value |= static_cast<std::uint64_t>((std::to_integer<unsigned>(bytes[(bit + b) / 8]) >> ((bit + b) % 8)) & 1u)
               << b;
    }
    return value;
  };
  const auto put_bits = [](std::byte* bytes, std::uint64_t bit, unsigned bits, std::uint64_t value) {
    for (unsigned b = 0; b < bits; ++b) {
      const auto mask = std::byte(1u << ((bit + b) % 8));
      std::byte& into = bytes[(bit + b) / 8];
      into = (value >> b) & 1 ? into | mask : into & ~mask;
    }
  };
  const auto widen = [](std::uint64_t code, DType dtype) -> std::uint32_t {
    if (dtype == DType::bf16) return codec::bf16_to_f32_bits(static_cast<std::uint16_t>(code));
    if (dtype == DType::f16) return codec::f16_to_f32_bits(static_cast<std::uint16_t>(code));
    if (dtype == DType::f32) return static_cast<std::uint32_t>(code);
    double value = 0;
    std::memcpy(&value, &code, 8);
    return codec::bits_of_float(static_cast<float>(value));
  };
  const auto narrow = [](std::uint32_t bits, DType dtype) -> std::uint64_t {
    if (dtype == DType::bf16) return codec::f32_bits_to_bf16_keep_nan(bits);
    if (dtype == DType::f16) return codec::f32_bits_to_f16_keep_nan(bits);
    if (dtype == DType::f32) return bits;
    const double value = static_cast<double>(codec::float_of_bits(bits));
    std::uint64_t code = 0;
    std::memcpy(&code, &value, 8);
    return code;
  };
  for (const plan::Move& move : plan.moves()) {
    if (move.action == plan::Action::compare) continue;
    const plan::PlannedTensor& tensor = plan.tensors()[move.tensor];
    std::byte* base = arena.data() + tensor.arena_offset;
    const View from = plan.source_view(move);
    const View to = plan.target_view(move);
    std::vector<std::byte> decoded;
    const std::byte* source = nullptr;
    DType stored = tensor.dtype;
    if (move.decode != k_no_id) {
      const plan::DecodeSource& decode = plan.decodes()[move.decode];
      const Box whole = Box::whole(decode.codec->natural_shape());
      std::vector<codec::ByteRun> runs;
      decode.codec->byte_runs(whole, runs);
      std::vector<std::vector<std::byte>> held(decode.rows.size());
      for (const codec::ByteRun& run : runs) {
        const Stored& part = files.find(plan.catalog().tensors()[decode.rows[run.component]].key);
        const auto begin = part.bytes.begin() + static_cast<std::ptrdiff_t>(run.offset);
        held[run.component].insert(held[run.component].end(), begin, begin + static_cast<std::ptrdiff_t>(run.bytes));
      }
      std::vector<std::span<const std::byte>> parts(held.begin(), held.end());
      decoded.resize(whole.element_count() * bits_of(tensor.dtype) / 8);
      decode.codec->decode(whole, parts, tensor.dtype, decoded.data());
      source = decoded.data();
    } else if (move.action == plan::Action::write) {
      const Stored& found = files.find(plan.catalog().tensors()[move.row].key);
      source = found.bytes.data();
      stored = found.dtype;
    }
    const unsigned target_bits = bits_of(tensor.dtype);
    for (std::uint64_t i = 0; i < to.element_count(); ++i) {
      const Coordinate at = coordinate_of(to.extents(), i);
      std::uint64_t value = 0;
      if (source != nullptr) {
        value = get_bits(source, from.storage_index(at) * bits_of(stored), bits_of(stored));
        if (stored != tensor.dtype) value = narrow(widen(value, stored), tensor.dtype);
      } else if (is_ordinary_float(tensor.dtype)) {
        value = narrow(codec::bits_of_float(static_cast<float>(move.value)), tensor.dtype);
      } else {
        value = static_cast<std::uint64_t>(static_cast<std::int64_t>(move.value));
      }
      put_bits(base, to.storage_index(at) * target_bits, target_bits, value);
    }
  }
  return arena;
}

/// The arena of a complete load equals the oracle, tensor by tensor, and nothing but tensors was written.
inline void expect_equal(LoadAttempt& attempt, const Files& files, std::byte rest = std::byte{0}) {
  ASSERT_TRUE(attempt.is_complete()) << attempt.error()->what();
  const plan::Plan& plan = attempt.plan();
  const std::vector<std::byte> wanted = oracle(plan, files, rest);
  const std::span<const std::byte> got = attempt.arena().span();
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
    const plan::PlannedTensor& tensor = plan.tensors()[i];
    for (std::uint64_t b = 0; b < tensor.bytes; ++b) {
      ASSERT_EQ(got[tensor.arena_offset + b], wanted[tensor.arena_offset + b]) << tensor.key << " byte " << b;
    }
  }
  EXPECT_TRUE(std::equal(got.begin(), got.end(), wanted.begin())) << "bytes between tensors were written";
}

}  // namespace weightproof::exec::testing_support
