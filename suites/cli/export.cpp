// SPDX-License-Identifier: Apache-2.0
// export: a checkpoint written anew: cast, decoded, split otherwise; published in one step.
#include <algorithm>

#include "loader/exec/engine.hpp"
#include "loader/save/export.hpp"
#include "loader/save/way_back.hpp"
#include "suites/cli/carried.hpp"
#include "suites/cli/checkpoints.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/interrupt.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/state/native_state.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"

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

void write_result(const save::ExportResult& result, const std::string& target, std::size_t tensors,
                  const std::vector<std::string>& schemes, Console& console) {
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
    json.member("tensors", tensors)
        .member("total_size", result.total_size)
        .member("total_parameters", result.total_parameters);
    json.member("bytes_written", result.bytes_written)
        .member("bytes_verified", result.bytes_verified)
        .name("decoded")
        .begin_array();
    for (const std::string& scheme : schemes) {
      json.value(scheme);
    }
    json.end_array().end_object();
    json.flush();
    console.out("\n");
    return;
  }
  console.line(counted(tensors, "tensor", "tensors") + ", " + human_bytes(result.total_size) + ", written to " +
               counted(result.files.size(), "file", "files") + " in " + printable(target));
  if (!schemes.empty()) {
    std::string names;
    for (const std::string& scheme : schemes) {
      names += (names.empty() ? "" : ", ") + scheme;
    }
    console.line("decoded from " + names);
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
  for (const char* option : {"--dtype", "--include", "--exclude"}) {
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
  write_result(result, target, native.wanted.size(), {}, console);
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
  const OpenedCheckpoint opened(arguments.positionals().front(), arguments);
  const auto state = opened.decode(arguments);
  std::vector<save::ExportTensor> tensors;
  for (const StateTensor& tensor : state->tensors()) {
    tensors.push_back({tensor.key, tensor.dtype, tensor.shape, UINT64_MAX});
  }
  const InterruptGuard interrupt;
  save::ExportOptions options = export_options(arguments, console, interrupt);
  options.layout = asked_layout(arguments);
  const plan::TargetDType asked = target_dtype(arguments);
  std::optional<DType> declared;
  if (asked != plan::TargetDType::stored) {
    declared = asked == plan::TargetDType::f32   ? DType::f32
               : asked == plan::TargetDType::f16 ? DType::f16
                                                 : DType::bf16;
  }
  options.carried = carried_files(opened.checkpoint, declared, !state->schemes().empty());
  StateSource source(*state);
  const save::ExportResult result = save::export_checkpoint(tensors, source, target, options);
  console.end_progress();
  write_result(result, target, state->tensors().size(), state->schemes(), console);
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
