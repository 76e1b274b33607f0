// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/value_explanations.hpp"

#include <algorithm>
#include <unordered_set>

#include "loader/exec/attempt.hpp"
#include "loader/plan/plan.hpp"
#include "reference/model.hpp"
#include "suites/explanations/explanation.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint64_t k_elements_max = std::uint64_t{1} << 22;  // the reference is slow
constexpr std::size_t k_related_max = 512;

class LoadedSides {
 public:
  LoadedSides(const LoadedWindow& window, std::span<const std::size_t> differing)
      : window_(window), differing_(differing.begin(), differing.end()) {}

  TensorSource actual(std::size_t i) const {
    const plan::PlannedTensor& tensor = window_.plan.tensors()[i];
    return source_of(window_.plan.shape_of(tensor), tensor.dtype, window_.attempt.bytes(i));
  }
  // A tensor that was found equal is its own reference, and quicker to read.
  TensorSource expected(std::size_t i) const {
    if (differing_.count(i) == 0) {
      return actual(i);
    }
    const plan::PlannedTensor& tensor = window_.plan.tensors()[i];
    const ReferenceTensor answer = reference_tensor(window_.plan, i, window_.model, window_.is_passed_through);
    const auto dtype = reference_dtype(tensor.dtype);
    const Coordinate origin = i < window_.origins.size() ? window_.origins[i] : Coordinate{};
    const reference::Model* model = &window_.model;
    const auto read_box = [=](const Coordinate& start, const Extents& length) {
      reference::Box box{{start.begin(), start.end()}, {length.begin(), length.end()}};
      for (unsigned axis = 0; axis < origin.rank(); ++axis) {
        box.start[axis] += origin[axis];
      }
      return answer.native < 0 ? model->stored_region(answer.stored_key, box)
             : dtype           ? model->region(answer.native, box, *dtype)
                               : model->region(answer.native, box);
    };
    return source_of_boxes(window_.plan.shape_of(tensor), tensor.dtype, read_box);
  }

 private:
  const LoadedWindow& window_;
  std::unordered_set<std::size_t> differing_;
};

}  // namespace

std::optional<reference::Dtype> reference_dtype(DType dtype) {
  return dtype == DType::bf16  ? std::optional(reference::Dtype::bf16)
         : dtype == DType::f16 ? std::optional(reference::Dtype::f16)
         : dtype == DType::f32 ? std::optional(reference::Dtype::f32)
                               : std::nullopt;
}

ReferenceTensor reference_tensor(const plan::Plan& plan, std::size_t i, const reference::Model& model,
                                 bool may_be_unknown) {
  const plan::PlannedTensor& tensor = plan.tensors()[i];
  const int native = model.mapping().native_id(tensor.key);
  if (native >= 0 || !(may_be_unknown || tensor.id == k_no_id)) {
    return {model.native_or_fail(tensor.key), {}};
  }
  return {-1, std::string(plan.catalog().tensors()[plan.moves()[tensor.first_move].row].key)};
}

std::string explain_loaded(Context& context, const LoadedWindow& window, std::span<const std::size_t> tensors) {
  const plan::Plan& plan = window.plan;
  const LoadedSides sides(window, tensors);
  RelatedTensors related;
  related.expected = [&](std::string_view key) { return std::optional(sides.expected(plan.find(key))); };
  related.actual = [&](std::string_view key) { return std::optional(sides.actual(plan.find(key))); };
  ExplainOptions options;
  options.elements_max = k_elements_max;
  options.related_max = k_related_max;
  std::string first;
  for (const std::size_t i : tensors) {
    if (context.findings.size() >= k_explained_max) {
      break;
    }
    const plan::PlannedTensor& tensor = plan.tensors()[i];
    // A tensor larger than a window comes box by box: the first that differs stands for all.
    if (std::any_of(context.findings.begin(), context.findings.end(),
                    [&tensor](const reports::Finding& finding) { return finding.key == tensor.key; })) {
      continue;
    }
    related.keys.clear();
    for (const plan::PlannedTensor& other : plan.tensors()) {
      if (other.dtype == tensor.dtype && plan.shape_of(other) == plan.shape_of(tensor)) {
        related.keys.emplace_back(other.key);
      }
    }
    const Explanation explanation =
        explain_difference(tensor.key, sides.expected(i), sides.actual(i), related, options);
    reports::Finding finding = finding_of(explanation, "value.exact");
    if (i < window.origins.size()) {
      const Coordinate& origin = window.origins[i];
      for (unsigned axis = 0; axis < origin.rank() && axis < finding.coordinate.size(); ++axis) {
        finding.coordinate[axis] += origin[axis];
        finding.shape[axis] += origin[axis];  // at least as far as it was looked at
      }
    }
    finding.reproduce = context.options.command;
    context.findings.push_back(std::move(finding));
    if (first.empty() && explanation.is_recognised()) {
      first = printable(tensor.key) + ": " + summary_of(explanation);
    }
  }
  return first;
}

}  // namespace weightproof::suites
