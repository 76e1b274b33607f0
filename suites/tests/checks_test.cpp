// SPDX-License-Identifier: Apache-2.0
// Single checks, each on a planted fault that it names and on a clean twin about which it says nothing.
#include <map>

#include "fixtures/generate.hpp"
#include "loader/exec/engine.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/tests/literal_testing.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;
using Names = std::vector<std::string>;

std::string llama_config(bool is_tied = false) {
  std::string config = std::string(R"({"model_type": "llama", )") + k_small_sizes + "}";
  if (is_tied) {
    config.replace(config.find("false"), 5, "true");
  }
  return config;
}

const std::string k_query = "model.layers.0.self_attn.q_proj.weight";

std::filesystem::path made(const TemporaryDirectory& directory, const std::string& family, const std::string& preset,
                           const std::string& fault = {}) {
  fixtures::GenerateOptions options;
  options.family = family;
  options.preset = preset;
  options.corrupt = fault;
  fixtures::generate(options, directory / "model");
  return directory / "model";
}

// ---- dtypes and shapes ----

TEST(DTypeUnsupported, AWeightOfIntegersIsNamed) {
  const TemporaryDirectory clean;
  EXPECT_EQ(record_of(judged(Literal(llama_config()).write(clean)), "dtype.unsupported").status, Status::pass);
  const TemporaryDirectory directory;
  const auto path = Literal(llama_config()).more(k_query, "I32", {2, 2}, {1, 2, 3, 4}).write(directory);
  const reports::CheckRecord record = record_of(judged(path), "dtype.unsupported");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_EQ(record.subjects, Names{k_query});
  EXPECT_EQ(record.code, "DTYPE_UNSUPPORTED");
  EXPECT_NE(record.message.find("is stored as I32"), std::string::npos) << record.message;
}

TEST(VocabularyRows, PaddingAndLostWordsAreListed) {
  const std::string embedding = "model.embed_tokens.weight";
  const TemporaryDirectory clean;
  const reports::CheckRecord sound = record_of(judged(Literal(llama_config()).write(clean)), "layout.vocab_pad");
  EXPECT_EQ(sound.status, Status::pass);
  EXPECT_EQ(sound.total, 2U);  // embedding and head
  const TemporaryDirectory longer;
  const auto padded = Literal(llama_config()).more(embedding, "BF16", {5, 2}, Numbers(10, 1)).write(longer);
  const reports::CheckRecord padding = record_of(judged(padded), "layout.vocab_pad");
  EXPECT_EQ(padding.status, Status::fail);
  EXPECT_EQ(padding.subjects, Names{embedding});
  EXPECT_NE(padding.message.find("rows 2 to 4 are padding"), std::string::npos) << padding.message;
  const TemporaryDirectory shorter;
  const auto cut = Literal(llama_config()).more("lm_head.weight", "BF16", {1, 2}, {1, 1}).write(shorter);
  const reports::CheckRecord lost = record_of(judged(cut), "layout.vocab_pad");
  EXPECT_EQ(lost.status, Status::fail);
  EXPECT_EQ(lost.subjects, Names{"lm_head.weight"});
  EXPECT_NE(lost.message.find("words 1 to 1 have none"), std::string::npos) << lost.message;
  // Another axis is another matter.
  const TemporaryDirectory wider;
  const auto wide = Literal(llama_config()).more(embedding, "BF16", {2, 3}, Numbers(6, 1)).write(wider);
  const reports::Report report = judged(wide);
  EXPECT_EQ(record_of(report, "layout.vocab_pad").status, Status::pass);
  EXPECT_EQ(record_of(report, "keys.shape").status, Status::fail);
}

// ---- loads ----

TEST(TiedStorage, HeadAndEmbeddingAreOneTensorThatIsFilledOnce) {
  const TemporaryDirectory directory;
  const std::string embedding = "model.embed_tokens.weight";
  const auto path = Literal(llama_config(true)).set(embedding, {1, 2, 3, 4}).write(directory);
  EXPECT_EQ(record_of(judged(path), "tied.storage").status, Status::pass);
  const TemporaryDirectory twice;
  const auto both = Literal(llama_config(true))
                        .set(embedding, {1, 2, 3, 4})
                        .more("lm_head.weight", "BF16", {2, 2}, {1, 2, 3, 4})
                        .write(twice);
  EXPECT_EQ(record_of(judged(both), "tied.storage").status, Status::pass) << "the second copy is compared";
  const TemporaryDirectory apart;
  const auto untied = Literal(llama_config(false)).write(apart);
  EXPECT_EQ(record_of(judged(untied), "tied.storage").status, Status::skip);
  // A loader that gives the head a tensor of its own, out of the same bytes.
  VerifyOptions options;
  options.perturbation.schema = [](const Schema& schema) {
    SchemaDraft draft(schema);
    SchemaDraft::Bound bound = *draft.binding_of_stored("model.embed_tokens.weight");
    draft.ties.clear();
    for (SchemaDraft::Stored& row : draft.stored) {
      row.is_gone = row.is_gone || row.key == "lm_head.weight";
    }
    SchemaDraft::Native head = draft.native_of(bound);
    head.key = "lm_head.weight";
    draft.natives.push_back(head);
    bound.native = static_cast<NativeId>(draft.natives.size() - 1);
    bound.kind = BindingKind::alias;
    bound.rule = "tied";
    draft.bindings.push_back(bound);
    return draft.build();
  };
  const reports::CheckRecord own = record_of(verify(path, options), "tied.storage");
  EXPECT_EQ(own.status, Status::fail) << own.reason;
  EXPECT_EQ(own.subjects, Names{"lm_head.weight"});
}

// Memory in which every row of one matrix is followed by one element that is nobody's.
class GappedDestinations final : public exec::Destinations {
 public:
  exec::Destination of(const plan::Plan& plan, std::size_t tensor) const override {
    const plan::PlannedTensor& planned = plan.tensors()[tensor];
    const std::uint64_t bytes = 4 * planned.bytes + 64;
    std::vector<std::byte>& block = blocks_[std::string(planned.key)];
    if (block.empty()) {
      block.resize(static_cast<std::size_t>(bytes));
    }
    exec::Destination out = exec::dense_destination(plan, tensor, exec::MemoryKind::host, block.data(), bytes);
    out.storage = tensor;
    if (planned.key == k_query) {
      out.strides[0] = 4;
    }
    return out;
  }

 private:
  mutable std::map<std::string, std::vector<std::byte>> blocks_;  // loads of this test have one thread
};

// A binding that takes two rows of three elements as three of two cannot be written to rows that lie apart.
TEST(Routes, ATensorThatNoRouteLeadsToIsNamed) {
  std::string config = llama_config();
  config.replace(config.find("\"hidden_size\": 2"), 16, "\"hidden_size\": 3");
  const TemporaryDirectory directory;
  const auto path = Literal(config).set(k_query, {1, 2, 3, 4, 5, 6}).write(directory);
  VerifyOptions options;
  options.perturbation.schema = [](const Schema& schema) {
    SchemaDraft draft(schema);
    SchemaDraft::Bound* bound = draft.binding_of_native(k_query);
    bound->stored_view = bound->stored_view.flatten(0, 2).unflatten(0, {3, 2});
    bound->native_view = bound->native_view.flatten(0, 2).unflatten(0, {3, 2});
    return draft.build();
  };
  const reports::Report sound = verify(path, options);
  EXPECT_EQ(record_of(sound, "io.route").status, Status::pass);
  EXPECT_EQ(record_of(sound, "value.exact").status, Status::pass);
  EXPECT_NE(record_of(sound, "io.route").explanation.find("not materialized: "), std::string::npos)
      << record_of(sound, "io.route").explanation;
  const auto gapped = std::make_shared<GappedDestinations>();
  options.perturbation.first_load = [gapped](const plan::Plan&, exec::LoadOptions& load) {
    load.destinations = gapped.get();
    load.threads = 1;
  };
  const reports::Report report = verify(path, options);
  const reports::CheckRecord& record = record_of(report, "io.route");
  EXPECT_EQ(record.status, Status::error);
  EXPECT_EQ(record.code, "ROUTE_UNAVAILABLE") << record.reason;
  EXPECT_TRUE(names(record, k_query)) << testing::PrintToString(record.subjects) << record.reason;
  EXPECT_EQ(record_of(report, "value.exact").status, Status::skip);
  EXPECT_NE(record_of(report, "value.exact").reason.find("io.route"), std::string::npos);
}

const Mutant& mutant_named(const std::vector<Mutant>& all, std::string_view id) {
  for (const Mutant& mutant : all) {
    if (mutant.id == id) {
      return mutant;
    }
  }
  throw std::runtime_error("no mutant " + std::string(id));
}

reports::Report judged_by(const Mutant& mutant, bool is_wrong, const std::string& topology = {}) {
  const TemporaryDirectory directory;
  fixtures::generate(mutant.fixture, directory / "model");
  VerifyOptions options;
  options.threads = 2;
  options.topology = topology.empty() ? mutant.topology : topology;
  if (is_wrong) {
    options.perturbation = mutant.perturbation;
  }
  return verify(directory / "model", options);
}

TEST(Traffic, BytesReadTwiceAreCounted) {
  const std::vector<Mutant> all = resource_mutants();
  const Mutant& mutant = mutant_named(all, "resource.read_twice");
  for (const std::string topology : {"", "fsdp=2"}) {
    EXPECT_EQ(record_of(judged_by(mutant, false, topology), "io.amplification").status, Status::pass) << topology;
    const reports::Report report = judged_by(mutant, true, topology);
    const reports::CheckRecord& record = record_of(report, "io.amplification");
    EXPECT_EQ(record.status, Status::fail) << topology << record.reason;
    const bool is_largest = names(record, "model.embed_tokens.weight") || names(record, "lm_head.weight");
    EXPECT_TRUE(is_largest) << testing::PrintToString(record.subjects);
    EXPECT_EQ(record_of(report, "value.exact").status, Status::pass);
  }
}

// Ranks read within the bound of what each of them holds, and one that reads everything does not.
TEST(Traffic, ARankReadsWhatItHolds) {
  const TemporaryDirectory directory;
  const auto path = made(directory, "qwen3_moe", "tiny_e4");
  VerifyOptions options;
  options.topology = "fsdp=4,ep=2";
  EXPECT_EQ(record_of(verify(path, options), "io.amplification").status, Status::pass);
}

TEST(Traffic, BytesCopiedTwiceAreCounted) {
  const std::vector<Mutant> all = resource_mutants();
  const Mutant& mutant = mutant_named(all, "resource.copied_twice");
  EXPECT_EQ(record_of(judged_by(mutant, false), "mem.copies").status, Status::pass);
  const reports::Report report = judged_by(mutant, true);
  const reports::CheckRecord& record = record_of(report, "mem.copies");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_FALSE(record.subjects.empty());
  EXPECT_EQ(record_of(report, "value.exact").status, Status::pass) << "the values are right all the same";
}

TEST(Traffic, NoDeviceIsSaid) {
  const TemporaryDirectory directory;
  const reports::CheckRecord record = record_of(judged(Literal(llama_config()).write(directory)), "mem.device_peak");
  EXPECT_EQ(record.status, Status::skip);
  EXPECT_FALSE(record.reason.empty());
}

// ---- ranks ----

TEST(RankParts, AFusedTensorThatIsCutEvenlyIsNamed) {
  const std::vector<Mutant> all = placement_mutants();
  for (const char* id : {"placement.fused_evenly", "placement.fused_mlp_evenly"}) {
    const Mutant& mutant = mutant_named(all, id);
    const reports::CheckRecord sound = record_of(judged_by(mutant, false), "layout.qkv_tp");
    EXPECT_EQ(sound.status, Status::pass) << id;
    EXPECT_GT(sound.total, 0U) << id;
    const reports::CheckRecord record = record_of(judged_by(mutant, true), "layout.qkv_tp");
    EXPECT_EQ(record.status, Status::fail) << id;
    EXPECT_TRUE(names(record, mutant.tensors.front())) << id << testing::PrintToString(record.subjects);
  }
  // Tensors that are not fused are another check's, and one rank or ranks without tensor parallelism cut nothing.
  const Mutant& norm = mutant_named(all, "placement.balanced_chunk");
  EXPECT_EQ(record_of(judged_by(norm, true), "layout.qkv_tp").status, Status::skip);
  const TemporaryDirectory directory;
  EXPECT_EQ(record_of(judged(Literal(llama_config()).write(directory)), "layout.qkv_tp").status, Status::skip);
}

// One tensor of four rows on two ranks, the second of which is told to hold rows [begin, end).
reports::Report with_second_part(std::uint64_t begin, std::uint64_t end, unsigned axis = 0) {
  const TemporaryDirectory directory;
  std::string config = llama_config();
  config.replace(config.find("\"intermediate_size\": 2"), 22, "\"intermediate_size\": 4");
  config.replace(config.find("\"hidden_size\": 2"), 16, "\"hidden_size\": 4");
  const auto path = Literal(config).write(directory);
  VerifyOptions options;
  options.topology = "fsdp=2";
  options.perturbation.placement = [=](const Schema& schema, plan::RankPlacement& placement) {
    if (placement.rank == 0) {
      return;
    }
    Box part = Box::whole({4, 4});
    part.start[axis] = begin;
    part.length[axis] = end - begin;
    Box local = part;
    local.start[axis] = 0;
    placement.locals[schema.find_native("model.layers.0.mlp.up_proj.weight")] = {local.length, {{part, local}}};
  };
  return verify(path, options);
}

void expect_parts(const reports::Report& report, const char* failing) {
  for (const char* id : {"shard.bounds", "shard.coverage", "shard.overlap"}) {
    const reports::CheckRecord& record = record_of(report, id);
    EXPECT_EQ(record.status, std::string_view(id) == failing ? Status::fail : Status::pass) << id << record.message;
    if (record.status == Status::fail) {
      EXPECT_EQ(record.subjects, Names{"model.layers.0.mlp.up_proj.weight"}) << id;
    }
  }
}

TEST(RankParts, HolesOverlapsAndPartsOutsideAreToldApart) {
  expect_parts(with_second_part(2, 4), "");
  const reports::Report hole = with_second_part(3, 4);
  expect_parts(hole, "shard.coverage");
  EXPECT_NE(record_of(hole, "shard.coverage").message.find("[2,0]"), std::string::npos);
  const reports::Report overlap = with_second_part(1, 4);
  expect_parts(overlap, "shard.overlap");
  EXPECT_NE(record_of(overlap, "shard.overlap").message.find("rank 0 and of rank 1"), std::string::npos);
  EXPECT_EQ(record_of(with_second_part(2, 5), "shard.bounds").status, Status::fail) << "behind the last row";
  EXPECT_EQ(record_of(with_second_part(2, 4, 1), "shard.bounds").status, Status::fail) << "along the other axis";
}

TEST(RankParts, TheWrongAxisOfExpertsIsNamed) {
  const std::vector<Mutant> all = placement_mutants();
  const Mutant& mutant = mutant_named(all, "placement.ep_shard_axis");
  EXPECT_EQ(record_of(judged_by(mutant, false), "shard.bounds").status, Status::pass);
  const reports::CheckRecord record = record_of(judged_by(mutant, true), "shard.bounds");
  EXPECT_EQ(record.status, Status::fail);
  EXPECT_TRUE(names(record, mutant.tensors.front())) << testing::PrintToString(record.subjects);
  EXPECT_NE(record.message.find("cuts axis 2"), std::string::npos) << record.message;
}

TEST(RankParts, FilesOfRanksAreNotReadAndThatIsSaid) {
  const reports::Report report = with_second_part(2, 4);
  for (const char* id : {"shard.info", "shard.dtype"}) {
    EXPECT_EQ(record_of(report, id).status, Status::skip) << id;
    EXPECT_NE(record_of(report, id).reason.find("not read yet"), std::string::npos) << id;
  }
}

}  // namespace
}  // namespace weightproof::suites::test
