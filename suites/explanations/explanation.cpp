// SPDX-License-Identifier: Apache-2.0
#include "suites/explanations/explanation.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "suites/explanations/recogniser_internal.hpp"
#include "suites/state/elements.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr std::array k_kinds = {
    ExplanationKind{"shape", "keys.shape", "another shape"},
    ExplanationKind{"dtype", "dtype.narrowed", "another dtype, each value rounded to nearest"},
    ExplanationKind{"stale", "", "the values of an older state"},
    ExplanationKind{"swapped", "", "the values of another tensor, which holds these"},
    ExplanationKind{"gate_up_swapped", "layout.gate_up_order", "gate and up have changed places"},
    ExplanationKind{"gate_up_interleaved", "layout.gate_up_interleave", "gate and up interleaved, or not"},
    ExplanationKind{"qkv_order", "layout.qkv", "fused q, k, v rows in another order"},
    ExplanationKind{"rotary_order", "layout.rope", "rotary rows interleaved, or not"},
    ExplanationKind{"experts_text_order", "layout.expert_order", "experts sorted as text"},
    ExplanationKind{"experts_permuted", "layout.expert_order", "whole matrices in another order"},
    ExplanationKind{"other_layer", "", "the values of another layer"},
    ExplanationKind{"other_expert", "layout.expert_order", "the values of another expert"},
    ExplanationKind{"other_tensor", "", "the values of another tensor"},
    ExplanationKind{"transposed", "layout.transpose", "rows and columns exchanged"},
    ExplanationKind{"rows_permuted", "", "rows in another order"},
    ExplanationKind{"columns_permuted", "", "columns in another order"},
    ExplanationKind{"shifted", "", "everything moved by one distance"},
    ExplanationKind{"lines_copied", "", "lines that hold other lines' values"},
    ExplanationKind{"truncated", "value.rounding", "cut off instead of rounded"},
    ExplanationKind{"ties_away", "value.rounding", "ties rounded away from zero"},
    ExplanationKind{"rounded_up", "value.rounding", "rounded away from zero"},
    ExplanationKind{"rounded_ceiling", "value.rounding", "rounded upward"},
    ExplanationKind{"rounded_floor", "value.rounding", "rounded downward"},
    ExplanationKind{"double_rounded", "value.rounding", "rounded twice"},
    ExplanationKind{"flushed", "value.rounding", "subnormal values became zero"},
    ExplanationKind{"nan_payload", "value.nan_lost", "another NaN"},
    ExplanationKind{"nan", "value.nonfinite", "NaN in place of values"},
    ExplanationKind{"zeros", "value.all_zero", "zeros in place of values"},
    ExplanationKind{"filled", "io.sentinel", "one value in place of others"},
    ExplanationKind{"byte_swapped", "", "bytes of each element in the other order"},
    ExplanationKind{"negated", "", "the other sign"},
    ExplanationKind{"bit_flipped", "", "one bit of one element"},
    ExplanationKind{"ratio", "", "one ratio for all"},
    ExplanationKind{"offset", "", "one offset for all"},
    ExplanationKind{"norm_offset", "layout.norm_offset", "a norm weight with one offset for all"},
    ExplanationKind{"row_ratio", "", "one ratio for each row"},
    ExplanationKind{"column_ratio", "", "one ratio for each column"},
};

reports::BitsValue bits_value(DType dtype, std::uint64_t bits, unsigned width) {
  std::array<std::byte, 8> run{};
  for (unsigned i = 0; i < 8; ++i) {
    run[i] = static_cast<std::byte>(bits >> (8U * i));
  }
  reports::BitsValue out;
  out.dtype = name_of(dtype);
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%0*llX", static_cast<int>(2 * width),
                static_cast<unsigned long long>(bits));
  out.hex = text.data();
  if (has_numbers(dtype)) {
    std::array<char, 40> decimal{};
    std::snprintf(decimal.data(), decimal.size(), "%.9g", number_at(dtype, run, 0));
    out.decimal = decimal.data();
  }
  return out;
}

// The view and the number of elements that are looked at: whole matrices, else whole rows, else single elements.
void limit_view(Gathered& seen, std::uint64_t elements, std::uint64_t elements_max) {
  MatrixView& view = seen.view;
  seen.elements = elements;
  if (elements <= elements_max) {
    return;
  }
  const std::uint64_t matrix = view.rows * view.columns;
  if (matrix <= elements_max) {
    view.leads = elements_max / matrix;
  } else {
    view.leads = 1;
    if (view.columns <= elements_max) {
      view.rows = elements_max / view.columns;
    } else {
      view.rows = elements_max;
      view.columns = 1;
    }
  }
  seen.elements = view.leads * view.rows * view.columns;
}

// Bytes take the place of elements narrower than one.
void take_bytes(Gathered& seen, const Shape& shape, std::uint64_t bytes) {
  seen.dtype = DType::u8;
  const MatrixView view = matrix_view(shape);
  const std::uint64_t lines = view.leads * view.rows;
  if (lines != 0 && bytes % lines == 0 && view.columns > 1) {
    seen.view = {view.leads, view.rows, bytes / lines};
  } else {
    seen.view = {1, bytes, 1};
  }
}

TensorSource cast_source(const TensorSource& from, DType to) {
  return {from.shape, to, [from, to](std::uint64_t offset, std::span<std::byte> target) {
            const std::uint64_t width_to = bits_of(to) / 8;
            const std::uint64_t width_from = bits_of(from.dtype) / 8;
            std::vector<std::byte> run(target.size() / width_to * width_from);
            from.read(offset / width_to * width_from, run);
            cast_elements(from.dtype, run, to, target);
          }};
}

void stream(const Gathered& seen, const std::optional<TensorSource>& source, LineDigester& declared,
            LineDigester& found, ElementVotes& votes) {
  std::vector<std::byte> expected;
  std::vector<std::byte> actual;
  std::vector<std::byte> before;
  for (std::uint64_t at = 0; at < seen.elements; at += k_window_elements) {
    const std::uint64_t count = std::min(k_window_elements, seen.elements - at);
    expected.resize(static_cast<std::size_t>(count * seen.width));
    actual.resize(expected.size());
    seen.expected->read(at * seen.width, expected);
    seen.actual->read(at * seen.width, actual);
    if (source && votes.has_source) {
      before.resize(static_cast<std::size_t>(count * 4));
      source->read(at * 4, before);
    }
    declared.add(expected);
    found.add(actual);
    votes.add(at, expected, actual, before);
  }
}

void draw_steps(const ElementVotes& votes, Explanation& out) {
  if (!votes.has_steps || votes.elements == 0) {
    return;
  }
  reports::Histogram histogram;
  histogram.what = "steps from expected";
  constexpr std::array labels = {"-2 or less", "-1", "0", "+1", "+2 or more"};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    histogram.bins.push_back(
        {labels[i], static_cast<double>(votes.steps[i]) / static_cast<double>(votes.elements), i != 2});
  }
  out.histogram = std::move(histogram);
}

void recognise(const Gathered& seen, Explanation& out) {
  if (recognise_related(seen, out) || recognise_lines(seen, out) || recognise_rounding(seen, out)) {
    return;
  }
  out.votes.clear();
  if (recognise_values(seen, out) || recognise_repeats(seen, out) || recognise_shift(seen, out)) {
    return;
  }
  out.title.clear();
}

}  // namespace

std::span<const ExplanationKind> explanation_kinds() { return k_kinds; }

std::string_view to_string(Certainty certainty) {
  constexpr std::array<std::string_view, 4> names = {"", "possible", "likely", "certain"};
  return names[static_cast<std::size_t>(certainty)];
}

void name(Explanation& out, std::string_view kind, std::string title, std::string text, Certainty certainty) {
  const auto row =
      std::find_if(k_kinds.begin(), k_kinds.end(), [kind](const ExplanationKind& known) { return known.kind == kind; });
  out.kind = kind;
  out.check = row == k_kinds.end() ? std::string_view() : row->check;
  out.title = std::move(title);
  out.text = std::move(text);
  out.certainty = certainty;
}

Explanation explain_difference(std::string_view key, const TensorSource& expected, const TensorSource& actual,
                               const RelatedTensors& related, const ExplainOptions& options) {
  Explanation out;
  out.key = key;
  out.shape = expected.shape;
  if (expected.shape != actual.shape) {
    if (!recognise_transposed_shapes(key, expected, actual, options.elements_max, out)) {
      name(out, "shape", "Another shape",
           "Expected " + to_string(expected.shape) + ", found " + to_string(actual.shape) + ".", Certainty::certain);
    }
    out.expected.text = to_string(expected.shape);
    out.actual.text = to_string(actual.shape);
    return out;
  }
  Gathered seen;
  seen.key = key;
  seen.related = &related;
  seen.options = &options;
  std::optional<TensorSource> source = options.source;
  std::optional<TensorSource> as_actual;
  const bool has_other_dtype = expected.dtype != actual.dtype;
  if (has_other_dtype) {
    if (!can_cast(expected.dtype, actual.dtype)) {
      name(out, "dtype", "Another dtype",
           std::string(name_of(actual.dtype)) + " where " + std::string(name_of(expected.dtype)) + " belongs.",
           Certainty::certain);
      return out;
    }
    as_actual = cast_source(expected, actual.dtype);
    source = expected.dtype == DType::f32 ? std::optional(expected) : source;
  }
  seen.expected = as_actual ? &*as_actual : &expected;
  seen.actual = &actual;
  seen.dtype = actual.dtype;
  const std::uint64_t elements = element_count(actual.shape).value_or(0);
  if (bits_of(actual.dtype) < 8) {
    take_bytes(seen, actual.shape, byte_count(actual.shape, actual.dtype).value_or(0));
  } else {
    seen.view = matrix_view(actual.shape);
    seen.width = bits_of(actual.dtype) / 8;
  }
  const std::uint64_t all = seen.view.leads * seen.view.rows * seen.view.columns;
  limit_view(seen, all, options.elements_max);
  out.is_partial = seen.elements < all;

  LineDigester declared(seen.view, seen.width);
  LineDigester found(seen.view, seen.width);
  const bool has_source = source && source->dtype == DType::f32 && source->shape == actual.shape;
  ElementVotes votes(seen.dtype, seen.view, has_source ? std::optional(DType::f32) : std::nullopt);
  votes.has_source = votes.has_source && has_source;
  stream(seen, source, declared, found, votes);
  seen.declared = declared.take();
  seen.found = found.take();
  seen.votes = &votes;
  out.elements = votes.elements;
  out.differing = votes.differing;
  if (votes.differing == 0) {
    if (has_other_dtype) {
      name(out, "dtype", "Stored as " + std::string(name_of(actual.dtype)),
           std::string(name_of(expected.dtype)) + " was expected; every value is what a cast to " +
               std::string(name_of(actual.dtype)) + " gives.",
           Certainty::certain);
    }
    return out;
  }
  out.expected = bits_value(seen.dtype, votes.first_expected, seen.width);
  out.actual = bits_value(seen.dtype, votes.first_actual, seen.width);
  if (votes.has_source) {
    out.source = bits_value(DType::f32, votes.first_source, 4);
  }
  if (bits_of(actual.dtype) >= 8 && elements > 0) {
    out.first = coordinate_of(actual.shape, *votes.first);
  }
  reports::WhereMap where = votes.where();
  if (where.rows > 0) {
    if (where.unit == "matrix") {
      where.unit = seen.lead_unit();
    }
    out.where = std::move(where);
  }
  recognise(seen, out);
  if (!out.histogram && !out.order && votes.steps[1] + votes.steps[3] > 0) {
    draw_steps(votes, out);
  }
  add_place(seen, out);
  return out;
}

bool recognise_transposed_shapes(std::string_view key, const TensorSource& expected, const TensorSource& actual,
                                 std::uint64_t elements_max, Explanation& out) {
  const MatrixView from = matrix_view(expected.shape);
  const MatrixView to = matrix_view(actual.shape);
  const std::uint64_t elements = element_count(actual.shape).value_or(0);
  if (expected.shape.rank() != actual.shape.rank() || from.leads != to.leads || from.rows != to.columns ||
      from.columns != to.rows || expected.dtype != actual.dtype || bits_of(actual.dtype) < 8 ||
      elements > elements_max || expected.shape.rank() < 2) {
    return false;
  }
  const unsigned width = bits_of(actual.dtype) / 8;
  const auto digests_of = [&](const TensorSource& source, const MatrixView& view) {
    LineDigester digester(view, width);
    std::vector<std::byte> run;
    for (std::uint64_t at = 0; at < elements; at += k_window_elements) {
      run.resize(static_cast<std::size_t>(std::min(k_window_elements, elements - at) * width));
      source.read(at * width, run);
      digester.add(run);
    }
    return digester.take();
  };
  const LineDigests declared = digests_of(expected, from);
  const LineDigests found = digests_of(actual, to);
  if (declared.rows.empty() || declared.rows != found.columns) {
    return false;
  }
  out.key = key;
  out.elements = out.differing = elements;
  name(out, "transposed", "Transposed",
       "The elements are those of the transposed matrix: " + to_string(actual.shape) + " where " +
           to_string(expected.shape) + " belongs.",
       Certainty::certain);
  return true;
}

void add_place(const Gathered& seen, Explanation& out) {
  const ElementVotes& votes = *seen.votes;
  const auto band = [&](const std::vector<std::uint32_t>& counts, const std::string& unit) {
    if (counts.size() < 2) {
      return;
    }
    const auto is_hit = [](std::uint32_t count) { return count > 0; };
    const auto first = std::find_if(counts.begin(), counts.end(), is_hit);
    const auto last = std::find_if(counts.rbegin(), counts.rend(), is_hit);
    const auto from = static_cast<std::uint64_t>(first - counts.begin());
    const auto to = counts.size() - 1 - static_cast<std::uint64_t>(last - counts.rbegin());
    const auto hits = static_cast<std::uint64_t>(std::count_if(counts.begin(), counts.end(), is_hit));
    const std::string units = unit == "matrix" ? "matrices" : unit + 's';
    if (hits == counts.size()) {
      return;
    }
    std::string text = "Differences lie in " + counted(hits, unit, units) + " of " + grouped(counts.size()) + ", ";
    text += from == to ? "number " + grouped(from) : "numbers " + grouped(from) + " to " + grouped(to);
    out.evidence.push_back({text, "certain"});
  };
  if (seen.view.leads > 1) {
    band(votes.lead_counts(), seen.lead_unit());
  } else if (!seen.is_vector()) {
    band(votes.row_counts(), "row");
  }
  if (out.is_partial) {
    out.evidence.push_back({"The first " + grouped(seen.elements) + " elements were looked at, not all", {}});
  }
}

}  // namespace weightproof::suites
