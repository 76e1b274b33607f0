// SPDX-License-Identifier: Apache-2.0
// quant.* about parameters beside the scales: zero points and second-level scales.
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "loader/codec/scalar.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using codec::Component;
using codec::Role;
using reports::CheckBuilder;
using reports::CheckRecord;

/// Zero points are read whole: of one tensor at a time, and no larger than this.
constexpr std::uint64_t k_zero_bytes_max = std::uint64_t{64} << 20U;

std::string undecided(const Context& context) {
  return context.faults.empty() && context.index_fault().empty() ? std::string()
                                                                 : "undecided where " + context.fault_text();
}

const Component* find(const codec::QuantizedTensor& tensor, Role role) {
  for (const Component& component : tensor.components) {
    if (component.role == role) {
      return &component;
    }
  }
  return nullptr;
}

std::uint64_t fields_of_ones(std::span<const std::byte> words, unsigned bits) {
  std::uint64_t count = 0;
  for (std::uint64_t field = 0; field < words.size() * 8 / bits; ++field) {
    bool is_ones = true;
    for (unsigned k = 0; k < bits && is_ones; ++k) {
      const std::uint64_t bit = field * bits + k;
      is_ones = (std::to_integer<unsigned>(words[bit / 8]) >> (bit % 8) & 1U) != 0;
    }
    count += is_ones ? 1U : 0U;
  }
  return count;
}

// GPTQ: version 1 stores z - 1. Symmetric files are told by their fields, whatever the config says; asymmetric ones may
// hold fields on which loaders disagree.
CheckRecord zero_point(Context& context) {
  CheckBuilder builder("quant.zero_point");
  if (const std::string reason = undecided(context); !reason.empty()) {
    return builder.skip(reason);
  }
  const QuantizedState& state = context.quantization();
  ComponentReader reader(context.checkpoint, context.options.calls);
  std::uint64_t examined = 0;
  std::uint64_t ones = 0;
  std::string noted;
  std::string first;
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const codec::QuantizedTensor& tensor = state.found.tensors[i];
    const Component* zero = find(tensor, Role::zero_point);
    if (zero == nullptr || !state.codecs[i] || !context.selects(tensor.key)) {
      continue;
    }
    ++examined;
    if (tensor.scheme.id != "gptq") {
      continue;
    }
    const unsigned found = state.codecs[i]->scheme().version;
    if (found != tensor.scheme.version) {
      builder.subject(zero->key);
      if (first.empty()) {
        first = zero->key + " holds zero points of version " + std::to_string(found) +
                ", the config says checkpoint_format of version " + std::to_string(tensor.scheme.version) +
                ": the fields were followed";
        builder.expected("version " + std::to_string(tensor.scheme.version)).actual("version " + std::to_string(found));
      }
    }
    const StoredTensor* row = context.keys().find(zero->key);
    if (found == 1 && !tensor.scheme.is_symmetric && row->bytes <= k_zero_bytes_max) {
      std::vector<std::byte> bytes(row->bytes);
      reader.read(*row, 0, bytes);
      const std::uint64_t count = fields_of_ones(bytes, tensor.scheme.bits);
      ones += count;
      if (count > 0 && noted.empty()) {
        noted = zero->key;
      }
    }
  }
  builder.examined(examined).evidence("fields_of_ones", ones);
  if (builder.has_subjects()) {
    return builder.hint("correct checkpoint_format in the quantization config").warn(first);
  }
  if (ones > 0) {
    return builder.note(counted(ones, "field", "fields") + " of ones, first in " + noted +
                        ": a zero point of 0 here, 2^bits to loaders that add without a mask");
  }
  return builder.pass();
}

// The names of parts that loaders fuse into one tensor.
constexpr std::array<std::array<std::string_view, 3>, 2> k_fused = {
    {{".q_proj.", ".k_proj.", ".v_proj."}, {".gate_proj.", ".up_proj.", ""}}};

struct Global {
  const codec::QuantizedTensor* tensor = nullptr;
  const Component* component = nullptr;
  std::vector<float> values;
};

std::vector<float> read_floats(const StoredTensor& row, ComponentReader& reader) {
  std::vector<std::byte> bytes(row.bytes);
  reader.read(row, 0, bytes);
  std::vector<float> values(row.bytes / 4);
  std::memcpy(values.data(), bytes.data(), values.size() * 4);
  return values;
}

/// Groups of parts whose second-level scales differ: a loader that fuses them must keep one for each part.
std::uint64_t count_differing_parts(const std::map<std::string, Global>& globals, std::string& first) {
  std::uint64_t differing = 0;
  for (const auto& names : k_fused) {
    for (const auto& [key, global] : globals) {
      const std::size_t at = key.find(names[0]);
      if (at == std::string::npos) {
        continue;
      }
      for (std::size_t part = 1; part < names.size() && !names[part].empty(); ++part) {
        std::string other = key;
        other.replace(at, names[0].size(), names[part]);
        const auto found = globals.find(other);
        if (found != globals.end() && found->second.values != global.values) {
          ++differing;
          if (first.empty()) {
            first = global.component->key + " and " + found->second.component->key;
          }
          break;
        }
      }
    }
  }
  return differing;
}

CheckRecord global_scale(Context& context) {
  CheckBuilder builder("quant.global_scale");
  if (const std::string reason = undecided(context); !reason.empty()) {
    return builder.skip(reason);
  }
  // The scale that the largest element gives is amax / (6 * 448): magnitudes of weights are far inside these.
  constexpr double least = 0x1p-40;
  constexpr double most = 0.25;
  const QuantizedState& state = context.quantization();
  ComponentReader reader(context.checkpoint, context.options.calls);
  std::map<std::string, Global> globals;
  std::string misnamed;
  std::string implausible;
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const codec::QuantizedTensor& tensor = state.found.tensors[i];
    const Component* global = find(tensor, Role::global_scale);
    if (global == nullptr || !state.codecs[i] || !context.selects(tensor.key)) {
      continue;
    }
    const bool is_divisor = tensor.scheme.id == "nvfp4_ct";
    const std::string method = state.found.method;
    if ((method == "modelopt" && is_divisor) || (method == "compressed-tensors" && !is_divisor)) {
      builder.subject(global->key).subject(tensor.key);
      if (misnamed.empty()) {
        misnamed = global->key + (is_divisor ? " divides" : " multiplies") + " by its name, and " + method +
                   (is_divisor ? " multiplies" : " divides");
        builder.expected(is_divisor ? "weight_scale_2" : "weight_global_scale").actual(global->key);
      }
      continue;
    }
    Global entry{&tensor, global, read_floats(*context.keys().find(global->key), reader)};
    for (const float value : entry.values) {
      const double multiplier = is_divisor ? 1.0 / static_cast<double>(value) : static_cast<double>(value);
      if (value != 0 && std::isfinite(value) && (multiplier < least || multiplier > most)) {
        if (misnamed.empty()) {
          builder.subject(global->key);
        }
        if (implausible.empty()) {
          implausible = global->key + " makes weights of up to " + std::to_string(multiplier * 6 * 448) +
                        ": is it the other way round?";
        }
        break;
      }
    }
    globals.emplace(tensor.key, std::move(entry));
  }
  builder.examined(globals.size());
  if (!misnamed.empty()) {
    return builder.code("QUANT_CONFIG_MISMATCH")
        .hint("a scale that multiplies is the inverse of one that divides")
        .fail(misnamed);
  }
  if (!implausible.empty()) {
    return builder.hint("ModelOpt stores amax / (6 * 448) and multiplies, compressed-tensors the inverse and divides")
        .warn(implausible);
  }
  std::string first;
  const std::uint64_t differing = count_differing_parts(globals, first);
  return differing == 0
             ? builder.pass()
             : builder.note(counted(differing, "pair", "pairs") + " of parts with scales of their own, first " + first +
                            ": decoded part by part, never by one scale for both");
}

constexpr std::array k_checks = {VerifyCheck{"quant.zero_point", &zero_point},
                                 VerifyCheck{"quant.global_scale", &global_scale}};

}  // namespace

std::span<const VerifyCheck> quant_parameter_checks() { return k_checks; }

}  // namespace weightproof::suites
