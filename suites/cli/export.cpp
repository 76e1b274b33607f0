// SPDX-License-Identifier: Apache-2.0
// export: a checkpoint written anew: cast, decoded, split otherwise; published in one step.
#include <algorithm>

#include "loader/save/export.hpp"
#include "suites/cli/checkpoints.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/interrupt.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::size_t k_carried_bytes_max = 64U << 20U;

class StateSource : public save::ExportSource {
 public:
  explicit StateSource(const DecodedState& state) : state_(state) {}
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override {
    state_.read(state_.tensors()[tensor], offset, target);
  }

 private:
  const DecodedState& state_;
};

void write_value(JsonWriter& json, const ConfigValue& value) {
  if (value.is_object()) {
    json.begin_object();
    for (const auto& [name, member] : value.members()) {
      json.name(name);
      write_value(json, member);
    }
    json.end_object();
  } else if (value.is_array()) {
    json.begin_array();
    for (const ConfigValue& item : value.items()) {
      write_value(json, item);
    }
    json.end_array();
  } else {
    json.raw(value.dump());
  }
}

std::string_view config_name(DType dtype) {
  return dtype == DType::f32 ? "float32" : dtype == DType::f16 ? "float16" : "bfloat16";
}

// config.json of the result: the dtype it holds, and no word of a quantization that is gone.
ConfigValue edited_config(const ConfigValue& config, std::optional<DType> dtype, bool is_decoded) {
  ConfigValue::Object members;
  for (const auto& [name, value] : config.members()) {
    if (is_decoded && (name == "quantization_config" || name == "quantization" || name == "compression_config")) {
      continue;
    }
    if (dtype && (name == "torch_dtype" || name == "dtype") && value.is_string()) {
      members.emplace_back(name, ConfigValue(std::string(config_name(*dtype))));
    } else if ((name == "text_config" || name == "llm_config") && value.is_object()) {
      members.emplace_back(name, edited_config(value, dtype, is_decoded));
    } else {
      members.emplace_back(name, value);
    }
  }
  return ConfigValue(std::move(members));
}

bool is_weight_file(const std::string& name) {
  for (const std::string_view ending :
       {".safetensors", ".bin", ".pt", ".pth", ".index.json", ".gguf", ".h5", ".msgpack", ".onnx"}) {
    if (name.size() >= ending.size() && name.ends_with(ending)) {
      return true;
    }
  }
  return false;
}

// What goes along: everything small beside the weights that is a plain file.
std::vector<save::CarriedFile> carried_files(const storage::Checkpoint& checkpoint, std::optional<DType> dtype,
                                             bool is_decoded) {
  std::vector<save::CarriedFile> out;
  if (checkpoint.kind == storage::CheckpointKind::single_file && checkpoint.files.empty()) {
    return out;
  }
  for (const std::string& name : checkpoint.files) {
    const std::filesystem::path path = checkpoint.root / name;
    std::error_code error;
    if (is_weight_file(name) || name.starts_with(".") || !std::filesystem::is_regular_file(path, error) ||
        std::filesystem::file_size(path, error) > k_carried_bytes_max) {
      continue;
    }
    if (is_decoded &&
        (name == "hf_quant_config.json" || name == "quantize_config.json" || name == "quant_config.json")) {
      continue;
    }
    std::string text = read_text_file(path, k_carried_bytes_max);
    if (name == "config.json" && checkpoint.config && (dtype || is_decoded)) {
      text.clear();
      JsonWriter json([&text](std::string_view part) { text += part; });
      write_value(json, edited_config(*checkpoint.config, dtype, is_decoded));
      json.flush();
      text += '\n';
    }
    out.push_back({name, std::move(text)});
  }
  return out;
}

void write_result(const save::ExportResult& result, const std::string& target, const DecodedState& state,
                  Console& console) {
  const std::vector<std::string> schemes = state.schemes();
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
    json.member("tensors", state.tensors().size())
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
  console.line(counted(state.tensors().size(), "tensor", "tensors") + ", " + human_bytes(result.total_size) +
               ", written to " + counted(result.files.size(), "file", "files") + " in " + printable(target));
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
  const OpenedCheckpoint opened(arguments.positionals().front(), arguments);
  const auto state = opened.decode(arguments);
  std::vector<save::ExportTensor> tensors;
  for (const StateTensor& tensor : state->tensors()) {
    tensors.push_back({tensor.key, tensor.dtype, tensor.shape, UINT64_MAX});
  }
  save::ExportOptions options;
  options.threads = asked_threads(arguments);
  options.shard_bytes = arguments.bytes("--shard-size").value_or(save::k_shard_bytes_default);
  options.replace = arguments.flag("--replace") ? save::Replace::exchange : save::Replace::never;
  if (arguments.has("--shards-like")) {
    storage::SelectionOptions selection;
    options.layout =
        save::layout_of(storage::open_checkpoint(arguments.text("--shards-like"), selection, options.threads));
  }
  const plan::TargetDType asked = target_dtype(arguments);
  std::optional<DType> declared;
  if (asked != plan::TargetDType::stored) {
    declared = asked == plan::TargetDType::f32   ? DType::f32
               : asked == plan::TargetDType::f16 ? DType::f16
                                                 : DType::bf16;
  }
  options.carried = carried_files(opened.checkpoint, declared, !state->schemes().empty());
  options.progress = [&console](std::uint64_t done, std::uint64_t total) { console.progress("writing", done, total); };
  const InterruptGuard interrupt;
  options.stop = interrupt.token();
  StateSource source(*state);
  const save::ExportResult result = save::export_checkpoint(tensors, source, target, options);
  console.end_progress();
  write_result(result, target, *state, console);
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
