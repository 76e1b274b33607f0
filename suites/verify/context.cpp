// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/context.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "loader/core/glob.hpp"
#include "suites/state/native_state.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr std::uint32_t k_residency_files_max = 1000;

ConfigValue without_tie_flag(const ConfigValue& config, bool is_top = true) {
  ConfigValue::Object members;
  for (const auto& [name, value] : config.members()) {
    if (name == "tie_word_embeddings") {
      continue;
    }
    const bool is_level = is_top && (name == "text_config" || name == "thinker_config") && value.is_object();
    members.emplace_back(name, is_level ? without_tie_flag(value, false) : value);
  }
  return ConfigValue(std::move(members));
}

}  // namespace

Context::Context(const VerifyOptions& given, const storage::Checkpoint& read, const storage::Checkpoint* base_read)
    : options(given), checkpoint(read), base(base_read) {
  find_faults();
  collect_keys();
  if (!checkpoint.is_selected) {
    no_schema_reason = "no checkpoint could be selected (index.selection)";
    return;
  }
  if (is_adapter(checkpoint)) {
    find_adapter_schema();
    return;
  }
  if (const auto mark = native_mark(checkpoint)) {
    // What a load wrote has the names of the running model: none of the family's stored keys is to be expected.
    if (options.folds_expert_scales) {
      require_foldable(nullptr, false, false);
    }
    detection.evidence = mark->text();
    no_schema_reason = mark->text() + "; its tensors have the names of the running model";
    return;
  }
  const ConfigValue* config = checkpoint.config ? &*checkpoint.config : nullptr;
  detection = adapters::detect(config, *keys_, options.family);
  find_schema();
}

void Context::find_faults() {
  for (const Diagnostic& diagnostic : checkpoint.diagnostics) {
    if (diagnostic.severity == Severity::fail &&
        (diagnostic.check == "index.syntax" || diagnostic.check == "index.duplicate_key" ||
         diagnostic.check == "index.path")) {
      index_fault_ = diagnostic.check;
      break;
    }
  }
  if (is_keys_only()) {
    return;
  }
  for (const storage::Shard& shard : checkpoint.shards) {
    if (!shard.exists) {
      faults.push_back({shard.name, "index.missing_shard"});
    } else if (!shard.header) {
      faults.push_back({shard.name, "io.error"});
    } else if (shard.header->error) {
      faults.push_back({shard.name, std::string(shard.header->error->check())});
    }
  }
}

std::string Context::fault_text() const {
  if (!index_fault_.empty()) {
    return "the index cannot be used (" + index_fault_ + ")";
  }
  if (faults.empty()) {
    return {};
  }
  const FileFault& first = faults.front();
  std::string text = printable(first.file);
  if (first.check == "index.missing_shard") {
    text += " is missing";
  } else {
    text += " cannot be read";
  }
  text += " (" + first.check + ")";
  if (faults.size() > 1) {
    text += ", and " + counted(faults.size() - 1, "file", "files") + " more";
  }
  return text;
}

bool Context::selects(std::string_view key) const {
  return (options.include.empty() || matches_any_glob(options.include, key)) && !matches_any_glob(options.exclude, key);
}

void Context::collect_keys() {
  const bool uses_index = checkpoint.index.has_value() && index_fault_.empty();
  if (!uses_index && !(faults.empty() && index_fault_.empty())) {
    incomplete_keys_reason_ = "not all names are known: " + fault_text();
  }
  if (!uses_index || faults.empty()) {
    keys_ = &checkpoint.catalog;  // a million rows are not copied
    return;
  }
  // Names whose file cannot be read are known from the index all the same.
  std::vector<bool> is_faulty(checkpoint.shards.size(), false);
  for (std::size_t i = 0; i < checkpoint.shards.size(); ++i) {
    is_faulty[i] = std::any_of(faults.begin(), faults.end(),
                               [&](const FileFault& fault) { return fault.file == checkpoint.shards[i].name; });
  }
  CatalogBuilder builder;
  for (const storage::Shard& shard : checkpoint.shards) {
    builder.add_file(shard.name);
  }
  for (const StoredTensor& row : checkpoint.catalog.tensors()) {
    if (builder.find(row.key) == nullptr) {
      builder.add_copy(row);
    }
  }
  for (const auto& [key, shard] : checkpoint.index->weight_map) {
    if (shard < is_faulty.size() && is_faulty[shard] && builder.find(key) == nullptr) {
      StoredTensor row;
      row.key = key;
      row.file = shard;
      builder.add_copy(row);
    }
  }
  own_keys_ = std::move(builder).finish();
  keys_ = &own_keys_;
}

const plan::KeyCoverage& Context::coverage() {
  if (!coverage_) {
    plan::CoverageOptions asked;
    asked.include = options.include;
    asked.exclude = options.exclude;
    asked.allow_missing = options.allow_missing;
    asked.allow_unexpected = options.selection.allow_unexpected;
    asked.check_shapes = has_schema_shapes;
    asked.decoded = decoded_tensors(quantization(), *schema, *keys_);
    for (plan::DecodedTensor& fold : declared_tensors(*schema, *keys_)) {
      asked.decoded.push_back(std::move(fold));
    }
    coverage_ = plan::check_keys(*schema, *keys_, asked);
  }
  return *coverage_;
}

const ReferenceSide& Context::reference_side() {
  if (!reference_side_) {
    reference_side_ = ask_reference(*this);
    if (options.perturbation.reference_side) {
      options.perturbation.reference_side(*reference_side_);
    }
  }
  return *reference_side_;
}

const QuantizedState& Context::quantization() {
  if (!quantization_) {
    quantization_ = read_quantization(checkpoint, *keys_, options.calls);
    if (options.perturbation.codec) {
      for (std::size_t i = 0; i < quantization_->codecs.size(); ++i) {
        if (quantization_->codecs[i]) {
          quantization_->codecs[i] =
              options.perturbation.codec(quantization_->found.tensors[i], quantization_->codecs[i]);
        }
      }
    }
  }
  return *quantization_;
}

void Context::find_adapter_schema() {
  if (options.folds_expert_scales) {
    ErrorFacts facts;
    facts.hint = "leave --gemma-fold out";
    throw Error(ErrorCode::usage, "no scale of an expert to fold: this is a low-rank adapter", std::move(facts));
  }
  adapter = read_adapter(checkpoint, base, options);
  detection = adapter->detection;
  if (!adapter->schema) {
    no_schema_reason = !adapter->has_base ? "a low-rank adapter, and no base model is given (--base)"
                                          : "the adapter could not be matched with its base (adapter.*)";
    return;
  }
  schema = *adapter->schema;
  const adapters::LoraLayout& layout = adapter->match->layout;
  form.emplace();
  form->name_space = layout.prefix;
  form->expert_layout = layout.experts.empty() ? std::string() : std::string(to_string(layout.packing));
  if (options.perturbation.schema) {
    schema = options.perturbation.schema(*schema);
  }
}

void Context::find_schema() {
  if (options.folds_expert_scales) {
    require_foldable(detection.family, !options.include.empty(), !options.exclude.empty());
  }
  if (detection.family == nullptr) {
    no_schema_reason = "no known model family";
    if (!checkpoint.config) {
      no_schema_reason += ": there is no config.json, and the names alone do not tell";
    } else if (const ConfigValue* type = checkpoint.config->find("model_type"); type != nullptr && type->as_string()) {
      no_schema_reason += ": model_type is " + printable(*type->as_string());
    }
    return;
  }
  ConfigValue config;
  if (checkpoint.config) {
    config = *checkpoint.config;
  } else if (auto inferred = adapters::infer_config(*detection.family, *keys_);
             inferred && incomplete_keys_reason_.empty()) {
    config = std::move(inferred->config);
    has_inferred_config = true;
    has_schema_shapes = inferred->has_shapes;
  } else {
    no_schema_reason = "family " + std::string(detection.family->name) +
                       " found by its names, but there is no config.json to derive names and shapes from";
    return;
  }
  if (checkpoint.config && !detection.missing_fields.empty()) {
    no_schema_reason = "config.json is too thin for family " + std::string(detection.family->name) + ": it lacks";
    for (std::size_t i = 0; i < detection.missing_fields.size(); ++i) {
      no_schema_reason += (i == 0 ? " " : ", ") + printable(detection.missing_fields[i]);
    }
    return;
  }
  // Two faults are judged by a check of their own; everything else goes on without them.
  const Catalog no_names;
  const Catalog* names = keys_;
  while (!schema) {
    try {
      form = detection.family->find_form(config, *names);
      if (options.folds_expert_scales) {
        form->expert_layout = "stacked_folded";
      }
      schema = detection.family->describe(config, *form, ExpertStorage::grouped);
      if (options.perturbation.schema) {
        schema = options.perturbation.schema(*schema);
      }
    } catch (const Error& error) {
      const bool is_new = family_error(error.code()) == nullptr;
      family_errors.push_back(error);
      if (is_new && error.code() == ErrorCode::tied_flag_conflict) {
        config = without_tie_flag(config);
      } else if (is_new && error.code() == ErrorCode::namespace_mixed) {
        names = &no_names;
      } else {
        form.reset();
        no_schema_reason =
            "family " + std::string(detection.family->name) + " cannot describe this checkpoint: " + error.message();
        return;
      }
    }
  }
}

const Error* Context::family_error(ErrorCode code) const {
  const auto found = std::find_if(family_errors.begin(), family_errors.end(),
                                  [code](const Error& error) { return error.code() == code; });
  return found == family_errors.end() ? nullptr : &*found;
}

measure::Residency Context::residency() const {
  std::vector<std::filesystem::path> paths;
  for (std::uint32_t i = 0; i < checkpoint.shards.size() && i < k_residency_files_max; ++i) {
    if (checkpoint.shards[i].exists) {
      paths.push_back(checkpoint.path_of(i));
    }
  }
  return measure::read_residency(paths);
}

const ScanResult& Context::scan() {
  if (!scan_) {
    residency_before_ = residency();
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::uint32_t> tensors;
    const auto rows = checkpoint.catalog.tensors();
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      if (rows[i].is_described && selects(rows[i].key)) {
        tensors.push_back(i);
      }
    }
    ScanOptions scan_options;
    scan_options.threads = options.threads;
    scan_options.calls = options.calls;
    if (options.progress) {
      scan_options.progress = [this](std::uint64_t done, std::uint64_t total) {
        options.progress("reading weights", done, total);
      };
    }
    scan_ = scan_values(checkpoint, tensors, scan_options);
    scan_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return *scan_;
}

}  // namespace weightproof::suites
