// SPDX-License-Identifier: Apache-2.0
// Destinations that are not one dense block of host memory: a device behind a queue, and memory of the caller.
#include "loader/exec/tests/models.hpp"

namespace weightproof::exec {
namespace {

using namespace testing_support;

struct DeviceLoad {
  Allocator allocator;
  QueueLane lane;
  Buffer memory;
  std::optional<BlockDestinations> destinations;
  LoadOptions options;
  explicit DeviceLoad(const plan::Plan& plan, QueueLaneOptions lane_options = {}) : lane(lane_options) {
    allocator.set_source(MemoryKind::device, &lane.device());
    memory = allocator.allocate(MemoryKind::device, Purpose::final_storage, plan.memory().final_bytes, 4096);
    std::memset(memory.data(), 0, memory.size());
    destinations.emplace(MemoryKind::device, memory.data(), memory.size());
    options.allocator = &allocator;
    options.destinations = &*destinations;
    options.lane = &lane;
  }
  /// What arrived; the lane is asked, as a device would be.
  std::vector<std::byte> arrived() {
    std::vector<std::byte> bytes(memory.size());
    lane.read_back(bytes.data(), memory.data(), bytes.size());
    return bytes;
  }
};

TEST(Device, EveryRouteArrives) {
  const Model model(64, 40, 2);
  Files files;
  model.add_to(files);
  for (const std::optional<plan::Route> route :
       {std::optional<plan::Route>(), std::optional(plan::Route::materialized)}) {
    for (const plan::TargetDType dtype : {plan::TargetDType::stored, plan::TargetDType::f32}) {
      for (const unsigned threads : {1u, 2u}) {
        plan::Request request;
        request.route = route;
        request.dtype = dtype;
        request.threads = threads;
        const Case c = make_case(files, model.schema, request);
        DeviceLoad device(*c.plan, {std::chrono::microseconds(20), 0});
        device.options.poison = std::byte{0xee};
        const SourceFiles sources = c.sources();
        const Forecast predicted = forecast(*c.plan, device.options);
        const LoadAttempt attempt = load(*c.plan, sources, device.options);
        ASSERT_TRUE(attempt.is_complete()) << attempt.error()->what();
        EXPECT_EQ(device.arrived(), oracle(*c.plan, files));
        EXPECT_EQ(attempt.memory().of(MemoryKind::pinned).peak, predicted.pinned_bytes);
        EXPECT_EQ(attempt.memory().of(MemoryKind::host).peak, predicted.host_bytes());
        EXPECT_EQ(attempt.memory().of(MemoryKind::pinned).live, 0u);
        EXPECT_EQ(attempt.counters().lane_bytes, c.plan->traffic().write_bytes);
        EXPECT_EQ(attempt.counters().written_bytes, c.plan->traffic().write_bytes);
      }
    }
  }
}

TEST(Device, SlotsAreUsedAgainOnlyWhenTheirTicketIsDone) {
  const Model model(64, 40, 2);
  Files files;
  model.add_to(files);
  const Case c = make_case(files, model.schema);
  DeviceLoad device(*c.plan, {std::chrono::milliseconds(2), 0});
  device.options.lane_slots = 1;
  device.options.poison = std::byte{0xee};
  const SourceFiles sources = c.sources();
  const LoadAttempt attempt = load(*c.plan, sources, device.options);
  ASSERT_TRUE(attempt.is_complete()) << attempt.error()->what();
  EXPECT_GT(attempt.counters().slot_waits, 0u) << "the queue was slower than the files";
  EXPECT_EQ(device.arrived(), oracle(*c.plan, files));
}

TEST(Device, EveryCopyFailsOnce) {
  const Model model(64, 40, 2);
  Files files;
  model.add_to(files);
  for (const unsigned threads : {1u, 2u}) {
    plan::Request request;
    request.threads = threads;
    const Case c = make_case(files, model.schema, request);
    const SourceFiles sources = c.sources();
    std::uint64_t failed = 0;
    for (std::uint64_t n = 1;; n += 1 + n / 4) {
      DeviceLoad device(*c.plan, {std::chrono::microseconds(0), n});
      const LoadAttempt attempt = load(*c.plan, sources, device.options);
      if (attempt.is_complete()) {
        EXPECT_EQ(device.arrived(), oracle(*c.plan, files));
        break;
      }
      ++failed;
      ASSERT_TRUE(attempt.cause());
      EXPECT_EQ(attempt.cause()->code(), ErrorCode::device_error);
      EXPECT_EQ(attempt.error()->code(), ErrorCode::load_failed_partial);
      EXPECT_EQ(device.allocator.statistics().of(MemoryKind::pinned).live, 0u);
      // What is called complete has arrived.
      const std::vector<std::byte> wanted = oracle(*c.plan, files);
      for (std::size_t i = 0; i < c.plan->tensors().size(); ++i) {
        const plan::PlannedTensor& tensor = c.plan->tensors()[i];
        if (!attempt.is_tensor_complete(i)) continue;
        EXPECT_EQ(
            std::memcmp(device.memory.data() + tensor.arena_offset, wanted.data() + tensor.arena_offset, tensor.bytes),
            0)
            << tensor.key << " after copy " << n << " failed";
      }
      ASSERT_LT(n, 100000u);
    }
    EXPECT_GT(failed, 5u);
  }
}

TEST(Device, TiedValuesAreComparedThere) {
  const Model model;
  Files files;
  model.add_to(files, DType::bf16, false);
  std::vector<std::byte> head = files.find("embed.weight").bytes;
  head[(9 * 48 + 11) * 2] ^= std::byte{1};
  files.add("head.weight", {70, 48}, DType::bf16, head);
  const Case c = make_case(files, model.schema);
  DeviceLoad device(*c.plan);
  const SourceFiles sources = c.sources();
  const LoadAttempt attempt = load(*c.plan, sources, device.options);
  ASSERT_TRUE(attempt.cause());
  EXPECT_EQ(attempt.cause()->code(), ErrorCode::tied_values_differ);
  EXPECT_EQ(attempt.cause()->facts().coordinate, (std::vector<std::uint64_t>{9, 11}));
}

TEST(Device, NeedsALane) {
  const Model model;
  Files files;
  model.add_to(files);
  const Case c = make_case(files, model.schema);
  DeviceLoad device(*c.plan);
  device.options.lane = nullptr;
  const SourceFiles sources = c.sources();
  const LoadAttempt attempt = load(*c.plan, sources, device.options);
  EXPECT_EQ(attempt.error()->code(), ErrorCode::device_unavailable);
  EXPECT_EQ(attempt.error()->facts().keys.size(), 1u);
}

/// Rows of a matrix further apart than they are long, axes in another order, and dense memory.
TEST(Foreign, StridesOfTheCaller) {
  const Model model(64, 40, 2);
  Files files;
  model.add_to(files);
  for (const plan::TargetDType dtype : {plan::TargetDType::stored, plan::TargetDType::f32}) {
    for (const int how : {0, 1, 2}) {
      plan::Request request;
      request.dtype = dtype;
      request.threads = 2;
      const Case c = make_case(files, model.schema, request);
      const plan::Plan& plan = *c.plan;
      std::vector<std::vector<std::byte>> memory;
      std::vector<Destination> destinations;
      for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
        const plan::PlannedTensor& tensor = plan.tensors()[i];
        const Shape& shape = plan.shape_of(tensor);
        const std::uint64_t size = bits_of(tensor.dtype) / 8;
        Destination destination;
        destination.kind = MemoryKind::foreign;
        destination.dtype = tensor.dtype;
        destination.strides = contiguous_strides(shape);
        std::uint64_t span = *element_count(shape);
        if (how != 0 && shape.rank() >= 2) {
          std::vector<unsigned> order(shape.rank());
          for (unsigned a = 0; a < shape.rank(); ++a) order[a] = how == 1 ? a : shape.rank() - 1 - a;
          std::uint64_t stride = how == 1 ? 1 : 2;
          for (unsigned a = shape.rank(); a-- > 0;) {
            destination.strides[order[a]] = stride;
            stride = stride * std::max<std::uint64_t>(shape[order[a]], 1) + 3;
          }
          span = stride;
        }
        memory.emplace_back(span * size + 8, std::byte{0x77});
        destination.base = memory.back().data();
        destination.bytes = span * size;
        destinations.push_back(destination);
      }
      const ForeignDestinations foreign(destinations);
      LoadOptions options;
      options.destinations = &foreign;
      options.has_digests = true;
      options.has_ledger = true;
      const SourceFiles sources = c.sources();
      LoadAttempt attempt = load(plan, sources, options);
      ASSERT_TRUE(attempt.is_complete()) << attempt.error()->what();
      EXPECT_THROW(attempt.arena(), Error);
      EXPECT_EQ(attempt.memory().of(MemoryKind::host, Purpose::final_storage), Usage{});
      EXPECT_EQ(attempt.memory().of(MemoryKind::host).peak, forecast(plan, options).host_bytes());
      const std::vector<std::byte> wanted = oracle(plan, files);
      for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
        const plan::PlannedTensor& tensor = plan.tensors()[i];
        const Shape& shape = plan.shape_of(tensor);
        const std::uint64_t size = bits_of(tensor.dtype) / 8;
        std::vector<std::byte> rest = memory[i];
        for (std::uint64_t e = 0; e < *element_count(shape); ++e) {
          const Coordinate at = coordinate_of(shape, e);
          std::uint64_t place = 0;
          for (unsigned a = 0; a < shape.rank(); ++a) place += at[a] * destinations[i].strides[a];
          ASSERT_EQ(std::memcmp(memory[i].data() + place * size, wanted.data() + tensor.arena_offset + e * size, size),
                    0)
              << tensor.key << " " << to_string(at) << " way " << how;
          std::fill_n(rest.begin() + static_cast<std::ptrdiff_t>(place * size), size, std::byte{0x77});
        }
        EXPECT_TRUE(std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0x77}; }))
            << tensor.key << ": memory between the elements was written";
        if (!digest_unavailable().empty()) continue;
        EXPECT_EQ(*attempt.digest(i), digest_of({wanted.data() + tensor.arena_offset, tensor.bytes})) << tensor.key;
      }
      std::vector<std::vector<View>> regions(plan.tensors().size());
      for (const WrittenRegion& region : attempt.ledger().written) regions[region.tensor].push_back(region.region);
      for (std::size_t i = 0; i < regions.size(); ++i) {
        if (plan.tensors()[i].bytes == 0) continue;
        EXPECT_EQ(prove_tiling(plan.shape_of(plan.tensors()[i]), regions[i]).tiling, Tiling::exact);
      }
    }
  }
}

TEST(Foreign, WhatCannotBeUsedIsNamed) {
  SchemaBuilder b("two");
  b.identity("a", {4, 6});
  b.identity("b", {4, 6});
  const auto schema = share(b);
  Files files;
  files.add("a", {4, 6}).add("b", {4, 6});
  const Case c = make_case(files, schema);
  const plan::Plan& plan = *c.plan;
  std::vector<std::byte> memory(4096);
  const auto code_of = [&](const std::function<void(std::vector<Destination>&)>& change) {
    std::vector<Destination> all;
    all.push_back(dense_destination(plan, 0, MemoryKind::foreign, memory.data(), 48));
    all.push_back(dense_destination(plan, 1, MemoryKind::foreign, memory.data() + 1024, 48));
    change(all);
    const ForeignDestinations foreign(all);
    LoadOptions options;
    options.destinations = &foreign;
    const SourceFiles sources = c.sources();
    const LoadAttempt attempt = load(plan, sources, options);
    if (attempt.is_complete()) return std::string("complete");
    EXPECT_EQ(attempt.counters().read_bytes, 0u);
    EXPECT_EQ(attempt.error()->facts().keys, std::vector<std::string>{"b"});
    return std::string(to_string(attempt.error()->code()));
  };
  EXPECT_EQ(code_of([](auto&) {}), "complete");
  EXPECT_EQ(code_of([](auto& all) { all[1].dtype = DType::f16; }), "DTYPE_UNSUPPORTED");
  EXPECT_EQ(code_of([](auto& all) { all[1].bytes = 47; }), "SHAPE_MISMATCH");
  EXPECT_EQ(code_of([](auto& all) { all[1].base = nullptr; }), "SHAPE_MISMATCH");
  EXPECT_EQ(code_of([](auto& all) { all[1].strides = Extents{6}; }), "SHAPE_MISMATCH");
  EXPECT_EQ(code_of([](auto& all) { all[1].strides = Extents{5, 1}; }), "SHAPE_MISMATCH") << "rows meet";
  EXPECT_EQ(code_of([](auto& all) { all[1].strides = Extents{0, 1}; }), "SHAPE_MISMATCH");
  EXPECT_EQ(code_of([](auto& all) { all[1].strides = Extents{UINT64_MAX / 2, 1}; }), "SHAPE_MISMATCH");
  EXPECT_EQ(code_of([](auto& all) { all[1].base = all[0].base + 47; }), "PART_REPEATED_DESTINATION");
  EXPECT_EQ(code_of([](auto& all) { all.pop_back(); }), "SHAPE_MISMATCH");
}

}  // namespace
}  // namespace weightproof::exec
