// SPDX-License-Identifier: Apache-2.0
// Mutants of codecs: every mistake that decoders are known for, on every scheme. Where a mistake changes no byte of any
// fixture of a scheme, it is equivalent there, and that is shown by decoding both.
#include <array>

#include "fixtures/quantized.hpp"
#include "suites/explanations/numeric_operators.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/verify/quant_windows.hpp"

namespace weightproof::suites {
namespace {

/// One checkpoint of a scheme with what its codecs decode from, read once.
struct Bench {
  storage::Checkpoint checkpoint;
  QuantizedState state;
  std::unique_ptr<ComponentReader> reader;

  explicit Bench(const std::filesystem::path& path) : checkpoint(storage::open_checkpoint(path, {})) {
    state = read_quantization(checkpoint, checkpoint.catalog, nullptr);
    reader = std::make_unique<ComponentReader>(checkpoint, nullptr);
  }

  std::vector<std::byte> decode(const codec::Codec& decoder, const Box& box, DType target) {
    std::vector<std::byte> out(box.element_count() * bits_of(target) / 8);
    const auto parts = read_parts(decoder, box, checkpoint.catalog, *reader);
    decoder.decode(box, views_of_parts(parts), target, out.data());
    return out;
  }

  /// Keys of the tensors that the operator decodes to other bytes, in the windows in which verify decodes.
  std::vector<std::string> changed_by(const NumericOperator& mistake) {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < state.codecs.size(); ++i) {
      const SharedCodec mistaken = state.codecs[i] ? mistake.apply(state.codecs[i]) : nullptr;
      if (!mistaken) {
        continue;
      }
      const bool is_equal = for_each_quant_window(*state.codecs[i], [&](const Box& box) {
        for (const DType target : {DType::bf16, DType::f32}) {
          if (decode(*state.codecs[i], box, target) != decode(*mistaken, box, target)) {
            return false;
          }
        }
        return true;
      });
      if (!is_equal) {
        keys.push_back(state.found.tensors[i].key);
      }
    }
    return keys;
  }

  bool has_place_for(const NumericOperator& mistake) const {
    for (const auto& codec : state.codecs) {
      if (codec && mistake.apply(codec)) {
        return true;
      }
    }
    return false;
  }
};

Perturbation with_mistake(const NumericOperator& mistake) {
  Perturbation out;
  out.codec = [&mistake](const codec::QuantizedTensor&, const SharedCodec& codec) {
    const SharedCodec mistaken = mistake.apply(codec);
    return mistaken ? mistaken : codec;
  };
  return out;
}

/// Ids that complain about NaN codes, exponent bytes 0 and 255 and lost values, whoever decodes them.
const std::vector<std::string> k_special_findings = {"value.nonfinite",    "quant.scale_e8m0", "quant.scale_nan",
                                                     "quant.global_scale", "value.outlier",    "value.constant",
                                                     "value.all_zero"};

void add_scheme(std::string_view name, FixtureShelf& shelf, std::vector<Mutant>& mutants) {
  std::array<fixtures::GenerateOptions, 2> fixtures;
  for (fixtures::GenerateOptions& fixture : fixtures) {
    fixture.family = fixtures::k_quantized_family;
    fixture.preset = name;
  }
  fixtures[1].form = "specials";
  std::array<Bench, 2> benches = {Bench(shelf.get(fixtures[0]).path), Bench(shelf.get(fixtures[1]).path)};
  for (const NumericOperator& mistake : numeric_operators()) {
    if (!benches[0].has_place_for(mistake)) {
      continue;
    }
    Mutant mutant;
    mutant.id = "codec." + std::string(mistake.id) + "." + std::string(name);
    mutant.kind = "codec";
    mutant.fault = "as if " + std::string(mistake.says);
    mutant.perturbation = with_mistake(mistake);
    mutant.checks = {"quant.dequant_parity"};
    for (std::size_t i = 0; i < benches.size() && mutant.tensors.empty(); ++i) {
      mutant.fixture = fixtures[i];
      mutant.tensors = benches[i].changed_by(mistake);
      mutant.fixture_findings = i == 0 ? std::vector<std::string>{} : k_special_findings;
    }
    if (mutant.tensors.empty()) {
      mutant.fixture = fixtures[0];
      mutant.fixture_findings.clear();
      mutant.checks.clear();
      mutant.equivalent = "decodes to the same bytes";
    }
    mutants.push_back(std::move(mutant));
  }
}

/// Families' own checkpoints, through a load: the scale of a sibling, and the mistakes that loads meet first.
void add_families(std::vector<Mutant>& mutants) {
  struct Place {
    const char* family;
    const char* mistake;
    const char* tensor;
  };
  constexpr std::array<Place, 6> places = {{
      {"mistral3_fp8_causal", "scale_inverted", "model.layers.0.mlp.down_proj.weight"},
      {"mistral3_fp8_causal", "other_bias", "model.layers.0.mlp.down_proj.weight"},
      {"deepseek_v3", "scale_axis", "model.layers.0.mlp.gate_proj.weight"},
      {"deepseek_v3", "truncated", "model.layers.0.mlp.down_proj.weight"},
      {"gpt_oss", "nibbles_swapped", "model.layers.0.mlp.experts.gate_up_proj"},
      {"gpt_oss", "gate_scale_for_up", "model.layers.0.mlp.experts.gate_up_proj"},
  }};
  for (const Place& place : places) {
    Mutant mutant;
    mutant.id = "codec." + std::string(place.mistake) + "." + place.family;
    mutant.kind = "codec";
    const NumericOperator* mistake = find_numeric_operator(place.mistake);
    mutant.fault = "one tensor decodes as if " + std::string(mistake->says);
    mutant.fixture.family = place.family;
    mutant.perturbation.codec = [mistake, key = std::string(place.tensor)](const codec::QuantizedTensor& tensor,
                                                                           const SharedCodec& codec) {
      const SharedCodec mistaken = tensor.key == key ? mistake->apply(codec) : nullptr;
      return mistaken ? mistaken : codec;
    };
    mutant.tensors = {place.tensor};
    mutant.checks = {"quant.dequant_parity"};
    mutants.push_back(std::move(mutant));
  }
  // Up scaled by gate's scales, where the two are tensors of their own.
  Mutant sibling;
  sibling.id = "codec.gate_scale_for_up.deepseek_v3";
  sibling.kind = "codec";
  sibling.fault = "up is scaled by gate's scales";
  sibling.fixture.family = "deepseek_v3";
  sibling.perturbation.codec = [](const codec::QuantizedTensor&, const SharedCodec& codec) -> SharedCodec {
    std::vector<codec::Component> components(codec->components().begin(), codec->components().end());
    for (codec::Component& component : components) {
      if (const std::size_t at = component.key.find("up_proj");
          at != std::string::npos && component.role == codec::Role::scale) {
        component.key.replace(at, 7, "gate_proj");
      }
    }
    return std::make_shared<WrappedCodec>(codec, std::move(components));
  };
  sibling.tensors = {"model.layers.0.mlp.up_proj.weight"};
  sibling.checks = {"quant.dequant_parity"};
  mutants.push_back(std::move(sibling));
}

}  // namespace

std::vector<Mutant> codec_mutants() {
  static const std::vector<Mutant> list = [] {
    std::vector<Mutant> mutants;
    FixtureShelf shelf;
    for (const fixtures::QuantizedCase& row : fixtures::quantized_cases()) {
      if (row.check.empty()) {
        add_scheme(row.name, shelf, mutants);
      }
    }
    add_families(mutants);
    return mutants;
  }();
  return list;
}

}  // namespace weightproof::suites
