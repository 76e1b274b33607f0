// SPDX-License-Identifier: Apache-2.0
#include "loader/exec/copy_internal.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <random>

#include "loader/exec/cast_internal.hpp"
#include "loader/exec/tests/exec_testing.hpp"

namespace weightproof::exec {
namespace {

using namespace testing_support;

/// Memory that ends exactly at a page that must not be touched.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + page;
    memory_ = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
    ::mprotect(static_cast<std::byte*>(memory_) + mapped_ - page, page, PROT_NONE);
    data_ = static_cast<std::byte*>(memory_) + mapped_ - page - bytes;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { ::munmap(memory_, mapped_); }
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::size_t mapped_ = 0;
  void* memory_ = nullptr;
  std::byte* data_ = nullptr;
};

template <typename Use>
void for_each_element(const Nest& nest, const Use& use) {
  std::array<std::uint64_t, k_nest_axes_max> at{};
  if (nest.element_count() == 0) return;
  for (;;) {
    std::uint64_t source = nest.source;
    std::uint64_t target = nest.target;
    for (unsigned i = 0; i < nest.rank; ++i) {
      source += at[i] * nest.axes[i].source;
      target += at[i] * nest.axes[i].target;
    }
    use(source, target);
    unsigned axis = nest.rank;
    for (; axis > 0; --axis) {
      if (++at[axis - 1] < nest.axes[axis - 1].extent) break;
      at[axis - 1] = 0;
    }
    if (axis == 0) return;
  }
}

std::uint64_t target_span(const Nest& nest) {
  std::uint64_t span = 1;
  for (unsigned i = 0; i < nest.rank; ++i) span += (nest.axes[i].extent - 1) * nest.axes[i].target;
  return nest.target + span;
}

void expect_copies(const Nest& nest, unsigned size, std::uint64_t source_elements) {
  Guarded source(source_elements * size);
  const std::vector<std::byte> coded = coded_bytes("copy", source.size());
  std::memcpy(source.data(), coded.data(), coded.size());
  Guarded target(target_span(nest) * size);
  std::memset(target.data(), 0x33, target.size());
  std::vector<std::byte> wanted(target.size(), std::byte{0x33});
  for_each_element(nest, [&](std::uint64_t from, std::uint64_t to) {
    std::memcpy(wanted.data() + to * size, coded.data() + from * size, size);
  });
  copy_nest(nest, source.data(), target.data(), size);
  ASSERT_EQ(std::memcmp(target.data(), wanted.data(), wanted.size()), 0) << "element bytes " << size;
  EXPECT_FALSE(first_difference(nest, source.data(), target.data(), size));
  // The last element in the order of the source, changed, is found.
  std::uint64_t last_source = 0;
  std::uint64_t last_target = 0;
  for_each_element(nest, [&](std::uint64_t from, std::uint64_t to) {
    if (from >= last_source) {
      last_source = from;
      last_target = to;
    }
  });
  target.data()[last_target * size + size - 1] ^= std::byte{1};
  const auto difference = first_difference(nest, source.data(), target.data(), size);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->source, last_source);
  EXPECT_EQ(difference->target, last_target);
}

TEST(Copy, TransposesOfEverySizeAroundALine) {
  for (const unsigned size : {1u, 2u, 4u, 8u}) {
    for (const std::uint64_t rows : {1u, 3u, 31u, 32u, 33u, 64u, 65u, 130u}) {
      for (const std::uint64_t columns : {1u, 7u, 32u, 64u, 67u, 129u}) {
        for (const std::uint64_t gap : {0u, 5u, 64u}) {
          Nest nest;
          nest.rank = 2;
          nest.source = 2;
          nest.target = 1;
          nest.axes[0] = {rows, columns + gap, 1};
          nest.axes[1] = {columns, 1, rows + gap};
          expect_copies(nest, size, 2 + (rows - 1) * (columns + gap) + columns);
        }
      }
    }
  }
}

TEST(Copy, AlignedTargetsAreWrittenByLines) {
  Allocator allocator;
  for (const unsigned size : {1u, 2u, 4u, 8u}) {
    const std::uint64_t rows = 256, columns = 160;
    const std::vector<std::byte> source = coded_bytes("lines", rows * columns * size);
    Buffer target = allocator.allocate(MemoryKind::host, Purpose::staging, rows * columns * size, 64);
    for (const std::uint64_t first : {0u, 5u}) {
      Nest nest;
      nest.rank = 2;
      nest.source = first * columns;
      nest.target = first;
      nest.axes[0] = {rows - first, columns, 1};
      nest.axes[1] = {columns, 1, rows};
      copy_nest(nest, source.data(), target.data(), size);
      for_each_element(nest, [&](std::uint64_t from, std::uint64_t to) {
        ASSERT_EQ(std::memcmp(target.data() + to * size, source.data() + from * size, size), 0);
      });
    }
  }
}

TEST(Copy, RandomNests) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 400; ++round) {
    // Dense source and target axes in independent orders, with gaps.
    Nest nest;
    nest.rank = 1 + static_cast<unsigned>(random() % 5);
    std::vector<unsigned> source_order(nest.rank), target_order(nest.rank);
    for (unsigned i = 0; i < nest.rank; ++i) {
      source_order[i] = target_order[i] = i;
      nest.axes[i].extent = 1 + random() % (nest.rank > 3 ? 5 : 12);
    }
    std::shuffle(source_order.begin(), source_order.end(), random);
    std::shuffle(target_order.begin(), target_order.end(), random);
    std::uint64_t source = 1 + random() % 2, target = 1 + random() % 2;
    for (unsigned i = 0; i < nest.rank; ++i) {
      nest.axes[source_order[i]].source = source;
      source = source * nest.axes[source_order[i]].extent + random() % 3;
      nest.axes[target_order[i]].target = target;
      target = target * nest.axes[target_order[i]].extent + random() % 3;
    }
    const unsigned sizes[] = {1, 2, 4, 8};
    expect_copies(nest, sizes[random() % 4], source + 4);

    // Parts of it by intervals of the source are a partition.
    Nest sorted = nest;
    sorted.normalise();
    EXPECT_EQ(sorted.element_count(), nest.element_count());
    std::map<std::uint64_t, std::uint64_t> all, parts;
    for_each_element(nest, [&](std::uint64_t from, std::uint64_t to) { all[from] = to; });
    const std::uint64_t step = 1 + random() % (source + 3);
    for (std::uint64_t begin = 0; begin < source + 3; begin += step) {
      for_each_part(sorted, begin, begin + step, [&](const Nest& part) {
        for_each_element(part, [&](std::uint64_t from, std::uint64_t to) {
          EXPECT_GE(from, begin);
          EXPECT_LT(from, begin + step);
          EXPECT_TRUE(parts.emplace(from, to).second) << "twice";
        });
      });
    }
    EXPECT_EQ(parts, all);

    // Packed by target and put back.
    Nest packed;
    const Nest out = pack_by_target(nest, packed);
    const std::vector<std::byte> bytes = coded_bytes("pack", source * 2 + 8);
    std::vector<std::byte> dense(nest.element_count() * 2), direct(target_span(nest) * 2), by_pack(direct.size());
    copy_nest(packed, bytes.data(), dense.data(), 2);
    copy_nest(out, dense.data(), by_pack.data(), 2);
    copy_nest(nest, bytes.data(), direct.data(), 2);
    EXPECT_EQ(by_pack, direct);
  }
}

TEST(Copy, FillsOnlyItsElements) {
  Nest nest;
  nest.rank = 2;
  nest.target = 3;
  nest.axes[0] = {4, 0, 10};
  nest.axes[1] = {3, 0, 2};
  std::vector<std::uint16_t> target(60, 7);
  const std::uint16_t value = 0x3f80;
  fill_nest(nest, reinterpret_cast<const std::byte*>(&value), reinterpret_cast<std::byte*>(target.data()), 2);
  for (std::size_t i = 0; i < target.size(); ++i) {
    const bool is_filled = i >= 3 && (i - 3) / 10 < 4 && (i - 3) % 10 % 2 == 0 && (i - 3) % 10 <= 4;
    EXPECT_EQ(target[i], is_filled ? value : 7) << i;
  }
}

TEST(Copy, NestsOfStridedDestinations) {
  // A view that crosses whole rows of a tensor whose rows are apart is walked row by row.
  const Shape shape{4, 6};
  const Extents strides{10, 1};
  const View flat(0, {Extents{24}, Extents{1}});
  const auto nest = make_nest(flat, flat, shape, strides);
  ASSERT_TRUE(nest);
  std::vector<std::uint64_t> targets;
  Nest sorted = *nest;
  sorted.normalise();
  for_each_element(sorted, [&](std::uint64_t, std::uint64_t to) { targets.push_back(to); });
  std::vector<std::uint64_t> wanted;
  for (std::uint64_t row = 0; row < 4; ++row) {
    for (std::uint64_t column = 0; column < 6; ++column) wanted.push_back(row * 10 + column);
  }
  EXPECT_EQ(targets, wanted);
  // One that begins inside a row and goes on in the next is refused, not guessed.
  const View across(3, {Extents{6}, Extents{1}});
  EXPECT_FALSE(make_nest(View(0, {Extents{6}, Extents{1}}), across, shape, strides));
}

TEST(Cast, EveryCodeOfSixteenBits) {
  for (const DType from : {DType::bf16, DType::f16}) {
    std::vector<std::uint16_t> codes(65536);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
    const auto* source = reinterpret_cast<const std::byte*>(codes.data());
    std::vector<std::uint32_t> wide(65536);
    convert(source, from, reinterpret_cast<std::byte*>(wide.data()), DType::f32, codes.size());
    std::vector<std::uint64_t> wider(65536);
    convert(source, from, reinterpret_cast<std::byte*>(wider.data()), DType::f64, codes.size());
    for (const DType through : {DType::f32, DType::f64}) {
      std::vector<std::uint16_t> back(65536);
      convert(through == DType::f32 ? reinterpret_cast<const std::byte*>(wide.data())
                                    : reinterpret_cast<const std::byte*>(wider.data()),
              through, reinterpret_cast<std::byte*>(back.data()), from, codes.size());
      for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::uint16_t magnitude = static_cast<std::uint16_t>(codes[i] & 0x7fff);
        const bool is_nan = magnitude > (from == DType::bf16 ? 0x7f80 : 0x7c00);
        const auto quiet = static_cast<std::uint16_t>(from == DType::bf16 ? 0x0040 : 0x0200);
        ASSERT_EQ(back[i], is_nan ? codes[i] | quiet : codes[i]) << i << " through " << name_of(through);
      }
    }
  }
}

TEST(Cast, WideToNarrowGoesThroughF32AndRoundsToEven) {
  const auto f64_to_bf16 = [](double value) {
    std::uint16_t code = 0;
    convert(reinterpret_cast<const std::byte*>(&value), DType::f64, reinterpret_cast<std::byte*>(&code), DType::bf16,
            1);
    return code;
  };
  EXPECT_EQ(f64_to_bf16(1 + 0x1p-8 + 0x1p-40), 0x3f80) << "the last bit is lost on the way";
  EXPECT_EQ(f64_to_bf16(1 + 0x1p-8 + 0x1p-20), 0x3f81);
  EXPECT_EQ(f64_to_bf16(-0.0), 0x8000);
  EXPECT_EQ(f64_to_bf16(1e300), 0x7f80);
  const std::uint64_t nan = 0xfff0000000000001u;
  std::uint32_t code = 0;
  convert(reinterpret_cast<const std::byte*>(&nan), DType::f64, reinterpret_cast<std::byte*>(&code), DType::f32, 1);
  EXPECT_EQ(code, 0xffc00000u) << "quieted, sign kept, the payload was below";
}

TEST(Cast, ConstantsOfEveryDtype) {
  std::byte bytes[8];
  for (const DType dtype : all_dtypes()) {
    if (bits_of(dtype) % 8 != 0 || dtype == DType::f8_e8m0) {
      EXPECT_THROW(encode_value(0, dtype, bytes), Error);
      continue;
    }
    std::memset(bytes, 0x55, 8);
    encode_value(0, dtype, bytes);
    for (unsigned i = 0; i < bits_of(dtype) / 8; ++i) EXPECT_EQ(bytes[i], std::byte{0});
  }
  const auto code_of = [&](double value, DType dtype) {
    std::uint64_t code = 0;
    std::memset(bytes, 0, 8);
    encode_value(value, dtype, bytes);
    std::memcpy(&code, bytes, 8);
    return code;
  };
  EXPECT_EQ(code_of(1, DType::bf16), 0x3f80u);
  EXPECT_EQ(code_of(-1, DType::i16), 0xffffu);
  EXPECT_EQ(code_of(255, DType::u8), 255u);
  EXPECT_EQ(code_of(1, DType::bool8), 1u);
  EXPECT_THROW(code_of(256, DType::u8), Error);
  EXPECT_THROW(code_of(2, DType::bool8), Error);
  EXPECT_THROW(code_of(-1, DType::u32), Error);
  EXPECT_THROW(code_of(0.5, DType::i32), Error);
  EXPECT_THROW(code_of(1, DType::f8_e4m3), Error) << "only zero is the same in every small format";
}

}  // namespace
}  // namespace weightproof::exec
