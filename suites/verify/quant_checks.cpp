// SPDX-License-Identifier: Apache-2.0
// quant.* from headers: which scheme, are all its parts there, do they fit, does the config agree.
#include <algorithm>
#include <array>
#include <map>

#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;
using reports::Value;

std::string undecided(const Context& context) {
  return context.faults.empty() && context.index_fault().empty() ? std::string()
                                                                 : "undecided where " + context.fault_text();
}

/// The record of one id among the quantization's diagnostics, over `examined` tensors.
CheckRecord found_under(Context& context, std::string_view id, std::uint64_t examined) {
  return record_of(context.quantization().diagnostics, id, examined, undecided(context));
}

std::uint64_t tensor_count(Context& context) { return context.quantization().found.tensors.size(); }

// A scheme that nobody here decodes is an error of the verification, not of the checkpoint: its values were not judged.
CheckRecord unsupported(Context& context) {
  const QuantizedState& state = context.quantization();
  CheckBuilder builder("quant.unsupported");
  for (const Diagnostic& diagnostic : state.diagnostics) {
    if (diagnostic.check == "quant.unsupported" && diagnostic.severity == Severity::fail) {
      for (const std::string& key : diagnostic.facts.keys) {
        builder.subject(key);
      }
      return builder.code(diagnostic.code)
          .hint("verify it with --keys-only, or decode it first with the tool that wrote it")
          .error(diagnostic.message);
    }
  }
  builder.examined(state.found.tensors.size());
  if (state.found.tensors.empty()) {
    return builder.pass();
  }
  // Evidence, no note: nothing about a scheme that is decoded has to be read.
  std::map<std::string, std::uint64_t> schemes;
  for (const codec::QuantizedTensor& tensor : state.found.tensors) {
    ++schemes[tensor.scheme.id];
  }
  std::string text;
  for (const auto& [scheme, count] : schemes) {
    text += (text.empty() ? "" : ", ") + scheme + " x " + grouped(count);
  }
  builder.evidence("decoded", text);
  if (!state.found.source.empty()) {
    builder.evidence("stated_by", state.found.source);
  }
  return builder.pass();
}

CheckRecord config_mismatch(Context& context) {
  const QuantizedState& state = context.quantization();
  const auto scaled =
      std::count_if(state.found.tensors.begin(), state.found.tensors.end(),
                    [](const codec::QuantizedTensor& tensor) { return tensor.scheme.id != "fp8_bare"; });
  const bool is_unstated = state.found.method.empty() && state.found.source == "tensors";
  if (is_unstated && scaled > 0 && context.checkpoint.config && context.detection.family != nullptr) {
    // Loaders build plain layers by such a config and fill them with codes.
    CheckBuilder builder("quant.config_mismatch");
    builder.subject("config.json").code("QUANT_CONFIG_MISMATCH").evidence("first", state.found.tensors.front().key);
    return builder.hint("put the quantization_config back that the weights were saved with")
        .fail(counted(static_cast<std::uint64_t>(scaled), "tensor is", "tensors are") +
              " quantized, and config.json has no quantization_config");
  }
  return found_under(context, "quant.config_mismatch", tensor_count(context));
}
CheckRecord scale_missing(Context& context) {
  return found_under(context, "quant.scale_missing", tensor_count(context));
}
CheckRecord scale_orphan(Context& context) {
  CheckRecord record = found_under(context, "quant.scale_orphan", tensor_count(context));
  // A weight that is missing leaves its scale behind: one fault.
  std::vector<std::string> weights;
  for (const std::string& key : record.subjects) {
    for (const std::string_view end : {"_scale_inv", "_scale"}) {
      if (key.ends_with(end)) {
        weights.push_back(key.substr(0, key.size() - end.size()));
        break;
      }
    }
  }
  if (!weights.empty()) {
    record.evidence["explains"] = Value::array_of(weights);
  }
  return record;
}
CheckRecord scale_names(Context& context) { return found_under(context, "quant.scale_names", tensor_count(context)); }
CheckRecord scale_shape(Context& context) { return found_under(context, "quant.scale_shape", tensor_count(context)); }
CheckRecord unscaled(Context& context) { return found_under(context, "quant.unscaled", tensor_count(context)); }

CheckRecord scale_padded(Context& context) {
  const QuantizedState& state = context.quantization();
  CheckBuilder builder("quant.scale_padded");
  builder.examined(state.found.tensors.size());
  std::string first;
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const codec::QuantizedTensor& tensor = state.found.tensors[i];
    if (!state.codecs[i] || tensor.scheme.id != "fp8_block") {
      continue;
    }
    const Shape& weight = state.codecs[i]->natural_shape();
    for (const codec::Component& component : tensor.components) {
      if (component.role != codec::Role::scale || component.shape.rank() < 2 || weight.rank() < 2) {
        continue;
      }
      const auto blocks = [](std::uint64_t extent, std::uint64_t edge) {
        return edge == 0 ? 1 : (extent + edge - 1) / edge;
      };
      const std::uint64_t rows = blocks(weight[weight.rank() - 2], tensor.scheme.block_rows);
      const std::uint64_t cols = blocks(weight[weight.rank() - 1], tensor.scheme.block_cols);
      const unsigned rank = component.shape.rank();
      if (component.shape[rank - 2] > rows || component.shape[rank - 1] > cols) {
        builder.subject(component.key);
        if (first.empty()) {
          first =
              component.key + " is " + to_string(component.shape) + ", " + to_string(Shape{rows, cols}) + " is used";
        }
      }
    }
  }
  return builder.has_subjects() ? builder.note("grids of scales larger than their weights were cropped: " + first)
                                : builder.pass();
}

// Every stored tensor of a quantized weight is read by its codec or listed as one that decoding needs nothing of.
CheckRecord companion(Context& context) {
  const QuantizedState& state = context.quantization();
  CheckBuilder builder("quant.companion");
  std::map<std::string, std::vector<std::string>> users;
  std::uint64_t unused = 0;
  for (const codec::QuantizedTensor& tensor : state.found.tensors) {
    for (const codec::Component& component : tensor.components) {
      users[component.key].push_back(tensor.key);
      unused += component.role == codec::Role::unused ? 1U : 0U;
    }
  }
  builder.examined(users.size());
  for (const auto& [key, tensors] : users) {
    if (tensors.size() > 1) {
      builder.subject(key);
    }
  }
  if (builder.has_subjects()) {
    return builder.code("COMPANION_UNREAD")
        .fail(counted(builder.subject_count(), "companion is", "companions are") + " claimed by more than one weight");
  }
  if (const std::string reason = undecided(context); !reason.empty()) {
    return builder.skip(reason);
  }
  return unused == 0 ? builder.pass()
                     : builder.note(counted(unused, "companion", "companions") +
                                    " of run time (activation scales and the like) consumed, not decoded");
}

CheckRecord packing(Context& context) {
  const QuantizedState& state = context.quantization();
  CheckBuilder builder("quant.packing");
  std::uint64_t packed = 0;
  for (const codec::QuantizedTensor& tensor : state.found.tensors) {
    packed += tensor.scheme.id == "ct_pack" ? 1U : 0U;
    if (tensor.scheme.has_old_packing) {
      builder.subject(tensor.key);
    }
  }
  builder.examined(packed);
  return builder.warn_if_subjects(
      "packed with unused bits at the end of each word, as older releases did: the bytes decide");
}

constexpr std::array k_checks = {
    VerifyCheck{"quant.unsupported", &unsupported},     VerifyCheck{"quant.config_mismatch", &config_mismatch},
    VerifyCheck{"quant.scale_missing", &scale_missing}, VerifyCheck{"quant.scale_orphan", &scale_orphan},
    VerifyCheck{"quant.scale_names", &scale_names},     VerifyCheck{"quant.scale_shape", &scale_shape},
    VerifyCheck{"quant.scale_padded", &scale_padded},   VerifyCheck{"quant.unscaled", &unscaled},
    VerifyCheck{"quant.companion", &companion},         VerifyCheck{"quant.packing", &packing}};

}  // namespace

std::span<const VerifyCheck> quant_checks() { return k_checks; }

}  // namespace weightproof::suites
