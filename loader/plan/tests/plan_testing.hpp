// SPDX-License-Identifier: Apache-2.0
// Catalogs with file offsets and a small interpreter of plans: it takes every byte the plan says and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "loader/core/error.hpp"
#include "loader/plan/planner.hpp"

namespace weightproof::plan::testing_support {

/// Lays tensors out one after the other, as a file with a header of `data_begin` bytes would.
class CatalogMaker {
 public:
  explicit CatalogMaker(std::uint64_t data_begin = 1000) : data_begin_(data_begin) { file("model.safetensors"); }
  CatalogMaker& file(const std::string& name) {
    if (has_file_) ++file_;
    has_file_ = true;
    builder_.add_file(name);
    end_ = data_begin_;
    return *this;
  }
  CatalogMaker& add(const std::string& key, const Shape& shape, DType dtype = DType::bf16) {
    StoredTensor tensor;
    tensor.key = key;
    tensor.shape = shape;
    tensor.dtype = dtype;
    tensor.file = file_;
    tensor.begin = end_;
    tensor.bytes = *byte_count(shape, dtype);
    tensor.is_described = true;
    end_ += tensor.bytes;
    builder_.add_copy(tensor);
    return *this;
  }
  CatalogMaker& skip(std::uint64_t bytes) {
    end_ += bytes;
    return *this;
  }
  std::shared_ptr<const Catalog> make() { return std::make_shared<const Catalog>(std::move(builder_).finish()); }

 private:
  CatalogBuilder builder_;
  std::uint64_t data_begin_;
  std::uint64_t end_ = 0;
  std::uint32_t file_ = 0;
  bool has_file_ = false;
};

inline std::shared_ptr<const Schema> share(SchemaBuilder& builder) {
  return std::make_shared<const Schema>(std::move(builder).finish());
}

inline Plan plan_of(const std::shared_ptr<const Schema>& schema, const std::shared_ptr<const Catalog>& catalog,
                    const Request& request = {}) {
  const Source source{"base", catalog};
  return make_plan(schema, std::span(&source, 1), {}, request);
}

inline Error error_of_plan(const std::shared_ptr<const Schema>& schema, const std::shared_ptr<const Catalog>& catalog,
                           const Request& request = {}) {
  try {
    plan_of(schema, catalog, request);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "the plan was made";
  return Error(ErrorCode::usage, "none");
}

inline const Move& only_move(const Plan& plan, std::string_view key) {
  const std::size_t at = plan.find(key);
  EXPECT_NE(at, SIZE_MAX) << key;
  EXPECT_EQ(plan.tensors()[at].move_count, 1u) << key;
  return plan.moves()[plan.tensors()[at].first_move];
}

/// Content of a file at an offset: a hash, so that neighbours differ.
inline std::uint8_t file_byte(std::uint32_t file, std::uint64_t offset) {
  std::uint64_t x = (offset + 1) * 0x9e3779b97f4a7c15u + file * 0xd6e8feb86659fd93u;
  x ^= x >> 29;
  return static_cast<std::uint8_t>(x * 0xbf58476d1ce4e5b9u >> 56);
}

/// Executes every move that changes no value. Each written byte is counted; `arena` and `written` are as long as the
/// arena.
struct Execution {
  std::vector<std::uint8_t> arena;
  std::vector<std::uint8_t> written;
  std::uint64_t compared = 0;
};

inline Execution execute(const Plan& plan) {
  Execution run;
  run.arena.assign(plan.memory().final_bytes, 0);
  run.written.assign(plan.memory().final_bytes, 0);
  for (const ReadRequest& request : plan.requests()) {
    for (const ScatterEntry& entry : plan.entries_of(request)) {
      EXPECT_GE(entry.file_offset, request.offset);
      EXPECT_LE(entry.file_offset + entry.bytes, request.offset + request.bytes);
      const Move& move = plan.moves()[entry.move];
      const PlannedTensor& tensor = plan.tensors()[move.tensor];
      const StoredTensor& row = plan.catalog().tensors()[move.row];
      EXPECT_EQ(row.file, request.file);
      const auto put = [&](std::uint64_t target, std::uint64_t file_offset) {
        if (move.action == Action::compare) {
          ++run.compared;
          return;
        }
        ASSERT_LT(target, run.arena.size());
        run.arena[target] = file_byte(request.file, file_offset);
        ++run.written[target];
      };
      const std::uint64_t bits = bits_of(row.dtype);
      if (move.reason == Reason::contiguous) {
        const std::uint64_t first = row.begin + move.source_offset * bits / 8;
        for (std::uint64_t i = 0; i < entry.bytes; ++i) {
          const std::uint64_t offset = entry.file_offset + i;
          put(tensor.arena_offset + move.target_offset * bits / 8 + (offset - first), offset);
        }
        continue;
      }
      const std::uint64_t size = bits / 8;
      const View source = plan.source_view(move);
      const View target = plan.target_view(move);
      for (std::uint64_t i = 0; i < source.element_count(); ++i) {
        const Coordinate at = coordinate_of(source.extents(), i);
        const std::uint64_t offset = row.begin + source.storage_index(at) * size;
        if (offset < entry.file_offset || offset >= entry.file_offset + entry.bytes) continue;
        EXPECT_LE(offset + size, entry.file_offset + entry.bytes) << "a piece ends inside an element";
        for (std::uint64_t b = 0; b < size; ++b) {
          put(tensor.arena_offset + target.storage_index(at) * size + b, offset + b);
        }
      }
    }
  }
  return run;
}

/// Every element of every planned tensor came, once, from where its binding says.
inline void expect_loads_right(const Plan& plan) {
  const Execution run = execute(plan);
  std::vector<std::uint8_t> expected = run.written;
  for (const PlannedTensor& tensor : plan.tensors()) {
    EXPECT_EQ(tensor.arena_offset % 64, 0u);
    for (const Move& move : plan.moves().subspan(tensor.first_move, tensor.move_count)) {
      if (move.action != Action::write) continue;
      const StoredTensor& row = plan.catalog().tensors()[move.row];
      const std::uint64_t size = bits_of(row.dtype) / 8;
      const View source = plan.source_view(move);
      const View target = plan.target_view(move);
      for (std::uint64_t i = 0; i < source.element_count(); ++i) {
        const Coordinate at = coordinate_of(source.extents(), i);
        for (std::uint64_t b = 0; b < size; ++b) {
          const std::uint64_t to = tensor.arena_offset + target.storage_index(at) * size + b;
          ASSERT_EQ(run.written[to], 1u) << tensor.key << " element " << to_string(at);
          ASSERT_EQ(run.arena[to], file_byte(row.file, row.begin + source.storage_index(at) * size + b))
              << tensor.key << " element " << to_string(at);
          expected[to] = 0;
        }
      }
    }
  }
  for (const std::uint8_t left : expected) ASSERT_EQ(left, 0u) << "a byte outside all tensors was written";
}

/// Reads and omissions together are the whole catalog.
inline void expect_accounts_for_all(const Plan& plan) {
  std::uint64_t bytes = plan.traffic().wanted_bytes;
  for (const Unread& unread : plan.unread()) bytes += unread.bytes;
  EXPECT_EQ(bytes, plan.catalog().bytes());
}

}  // namespace weightproof::plan::testing_support
