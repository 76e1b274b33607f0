// SPDX-License-Identifier: Apache-2.0
// quant.dequant_parity: the one check that asks two independent statements of every number format about every stored
// value. What differs is explained by the mistakes that decoders are known for.
#include <algorithm>
#include <array>
#include <optional>

#include "loader/codec/kernels.hpp"
#include "reference/failure.hpp"
#include "reference/model.hpp"
#include "suites/explanations/explanation.hpp"
#include "suites/explanations/numeric_diff.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/quant_windows.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"
#include "suites/verify/value_explanations.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

reference::Box reference_box(const Box& box) {
  return {reference::Shape(box.start.begin(), box.start.end()), reference::Shape(box.length.begin(), box.length.end())};
}

std::string hex_of(const std::byte* bytes, std::size_t width) {
  std::string text;
  for (std::size_t i = width; i-- > 0;) {
    constexpr const char* digits = "0123456789abcdef";
    text += digits[std::to_integer<unsigned>(bytes[i]) >> 4];
    text += digits[std::to_integer<unsigned>(bytes[i]) & 15U];
  }
  return text;
}

/// First difference of one tensor between codec and reference, and the window it lies in.
struct Difference {
  Coordinate at;
  std::string ours;
  std::string theirs;
  const codec::Kernels* tier;
  Box window;
};

/// Leaves the fastest kernels in place, whatever happens.
struct KernelGuard {
  KernelGuard() = default;
  KernelGuard(const KernelGuard&) = delete;
  KernelGuard& operator=(const KernelGuard&) = delete;
  ~KernelGuard() { codec::force_kernels(nullptr); }
};

std::vector<std::byte> decode(const codec::Codec& decoder, const Box& box,
                              const std::vector<std::vector<std::byte>>& parts, DType target) {
  std::vector<std::byte> out(box.element_count() * bits_of(target) / 8);
  decoder.decode(box, views_of_parts(parts), target, out.data());
  return out;
}

// Where a scheme renames the weight ("x_blocks" holds x) the reference keeps the stored name.
std::string reference_name(const codec::QuantizedTensor& tensor, const reference::Model& model) {
  const auto& logical = model.overlay().tensors;
  const bool has_name = std::any_of(logical.begin(), logical.end(),
                                    [&](const reference::Logical& entry) { return entry.name == tensor.key; });
  return has_name ? tensor.key : tensor.components.front().key;
}

// The reference is slow: of a large tensor the beginning is explained.
constexpr std::uint64_t k_explained_elements_max = std::uint64_t{1} << 20U;
constexpr std::size_t k_related_max = 64;

struct Parity {
  Context& context;
  ComponentReader& reader;
  const reference::Model& model;
  std::uint64_t elements = 0;

  std::optional<Difference> compare(const codec::QuantizedTensor& tensor, const codec::Codec& decoder, DType target) {
    std::optional<Difference> difference;
    const std::size_t width = bits_of(target) / 8;
    const reference::Dtype reference_target = reference::dtype_named(name_of(target)).value();
    const std::string name = reference_name(tensor, model);
    const KernelGuard guard;
    for_each_quant_window(decoder, [&](const Box& box) {
      const auto parts = read_parts(decoder, box, context.keys(), reader);
      const reference::Bytes theirs = model.logical_region(name, reference_box(box), reference_target);
      elements += box.element_count();
      for (const codec::Kernels* tier : codec::available_kernels()) {
        codec::force_kernels(tier);
        const std::vector<std::byte> ours = decode(decoder, box, parts, target);
        if (theirs.size() != ours.size()) {
          difference = Difference{box.start, std::to_string(ours.size()) + " bytes",
                                  std::to_string(theirs.size()) + " bytes", tier, box};
          return false;
        }
        const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin());
        if (a == ours.end()) {
          continue;
        }
        const auto element = static_cast<std::uint64_t>(a - ours.begin()) / width;
        Coordinate at = coordinate_of(box.length, element);
        for (unsigned axis = 0; axis < at.rank(); ++axis) {
          at[axis] += box.start[axis];
        }
        difference =
            Difference{at, hex_of(&ours[element * width], width), hex_of(&theirs[element * width], width), tier, box};
        return false;
      }
      return true;
    });
    return difference;
  }

  /// The mistake that turns the reference's values into the loader's, looked for in one window.
  std::string explain(const codec::QuantizedTensor& tensor, const SharedCodec& decoder, const Box& box) {
    const std::string name = reference_name(tensor, model);
    const auto bytes_of = [&](const SharedCodec& codec, DType target) {
      return decode(*codec, box, read_parts(*codec, box, context.keys(), reader), target);
    };
    const auto theirs_of = [&](DType target) {
      return model.logical_region(name, reference_box(box), reference::dtype_named(name_of(target)).value());
    };
    const reference::Bytes wide = theirs_of(DType::f32);
    const reference::Bytes narrow = theirs_of(DType::bf16);
    const auto is_theirs = [&](const SharedCodec& codec) {
      const auto a = bytes_of(codec, DType::f32);
      const auto b = bytes_of(codec, DType::bf16);
      return std::equal(a.begin(), a.end(), wide.begin(), wide.end()) &&
             std::equal(b.begin(), b.end(), narrow.begin(), narrow.end());
    };
    // The codec as it would be without a mutation; where it agrees with the reference, mistakes are tried on it.
    const SharedCodec sound = sound_codec(tensor, context.keys(), reader);
    const NumericOperator* found = nullptr;
    if (sound && is_theirs(sound)) {
      const auto ours_wide = bytes_of(decoder, DType::f32);
      const auto ours_narrow = bytes_of(decoder, DType::bf16);
      found = recognise_mistake(sound, [&](const SharedCodec& mistaken) {
        return bytes_of(mistaken, DType::bf16) == ours_narrow && bytes_of(mistaken, DType::f32) == ours_wide;
      });
      return found == nullptr ? std::string()
                              : "as if " + std::string(found->says) + " (" + std::string(found->id) + ")";
    }
    found = recognise_mistake(decoder, is_theirs);
    return found == nullptr ? std::string()
                            : "equal to the reference if, on top, it were " + std::string(found->says) + " (" +
                                  std::string(found->id) + ")";
  }

  TensorSource actual(const codec::QuantizedTensor& tensor, const SharedCodec& decoder, DType target) {
    return source_of_boxes(decoder->natural_shape(), target,
                           [this, &tensor, decoder, target](const Coordinate& start, const Extents& length) {
                             return decode_cut(*decoder, {start, length}, target);
                           });
  }
  TensorSource expected(const codec::QuantizedTensor& tensor, const SharedCodec& decoder, DType target) {
    const std::string name = reference_name(tensor, model);
    const reference::Dtype dtype = reference::dtype_named(name_of(target)).value();
    return source_of_boxes(decoder->natural_shape(), target,
                           [this, name, dtype](const Coordinate& start, const Extents& length) {
                             return model.logical_region(name, reference_box({start, length}), dtype);
                           });
  }

  /// What any two sides of a tensor are explained by, with the mistake of a decoder, where there is one, before it.
  Explanation describe(std::size_t position, DType target, const std::string& mistake) {
    const QuantizedState& state = context.quantization();
    const codec::QuantizedTensor& tensor = state.found.tensors[position];
    const SharedCodec& decoder = state.codecs[position];
    RelatedTensors related;
    const auto open = [&](bool is_actual) -> RelatedTensors::Open {
      return [this, &state, target, is_actual](std::string_view key) -> std::optional<TensorSource> {
        for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
          if (state.found.tensors[i].key == key && state.codecs[i]) {
            return is_actual ? actual(state.found.tensors[i], state.codecs[i], target)
                             : expected(state.found.tensors[i], state.codecs[i], target);
          }
        }
        return std::nullopt;
      };
    };
    related.expected = open(false);
    related.actual = open(true);
    for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
      if (state.codecs[i] && state.codecs[i]->natural_shape() == decoder->natural_shape()) {
        related.keys.push_back(state.found.tensors[i].key);
      }
    }
    ExplainOptions options;
    options.elements_max = k_explained_elements_max;
    options.related_max = k_related_max;
    Explanation out = explain_difference(tensor.key, expected(tensor, decoder, target), actual(tensor, decoder, target),
                                         related, options);
    if (!mistake.empty()) {
      const std::string looks_like = out.is_recognised() ? out.title : std::string();
      out.kind = "decoder_mistake";
      out.title = "Decoded by another rule";
      out.text = (mistake.starts_with("as if") ? "Decodes " : "It would be ") + mistake + ".";
      out.certainty = Certainty::certain;
      if (!looks_like.empty()) {
        out.evidence.push_back({"Looks like: " + looks_like, {}});
      }
    }
    return out;
  }

 private:
  /// Any box of decoded values: the granule may ask for more, which is cut off.
  std::vector<std::byte> decode_cut(const codec::Codec& decoder, const Box& box, DType target) {
    const Box aligned = decoder.align(box);
    const std::vector<std::byte> wide =
        decode(decoder, aligned, read_parts(decoder, aligned, context.keys(), reader), target);
    if (aligned == box) {
      return wide;
    }
    const std::size_t width = bits_of(target) / 8;
    std::vector<std::byte> out(box.element_count() * width);
    for (std::uint64_t i = 0; i < box.element_count(); ++i) {
      Coordinate at = coordinate_of(box.length, i);
      for (unsigned axis = 0; axis < at.rank(); ++axis) {
        at[axis] += box.start[axis] - aligned.start[axis];
      }
      const std::uint64_t from = linear_index(aligned.length, at);
      std::copy_n(wide.begin() + static_cast<std::ptrdiff_t>(from * width), width,
                  out.begin() + static_cast<std::ptrdiff_t>(i * width));
    }
    return out;
  }
};

CheckRecord dequant_parity(Context& context) {
  CheckBuilder builder("quant.dequant_parity");
  const QuantizedState& state = context.quantization();
  if (state.found.tensors.empty()) {
    return builder.skip("no tensor is quantized");
  }
  if (!context.faults.empty()) {
    return builder.skip("undecided where " + context.fault_text());
  }
  if (!state.undecodable.empty()) {
    return builder.skip("values cannot be decoded: " + state.undecodable);
  }
  try {
    reference::ModelOptions options;
    if (context.options.perturbation.reference) {
      context.options.perturbation.reference(options);
    }
    const reference::Model model = reference::Model::open(
        context.checkpoint.shards.size() == 1 && context.checkpoint.kind == storage::CheckpointKind::single_file
            ? context.checkpoint.path_of(0)
            : context.checkpoint.root,
        options);
    ComponentReader reader(context.checkpoint, context.options.calls);
    Parity parity{context, reader, model};
    std::uint64_t undecided = 0;
    for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
      const codec::QuantizedTensor& tensor = state.found.tensors[i];
      if (!context.selects(tensor.key)) {
        continue;
      }
      if (!state.codecs[i]) {
        ++undecided;
        continue;
      }
      for (const DType target : {DType::bf16, DType::f32}) {
        const auto difference = parity.compare(tensor, *state.codecs[i], target);
        if (!difference) {
          continue;
        }
        const bool is_first = !builder.has_subjects();
        // Loads have findings too.
        if (is_first || context.findings.size() < k_explained_max / 2) {
          const KernelGuard guard;
          codec::force_kernels(difference->tier);  // with which it differs; with others it may not
          const std::string mistake = parity.explain(tensor, state.codecs[i], difference->window);
          const Explanation explanation = parity.describe(i, target, mistake);
          reports::Finding finding = finding_of(explanation, "quant.dequant_parity");
          finding.reproduce = context.options.command;
          context.findings.push_back(std::move(finding));
          if (is_first) {
            builder.explanation(mistake.empty() ? summary_of(explanation) : mistake);
          }
        }
        if (is_first) {
          builder.expected(difference->theirs)
              .actual(difference->ours)
              .evidence("coordinate", reports::Value::array_of(
                                          std::vector<std::uint64_t>(difference->at.begin(), difference->at.end())))
              .evidence("kernels", std::string(difference->tier->name));
          builder.message(tensor.key + " (" + tensor.scheme.id + ") differs from the reference at " +
                          to_string(difference->at) + " in " + std::string(name_of(target)));
        }
        builder.subject(tensor.key);
        break;
      }
      if (context.options.progress) {
        context.options.progress("decoding twice", i + 1, state.found.tensors.size());
      }
    }
    builder.examined(parity.elements);
    if (builder.has_subjects()) {
      return builder.fail(counted(builder.subject_count(), "tensor decodes", "tensors decode") +
                          " to other values than the reference");
    }
    std::vector<std::string> tiers;
    for (const codec::Kernels* tier : codec::available_kernels()) {
      tiers.emplace_back(tier->name);
    }
    builder.evidence("kernels", reports::Value::array_of(tiers));
    if (undecided > 0) {
      return builder.skip(counted(undecided, "quantized tensor has", "quantized tensors have") +
                          " no codec, see quant.scale_shape and quant.scale_missing");
    }
    return builder.pass();
  } catch (const reference::Failure& failure) {
    const bool has_finding =
        std::any_of(state.diagnostics.begin(), state.diagnostics.end(),
                    [](const Diagnostic& diagnostic) { return diagnostic.severity == Severity::fail; });
    if (has_finding) {
      return builder.skip(std::string("the reference refuses what other checks name: ") + failure.what());
    }
    return builder.code(failure.kind())
        .error(std::string("the reference cannot read this checkpoint: ") + failure.what());
  }
}

constexpr std::array k_checks = {VerifyCheck{"quant.dequant_parity", &dequant_parity}};

}  // namespace

std::span<const VerifyCheck> quant_parity_checks() { return k_checks; }

}  // namespace weightproof::suites
