// SPDX-License-Identifier: Apache-2.0
#include "suites/tests/literal_testing.hpp"

#include <algorithm>
#include <bit>

#include "fixtures/writer.hpp"
#include "loader/codec/scalar.hpp"
#include "suites/mutants/mapping_operators.hpp"
#include "suites/state/elements.hpp"

namespace weightproof::suites::test {

std::vector<std::byte> encoded(const std::string& dtype, const Numbers& values) {
  std::vector<std::byte> out;
  for (const double value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    const std::uint32_t low = dtype == "BF16" ? bits >> 16U : dtype == "F16" ? codec::f32_bits_to_f16(bits) : bits;
    for (unsigned byte = 0; byte < (dtype == "BF16" || dtype == "F16" ? 2U : 4U); ++byte) {
      out.push_back(static_cast<std::byte>(low >> (8U * byte)));
    }
  }
  return out;
}

Literal::Literal(const std::string& config, const std::string& family) : config_(config) {
  const ConfigValue parsed = ConfigValue::parse(config, "config.json");
  const adapters::Family* found = adapters::detect(&parsed, Catalog(), family).family;
  schema_ = found->describe(parsed, found->find_form(parsed, Catalog()), ExpertStorage::grouped);
  for (const LogicalTensor& tensor : schema_->stored_tensors()) {
    const auto parts = schema_->parts_of(tensor);
    for (const CodedPart& part : parts) {
      add(std::string(part.key), part.dtype, schema_->shape_of(part), part.role != "weight");
    }
    const bool is_tied = !schema_->ties().empty() && schema_->ties().front().stored_alias == tensor.key;
    if (parts.empty() && !is_tied) {
      const DType dtype = tensor.dtype_rule == DTypeRule::f32_state ? DType::f32
                          : tensor.dtype_rule == DTypeRule::fixed   ? tensor.dtype
                                                                    : DType::bf16;
      add(std::string(tensor.key), dtype, schema_->shape_of(tensor), false);
    }
  }
}

Literal& Literal::set(const std::string& key, const Numbers& values, const std::string& dtype) {
  Row& row = rows_.at(key);
  row.dtype = dtype;
  row.bytes = encoded(dtype, values);
  return *this;
}

Literal& Literal::codes(const std::string& key, const Codes& codes) {
  Row& row = rows_.at(key);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    row.bytes.at(i) = static_cast<std::byte>(codes[i]);
  }
  return *this;
}

Literal& Literal::shaped(const std::string& key, const std::vector<std::uint64_t>& shape) {
  rows_.at(key).shape = shape;
  return *this;
}

Literal& Literal::more(const std::string& key, const std::string& dtype, const std::vector<std::uint64_t>& shape,
                       const Numbers& values) {
  rows_[key] = {dtype, shape, encoded(dtype, values)};
  return *this;
}

Literal& Literal::without(const std::string& key) {
  EXPECT_EQ(rows_.erase(key), 1U) << key;
  return *this;
}

Literal& Literal::renamed(const std::string& key, const std::string& name) {
  rows_[name] = rows_.at(key);
  return without(key);
}

Literal& Literal::with_config(const std::string& config) {
  config_ = config;
  return *this;
}

Literal& Literal::reversed() {
  is_reversed_ = true;
  return *this;
}

std::filesystem::path Literal::write(const TemporaryDirectory& directory) const {
  std::filesystem::create_directories(directory / "model");
  write_file(directory / "model" / "config.json", config_);
  fixtures::FileSpec spec;
  spec.metadata = fixtures::Metadata{{"format", "pt"}};
  for (const auto& [key, row] : rows_) {
    spec.tensors.push_back({key, row.dtype, row.shape, fixtures::literal_payload(row.bytes)});
  }
  if (is_reversed_) {
    spec.style = fixtures::FileStyle::given_order;
    std::reverse(spec.tensors.begin(), spec.tensors.end());
  }
  fixtures::write_safetensors(directory / "model" / "model.safetensors", spec);
  return directory / "model";
}

void Literal::add(const std::string& key, DType dtype, const Shape& shape, bool is_scale) {
  const std::size_t count = static_cast<std::size_t>(element_count(shape).value());
  Row row{std::string(name_of(dtype)), {shape.begin(), shape.end()}, {}};
  if (dtype == DType::bf16 || dtype == DType::f32) {
    row.bytes = encoded(row.dtype, Numbers(count, is_scale ? 1 : 0));
  } else {
    row.bytes.resize(count * bits_of(dtype) / 8, is_scale ? std::byte{127} : std::byte{0});
  }
  rows_[key] = std::move(row);
}

Numbers loaded(const std::filesystem::path& path, std::string_view native, const LoadAs& how) {
  LoadedModel model(path, how);
  model.load().require_complete();
  return model.numbers(native);
}

Numbers stored(const std::filesystem::path& path, const std::string& key) {
  const storage::Checkpoint checkpoint = storage::open_checkpoint(path, {});
  const DecodedState state(checkpoint, {});
  const StateTensor* tensor = state.find(key);
  if (tensor == nullptr) {
    ADD_FAILURE() << "there is no tensor " << key;
    return {};
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(*byte_count(tensor->shape, tensor->dtype)));
  state.read(*tensor, 0, bytes);
  Numbers out;
  for (std::size_t i = 0; i < *element_count(tensor->shape); ++i) {
    out.push_back(number_at(tensor->dtype, bytes, i));
  }
  return out;
}

std::vector<std::string> stored_names(const std::filesystem::path& path) {
  std::vector<std::string> out;
  const storage::Checkpoint checkpoint = storage::open_checkpoint(path, {});
  for (const StoredTensor& tensor : checkpoint.catalog.tensors()) {
    out.emplace_back(tensor.key);
  }
  return out;
}

std::vector<std::string> exported_names(const std::filesystem::path& path, const TemporaryDirectory& directory) {
  const ProcessResult result =
      run_tool({"export", path.string(), "--dtype", "stored", "--out", (directory / "back").string()});
  EXPECT_EQ(result.status, 0) << result.err;
  return stored_names(directory / "back");
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_native(const std::filesystem::path& path, std::string_view key) {
  return LoadedModel(path).plan().find(key) != SIZE_MAX;
}

reports::Report judged(const std::filesystem::path& path, const std::string& family) {
  VerifyOptions options;
  options.family = family;
  return verify(path, options);
}

Mistake named(const std::string& native, const std::string& wrong) {
  return [=](SchemaDraft& draft, const ConfigValue&, std::vector<std::string>& blamed) {
    for (SchemaDraft::Native& row : draft.natives) {
      if (row.key == native) {
        row.key = wrong;
        blamed = {native, wrong};
        return true;
      }
    }
    return false;
  };
}

void expect_caught(const std::filesystem::path& path, const std::string& title, const Mistake& mistake,
                   const std::string& family) {
  std::vector<std::string> blamed;
  VerifyOptions options;
  options.family = family;
  options.perturbation.schema = [&](const Schema& schema) {
    SchemaDraft draft(schema);
    EXPECT_TRUE(mistake(draft, ConfigValue::parse(read_file(path / "config.json"), "config.json"), blamed)) << title;
    return draft.build();
  };
  const reports::Report report = verify(path, options);
  bool is_caught = false;
  for (const reports::CheckRecord& record : report.checks) {
    for (const std::string& name : blamed) {
      is_caught = is_caught || (record.status == reports::Status::fail && names(record, name));
    }
  }
  EXPECT_TRUE(is_caught) << title << " " << testing::PrintToString(findings_of(report));
}

void expect_caught(const std::filesystem::path& path, std::string_view mistake, const std::string& family) {
  const MappingOperator* operation = find_mapping_operator(mistake);
  ASSERT_NE(operation, nullptr) << mistake;
  expect_caught(path, std::string(mistake), Mistake(operation->apply), family);
}

std::string moe_config(unsigned experts) {
  return std::string(R"({"model_type": "qwen3_moe", "moe_intermediate_size": 2, "num_experts": )") +
         std::to_string(experts) + ", " + k_small_sizes + "}";
}

std::string qwen_next_config(bool is_full) {
  return std::string(R"({"model_type": "qwen3_next", "hidden_size": 1, "num_hidden_layers": 1,
      "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 1, "intermediate_size": 1, "num_experts": 1,
      "moe_intermediate_size": 1, "shared_expert_intermediate_size": 2, "vocab_size": 2, "linear_num_key_heads": 2,
      "linear_num_value_heads": 2, "linear_key_head_dim": 1, "linear_value_head_dim": 1, "linear_conv_kernel_dim": 1,
      "full_attention_interval": )") +
         (is_full ? "1}" : "2}");
}

std::string gemma_config(const std::string& more) {
  constexpr const char* one_layer = R"("num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
      "head_dim": 2, "layer_types": ["sliding_attention"])";
  return R"({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "hidden_size": 2,
      "attention_k_eq_v": true, "enable_moe_block": true, "intermediate_size": 2, "num_experts": 1,
      "moe_intermediate_size": 2, "vocab_size": 2, )" +
         (more.empty() ? one_layer : more) + "}}";
}

}  // namespace weightproof::suites::test
