// SPDX-License-Identifier: Apache-2.0
// adapters: the model families, and one family's mapping as a table.
#include <algorithm>
#include <map>

#include "adapters/family.hpp"
#include "loader/core/limits.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/shell.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

std::string joined(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) {
    out += (out.empty() ? "" : ", ") + std::string(name);
  }
  return out;
}

std::string_view policy_text(const adapters::Family& family) {
  switch (family.tie_policy) {
    case adapters::TiePolicy::tied_only:
      return "always tied";
    case adapters::TiePolicy::untied_only:
      return "never tied";
    case adapters::TiePolicy::both:
      break;
  }
  if (!family.tied_by_default) {
    return "by the flag, else by the stored head";
  }
  return *family.tied_by_default ? "by the flag, else tied" : "by the flag, else untied";
}

int list(Console& console) {
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    json.begin_object().member("schema", "weightproof.adapters/1").name("families").begin_array();
    for (const adapters::Family* family : adapters::all_families()) {
      json.begin_object().member("name", family->name).member("title", family->title);
      const auto names = [&json](const char* member, std::span<const std::string_view> list) {
        json.name(member).begin_array();
        json.compact();
        for (const std::string_view name : list) {
          json.value(name);
        }
        json.end_array();
      };
      names("model_types", family->model_types);
      names("architectures", family->architectures);
      names("required", family->required);
      json.member("tied", policy_text(*family)).member("detected", family->is_detected).end_object();
    }
    json.end_array().end_object();
    json.flush();
    console.out("\n");
    return k_exit_done;
  }
  std::size_t width = 0;
  for (const adapters::Family* family : adapters::all_families()) {
    width = std::max(width, family->name.size());
  }
  for (const adapters::Family* family : adapters::all_families()) {
    std::string left(family->name);
    left.append(width + 2 - left.size(), ' ');
    console.line(console.styled(Tone::strong, left) + std::string(family->title) +
                 console.styled(Tone::muted, "  " + joined(family->model_types)));
  }
  if (!console.is_quiet()) {
    console.line("\nEverything else is taken as it is: files and values are judged, names are not.");
  }
  return k_exit_done;
}

ConfigValue sample_config(const adapters::Family& family) {
  if (family.sample.empty()) {
    ErrorFacts facts;
    facts.hint = "give the model's own: --config config.json";
    throw Error(ErrorCode::usage, "family " + std::string(family.name) + " has no sample configuration", facts);
  }
  return ConfigValue::parse(family.sample, "sample of " + std::string(family.name));
}

// "model.layers.1.mlp" -> "model.layers.{}.mlp" for the layer of the row.
std::string pattern_of(std::string_view key, std::uint32_t layer) {
  std::string out(key);
  if (layer == k_no_layer) {
    return out;
  }
  const std::string number = '.' + std::to_string(layer) + '.';
  const std::size_t at = out.find(number);
  if (at != std::string::npos) {
    out.replace(at, number.size(), ".{}.");
  }
  return out;
}

std::string part_text(const View& view, const Shape& shape) {
  return view == View::whole(shape) ? "all of " + to_string(shape) : to_string(view) + " of " + to_string(shape);
}

struct MappingRow {
  std::string stored;
  std::string stored_part;
  std::string native;
  std::string native_part;
  std::string kind;
  std::uint64_t count = 0;  ///< layers that repeat it
};

// Equal rows of all layers become one.
std::vector<MappingRow> mapping_rows(const Schema& schema) {
  std::vector<MappingRow> rows;
  std::map<std::string, std::size_t> seen;
  for (const Binding& binding : schema.bindings()) {
    const NativeTensor& native = schema.native_tensors()[binding.native];
    MappingRow row;
    row.native = pattern_of(native.key, native.layer);
    row.native_part = part_text(schema.native_view(binding), schema.shape_of(native));
    if (binding.stored != k_no_id) {
      const LogicalTensor& stored = schema.stored_tensors()[binding.stored];
      row.stored = pattern_of(stored.key, stored.layer);
      row.stored_part = part_text(schema.stored_view(binding), schema.shape_of(stored));
    }
    row.kind = binding.kind == BindingKind::primary ? "primary"
               : binding.kind == BindingKind::alias ? "alias"
                                                    : "constant";
    const std::string text =
        row.stored + '\n' + row.stored_part + '\n' + row.native + '\n' + row.native_part + '\n' + row.kind;
    const auto [place, is_new] = seen.emplace(text, rows.size());
    if (is_new) {
      rows.push_back(std::move(row));
    }
    ++rows[place->second].count;
  }
  return rows;
}

int show(const std::string& name, const std::string& config_path, Console& console) {
  const adapters::Detection detection = adapters::detect(nullptr, Catalog{}, name);
  const adapters::Family& family = *detection.family;
  const ConfigValue config = config_path.empty()
                                 ? sample_config(family)
                                 : ConfigValue::parse(read_text_file(config_path, limits::config_bytes_max),
                                                      std::filesystem::path(config_path).filename().string());
  const adapters::Detection complete = adapters::detect(&config, Catalog{}, name);
  if (!complete.missing_fields.empty()) {
    ErrorFacts facts;
    facts.file = config_path;
    facts.hint = "add the fields, or leave out --config";
    std::string fields;
    for (const std::string& field : complete.missing_fields) {
      fields += (fields.empty() ? "" : ", ") + field;
    }
    throw Error(ErrorCode::config_invalid, "the configuration lacks " + fields, facts);
  }
  const Form form = family.find_form(config, Catalog{});
  const Schema schema = family.describe(config, form, ExpertStorage::grouped);
  const std::vector<MappingRow> rows = mapping_rows(schema);
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    json.begin_object()
        .member("schema", "weightproof.mapping/1")
        .member("family", family.name)
        .member("tied", form.is_tied);
    json.name("rows").begin_array();
    for (const MappingRow& row : rows) {
      json.begin_object()
          .compact()
          .member("stored", row.stored)
          .member("stored_part", row.stored_part)
          .member("native", row.native);
      json.member("native_part", row.native_part).member("kind", row.kind).member("count", row.count).end_object();
    }
    json.end_array().name("drops").begin_array();
    for (const Drop& drop : schema.drops()) {
      json.begin_object().compact().member("pattern", drop.pattern).member("reason", drop.reason).end_object();
    }
    json.end_array().end_object();
    json.flush();
    console.out("\n");
    return k_exit_done;
  }
  console.line(console.styled(Tone::strong, std::string(family.name)) + ": " + std::string(family.title));
  console.line("model types " + joined(family.model_types) +
               "; head and embedding: " + std::string(policy_text(family)));
  console.line(config_path.empty() ? "sizes of a small sample configuration; --config FILE shows a real one"
                                   : "sizes of " + shown_path(config_path));
  console.line();
  std::size_t stored_width = 6;
  std::size_t native_width = 6;
  for (const MappingRow& row : rows) {
    stored_width = std::max(stored_width, row.stored.size());
    native_width = std::max(native_width, row.native.size());
  }
  const auto cell = [](std::string text, std::size_t width) {
    text.append(text.size() < width ? width - text.size() : 0, ' ');
    return text;
  };
  console.line(
      console.styled(Tone::muted, cell("stored", stored_width) + "  " + cell("native", native_width) + "  part"));
  for (const MappingRow& row : rows) {
    std::string part =
        row.native_part == row.stored_part ? row.native_part : row.stored_part + " -> " + row.native_part;
    if (row.kind != "primary") {
      part += " (" + row.kind + ")";
    }
    if (row.count > 1) {
      part += " x " + grouped(row.count);
    }
    console.line(cell(row.stored, stored_width) + "  " + cell(row.native, native_width) + "  " + part);
  }
  for (const Tie& tie : schema.ties()) {
    console.line(cell(tie.stored_alias, stored_width) + "  " +
                 console.styled(Tone::muted, "the same tensor as the embedding; may be left out"));
  }
  for (const Drop& drop : schema.drops()) {
    console.line(cell(drop.pattern, stored_width) + "  " + console.styled(Tone::muted, "not loaded: " + drop.reason));
  }
  return k_exit_done;
}

}  // namespace

int run_adapters(const Arguments& arguments, Console& console) {
  const auto& words = arguments.positionals();
  ErrorFacts facts;
  facts.hint = "it is written: weightproof adapters list, or weightproof adapters show FAMILY";
  if (words[0] == "list" && words.size() == 1) {
    return list(console);
  }
  if (words[0] == "show" && words.size() == 2) {
    return show(words[1], arguments.text("--config"), console);
  }
  throw Error(ErrorCode::usage, "adapters knows 'list' and 'show FAMILY'", facts);
}

}  // namespace weightproof::suites::cli
