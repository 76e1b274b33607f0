// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/carried.hpp"

#include "suites/cli/common.hpp"
#include "suites/state/native_state.hpp"
#include "suites/support/json_writer.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::size_t k_carried_bytes_max = 64U << 20U;

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

bool is_weight_file(const std::string& name) {
  for (const std::string_view ending :
       {".safetensors", ".bin", ".pt", ".pth", ".index.json", ".gguf", ".h5", ".msgpack", ".onnx"}) {
    if (name.size() >= ending.size() && name.ends_with(ending)) {
      return true;
    }
  }
  return false;
}

}  // namespace

ConfigValue edited_config(const ConfigValue& config, std::optional<DType> dtype, bool is_decoded,
                          const std::string& quantization) {
  ConfigValue::Object members;
  for (const auto& [name, value] : config.members()) {
    const bool is_replaced = is_decoded || !quantization.empty();
    if (is_replaced && (name == "quantization_config" || name == "quantization" || name == "compression_config")) {
      continue;
    }
    if (dtype && (name == "torch_dtype" || name == "dtype") && value.is_string()) {
      members.emplace_back(name, ConfigValue(std::string(config_name(*dtype))));
    } else if ((name == "text_config" || name == "llm_config") && value.is_object()) {
      members.emplace_back(name, edited_config(value, dtype, is_replaced));
    } else {
      members.emplace_back(name, value);
    }
  }
  if (!quantization.empty()) {
    members.emplace_back("quantization_config", ConfigValue::parse(quantization, "quantization_config"));
  }
  return ConfigValue(std::move(members));
}

std::string edited_config_text(const ConfigValue& config, std::optional<DType> dtype, bool is_decoded,
                               const std::string& quantization) {
  std::string text;
  JsonWriter json([&text](std::string_view part) { text += part; });
  write_value(json, edited_config(config, dtype, is_decoded, quantization));
  json.flush();
  return text + '\n';
}

std::vector<save::CarriedFile> carried_files(const storage::Checkpoint& checkpoint, std::optional<DType> dtype,
                                             bool is_decoded, const std::string& quantization) {
  std::vector<save::CarriedFile> out;
  if (checkpoint.kind == storage::CheckpointKind::single_file && checkpoint.files.empty()) {
    return out;
  }
  for (const std::string& name : checkpoint.files) {
    const std::filesystem::path path = checkpoint.root / name;
    std::error_code error;
    if (is_weight_file(name) || name == k_native_layout_file || name.starts_with(".") ||
        !std::filesystem::is_regular_file(path, error) ||
        std::filesystem::file_size(path, error) > k_carried_bytes_max) {
      continue;
    }
    if ((is_decoded || !quantization.empty()) &&
        (name == "hf_quant_config.json" || name == "quantize_config.json" || name == "quant_config.json")) {
      continue;
    }
    std::string text = read_text_file(path, k_carried_bytes_max);
    if (name == "config.json" && checkpoint.config && (dtype || is_decoded || !quantization.empty())) {
      text = edited_config_text(*checkpoint.config, dtype, is_decoded, quantization);
    }
    out.push_back({name, std::move(text)});
  }
  return out;
}

}  // namespace weightproof::suites::cli
