// SPDX-License-Identifier: Apache-2.0
// Checks that execute a load: the loader's native state against the reference, element by element, and two loads under
// different circumstances against each other.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>

#include "loader/exec/engine.hpp"
#include "loader/plan/planner.hpp"
#include "reference/failure.hpp"
#include "reference/model.hpp"
#include "suites/state/decoded_state.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/loads.hpp"
#include "suites/verify/machine.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {

// Counts what the loads really ask the system for, whatever the loader says of itself.
class CountingCalls final : public storage::FileCalls {
 public:
  void set_inner(storage::FileCalls& inner) { inner_ = &inner; }
  std::uint64_t opens() const { return opens_.load(); }
  int open(const char* path, int flags) override {
    opens_.fetch_add(1, std::memory_order_relaxed);
    return inner_->open(path, flags);
  }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    return inner_->pread(fd, buffer, bytes, offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    return inner_->preadv(fd, parts, count, offset);
  }

 private:
  storage::FileCalls* inner_ = &storage::FileCalls::system();
  std::atomic<std::uint64_t> opens_{0};
};

// Two loads of one plan. The second has another fill, one thread and spoiled buffers.
struct ExecutedLoads {
  std::string skipped;  ///< why nothing was loaded
  std::optional<Error> error;
  std::unique_ptr<plan::Plan> plan;
  CountingCalls calls;
  std::unique_ptr<storage::FileCalls> perturbed_calls;
  std::unique_ptr<exec::SourceFiles> sources;
  std::optional<exec::LoadAttempt> first;
  std::optional<exec::LoadAttempt> second;
};

void ExecutedLoadsDeleter::operator()(ExecutedLoads* loads) const { delete loads; }

namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

constexpr std::byte k_first_fill{0xFF};
constexpr std::byte k_second_fill{0x5A};
constexpr std::byte k_poison{0xA5};
constexpr std::uint64_t k_window_bytes = 1U << 20U;
constexpr std::uint64_t k_loaded_bytes_max = 2ULL << 30U;

plan::Plan make_plan_of(Context& context) {
  // The context outlives the plan.
  const std::shared_ptr<const Schema> schema(&*context.schema, [](const Schema*) {});
  const std::shared_ptr<const Catalog> catalog(&context.keys(), [](const Catalog*) {});
  plan::Request request;
  request.decoded_dtype = decoded_dtype(context.checkpoint.config ? &*context.checkpoint.config : nullptr);
  request.keys.include = context.options.include;
  request.keys.exclude = context.options.exclude;
  request.keys.allow_missing = context.options.allow_missing;
  request.keys.allow_unexpected = context.options.selection.allow_unexpected;
  request.threads = context.options.threads;
  const QuantizedState& state = context.quantization();
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const StoredId id = schema->find_stored(state.found.tensors[i].key);
    if (id == k_no_id || !state.codecs[i]) {
      continue;
    }
    std::vector<plan::Row> rows;
    for (const codec::Component& component : state.found.tensors[i].components) {
      rows.push_back(static_cast<plan::Row>(catalog->index_of(component.key)));
    }
    request.decodes.push_back({id, state.codecs[i], std::move(rows)});
  }
  const std::vector<plan::Source> sources = {{context.checkpoint.display_path, catalog}};
  return plan::make_plan(schema, sources, {}, request);
}

ExecutedLoads& loads_of(Context& context) {
  if (context.loads) {
    return *context.loads;
  }
  context.loads.reset(new ExecutedLoads);
  ExecutedLoads& loads = *context.loads;
  if (!context.schema || !context.has_schema_shapes) {
    loads.skipped = context.schema ? "there is no config.json to derive shapes from" : context.no_schema_reason;
    return loads;
  }
  if (!context.faults.empty() || !context.index_fault().empty()) {
    loads.skipped = "undecided where " + context.fault_text();
    return loads;
  }
  const auto& diagnostics = context.checkpoint.diagnostics;
  if (std::any_of(diagnostics.begin(), diagnostics.end(),
                  [](const Diagnostic& row) { return row.severity == Severity::fail; })) {
    loads.skipped = "no load is possible where checks of files and index fail";
    return loads;
  }
  const QuantizedState& state = context.quantization();
  const bool has_quant_finding = std::any_of(state.diagnostics.begin(), state.diagnostics.end(),
                                             [](const Diagnostic& row) { return row.severity == Severity::fail; });
  if (has_quant_finding || !state.undecodable.empty()) {
    loads.skipped = "no load is possible where quant.* checks fail";
    return loads;
  }
  if (!context.coverage().is_complete()) {
    loads.skipped = "no load is possible where keys.* checks fail";
    return loads;
  }
  if (!context.family_errors.empty()) {
    loads.skipped = "no load is possible where the family refuses the names";
    return loads;
  }
  try {
    loads.plan = std::make_unique<plan::Plan>(make_plan_of(context));
    const std::uint64_t needed = 2 * loads.plan->memory().peak_bytes();
    const std::uint64_t available = describe_machine().memory_available_bytes.value_or(k_loaded_bytes_max);
    if (needed > std::min(k_loaded_bytes_max, available / 2)) {
      loads.skipped = "two loads side by side need " + human_bytes(needed) + " of memory";
      return loads;
    }
    const storage::Checkpoint* checkpoint = &context.checkpoint;
    const Perturbation& wrong = context.options.perturbation;
    if (context.options.calls != nullptr) {
      loads.calls.set_inner(*context.options.calls);
    }
    storage::FileCalls* calls = &loads.calls;
    if (wrong.load_calls) {
      loads.perturbed_calls = wrong.load_calls(loads.calls);
      calls = loads.perturbed_calls.get();
    }
    loads.sources = std::make_unique<exec::SourceFiles>(exec::SourceFiles::of(std::span(&checkpoint, 1), *calls));
    exec::LoadOptions options;
    options.sentinel = k_first_fill;
    if (wrong.first_load) {
      wrong.first_load(*loads.plan, options);
    }
    loads.first = exec::load(*loads.plan, *loads.sources, options);
    loads.first->require_complete();
    options = {};
    options.sentinel = k_second_fill;
    options.poison = k_poison;
    options.threads = 1;
    if (wrong.second_load) {
      wrong.second_load(*loads.plan, options);
    }
    loads.second = exec::load(*loads.plan, *loads.sources, options);
    loads.second->require_complete();
  } catch (const Error& error) {
    loads.error = error;
  }
  return loads;
}

// Skip or error where there are no loads to look at; nothing where there are.
std::optional<CheckRecord> no_loads(const ExecutedLoads& loads, const char* id) {
  if (!loads.skipped.empty()) {
    return CheckBuilder(id).skip(loads.skipped);
  }
  if (loads.error && loads.first && loads.first->cause() &&
      loads.first->cause()->code() == ErrorCode::tied_values_differ) {
    return CheckBuilder(id).skip("the load stops where tied.mismatch fails");
  }
  if (loads.error) {
    return error_record(id, *loads.error);
  }
  return std::nullopt;
}

std::string dense_coordinate(const plan::Plan& plan, std::size_t tensor, std::uint64_t byte) {
  const plan::PlannedTensor& row = plan.tensors()[tensor];
  return to_string(coordinate_of(plan.shape_of(row), byte * 8 / bits_of(row.dtype)));
}

// Tensors in which the two loads differ, at the first byte that does.
template <typename Accept>
CheckRecord compare_loads(Context& context, const char* id, const char* what, const Accept& accept) {
  ExecutedLoads& loads = loads_of(context);
  if (auto record = no_loads(loads, id)) {
    return *record;
  }
  CheckBuilder builder(id);
  builder.examined(loads.plan->tensors().size());
  std::string message;
  for (std::size_t i = 0; i < loads.plan->tensors().size(); ++i) {
    const auto a = loads.first->bytes(i);
    const auto b = loads.second->bytes(i);
    const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (at == a.end() || !accept(*at, *other)) {
      continue;
    }
    builder.subject(loads.plan->tensors()[i].key);
    if (message.empty()) {
      const auto byte = static_cast<std::uint64_t>(at - a.begin());
      message = printable(loads.plan->tensors()[i].key) + dense_coordinate(*loads.plan, i, byte) + what;
    }
  }
  return builder.fail_if_subjects(message);
}

CheckRecord sentinel(Context& context) {
  return compare_loads(context, "io.sentinel", " was never written",
                       [](std::byte a, std::byte b) { return a == k_first_fill && b == k_second_fill; });
}
CheckRecord poison(Context& context) {
  return compare_loads(context, "io.poison", " holds bytes of a buffer whose lease had ended",
                       [](std::byte, std::byte b) { return b == k_poison; });
}
CheckRecord reload(Context& context) {
  return compare_loads(context, "io.reload", " differs after a second load", [](std::byte, std::byte) { return true; });
}

CheckRecord opens(Context& context) {
  ExecutedLoads& loads = loads_of(context);
  if (auto record = no_loads(loads, "io.opens")) {
    return *record;
  }
  CheckBuilder builder("io.opens");
  const std::uint64_t files = loads.plan->traffic().files;
  builder.examined(files).expected(files).actual(loads.calls.opens());
  if (loads.calls.opens() > files) {
    return builder.fail("files were opened " + grouped(loads.calls.opens()) + " times, planned were " + grouped(files));
  }
  return builder.pass();
}

CheckRecord predicted(Context& context) {
  ExecutedLoads& loads = loads_of(context);
  if (auto record = no_loads(loads, "mem.predicted")) {
    return *record;
  }
  const exec::Usage& used = loads.first->memory().of(exec::MemoryKind::host);
  const std::uint64_t bound = loads.plan->memory().peak_bytes();
  CheckBuilder builder("mem.predicted");
  builder.examined(1).expected(bound).actual(used.peak);
  if (used.peak != bound) {
    return builder.fail("the allocator counted a peak of " + grouped(used.peak) + " bytes, predicted were " +
                        grouped(bound));
  }
  return builder.pass();
}

CheckRecord temporaries(Context& context) {
  ExecutedLoads& loads = loads_of(context);
  if (auto record = no_loads(loads, "mem.temporaries")) {
    return *record;
  }
  CheckBuilder builder("mem.temporaries");
  builder.examined(1);
  std::uint64_t live = 0;
  for (const exec::Purpose purpose : {exec::Purpose::staging, exec::Purpose::companion, exec::Purpose::whole}) {
    live += loads.first->memory().of(exec::MemoryKind::host, purpose).live;
  }
  return live == 0 ? builder.pass()
                   : builder.actual(live).fail(grouped(live) + " bytes of temporaries outlived the load");
}

std::optional<reference::Dtype> reference_dtype(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return reference::Dtype::bf16;
    case DType::f16:
      return reference::Dtype::f16;
    case DType::f32:
      return reference::Dtype::f32;
    default:
      return std::nullopt;
  }
}

CheckRecord exact(Context& context) {
  ExecutedLoads& loads = loads_of(context);
  if (auto record = no_loads(loads, "value.exact")) {
    return *record;
  }
  CheckBuilder builder("value.exact");
  try {
    reference::ModelOptions options;
    options.family = context.options.family;
    if (context.options.perturbation.reference) {
      context.options.perturbation.reference(options);
    }
    const bool is_one_file = context.checkpoint.kind == storage::CheckpointKind::single_file;
    const reference::Model model =
        reference::Model::open(is_one_file ? context.checkpoint.path_of(0) : context.checkpoint.root, options);
    std::string message;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < loads.plan->tensors().size(); ++i) {
      const plan::PlannedTensor& tensor = loads.plan->tensors()[i];
      const Shape& shape = loads.plan->shape_of(tensor);
      const auto ours = loads.first->bytes(i);
      // What passes through unchanged is no native tensor of the family.
      const bool is_passed_through = tensor.id == k_no_id;
      const int native = is_passed_through ? 0 : model.native_or_fail(tensor.key);
      const auto dtype = reference_dtype(tensor.dtype);
      // Bands of whole rows of the outermost axis.
      const std::uint64_t rows = shape.empty() ? 1 : shape[0];
      const std::uint64_t row_bytes = rows == 0 ? 0 : ours.size() / rows;
      const std::uint64_t band = std::max<std::uint64_t>(1, k_window_bytes / std::max<std::uint64_t>(1, row_bytes));
      for (std::uint64_t begin = 0; begin < rows && row_bytes > 0; begin += band) {
        const std::uint64_t count = std::min(band, rows - begin);
        reference::Box box = reference::whole({shape.begin(), shape.end()});
        if (!shape.empty()) {
          box.start[0] = begin;
          box.extent[0] = count;
        }
        const reference::Bytes theirs = is_passed_through ? model.stored_region(tensor.key, box)
                                        : dtype           ? model.region(native, box, *dtype)
                                                          : model.region(native, box);
        const auto window =
            ours.subspan(static_cast<std::size_t>(begin * row_bytes), static_cast<std::size_t>(count * row_bytes));
        bytes += window.size();
        const auto [at, other] = std::mismatch(window.begin(), window.end(), theirs.begin(), theirs.end());
        if (at == window.end() && other == theirs.end()) {
          continue;
        }
        builder.subject(tensor.key);
        if (message.empty()) {
          const auto byte = begin * row_bytes + static_cast<std::uint64_t>(at - window.begin());
          message = printable(tensor.key) + dense_coordinate(*loads.plan, i, byte) + " differs from the reference";
          builder.evidence("coordinate", dense_coordinate(*loads.plan, i, byte));
        }
        break;
      }
      if (context.options.progress) {
        context.options.progress("comparing with the reference", bytes, loads.plan->memory().final_tensor_bytes);
      }
    }
    return builder.examined(bytes).fail_if_subjects(message);
  } catch (const reference::Failure& failure) {
    return builder.error(std::string("the reference cannot follow: ") + failure.what());
  }
}

constexpr std::array k_checks = {
    VerifyCheck{"value.exact", &exact},
    VerifyCheck{"mem.predicted", &predicted},
    VerifyCheck{"mem.temporaries", &temporaries},
    VerifyCheck{"io.sentinel", &sentinel},
    VerifyCheck{"io.poison", &poison},
    VerifyCheck{"io.reload", &reload},
    VerifyCheck{"io.opens", &opens},
};

}  // namespace

std::span<const VerifyCheck> load_checks() { return k_checks; }

}  // namespace weightproof::suites
