// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters through verify: every form of several families passes and says the same; every planted fault is
// noticed by its check and blamed on its tensor; merged results are held against their base.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "fixtures/adapter.hpp"
#include "loader/exec/engine.hpp"
#include "loader/plan/planner.hpp"
#include "loader/storage/writer.hpp"
#include "reference/model.hpp"
#include "suites/tests/support.hpp"
#include "suites/verify/adapter.hpp"

namespace weightproof::suites::test {
namespace {

using fixtures::AdapterFactor;
using fixtures::AdapterForm;
using fixtures::AdapterOptions;
using fixtures::GeneratedAdapter;
using reports::Status;

VerifyOptions with_base(const std::filesystem::path& base) {
  VerifyOptions options;
  options.threads = 1;
  options.base = base.string();
  return options;
}

struct FormCase {
  const char* name;
  const char* family;
  const char* preset;
  AdapterForm form;
  bool has_newer_names = false;
  bool has_magnitudes = false;
  bool adapts_input_only = false;
  const char* base_form = "";
  const char* dtype = "BF16";
};
void PrintTo(const FormCase& row, std::ostream* out) { *out << row.name; }

AdapterOptions options_of(const FormCase& row) {
  AdapterOptions options;
  options.base.family = row.family;
  options.base.preset = row.preset;
  options.base.form = row.base_form;
  options.form = row.form;
  options.rank = 3;
  options.dtype = row.dtype;
  options.has_newer_names = row.has_newer_names;
  options.has_magnitudes = row.has_magnitudes;
  options.adapts_input_only = row.adapts_input_only;
  return options;
}

/// Native name of a factor: "lora_gate_and_up_A" for "gate_up_A" of experts, ".lora_A.weight" for "A".
std::string native_ending(const std::string& factor) {
  const std::map<std::string, std::string> endings = {{"A", ".lora_A.weight"},
                                                      {"B", ".lora_B.weight"},
                                                      {"magnitude", ".lora_magnitude"},
                                                      {"gate_up_A", ".lora_gate_and_up_A"},
                                                      {"gate_up_B", ".lora_gate_and_up_B"},
                                                      {"down_A", ".lora_down_A"},
                                                      {"down_B", ".lora_down_B"}};
  return endings.at(factor);
}
std::string native_module(std::string module) {
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"block_sparse_moe.", "mlp."}, {"backbone.", "model."}}) {
    const std::size_t at = module.find(from);
    if (at != std::string::npos) module.replace(at, from.size(), to);
  }
  return module;
}

class AdapterForms : public testing::TestWithParam<FormCase> {
 protected:
  void SetUp() override {
    options_ = options_of(GetParam());
    fixtures::generate(options_.base, directory_ / "base");
    made_ = fixtures::generate_adapter(options_, directory_ / "adapter");
    base_ = std::make_unique<storage::Checkpoint>(storage::open_checkpoint(directory_ / "base", {}));
    storage::SelectionOptions selection;
    selection.want_adapter = true;
    checkpoint_ = std::make_unique<storage::Checkpoint>(storage::open_checkpoint(directory_ / "adapter", selection));
    verify_options_ = with_base(directory_ / "base");
    state_ = read_adapter(*checkpoint_, base_.get(), verify_options_);
  }
  TemporaryDirectory directory_;
  AdapterOptions options_;
  GeneratedAdapter made_;
  VerifyOptions verify_options_;
  std::unique_ptr<storage::Checkpoint> base_;
  std::unique_ptr<storage::Checkpoint> checkpoint_;
  AdapterState state_;
};

TEST_P(AdapterForms, PassEveryCheck) {
  const reports::Report report = verify(directory_ / "adapter", verify_options_);
  EXPECT_EQ(findings_of(report), std::vector<std::string>{});
  for (const char* id : {"adapter.config", "adapter.no_match", "adapter.partial_match", "adapter.shape",
                         "layout.coverage", "value.exact"}) {
    const reports::CheckRecord& record = record_of(report, id);
    EXPECT_EQ(record.status, Status::pass) << id << ": " << record.reason << record.message;
    EXPECT_GT(record.total, 0U) << id;
  }
  EXPECT_EQ(reports::exit_status(report), 0);
  EXPECT_EQ(record_of(report, "keys.missing").status, Status::skip);
  EXPECT_EQ(record_of(report, "adapter.partial_match").total, record_of(report, "adapter.no_match").total);
}

// Three statements of one layout: what the fixture wrote, what the loader's bindings load, what the reference pulls.
TEST_P(AdapterForms, LoadWhatWasMeantInEveryElement) {
  ASSERT_TRUE(state_.schema) << (state_.errors.empty() ? state_.no_base_reason : state_.errors.front().message());
  const auto catalog = std::make_shared<const Catalog>(checkpoint_->catalog);
  const plan::Source source{"adapter", catalog};
  const plan::Plan plan = plan::make_plan(state_.schema, std::span(&source, 1), {}, {});
  const storage::Checkpoint* const all[] = {checkpoint_.get()};
  exec::SourceFiles sources = exec::SourceFiles::of(all);
  exec::LoadAttempt attempt = exec::load(plan, sources, {});
  attempt.require_complete();
  reference::ModelOptions reference_options;
  reference_options.base = directory_ / "base";
  const reference::Model model = reference::Model::open(directory_ / "adapter", reference_options);
  ASSERT_EQ(plan.tensors().size(), made_.factors.size());
  ASSERT_EQ(model.mapping().native_tensors().size(), made_.factors.size());
  std::uint64_t compared = 0;
  for (const AdapterFactor& factor : made_.factors) {
    const std::string name = native_module(factor.module) + native_ending(factor.factor);
    const auto planned = std::find_if(plan.tensors().begin(), plan.tensors().end(),
                                      [&](const plan::PlannedTensor& tensor) { return tensor.key == name; });
    ASSERT_NE(planned, plan.tensors().end()) << name;
    EXPECT_EQ(plan.shape_of(*planned), Shape(factor.shape)) << name;
    const auto bytes = attempt.bytes(static_cast<std::size_t>(planned - plan.tensors().begin()));
    const reference::Bytes pulled = model.region(name, reference::whole(factor.shape));
    const std::size_t width = options_.dtype == "F32" ? 4 : 2;
    ASSERT_EQ(pulled.size(), bytes.size());
    for (std::uint64_t i = 0; i * width < bytes.size(); ++i) {
      std::uint64_t ours = 0;
      std::uint64_t theirs = 0;
      std::memcpy(&ours, bytes.data() + i * width, width);
      std::memcpy(&theirs, pulled.data() + i * width, width);
      const std::uint64_t meant = fixtures::element_bits(factor.values, i);
      ASSERT_EQ(ours, meant) << name << " element " << i;
      ASSERT_EQ(theirs, meant) << name << " element " << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);

  // The way back: through the bindings into stored tensors, and into a file of the same bytes.
  std::vector<storage::TensorSpec> specs;
  std::map<std::string, std::vector<std::byte>> stored;
  for (const LogicalTensor& tensor : state_.schema->stored_tensors()) {
    const StoredTensor* row = catalog->find(tensor.key);
    ASSERT_NE(row, nullptr) << tensor.key;
    specs.push_back({std::string(tensor.key), row->dtype, state_.schema->shape_of(tensor)});
    stored[std::string(tensor.key)].resize(row->bytes);
  }
  const std::size_t width = options_.dtype == "F32" ? 4 : 2;
  for (const Binding& binding : state_.schema->bindings()) {
    if (binding.kind == BindingKind::constant) continue;
    const auto planned = std::find_if(plan.tensors().begin(), plan.tensors().end(),
                                      [&](const plan::PlannedTensor& tensor) { return tensor.id == binding.native; });
    const auto from = attempt.bytes(static_cast<std::size_t>(planned - plan.tensors().begin()));
    auto& to = stored.at(std::string(state_.schema->stored_tensors()[binding.stored].key));
    const View native = state_.schema->native_view(binding);
    const View view = state_.schema->stored_view(binding);
    for (std::uint64_t i = 0; i < native.element_count(); ++i) {
      const Coordinate at = coordinate_of(native.extents(), i);
      std::memcpy(to.data() + view.storage_index(at) * width, from.data() + native.storage_index(at) * width, width);
    }
  }
  const storage::HeaderPlan header =
      storage::plan_header(specs, storage::Metadata{{"format", "pt"}}, storage::HeaderStyle::reference);
  std::string file = header.bytes;
  for (const storage::PlannedTensor& tensor : header.tensors) {
    const auto& data = stored.at(specs[tensor.source].name);
    file.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  EXPECT_TRUE(file == read_file(directory_ / "adapter/adapter_model.safetensors")) << "the file is not what it was";
}

INSTANTIATE_TEST_SUITE_P(
    All, AdapterForms,
    testing::Values(
        FormCase{"llama_dense", "llama", "tiny", AdapterForm::per_expert},
        FormCase{"llama_dora_f32", "llama", "tiny", AdapterForm::per_expert, false, true, false, "", "F32"},
        FormCase{"qwen3_moe_single", "qwen3_moe", "tiny_all_moe", AdapterForm::per_expert},
        FormCase{"qwen3_moe_old", "qwen3_moe", "tiny_all_moe", AdapterForm::packed_old},
        FormCase{"qwen3_moe_new", "qwen3_moe", "tiny_all_moe", AdapterForm::packed_new},
        FormCase{"qwen3_moe_new_input_only", "qwen3_moe", "tiny", AdapterForm::packed_new, false, false, true},
        FormCase{"qwen3_moe_square_old", "qwen3_moe", "tiny_square", AdapterForm::packed_old},
        FormCase{"qwen3_moe_half_new", "qwen3_moe", "tiny_half", AdapterForm::packed_new},
        FormCase{"qwen3_moe_one_expert_old", "qwen3_moe", "tiny_one_expert", AdapterForm::packed_old},
        FormCase{"minimax_m2_single", "minimax_m2", "tiny", AdapterForm::per_expert, false, false, false, "bf16"},
        FormCase{"minimax_m2_single_newer_names", "minimax_m2", "tiny", AdapterForm::per_expert, true, false, false,
                 "bf16"},
        FormCase{"minimax_m2_old", "minimax_m2", "tiny", AdapterForm::packed_old, true, false, false, "bf16"},
        FormCase{"minimax_m2_new_on_fp8", "minimax_m2", "tiny", AdapterForm::packed_new, true},
        FormCase{"nemotron_v3_single", "nemotron_v3", "tiny", AdapterForm::per_expert},
        FormCase{"nemotron_v3_old", "nemotron_v3", "tiny", AdapterForm::packed_old},
        FormCase{"nemotron_v3_new", "nemotron_v3", "tiny", AdapterForm::packed_new}),
    [](const auto& row) { return std::string(row.param.name); });

class AdapterFaults : public testing::TestWithParam<fixtures::AdapterFault> {};

bool has_word(std::string_view words, std::string_view word) {
  const std::string text = ' ' + std::string(words) + ' ';
  return text.find(' ' + std::string(word) + ' ') != std::string::npos;
}

TEST_P(AdapterFaults, AreNoticedAndNamed) {
  const fixtures::AdapterFault& fault = GetParam();
  const TemporaryDirectory directory;
  AdapterOptions options = fixtures::clean_adapter(fault);
  fixtures::generate(options.base, directory / "base");
  const reports::Report clean = [&] {
    fixtures::generate_adapter(options, directory / "clean");
    return verify(directory / "clean", with_base(directory / "base"));
  }();
  EXPECT_EQ(findings_of(clean), std::vector<std::string>{});
  options.corrupt = std::string(fault.name);
  const GeneratedAdapter made = fixtures::generate_adapter(options, directory / "broken");
  const reports::Report report = verify(directory / "broken", with_base(directory / "base"));
  const reports::CheckRecord& record = record_of(report, fault.check);
  EXPECT_EQ(record.status, Status::fail) << record.message << record.reason << record.explanation;
  EXPECT_FALSE(record.hint.empty());
  if (!fault.code.empty()) {
    EXPECT_EQ(record.code, fault.code);
  }
  ASSERT_FALSE(made.subjects.empty());
  EXPECT_TRUE(std::any_of(made.subjects.begin(), made.subjects.end(),
                          [&](const std::string& subject) { return names(record, subject); }))
      << "wanted one of " << testing::PrintToString(made.subjects) << ", got "
      << testing::PrintToString(record.subjects) << " in " << record.message;
  for (const reports::CheckRecord& other : report.checks) {
    const bool complains =
        other.status == Status::fail || other.status == Status::warn || other.status == Status::error;
    EXPECT_TRUE(!complains || other.id == fault.check || has_word(fault.also, other.id))
        << other.id << ": " << other.message << other.reason;
  }
  EXPECT_EQ(reports::exit_status(report), 1);
}

INSTANTIATE_TEST_SUITE_P(All, AdapterFaults,
                         testing::ValuesIn(fixtures::adapter_faults().begin(), fixtures::adapter_faults().end()),
                         [](const auto& row) { return std::string(row.param.name); });

// The same schema with some bindings elsewhere.
Schema moved_bindings(const Schema& schema, const std::function<void(const Schema&, Binding, View&, View&)>& move) {
  SchemaBuilder builder(std::string(schema.family()));
  for (const NativeTensor& tensor : schema.native_tensors()) {
    builder.native(tensor.key, schema.shape_of(tensor));
  }
  for (const LogicalTensor& tensor : schema.stored_tensors()) {
    builder.stored(tensor.key, schema.shape_of(tensor));
  }
  for (const Binding& binding : schema.bindings()) {
    View stored = schema.stored_view(binding);
    View native = schema.native_view(binding);
    move(schema, binding, stored, native);
    if (binding.kind == BindingKind::primary) {
      builder.bind(binding.stored, stored, binding.native, native);
    } else {
      builder.alias(binding.stored, stored, binding.native, native, schema.rule(binding.rule));
    }
  }
  return std::move(builder).finish();
}

struct WrongPlace {
  const char* name;
  AdapterForm form;
  const char* native;  ///< ending of the tensor that must be named
  void (*move)(const Schema&, Binding, View&, View&);
};
void PrintTo(const WrongPlace& row, std::ostream* out) { *out << row.name; }

bool is_of(const Schema& schema, const Binding& binding, std::string_view native) {
  return schema.native_tensors()[binding.native].key.ends_with(native);
}

void count_columns_by_expert(const Schema& schema, Binding binding, View& stored, View&) {
  const LogicalTensor& tensor = schema.stored_tensors()[binding.stored];
  if (stored.rank() != 3 || !tensor.key.ends_with(".lora_B.weight")) return;
  const std::uint64_t rank = stored.extents()[1];
  const std::uint64_t experts = stored.extents()[2];
  stored = View::whole(schema.shape_of(tensor)).unflatten(1, {experts, rank}).permute({0, 2, 1});
}
void exchange_gate_and_up(const Schema& schema, Binding binding, View&, View& native) {
  const Shape& shape = schema.shape_of(schema.native_tensors()[binding.native]);
  if (!is_of(schema, binding, "lora_gate_and_up_B")) return;
  const std::uint64_t half = shape[2] / 2;
  const std::uint64_t offset = native.offset();
  native = View(offset % shape[2] < half ? offset + half : offset - half, native.layout());
}
void exchange_first_experts(const Schema& schema, Binding binding, View&, View& native) {
  const Shape& shape = schema.shape_of(schema.native_tensors()[binding.native]);
  if (!is_of(schema, binding, "lora_down_A")) return;
  const std::uint64_t each = shape[1] * shape[2];
  const std::uint64_t expert = native.offset() / each;
  if (expert < 2) native = View(native.offset() + each - 2 * each * expert, native.layout());
}

class AdapterMutants : public testing::TestWithParam<WrongPlace> {};

// The loader's bindings go astray, the files are sound: the reference sees it and names the factor.
TEST_P(AdapterMutants, AreKilledByName) {
  const WrongPlace& row = GetParam();
  const TemporaryDirectory directory;
  AdapterOptions options;
  options.base.family = "qwen3_moe";
  options.base.preset = "tiny";
  options.form = row.form;
  fixtures::generate(options.base, directory / "base");
  fixtures::generate_adapter(options, directory / "adapter");
  VerifyOptions wrong = with_base(directory / "base");
  wrong.perturbation.schema = [&row](const Schema& schema) { return moved_bindings(schema, row.move); };
  const reports::Report report = verify(directory / "adapter", wrong);
  const reports::CheckRecord& record = record_of(report, "value.exact");
  EXPECT_EQ(record.status, Status::fail) << record.reason << record.message;
  EXPECT_TRUE(names(record, std::string("model.layers.1.mlp.experts.") + row.native))
      << testing::PrintToString(record.subjects);
}

INSTANTIATE_TEST_SUITE_P(
    All, AdapterMutants,
    testing::Values(
        WrongPlace{"old_columns_by_expert", AdapterForm::packed_old, "lora_down_A", &count_columns_by_expert},
        WrongPlace{"new_columns_by_expert", AdapterForm::packed_new, "lora_down_B", &count_columns_by_expert},
        WrongPlace{"gate_and_up_exchanged", AdapterForm::per_expert, "lora_gate_and_up_B", &exchange_gate_and_up},
        WrongPlace{"experts_exchanged", AdapterForm::per_expert, "lora_down_A", &exchange_first_experts}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(AdapterChecks, MatchedAndTotalModulesAreTold) {
  const TemporaryDirectory directory;
  AdapterOptions options;
  options.base.preset = "tiny";
  fixtures::generate(options.base, directory / "base");
  options.corrupt = "layer_of_another_model";
  fixtures::generate_adapter(options, directory / "broken");
  const reports::Report report = verify(directory / "broken", with_base(directory / "base"));
  const reports::CheckRecord& record = record_of(report, "adapter.partial_match");
  const std::uint64_t total = record_of(report, "adapter.no_match").total;
  EXPECT_GT(total, 4U);
  EXPECT_NE(record.message.find(std::to_string(total - 4) + " of " + std::to_string(total) + " modules"),
            std::string::npos)
      << record.message;
  // Both lists: what the base lacks, and what the base has without factors.
  EXPECT_TRUE(names(record, "base_model.model.model.layers.77.self_attn.q_proj.lora_A.weight"));
  EXPECT_TRUE(names(record, "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight"));
}

TEST(AdapterChecks, AMergedResultDiffersFromItsBase) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions base;
  base.preset = "tiny";
  fixtures::generate(base, directory / "base");
  fixtures::generate(base, directory / "unmerged");
  const auto judged = [&](const char* name) { return verify(directory / name, with_base(directory / "base")); };
  const reports::Report same = judged("unmerged");
  const reports::CheckRecord& record = record_of(same, "adapter.no_effect");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_TRUE(names(record, "model.layers.0.self_attn.q_proj.weight")) << testing::PrintToString(record.subjects);
  EXPECT_EQ(findings_of(same), std::vector<std::string>{"adapter.no_effect fail"});
  EXPECT_EQ(reports::exit_status(same), 1);

  // One element of one tensor is enough.
  std::string bytes = read_file(directory / "unmerged/model.safetensors");
  std::filesystem::create_directories(directory / "merged");
  std::filesystem::copy(directory / "unmerged", directory / "merged", std::filesystem::copy_options::recursive);
  bytes[bytes.size() - 2] = static_cast<char>(bytes[bytes.size() - 2] ^ 1);
  write_file(directory / "merged/model.safetensors", bytes);
  const reports::Report merged = judged("merged");
  EXPECT_EQ(record_of(merged, "adapter.no_effect").status, Status::pass);
  EXPECT_EQ(findings_of(merged), std::vector<std::string>{});

  VerifyOptions alone;
  EXPECT_EQ(record_of(verify(directory / "unmerged", alone), "adapter.no_effect").status, Status::skip);
}

TEST(AdapterChecks, WithoutABaseTheDirectoryIsRefusedAndTheFileJudgedByItself) {
  const TemporaryDirectory directory;
  AdapterOptions options;
  options.base.preset = "tiny";
  fixtures::generate_adapter(options, directory / "adapter");
  VerifyOptions alone;
  const reports::Report refused = verify(directory / "adapter", alone);
  EXPECT_EQ(record_of(refused, "index.selection").code, "ADAPTER_WITHOUT_BASE");
  const reports::Report judged = verify(directory / "adapter/adapter_model.safetensors", alone);
  EXPECT_EQ(findings_of(judged), std::vector<std::string>{});
  EXPECT_EQ(record_of(judged, "adapter.config").status, Status::pass);
  EXPECT_EQ(record_of(judged, "adapter.shape").status, Status::pass);
  EXPECT_GT(record_of(judged, "adapter.shape").total, 0U);
  EXPECT_EQ(record_of(judged, "adapter.no_match").status, Status::skip);
  for (const char* fault : {"factor_lost", "factors_exchanged", "rank_absent", "rank_of_another_adapter"}) {
    options.corrupt = fault;
    const std::string name = std::string("broken_") + fault;
    const GeneratedAdapter made = fixtures::generate_adapter(options, directory / name);
    const reports::Report report = verify(directory / name / "adapter_model.safetensors", alone);
    const bool is_config = std::string_view(fault).starts_with("rank");
    const reports::CheckRecord& record = record_of(report, is_config ? "adapter.config" : "adapter.shape");
    EXPECT_EQ(record.status, Status::fail) << fault;
    EXPECT_TRUE(std::any_of(made.subjects.begin(), made.subjects.end(),
                            [&](const std::string& subject) { return names(record, subject); }))
        << fault << testing::PrintToString(record.subjects);
  }
}

TEST(AdapterChecks, TheCommandTakesABase) {
  const TemporaryDirectory directory;
  AdapterOptions options;
  options.base.family = "qwen3_moe";
  options.base.preset = "tiny";
  options.form = AdapterForm::packed_old;
  fixtures::generate(options.base, directory / "base");
  fixtures::generate_adapter(options, directory / "adapter");
  const std::string base = (directory / "base").string();
  const ProcessResult good = run_tool({"verify", (directory / "adapter").string(), "--base", base});
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  const ProcessResult none = run_tool({"verify", (directory / "adapter").string()});
  EXPECT_EQ(none.status, 3);
  const ProcessResult lost =
      run_tool({"verify", (directory / "adapter").string(), "--base", (directory / "no_such").string()});
  EXPECT_EQ(lost.status, 3);
}

// A real adapter of another library and model, by its file: nothing to complain about.
TEST(AdapterChecks, ARealAdapterIsJudgedWithoutFailures) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  VerifyOptions alone;
  const reports::Report report = verify(data / "lora-gpt2/adapter_model.safetensors", alone);
  EXPECT_EQ(findings_of(report), std::vector<std::string>{});
  EXPECT_EQ(record_of(report, "adapter.config").status, Status::pass);
  EXPECT_EQ(record_of(report, "adapter.shape").status, Status::pass);
  EXPECT_EQ(record_of(report, "adapter.shape").total, 12U);
}

// ... and against a base with its names and shapes: stored [in, out], as that model does.
TEST(AdapterChecks, ARealAdapterMatchesABaseOfItsShapes) {
  const std::filesystem::path data = real_data();
  if (data.empty()) {
    GTEST_SKIP() << "no real checkpoint data here";
  }
  const TemporaryDirectory directory;
  std::string header = "{";
  for (int layer = 0; layer < 12; ++layer) {
    header += (layer == 0 ? "" : ",") + std::string("\"transformer.h.") + std::to_string(layer) +
              ".attn.c_attn.weight\":{\"dtype\":\"U8\",\"shape\":[768,2304],\"data_offsets\":[" +
              std::to_string(layer * 768 * 2304) + "," + std::to_string((layer + 1) * 768 * 2304) + "]}";
  }
  std::filesystem::create_directories(directory / "base");
  write_safetensors(directory / "base/model.safetensors", header + "}", std::string(12UL * 768 * 2304, '\1'));
  const reports::Report report = verify(data / "lora-gpt2", with_base(directory / "base"));
  EXPECT_EQ(findings_of(report), std::vector<std::string>{});
  EXPECT_EQ(record_of(report, "adapter.no_match").total, 12U);
  EXPECT_EQ(record_of(report, "adapter.partial_match").status, Status::pass);
  EXPECT_EQ(record_of(report, "adapter.shape").total, 25U);
  EXPECT_EQ(record_of(report, "value.exact").status, Status::pass);
}

}  // namespace
}  // namespace weightproof::suites::test
