// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/load_windows.hpp"

#include <algorithm>

#include "suites/verify/load_boxes.hpp"

namespace weightproof::suites {
namespace {

// A tensor of which the plan has nothing: no pieces, and a shape of another rank.
LocalTensor nothing_of(const Shape& shape) { return {shape.rank() == 0 ? Shape{0} : Shape{}, {}}; }

LocalTensor box_of(const Box& box) {
  Box local = box;
  for (unsigned axis = 0; axis < local.start.rank(); ++axis) {
    local.start[axis] = 0;
  }
  return {box.length, {{box, local}}};
}

}  // namespace

LoadWindows::LoadWindows(const LoadInputs& inputs, const plan::Plan& whole, std::uint64_t window_bytes)
    : inputs_(inputs) {
  std::vector<const plan::PlannedTensor*> passed;
  for (const plan::PlannedTensor& tensor : whole.tensors()) {
    if (tensor.id == k_no_id) {
      passed.push_back(&tensor);
    }
  }
  if (!passed.empty()) {
    // What passes through is no native tensor of the family, but of a schema in which everything is itself.
    SchemaBuilder builder(std::string(inputs.schema->family()));
    for (const plan::PlannedTensor* tensor : passed) {
      const std::string_view stored_key = whole.catalog().tensors()[whole.moves()[tensor->first_move].row].key;
      builder.rename(stored_key, tensor->key, whole.shape_of(*tensor), DTypeRule::any);
    }
    builder.drop("*", "looked at by other loads");
    passed_schema_ = std::make_shared<const Schema>(std::move(builder).finish());
  }
  if (whole.memory().final_tensor_bytes <= window_bytes) {
    windows_.push_back({{}, whole.memory().final_tensor_bytes, true, false, false});
    return;
  }
  window_bytes = std::max<std::uint64_t>(window_bytes, 1);
  for (const plan::PlannedTensor& tensor : whole.tensors()) {
    if (tensor.id != k_no_id) {
      add(false, tensor.id, whole.shape_of(tensor), bits_of(tensor.dtype), tensor.bytes, window_bytes);
    }
  }
  for (NativeId i = 0; i < passed.size(); ++i) {
    add(true, i, whole.shape_of(*passed[i]), bits_of(passed[i]->dtype), passed[i]->bytes, window_bytes);
  }
}

LoadWindow LoadWindows::only(const plan::PlannedTensor& tensor, const Box& box) const {
  const bool is_passed_through = tensor.id == k_no_id;
  const NativeId native = is_passed_through ? passed_schema_->find_native(tensor.key) : tensor.id;
  return {{{native, box}}, box.element_count() * bits_of(tensor.dtype) / 8, false, is_passed_through, true};
}

void LoadWindows::add(bool is_passed_through, NativeId native, const Shape& shape, std::uint64_t bits,
                      std::uint64_t bytes, std::uint64_t window_bytes) {
  if (bytes > window_bytes && bits % 8 == 0) {
    cut(is_passed_through, native, shape, bits, window_bytes);
    return;
  }
  if (windows_.empty() || windows_.back().is_part_of_tensor || windows_.back().is_passed_through != is_passed_through ||
      windows_.back().bytes + bytes > window_bytes) {
    windows_.push_back({{}, 0, false, is_passed_through, false});
  }
  windows_.back().parts.push_back({native, Box::whole(shape)});
  windows_.back().bytes += bytes;
}

void LoadWindows::cut(bool is_passed_through, NativeId native, const Shape& shape, std::uint64_t bits,
                      std::uint64_t window_bytes) {
  for_each_box(Box::whole(shape), std::max<std::uint64_t>(1, window_bytes * 8 / bits),
               [&](const Box& box, std::uint64_t) {
                 windows_.push_back({{{native, box}}, box.element_count() * bits / 8, false, is_passed_through, true});
               });
}

plan::Plan LoadWindows::plan_of(const LoadWindow& window, std::optional<plan::Route> route) const {
  const Schema& schema = schema_of(window);
  auto basis = bases_.find({window.is_passed_through, route});
  if (basis == bases_.end()) {
    plan::Request request = inputs_.request;
    request.route = route ? route : request.route;
    if (window.is_passed_through) {
      request.decodes.clear();
      request.keys = {};
    }
    basis = bases_
                .emplace(std::pair(window.is_passed_through, route),
                         plan::PlanBasis(window.is_passed_through ? passed_schema_ : inputs_.schema, inputs_.sources,
                                         request))
                .first;
  }
  plan::RankPlacement placement;
  if (!window.is_whole) {
    placement.has_passthrough = false;
    placement.locals.reserve(schema.native_tensors().size());
    for (const NativeTensor& tensor : schema.native_tensors()) {
      placement.locals.push_back(nothing_of(schema.shape_of(tensor)));
    }
    for (const WindowPart& part : window.parts) {
      placement.locals[part.native] = box_of(part.box);
    }
  }
  return basis->second.plan(placement);
}

std::vector<Coordinate> LoadWindows::origins(const LoadWindow& window, const plan::Plan& plan) const {
  std::vector<Coordinate> out(plan.tensors().size());
  if (!window.is_part_of_tensor) {
    return out;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = window.parts.front().box.start;
  }
  return out;
}

}  // namespace weightproof::suites
