// SPDX-License-Identifier: Apache-2.0
#include "loader/save/way_back.hpp"

#include <algorithm>
#include <cstring>

#include "loader/core/error.hpp"

namespace weightproof::save {
namespace {

[[noreturn]] void refuse(ErrorCode code, const std::string& key, const std::string& what, std::string expected = {},
                         std::string actual = {}) {
  ErrorFacts facts;
  facts.keys = {key};
  facts.expected = std::move(expected);
  facts.actual = std::move(actual);
  throw Error(code, "tensor '" + key + "' " + what, std::move(facts));
}

// One of the two schemas of the way back.
class Turner {
 public:
  Turner(const Schema& schema, std::string_view family) : schema_(schema), builder_(std::string(family)) {
    sources_.assign(schema.native_tensors().size(), k_no_id);
  }

  void pass_through(const ExportTensor& tensor) {
    builder_.rename(schema_.passed_native_name(tensor.key), tensor.key, tensor.shape, DTypeRule::any);
    is_empty_ = false;
  }

  void turn(const ExportTensor& tensor, StoredId id, std::span<const Binding* const> bindings) {
    const LogicalTensor& stored = schema_.stored_tensors()[id];
    const NativeId target =
        builder_.native(tensor.key, schema_.shape_of(stored), DTypeRule::fixed, stored.layer, tensor.dtype);
    for (const Binding* binding : bindings) {
      StoredId& source = sources_[binding->native];
      if (source == k_no_id) {
        const NativeTensor& native = schema_.native_tensors()[binding->native];
        source = builder_.stored(native.key, schema_.shape_of(native), DTypeRule::any, native.layer);
      }
      builder_.bind(source, schema_.native_view(*binding), target, schema_.stored_view(*binding));
    }
    is_empty_ = false;
  }

  std::shared_ptr<const Schema> finish() && {
    if (is_empty_) return nullptr;
    builder_.drop("*", "nothing that is written comes from it");
    return std::make_shared<const Schema>(std::move(builder_).finish());
  }

 private:
  const Schema& schema_;
  SchemaBuilder builder_;
  std::vector<StoredId> sources_;  // per native tensor of the way there
  bool is_empty_ = true;
};

LocalTensor nothing_of(const Shape& shape) { return {shape.rank() == 0 ? Shape{0} : Shape{}, {}}; }

LocalTensor part_of(const Box& box) {
  Box local = box;
  for (unsigned axis = 0; axis < local.start.rank(); ++axis) local.start[axis] = 0;
  return {box.length, {{box, local}}};
}

// Boxes of at most so many elements, in row-major order: each is consecutive in the dense tensor.
std::vector<Box> boxes_of(const Shape& shape, std::uint64_t elements_max) {
  std::vector<Box> boxes;
  std::uint64_t step = *element_count(shape);
  if (shape.rank() == 0 || step <= elements_max) return {Box::whole(shape)};
  unsigned axis = 0;
  for (;; ++axis) {
    step /= shape[axis];
    if (step <= elements_max || axis + 1 == shape.rank()) break;
  }
  const std::uint64_t steps = std::max<std::uint64_t>(1, elements_max / std::max<std::uint64_t>(1, step));
  std::uint64_t outer = 1;
  for (unsigned i = 0; i < axis; ++i) outer *= shape[i];
  for (std::uint64_t at = 0; at < outer; ++at) {
    Box box = Box::whole(shape);
    std::uint64_t rest = at;
    for (unsigned i = axis; i-- > 0;) {
      box.start[i] = rest % shape[i];
      box.length[i] = 1;
      rest /= shape[i];
    }
    for (std::uint64_t first = 0; first < shape[axis]; first += steps) {
      box.start[axis] = first;
      box.length[axis] = std::min(steps, shape[axis] - first);
      boxes.push_back(box);
    }
  }
  return boxes;
}

}  // namespace

WayBack way_back(const Schema& schema, std::span<const ExportTensor> wanted) {
  std::vector<std::vector<const Binding*>> primaries(schema.stored_tensors().size());
  std::vector<std::vector<const Binding*>> aliases(schema.stored_tensors().size());
  for (const Binding& binding : schema.bindings()) {
    if (binding.stored == k_no_id) continue;
    (binding.kind == BindingKind::alias ? aliases : primaries)[binding.stored].push_back(&binding);
  }
  Turner primary(schema, schema.family());
  Turner alias(schema, schema.family());
  WayBack way;
  way.is_alias.assign(wanted.size(), false);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const ExportTensor& tensor = wanted[i];
    const StoredId id = schema.find_stored(tensor.key);
    if (id == k_no_id) {
      primary.pass_through(tensor);
      continue;
    }
    const Shape& shape = schema.shape_of(schema.stored_tensors()[id]);
    if (shape != tensor.shape) {
      refuse(ErrorCode::shape_mismatch, tensor.key, "has another shape than its family gives it", to_string(shape),
             to_string(tensor.shape));
    }
    way.is_alias[i] = primaries[id].empty();
    const std::vector<const Binding*>& bindings = way.is_alias[i] ? aliases[id] : primaries[id];
    if (bindings.empty()) refuse(ErrorCode::tensor_not_mapped, tensor.key, "comes from no native tensor");
    (way.is_alias[i] ? alias : primary).turn(tensor, id, bindings);
  }
  way.primaries = std::move(primary).finish();
  way.aliases = std::move(alias).finish();
  return way;
}

RestoredSource::RestoredSource(const WayBack& way, std::span<const ExportTensor> wanted,
                               std::shared_ptr<const Catalog> natives, Options options, Execute execute)
    : way_(way),
      wanted_(wanted),
      natives_(std::move(natives)),
      options_(options),
      execute_(std::move(execute)),
      windows_of_(wanted.size()) {}

void RestoredSource::begin_file(std::span<const std::size_t> tensors) {
  const std::lock_guard lock(mutex_);
  for (const Window& window : windows_) {
    for (const Part& part : window.parts) windows_of_[part.tensor].clear();
  }
  windows_.clear();
  made_ = SIZE_MAX;
  for (const std::size_t tensor : tensors) append(tensor);
}

void RestoredSource::append(std::size_t tensor) {
  const ExportTensor& wanted = wanted_[tensor];
  const std::uint64_t bits = bits_of(wanted.dtype);
  const std::uint64_t bytes = byte_count(wanted.shape, wanted.dtype).value_or(0);
  if (bytes == 0) return;
  const auto push = [&](const Part& part, bool is_alone) {
    if (windows_.empty() || is_alone || windows_.back().is_alias != way_.is_alias[tensor] ||
        windows_.back().bytes + part.bytes > options_.window_bytes) {
      windows_.push_back({{}, 0, way_.is_alias[tensor]});
    }
    windows_.back().parts.push_back(part);
    windows_.back().bytes += part.bytes;
    windows_of_[tensor].push_back(windows_.size() - 1);
  };
  if (bytes <= options_.window_bytes || bits % 8 != 0) {
    push({tensor, Box::whole(wanted.shape), 0, bytes}, false);
    return;
  }
  std::uint64_t first = 0;
  for (const Box& box : boxes_of(wanted.shape, std::max<std::uint64_t>(1, options_.window_bytes * 8 / bits))) {
    const std::uint64_t size = box.element_count() * bits / 8;
    push({tensor, box, first, size}, true);
    first += size;
  }
  windows_.push_back({{}, 0, way_.is_alias[tensor]});  // whatever comes next begins a window of its own
}

void RestoredSource::make(std::size_t position) {
  if (made_ == position) return;
  restored_ = {};  // what was there goes before the next one comes
  made_ = SIZE_MAX;
  const Window& window = windows_[position];
  const std::shared_ptr<const Schema>& schema = window.is_alias ? way_.aliases : way_.primaries;
  plan::RankPlacement placement;
  placement.has_passthrough = false;
  for (const NativeTensor& tensor : schema->native_tensors()) {
    placement.locals.push_back(nothing_of(schema->shape_of(tensor)));
  }
  for (const Part& part : window.parts) {
    placement.locals[schema->find_native(wanted_[part.tensor].key)] = part_of(part.box);
  }
  std::optional<plan::PlanBasis>& basis = bases_[window.is_alias ? 1 : 0];
  if (!basis) {
    plan::Request request;
    request.threads = options_.threads;
    request.budget_bytes = options_.budget_bytes;
    const std::vector<plan::Source> sources = {{"native state", natives_}};
    basis.emplace(schema, sources, request);
  }
  Restored made;
  made.plan = std::make_unique<const plan::Plan>(basis->plan(placement));
  made.attempt = std::make_unique<const exec::LoadAttempt>(execute_(*made.plan));
  made.attempt->require_complete();
  restored_ = std::move(made);
  made_ = position;
  ++windows_made_;
}

void RestoredSource::read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) {
  const std::lock_guard lock(mutex_);
  std::size_t done = 0;
  for (const std::size_t position : windows_of_[tensor]) {
    if (done == target.size()) return;
    for (const Part& part : windows_[position].parts) {
      const std::uint64_t at = offset + done;
      if (part.tensor != tensor || at < part.first_byte || at >= part.first_byte + part.bytes) continue;
      make(position);
      const std::size_t size =
          static_cast<std::size_t>(std::min<std::uint64_t>(target.size() - done, part.first_byte + part.bytes - at));
      const std::span<const std::byte> bytes = restored_.attempt->bytes(wanted_[tensor].key);
      std::memcpy(target.data() + done, bytes.data() + (at - part.first_byte), size);
      done += size;
    }
  }
  WEIGHTPROOF_ASSERT(done == target.size());
}

}  // namespace weightproof::save
