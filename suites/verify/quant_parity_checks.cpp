// SPDX-License-Identifier: Apache-2.0
// quant.dequant_parity: the one check that asks two independent statements of every number format about every stored
// value. What differs is explained by the mistakes that decoders are known for.
#include <algorithm>
#include <array>
#include <optional>

#include "loader/codec/kernels.hpp"
#include "reference/failure.hpp"
#include "reference/model.hpp"
#include "suites/explanations/numeric_diff.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/quant_windows.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

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
  std::string kernels;
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
                                  std::to_string(theirs.size()) + " bytes", std::string(tier->name), box};
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
        difference = Difference{at, hex_of(&ours[element * width], width), hex_of(&theirs[element * width], width),
                                std::string(tier->name), box};
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
        if (!builder.has_subjects()) {
          builder.expected(difference->theirs)
              .actual(difference->ours)
              .evidence("coordinate", reports::Value::array_of(
                                          std::vector<std::uint64_t>(difference->at.begin(), difference->at.end())))
              .evidence("kernels", difference->kernels)
              .explanation(parity.explain(tensor, state.codecs[i], difference->window));
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
