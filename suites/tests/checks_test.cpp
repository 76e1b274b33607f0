// SPDX-License-Identifier: Apache-2.0
// Single checks, each on a planted fault that it names and on a clean twin about which it says nothing.
#include <map>

#include "fixtures/generate.hpp"
#include "loader/exec/engine.hpp"
#include "suites/tests/checks_testing.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;
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

// The plan is right, and what is executed is not what it says.
TEST(TiedStorage, WhatWasExecutedIsJudged) {
  const std::string embedding = "model.embed_tokens.weight";
  const std::vector<Mutant> all = resource_mutants();
  const Mutant& mutant = mutant_named(all, "resource.tied_read_again");
  EXPECT_EQ(record_of(judged_by(mutant, false), "tied.storage").status, Status::pass);
  const reports::CheckRecord twice = record_of(judged_by(mutant, true), "tied.storage");
  EXPECT_EQ(twice.status, Status::fail);
  EXPECT_EQ(twice.subjects, Names{embedding});
  EXPECT_EQ(twice.message, embedding + " is read more than once: 264 bytes for one storage of 132 stored bytes");
  const TemporaryDirectory directory;
  const auto path = Literal(llama_config(true)).set(embedding, {1, 2, 3, 4}).write(directory);
  VerifyOptions options;
  options.perturbation.first_load = [faults = std::make_shared<exec::Faults>(), embedding](const plan::Plan& plan,
                                                                                           exec::LoadOptions& load) {
    *faults = {exec::Fault::skip_tile, static_cast<std::uint32_t>(plan.find(embedding)), 0};
    load.faults = faults.get();
  };
  const reports::CheckRecord skipped = record_of(verify(path, options), "tied.storage");
  EXPECT_EQ(skipped.status, Status::fail);
  EXPECT_EQ(skipped.message, embedding + " of 4 elements was filled with 0 from the names of head and embedding");
}

// In windows that hold parts of the embedding each, together it is filled once.
TEST(TiedStorage, IsFilledWindowByWindow) {
  const TemporaryDirectory directory;
  fixtures::GenerateOptions made_of;
  made_of.preset = "tiny_tied";
  made_of.config_changes = R"({"vocab_size": 4000, "hidden_size": 256, "num_hidden_layers": 1})";
  for (const fixtures::TieMode tie : {fixtures::TieMode::tied, fixtures::TieMode::stored_head}) {
    made_of.tie = tie;
    const auto path = directory / (tie == fixtures::TieMode::tied ? "one" : "two");
    fixtures::generate(made_of, path);
    VerifyOptions options;
    options.threads = 2;
    options.budget_bytes = 1U << 20U;
    const reports::Report report = verify(path, options);
    EXPECT_GT(record_of(report, "mem.budget").total, 5U) << "windows";
    EXPECT_EQ(record_of(report, "tied.storage").status, Status::pass) << record_of(report, "tied.storage").message;
    EXPECT_EQ(record_of(report, "io.amplification").status, Status::pass)
        << record_of(report, "io.amplification").message;
    EXPECT_EQ(record_of(report, "mem.copies").status, Status::pass) << record_of(report, "mem.copies").message;
  }
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

}  // namespace
}  // namespace weightproof::suites::test
