// SPDX-License-Identifier: Apache-2.0
// families [--no-gate]: for every preset with real shapes, the family described and its load planned with proof, beside
// the bare scan of the same header, in one process. The gate is asked of the fastest run of each: at most 8 times the
// scan. Headers under 256 KiB are read together with others: a scan of microseconds says nothing.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "fixtures/writer.hpp"
#include "loader/codec/detect.hpp"
#include "loader/core/limits.hpp"
#include "loader/plan/planner.hpp"
#include "loader/storage/header.hpp"
#include "suites/mutants/planned_family.hpp"

namespace weightproof::suites {
namespace {

constexpr double k_goal = 8;
constexpr int k_rounds = 7;
constexpr std::size_t k_header_bytes_min = 256U << 10U;

// Of this thread alone: both sides compute and do not wait, and a busy machine shows less.
double cpu_seconds() {
  ::timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <typename Action>
double fastest(const Action& action) {
  double best = 1e300;
  for (int round = 0; round < k_rounds; ++round) {
    const double start = cpu_seconds();
    action();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

struct Measured {
  double scan = 0;
  double plan = 0;
  std::size_t tensors = 0;
  std::size_t header_bytes = 0;
};

Measured measure(const Variant& variant) {
  const PlannedFamily family = plan_family(variant);
  fixtures::FileSpec spec;
  for (const fixtures::GeneratedTensor& made : family.made.tensors) {
    fixtures::Payload payload;
    payload.bytes = made.bytes;
    spec.tensors.push_back({made.tensor.key, made.tensor.dtype, made.tensor.shape, std::move(payload)});
  }
  const fixtures::FileLayout layout = fixtures::layout_of(spec);
  const auto header = std::make_shared<const std::string>(layout.header);
  const auto catalog = std::make_shared<const Catalog>(family.catalog);
  plan::Request request;
  const codec::Quantization found = codec::detect_quantization(&family.config, {}, family.catalog);
  std::vector<std::pair<std::string, plan::DecodeSource>> decodes;
  for (const codec::QuantizedTensor& tensor : found.tensors) {
    plan::DecodeSource source;
    source.codec = codec::make_codec(tensor.scheme, tensor.components, {});
    for (const codec::Component& component : tensor.components) {
      source.rows.push_back(static_cast<plan::Row>(catalog->index_of(component.key)));
    }
    decodes.emplace_back(tensor.key, std::move(source));
  }
  Measured out;
  out.tensors = family.made.tensors.size();
  out.header_bytes = header->size();
  out.scan = fastest([&] {
    const storage::Header scanned = storage::scan_header(*header, layout.file_bytes(), "bench", header);
    if (scanned.error || scanned.tensors.size() != out.tensors) {
      std::fprintf(stderr, "%s: the header is not scanned\n", variant.name().c_str());
      std::abort();
    }
  });
  out.plan = fastest([&] {
    const auto schema =
        std::make_shared<const Schema>(family.family->describe(family.config, family.form, ExpertStorage::grouped));
    request.decodes.clear();
    for (const auto& [key, source] : decodes) {
      const StoredId id = schema->find_stored(key);
      if (id != k_no_id) {
        request.decodes.push_back(source);
        request.decodes.back().stored = id;
      }
    }
    const plan::Source source{"bench", catalog};
    const plan::Plan planned = plan::make_plan(schema, std::span(&source, 1), {}, request);
    const plan::Memory& memory = planned.memory();
    if (!planned.proof().is_exact() || memory.whole_bytes != 0 || memory.tile_bytes > limits::tile_bytes_max) {
      std::fprintf(stderr, "%s: the plan is not exact, or holds more than a tile\n", variant.name().c_str());
      std::abort();
    }
  });
  return out;
}

int run(bool is_gated) {
  Measured small;
  double worst = 0;
  for (const char* prefix : {"shape", "full"}) {
    for (const Variant& variant : variants_of(prefix)) {
      const Measured measured = measure(variant);
      if (measured.header_bytes < k_header_bytes_min) {
        small.scan += measured.scan;
        small.plan += measured.plan;
        small.tensors += measured.tensors;
        continue;
      }
      const double ratio = measured.plan / measured.scan;
      worst = std::max(worst, ratio);
      std::printf("%-32s %7zu tensors  scan %8.3f ms  described and planned %8.3f ms  %5.2f\n", variant.name().c_str(),
                  measured.tensors, measured.scan * 1e3, measured.plan * 1e3, ratio);
    }
  }
  const double ratio = small.plan / small.scan;
  worst = std::max(worst, ratio);
  std::printf("%-32s %7zu tensors  scan %8.3f ms  described and planned %8.3f ms  %5.2f\n", "all smaller headers",
              small.tensors, small.scan * 1e3, small.plan * 1e3, ratio);
  std::printf("largest ratio %.2f, goal %.0f\n", worst, k_goal);
  return worst <= k_goal || !is_gated ? 0 : 1;
}

}  // namespace
}  // namespace weightproof::suites

int main(int count, char** words) {
  return weightproof::suites::run(count < 2 || std::strcmp(words[1], "--no-gate") != 0);
}
