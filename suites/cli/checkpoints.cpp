// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/checkpoints.hpp"

#include <map>

#include "loader/core/glob.hpp"
#include "suites/state/native_state.hpp"
#include "suites/state/subset.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/quantization.hpp"
#include "suites/verify/scan.hpp"

namespace weightproof::suites::cli {

plan::TargetDType target_dtype(const Arguments& arguments) {
  const std::string text = arguments.text("--dtype", "stored");
  return text == "bf16"  ? plan::TargetDType::bf16
         : text == "f32" ? plan::TargetDType::f32
         : text == "f16" ? plan::TargetDType::f16
                         : plan::TargetDType::stored;
}

std::optional<plan::Route> asked_route(const Arguments& arguments) {
  const std::string text = arguments.text("--route", "auto");
  return text == "direct"         ? std::optional(plan::Route::direct)
         : text == "bounded"      ? std::optional(plan::Route::bounded)
         : text == "materialized" ? std::optional(plan::Route::materialized)
                                  : std::nullopt;
}

unsigned asked_threads(const Arguments& arguments) { return thread_count(arguments.count("--threads").value_or(0)); }

plan::ExpertStorageVerdict asked_storage(const Arguments& arguments) {
  const bool has_runtime = arguments.has("--dispatcher") || arguments.has("--expert-backend");
  if (arguments.has("--expert-storage")) {
    if (has_runtime) {
      ErrorFacts facts;
      facts.hint = "leave out --expert-storage, or --dispatcher and --expert-backend";
      throw Error(ErrorCode::usage, "the storage of experts is stated and derived at once", std::move(facts));
    }
    const std::string text = arguments.text("--expert-storage");
    return {text == "te"    ? ExpertStorage::te
            : text == "mok" ? ExpertStorage::mok
                            : ExpertStorage::grouped,
            "asked for"};
  }
  if (!has_runtime) {
    return {ExpertStorage::grouped, "no backend was named"};
  }
  const std::uint32_t world =
      arguments.has("--topology") ? plan::parse_topology(arguments.text("--topology")).world() : 1;
  return plan::expert_storage(plan::dispatcher_from(arguments.text("--dispatcher", "torch")),
                              plan::expert_backend_from(arguments.text("--expert-backend", "torch")), world);
}

OpenedCheckpoint::OpenedCheckpoint(const std::string& path, const Arguments& arguments) {
  storage::SelectionOptions selection;
  selection.revision = arguments.text("--revision");
  selection.variant = arguments.text("--variant");
  selection.allow_unexpected = arguments.flag("--allow-unexpected");
  checkpoint = storage::open_checkpoint(path, selection, asked_threads(arguments));
  const ConfigValue* config = checkpoint.config ? &*checkpoint.config : nullptr;
  if (const auto mark = native_mark(checkpoint)) {
    if (arguments.flag("--gemma-fold")) {
      require_foldable(nullptr, false, false);
    }
    no_schema_reason = mark->text();  // every tensor is itself
    return;
  }
  detection = adapters::detect(config, checkpoint.catalog, arguments.text("--family"));
  const bool folds = arguments.flag("--gemma-fold");
  if (folds) {
    require_foldable(detection.family, arguments.has("--include"), arguments.has("--exclude"));
  }
  if (detection.family == nullptr) {
    no_schema_reason = "no known model family";
  } else if (config == nullptr) {
    no_schema_reason = "there is no config.json";
  } else if (!detection.missing_fields.empty()) {
    no_schema_reason = "config.json lacks " + detection.missing_fields.front();
  } else {
    form = detection.family->find_form(*config, checkpoint.catalog);
    if (folds) {
      form->expert_layout = "stacked_folded";
    }
    schema =
        std::make_shared<const Schema>(detection.family->describe(*config, *form, asked_storage(arguments).storage));
  }
  if (folds && schema == nullptr) {
    ErrorFacts facts;
    facts.hint = "give the checkpoint with its config.json";
    throw Error(ErrorCode::usage, "the scales of experts cannot be told: " + no_schema_reason, std::move(facts));
  }
}

std::unique_ptr<DecodedState> OpenedCheckpoint::decode(const Arguments& arguments, const std::string& called) const {
  StateOptions options;
  options.called = called;
  options.dtype = target_dtype(arguments);
  options.schema = schema.get();
  const std::vector<std::string>& include = arguments.texts("--include");
  const std::vector<std::string>& exclude = arguments.texts("--exclude");
  if (!include.empty() || !exclude.empty()) {
    options.selects = [include, exclude](std::string_view key) {
      return (include.empty() || matches_any_glob(include, key)) && !matches_any_glob(exclude, key);
    };
  }
  auto state = std::make_unique<DecodedState>(checkpoint, options);
  if (options.selects && state->tensors().empty()) {
    options.selects = {};
    const DecodedState all(checkpoint, options);
    require_subset(all, arguments);
  }
  return state;
}

void require_subset(const DecodedState& state, const Arguments& arguments) {
  const std::vector<std::string>& include = arguments.texts("--include");
  const std::vector<std::string>& exclude = arguments.texts("--exclude");
  std::vector<std::string_view> names;
  for (const StateTensor& tensor : state.tensors()) {
    if ((include.empty() || matches_any_glob(include, tensor.key)) && !matches_any_glob(exclude, tensor.key)) {
      return;
    }
    names.push_back(tensor.key);
  }
  const EmptySubset why = explain_empty_subset(include, exclude, names);
  ErrorFacts facts;
  facts.hint = why.hint;
  throw Error(ErrorCode::subset_empty, why.message, std::move(facts));
}

void write_checkpoint(JsonWriter& json, const OpenedCheckpoint& opened) {
  const storage::Checkpoint& checkpoint = opened.checkpoint;
  json.name("checkpoint").begin_object().member("path", checkpoint.display_path);
  json.member("format", "safetensors, " + std::string(to_string(checkpoint.kind)));
  json.member("family",
              opened.detection.family == nullptr ? std::string_view("identity") : opened.detection.family->name);
  json.name("architectures").begin_array();
  if (checkpoint.config) {
    if (const ConfigValue* list = checkpoint.config->find("architectures")) {
      for (const ConfigValue& item : list->items()) {
        if (const auto text = item.as_string()) {
          json.value(*text);
        }
      }
    }
  }
  json.end_array()
      .member("files", checkpoint.shards.size())
      .member("tensors", checkpoint.catalog.size())
      .member("bytes", checkpoint.catalog.bytes());
  std::map<std::string_view, std::uint64_t> dtypes;
  for (const StoredTensor& row : checkpoint.catalog.tensors()) {
    ++dtypes[name_of(row.dtype)];
  }
  json.name("dtypes").begin_object();
  for (const auto& [name, count] : dtypes) {
    json.member(name, count);
  }
  json.end_object().member("quantization", opened.detection.quantization).name("tied");
  if (opened.form) {
    json.value(opened.form->is_tied);
  } else {
    json.null();
  }
  json.end_object();
}

}  // namespace weightproof::suites::cli
