// SPDX-License-Identifier: Apache-2.0
#include "suites/mutants/planned_family.hpp"

#include <algorithm>
#include <set>

namespace weightproof::suites {

fixtures::GenerateOptions Variant::options() const {
  fixtures::GenerateOptions made;
  made.family = fixture;
  made.preset = preset;
  made.form = form;
  made.config_changes = config_changes;
  return made;
}

std::string Variant::name() const {
  return fixture + "_" + preset + (form.empty() ? "" : "_" + form) + (config_changes.empty() ? "" : "_changed");
}

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name(); }

bool is_preset_of(std::string_view preset, std::string_view prefix) {
  return preset.starts_with(prefix) && (preset.size() == prefix.size() || preset[prefix.size()] == '_');
}

std::vector<Variant> variants_of(std::string_view prefix) {
  std::vector<Variant> out;
  for (const std::string& fixture : fixtures::families()) {
    if (fixture == "identity" || fixture == "qwen3_mlx") {
      continue;
    }
    const std::vector<std::string> forms = fixtures::forms(fixture);
    std::set<std::string> seen;
    for (const std::string& preset : fixtures::presets(fixture)) {
      if (!is_preset_of(preset, prefix)) {
        continue;
      }
      const std::string asked = fixtures::preset_form(fixture, preset);
      out.push_back({fixture, preset, asked.empty() ? forms.front() : asked});
      seen.insert(out.back().form);
    }
    for (const std::string& form : forms) {
      if (seen.count(form) == 0 && prefix == "tiny") {
        out.push_back({fixture, "tiny", form});
      }
    }
  }
  return out;
}

PlannedFamily plan_family(const Variant& variant, bool has_extras, bool has_optional) {
  fixtures::GenerateOptions options = variant.options();
  options.has_extras = has_extras;
  options.has_optional = has_optional;
  PlannedFamily out;
  out.made = fixtures::plan_checkpoint(options);
  out.config = ConfigValue::parse(out.made.config.value_or("{}"), "config.json");
  CatalogBuilder builder;
  builder.add_file("model.safetensors");
  std::uint64_t begin = 0;
  for (const fixtures::GeneratedTensor& made : out.made.tensors) {
    StoredTensor row;
    row.key = made.tensor.key;
    row.shape = Shape(std::span<const std::uint64_t>(made.tensor.shape));
    row.dtype = dtype_from_name(made.tensor.dtype).value();
    row.begin = begin;
    row.bytes = made.bytes;
    row.is_described = true;
    begin += made.bytes;
    builder.add_copy(row);
  }
  out.catalog = std::move(builder).finish();
  const adapters::Detection detection = adapters::detect(&out.config, out.catalog, variant.asked_family());
  out.family = detection.family;
  if (out.family == nullptr) {
    return out;
  }
  out.form = out.family->find_form(out.config, out.catalog);
  out.schema = out.family->describe(out.config, out.form, ExpertStorage::grouped);
  out.schema->match_codings(out.catalog);
  for (StoredId id = 0; id < out.schema->stored_tensors().size(); ++id) {
    const LogicalTensor& tensor = out.schema->stored_tensors()[id];
    plan::DecodedTensor decoded{id, out.schema->shape_of(tensor), {}};
    for (const CodedPart& part : out.schema->parts_of(tensor)) {
      const std::size_t row = out.catalog.index_of(part.key);
      if (row != SIZE_MAX) {
        decoded.rows.push_back(static_cast<plan::Row>(row));
      }
    }
    if (!decoded.rows.empty()) {
      out.decoded.push_back(std::move(decoded));
    }
  }
  return out;
}

}  // namespace weightproof::suites
