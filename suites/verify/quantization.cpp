// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/quantization.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "adapters/family.hpp"

namespace weightproof::suites {

ComponentReader::ComponentReader(const storage::Checkpoint& checkpoint, storage::FileCalls* calls)
    : checkpoint_(&checkpoint), calls_(calls != nullptr ? calls : &storage::FileCalls::system()) {
  files_.resize(checkpoint.shards.size());
}

void ComponentReader::read(const StoredTensor& row, std::uint64_t offset, std::span<std::byte> target) {
  std::unique_ptr<storage::File>& file = files_.at(row.file);
  const storage::Shard& shard = checkpoint_->shards[row.file];
  if (!file) {
    file = std::make_unique<storage::File>(storage::File::open(checkpoint_->path_of(row.file), shard.name, *calls_));
    if (shard.header) {
      file->require_identity(shard.header->identity);
    }
  }
  file->read(row.begin + offset, target);
}

namespace {

constexpr std::string_view k_folding_family = "gemma4_moe";
constexpr const char* k_folded_layout = "stacked_folded";

/// A refused scheme in words, "" where everything can be decoded.
std::string refusal_of(const codec::Quantization& found) {
  for (const Diagnostic& diagnostic : found.diagnostics) {
    if (diagnostic.check == "quant.unsupported" && diagnostic.severity == Severity::fail) {
      return diagnostic.facts.actual.empty() ? diagnostic.message : diagnostic.facts.actual;
    }
  }
  return {};
}

std::vector<std::vector<std::byte>> read_probes(const codec::QuantizedTensor& tensor, const Catalog& keys,
                                                ComponentReader& reader) {
  std::vector<std::vector<std::byte>> values;
  for (const codec::Probe& probe : codec::probes_of(tensor.scheme, tensor.components)) {
    const codec::Component& component = tensor.components[probe.component];
    const StoredTensor* row = keys.find(component.key);
    if (row->bytes > probe.bytes_max) {
      ErrorFacts facts;
      facts.keys = {component.key};
      facts.expected = "at most " + std::to_string(probe.bytes_max) + " bytes";
      facts.actual = std::to_string(row->bytes);
      throw Error(ErrorCode::limit_exceeded, component.key + " is too large to be what its name says", facts);
    }
    values.emplace_back(row->bytes);
    reader.read(*row, 0, values.back());
  }
  return values;
}

}  // namespace

QuantizedState read_quantization(const storage::Checkpoint& checkpoint, const Catalog& keys,
                                 storage::FileCalls* calls) {
  QuantizedState state;
  const ConfigValue* config = checkpoint.config ? &*checkpoint.config : nullptr;
  state.found = codec::detect_quantization(config, checkpoint.companions, keys);
  state.diagnostics = state.found.diagnostics;
  state.undecodable = refusal_of(state.found);
  state.codecs.resize(state.found.tensors.size());
  ComponentReader reader(checkpoint, calls);
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const codec::QuantizedTensor& tensor = state.found.tensors[i];
    const bool is_described =
        std::all_of(tensor.components.begin(), tensor.components.end(), [&](const codec::Component& component) {
          const StoredTensor* row = keys.find(component.key);
          return row != nullptr && row->is_described;
        });
    if (!is_described) {
      continue;
    }
    try {
      state.codecs[i] = codec::make_codec(tensor.scheme, tensor.components, read_probes(tensor, keys, reader));
    } catch (const Error& error) {
      state.diagnostics.push_back(diagnostic_of(error));
    }
  }
  return state;
}

std::string why_undecodable(const QuantizedState& state) {
  if (!state.undecodable.empty()) {
    return "no values can be decoded: " + state.undecodable;
  }
  for (const Diagnostic& diagnostic : state.diagnostics) {
    if (diagnostic.severity == Severity::fail) {
      return "values cannot be decoded where " + diagnostic.check + " fails";
    }
  }
  return {};
}

std::shared_ptr<const codec::Codec> sound_codec(const codec::QuantizedTensor& tensor, const Catalog& keys,
                                                ComponentReader& reader) {
  try {
    return codec::make_codec(tensor.scheme, tensor.components, read_probes(tensor, keys, reader));
  } catch (const Error&) {
    return nullptr;
  }
}

std::vector<plan::DecodedTensor> decoded_tensors(const QuantizedState& state, const Schema& schema,
                                                 const Catalog& keys) {
  std::map<StoredId, plan::DecodedTensor> by_id;
  const auto row_of = [&](std::string_view key) { return static_cast<plan::Row>(keys.index_of(key)); };
  for (std::size_t i = 0; i < state.found.tensors.size(); ++i) {
    const codec::QuantizedTensor& tensor = state.found.tensors[i];
    const StoredId stored = schema.find_stored(tensor.key);
    if (stored == k_no_id) {
      continue;
    }
    plan::DecodedTensor decoded;
    decoded.stored = stored;
    decoded.shape =
        state.codecs[i] ? state.codecs[i]->natural_shape() : schema.shape_of(schema.stored_tensors()[stored]);
    for (const codec::Component& component : tensor.components) {
      decoded.rows.push_back(row_of(component.key));
    }
    by_id[stored] = std::move(decoded);
  }
  // Companions of a scheme that cannot be decoded still belong to a weight: "x.scales" and "x.biases" to "x.weight".
  for (const std::string& key : state.found.refused) {
    const std::string weight = key.substr(0, key.rfind('.')) + ".weight";
    const StoredId stored = schema.find_stored(weight);
    if (stored == k_no_id || keys.find(weight) == nullptr) {
      continue;
    }
    plan::DecodedTensor& decoded = by_id[stored];
    if (decoded.rows.empty()) {
      decoded.stored = stored;
      decoded.shape = schema.shape_of(schema.stored_tensors()[stored]);
      decoded.rows.push_back(row_of(weight));
    }
    decoded.rows.push_back(row_of(key));
  }
  std::vector<plan::DecodedTensor> decoded;
  for (auto& [id, tensor] : by_id) {
    decoded.push_back(std::move(tensor));
  }
  return decoded;
}

std::vector<plan::DecodedTensor> declared_tensors(const Schema& schema, const Catalog& keys) {
  std::vector<plan::DecodedTensor> out;
  const auto stored = schema.stored_tensors();
  for (StoredId id = 0; id < stored.size(); ++id) {
    if (stored[id].coding == k_no_id || schema.rule(schema.codings()[stored[id].coding].scheme) != "expert_scale") {
      continue;
    }
    plan::DecodedTensor tensor{id, schema.shape_of(stored[id]), {}};
    for (const CodedPart& part : schema.parts_of(stored[id])) {
      const std::size_t row = keys.index_of(part.key);
      if (row == SIZE_MAX) {
        break;
      }
      if (part.role == "weight" && keys.tensors()[row].is_described) {
        tensor.shape = keys.tensors()[row].shape;
      }
      tensor.rows.push_back(static_cast<plan::Row>(row));
    }
    if (tensor.rows.size() == schema.parts_of(stored[id]).size()) {
      out.push_back(std::move(tensor));
    }
  }
  return out;
}

std::vector<plan::DecodeSource> declared_decodes(const Schema& schema, const Catalog& keys) {
  std::vector<plan::DecodeSource> out;
  for (plan::DecodedTensor& tensor : declared_tensors(schema, keys)) {
    std::vector<codec::Component> components;
    for (const CodedPart& part : schema.parts_of(schema.stored_tensors()[tensor.stored])) {
      const StoredTensor& row = keys.tensors()[tensor.rows[components.size()]];
      components.push_back({part.role == "scale" ? codec::Role::scale : codec::Role::weight, std::string(part.key),
                            row.dtype, row.shape});
    }
    codec::Scheme scheme;
    scheme.id = "expert_scale";
    out.push_back({tensor.stored, codec::make_codec(scheme, std::move(components)), std::move(tensor.rows)});
  }
  return out;
}

namespace {

bool has_expert_scales(const adapters::Family* family) { return family != nullptr && family->name == k_folding_family; }

}  // namespace

std::optional<Schema> folding_schema(const storage::Checkpoint& checkpoint, std::string_view family) {
  if (!checkpoint.config) {
    return std::nullopt;
  }
  const ConfigValue& config = *checkpoint.config;
  const adapters::Detection found = adapters::detect(&config, checkpoint.catalog, family);
  if (!has_expert_scales(found.family) || !found.missing_fields.empty()) {
    return std::nullopt;
  }
  try {
    Form form = found.family->find_form(config, checkpoint.catalog);
    form.expert_layout = k_folded_layout;
    return found.family->describe(config, form, ExpertStorage::grouped);
  } catch (const Error&) {
    return std::nullopt;  // judged by other checks
  }
}

void require_foldable(const adapters::Family* family, bool has_include, bool has_exclude) {
  if (!has_expert_scales(family)) {
    ErrorFacts facts;
    facts.actual = family == nullptr ? "no known family" : std::string(family->name);
    facts.expected = k_folding_family;
    facts.hint = "leave --gemma-fold out";
    throw Error(ErrorCode::usage, "no scale of an expert to fold: the family is another one", std::move(facts));
  }
  if (has_include || has_exclude) {
    ErrorFacts facts;
    facts.hint = has_include && has_exclude ? "leave --gemma-fold out, or --include and --exclude"
                 : has_include              ? "leave --gemma-fold out, or --include"
                                            : "leave --gemma-fold out, or --exclude";
    throw Error(ErrorCode::usage,
                std::string(has_include ? "--include" : "--exclude") +
                    " may part an expert from its scale: --gemma-fold wants both",
                std::move(facts));
  }
}

}  // namespace weightproof::suites
