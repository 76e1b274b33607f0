// SPDX-License-Identifier: Apache-2.0
// export: a checkpoint written anew: cast, decoded, split otherwise; published in one step.
#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "loader/codec/detect.hpp"
#include "loader/core/glob.hpp"
#include "loader/exec/engine.hpp"
#include "loader/save/export.hpp"
#include "loader/save/way_back.hpp"
#include "suites/cli/carried.hpp"
#include "suites/cli/checkpoints.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/interrupt.hpp"
#include "suites/cli/target.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/state/native_state.hpp"
#include "suites/state/requantized.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/shell.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/quantization.hpp"

namespace weightproof::suites::cli {
namespace {

class StateSource : public save::ExportSource {
 public:
  explicit StateSource(const DecodedState& state) : state_(state) {}
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override {
    state_.read(state_.tensors()[tensor], offset, target);
  }

 private:
  const DecodedState& state_;
};

// Stored tensors as they are, those of the asked subset.
class KeptSource : public save::ExportSource {
 public:
  KeptSource(const storage::Checkpoint& checkpoint, const Arguments& arguments) : source_(checkpoint) {
    const std::vector<std::string>& include = arguments.texts("--include");
    const std::vector<std::string>& exclude = arguments.texts("--exclude");
    const std::vector<save::ExportTensor> all = save::CheckpointSource::tensors_of(checkpoint);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((include.empty() || matches_any_glob(include, all[i].key)) && !matches_any_glob(exclude, all[i].key)) {
        tensors_.push_back(all[i]);
        rows_.push_back(i);
      }
    }
    const ConfigValue* config = checkpoint.config ? &*checkpoint.config : nullptr;
    std::set<std::string> schemes;
    for (const auto& tensor : codec::detect_quantization(config, checkpoint.companions, checkpoint.catalog).tensors) {
      schemes.insert(tensor.scheme.id);
    }
    schemes_.assign(schemes.begin(), schemes.end());
  }
  const std::vector<save::ExportTensor>& tensors() const { return tensors_; }
  const std::vector<std::string>& schemes() const { return schemes_; }
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override {
    source_.read(rows_[tensor], offset, target);
  }

 private:
  save::CheckpointSource source_;
  std::vector<save::ExportTensor> tensors_;
  std::vector<std::size_t> rows_;
  std::vector<std::string> schemes_;
};

// What an export did to the numbers.
struct Outcome {
  std::size_t tensors = 0;
  std::vector<std::string> decoded;  ///< schemes
  std::vector<std::string> kept;
  std::optional<DecodedState::Folded> folded;  ///< scales of experts
  const RequantizedSource* requantized = nullptr;
  std::string formula;
};

void write_names(JsonWriter& json, const char* name, const std::vector<std::string>& values) {
  json.name(name).begin_array();
  for (const std::string& value : values) {
    json.value(value);
  }
  json.end_array();
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

// How far codes are from what they were made of.
std::string errors_text(const codec::FreshStatistics& seen) {
  if (seen.saturated == 0) {
    return "every element within half a step";
  }
  std::array<char, 16> steps{};
  std::snprintf(steps.data(), steps.size(), "%.3g", seen.saturated_error_max / 2);
  const std::string within = seen.outside == 0 ? "every element"
                                               : grouped(seen.elements - seen.outside) + " of " +
                                                     counted(seen.elements, "element", "elements");
  return within + " within half a step; " +
         counted(seen.saturated, "element lies beyond the largest code and takes it",
                 "elements lie beyond the largest code and take it") +
         ", at most " + steps.data() + " of a step away";
}

void write_result(const save::ExportResult& result, const std::string& target, const Outcome& outcome,
                  Console& console) {
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    json.begin_object().member("schema", "weightproof.export/1").name("files").begin_array();
    for (const save::ExportedFile& file : result.files) {
      json.begin_object()
          .compact()
          .member("name", file.name)
          .member("bytes", file.bytes)
          .member("tensors", file.tensors)
          .end_object();
    }
    json.end_array().name("index");
    if (result.index_name.empty()) {
      json.null();
    } else {
      json.value(result.index_name);
    }
    json.member("tensors", outcome.tensors)
        .member("total_size", result.total_size)
        .member("total_parameters", result.total_parameters);
    json.member("bytes_written", result.bytes_written).member("bytes_verified", result.bytes_verified);
    write_names(json, "decoded", outcome.decoded);
    write_names(json, "kept", outcome.kept);
    if (outcome.folded) {
      json.member("folded", outcome.folded->scales).member("folded_ones", outcome.folded->ones);
    }
    json.name("quantized");
    if (outcome.requantized == nullptr) {
      json.null();
    } else {
      json.begin_object().member("formula", outcome.formula);
      json.member("tensors", outcome.requantized->quantized().size());
      json.member("elements", outcome.requantized->elements());
      const codec::FreshStatistics seen = outcome.requantized->statistics();
      json.member("error_max_half_steps", seen.error_max).member("saturated", seen.saturated);
      json.member("outside_half_step", seen.outside);
      json.member("saturated_error_max_half_steps", seen.saturated_error_max).end_object();
    }
    json.end_object();
    json.flush();
    console.out("\n");
    return;
  }
  console.line(counted(outcome.tensors, "tensor", "tensors") + ", " + human_bytes(result.total_size) + ", written to " +
               counted(result.files.size(), "file", "files") + " in " + shown_path(target));
  if (!outcome.decoded.empty()) {
    console.line("decoded from " + joined(outcome.decoded));
  }
  if (!outcome.kept.empty()) {
    console.line("codes and scales kept: " + joined(outcome.kept));
  }
  if (outcome.folded) {
    const auto [scales, ones] = *outcome.folded;
    const std::string scales_text = counted(scales, "tensor", "tensors") + " of experts' scales";
    console.line(ones == scales
                     ? scales_text + ", all of ones: the fold changes nothing, lossless"
                     : scales_text + " multiplied into the experts: lossy, the source cannot be made from it" +
                           (ones == 0 ? "" : "; " + grouped(ones) + " of them held ones and changed nothing"));
  }
  if (outcome.requantized != nullptr) {
    console.line(counted(outcome.requantized->quantized().size(), "tensor", "tensors") + " quantized by " +
                 outcome.formula + ", " + errors_text(outcome.requantized->statistics()));
  }
  if (console.is_quiet()) {
    return;
  }
  console.line(result.bytes_verified > 0 ? "read back and compared: " + human_bytes(result.bytes_verified)
                                         : "not read back");
}

save::ExportOptions export_options(const Arguments& arguments, Console& console, const InterruptGuard& interrupt) {
  save::ExportOptions options;
  options.threads = asked_threads(arguments);
  options.shard_bytes = arguments.bytes("--shard-size").value_or(save::k_shard_bytes_default);
  options.replace = arguments.flag("--replace") ? save::Replace::exchange : save::Replace::never;
  options.progress = [&console](std::uint64_t done, std::uint64_t total) { console.progress("writing", done, total); };
  options.stop = interrupt.token();
  return options;
}

// The files of a checkpoint, or those that a native state came from.
std::optional<save::SavedLayout> asked_layout(const Arguments& arguments) {
  if (!arguments.has("--shards-like")) {
    return std::nullopt;
  }
  const storage::Checkpoint like =
      storage::open_checkpoint(arguments.text("--shards-like"), {}, asked_threads(arguments));
  return is_native_state(like) ? read_native_layout(like) : save::layout_of(like);
}

// Native state becomes the stored tensors again out of which it was loaded.
int export_native(const storage::Checkpoint& checkpoint, const Arguments& arguments, Console& console,
                  const std::string& target) {
  for (const char* option : {"--dtype", "--include", "--exclude", "--quantize", "--gemma-fold"}) {
    if (arguments.has(option)) {
      ErrorFacts facts;
      facts.hint = "export first, then export the result with it";
      throw Error(ErrorCode::usage, std::string(option) + " does not go with native state", facts);
    }
  }
  const ConfigValue* config = checkpoint.config ? &*checkpoint.config : nullptr;
  const NativeState native = read_native_state(checkpoint, config, arguments.text("--family"));
  const InterruptGuard interrupt;
  save::ExportOptions options = export_options(arguments, console, interrupt);
  options.layout = asked_layout(arguments);
  if (!options.layout && native.has_files && !arguments.has("--shard-size")) {
    options.layout = native.layout;
  }
  options.carried = carried_files(checkpoint, std::nullopt, false);
  const save::WayBack way = save::way_back(*native.schema, native.wanted);
  const storage::Checkpoint* sources_of = &checkpoint;
  const exec::SourceFiles sources = exec::SourceFiles::of(std::span(&sources_of, 1));
  save::RestoredSource::Options windows;
  windows.threads = options.threads;
  const std::shared_ptr<const Catalog> catalog(&checkpoint.catalog, [](const Catalog*) {});
  save::RestoredSource source(way, native.wanted, catalog, windows, [&](const plan::Plan& back) {
    exec::LoadOptions load;
    load.stop = options.stop;
    return exec::load(back, sources, load);
  });
  const save::ExportResult result = save::export_checkpoint(native.wanted, source, target, options);
  console.end_progress();
  Outcome outcome;
  outcome.tensors = native.wanted.size();
  write_result(result, target, outcome, console);
  return k_exit_done;
}

}  // namespace

int run_export(const Arguments& arguments, Console& console) {
  const std::string target = arguments.text("--out");
  if (target.empty()) {
    ErrorFacts facts;
    facts.hint = "give --out, a directory to be or a file to be that ends in .safetensors";
    throw Error(ErrorCode::usage, "export wants a place to write to", facts);
  }
  if (arguments.has("--shard-size") && arguments.has("--shards-like")) {
    ErrorFacts facts;
    facts.hint = "give one of the two";
    throw Error(ErrorCode::usage, "--shard-size and --shards-like both say how to split", facts);
  }
  require_target(target, "--out", arguments.flag("--replace") ? Standing::anything : Standing::nothing, true);
  {
    storage::SelectionOptions selection;
    selection.revision = arguments.text("--revision");
    selection.variant = arguments.text("--variant");
    const storage::Checkpoint checkpoint =
        storage::open_checkpoint(arguments.positionals().front(), selection, asked_threads(arguments));
    if (is_native_state(checkpoint)) {
      return export_native(checkpoint, arguments, console, target);
    }
  }
  const std::string quantize = arguments.text("--quantize");
  const plan::TargetDType asked = target_dtype(arguments);
  if (quantize == "keep" && asked != plan::TargetDType::stored) {
    ErrorFacts facts;
    facts.hint = "leave one of the two out";
    throw Error(ErrorCode::usage, "--quantize keep keeps what is stored, --dtype changes it", facts);
  }
  if (quantize == "keep" && arguments.flag("--gemma-fold")) {
    ErrorFacts facts;
    facts.hint = "leave one of the two out";
    throw Error(ErrorCode::usage, "--quantize keep keeps what is stored, --gemma-fold changes it", std::move(facts));
  }
  const OpenedCheckpoint opened(arguments.positionals().front(), arguments);
  std::optional<DType> declared;
  std::string quantization;  // text of the new quantization_config
  bool is_decoded = false;
  if (asked != plan::TargetDType::stored) {
    declared = asked == plan::TargetDType::f32   ? DType::f32
               : asked == plan::TargetDType::f16 ? DType::f16
                                                 : DType::bf16;
  }
  Outcome outcome;
  std::unique_ptr<DecodedState> state;
  std::unique_ptr<save::ExportSource> source;
  std::vector<save::ExportTensor> tensors;
  if (quantize == "keep") {
    auto kept = std::make_unique<KeptSource>(opened.checkpoint, arguments);
    tensors = kept->tensors();
    outcome.kept = kept->schemes();
    source = std::move(kept);
  } else {
    state = opened.decode(arguments);
    outcome.decoded = state->schemes();
    is_decoded = !outcome.decoded.empty();
    if (arguments.flag("--gemma-fold")) {
      outcome.folded = state->fold(*opened.schema, declared_decodes(*opened.schema, opened.checkpoint.catalog));
    }
    if (quantize.empty()) {
      for (const StateTensor& tensor : state->tensors()) {
        tensors.push_back({tensor.key, tensor.dtype, tensor.shape, UINT64_MAX});
      }
      source = std::make_unique<StateSource>(*state);
    } else {
      const codec::FreshFormula formula = quantize == "fp8-block"    ? codec::FreshFormula::fp8_block
                                          : quantize == "fp8-tensor" ? codec::FreshFormula::fp8_tensor
                                                                     : codec::FreshFormula::mxfp4;
      // The one family whose experts are published in blocks.
      const bool has_block_experts = opened.detection.family != nullptr && opened.detection.family->name == "gpt_oss";
      auto requantized = std::make_unique<RequantizedSource>(*state, formula, has_block_experts);
      tensors = requantized->tensors();
      quantization = requantized->config_text();
      outcome.formula = formula_id(formula);
      outcome.requantized = requantized.get();
      source = std::move(requantized);
    }
  }
  outcome.tensors = tensors.size();
  const InterruptGuard interrupt;
  save::ExportOptions options = export_options(arguments, console, interrupt);
  options.layout = asked_layout(arguments);
  options.carried = carried_files(opened.checkpoint, declared, is_decoded, quantization);
  if (outcome.requantized != nullptr) {
    options.metadata->emplace_back("weightproof.formula", outcome.formula);
  }
  const save::ExportResult result = save::export_checkpoint(tensors, *source, target, options);
  console.end_progress();
  write_result(result, target, outcome, console);
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
