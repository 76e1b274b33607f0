// SPDX-License-Identifier: Apache-2.0
// What ranks of a topology hold: holes, overlaps, cuts along the wrong axis, and parts that are cut where they must not
// be.
#include "loader/plan/planner.hpp"
#include "loader/storage/checkpoint.hpp"
#include "suites/tests/checks_testing.hpp"

namespace weightproof::suites::test {
namespace {

using reports::Status;

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
VerifyOptions second_part(std::uint64_t begin, std::uint64_t end, unsigned axis = 0) {
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
    placement.locals[schema.find_native(k_up)] = {local.length, {{part, local}}};
  };
  return options;
}

std::filesystem::path four_rows(const TemporaryDirectory& directory) {
  std::string config = llama_config();
  config.replace(config.find("\"intermediate_size\": 2"), 22, "\"intermediate_size\": 4");
  config.replace(config.find("\"hidden_size\": 2"), 16, "\"hidden_size\": 4");
  return Literal(config).set(k_up, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}).write(directory);
}

reports::Report with_second_part(std::uint64_t begin, std::uint64_t end, unsigned axis = 0) {
  const TemporaryDirectory directory;
  return verify(four_rows(directory), second_part(begin, end, axis));
}

void expect_parts(const reports::Report& report, const char* complaining, Status status = Status::fail) {
  for (const char* id : {"shard.bounds", "shard.coverage", "shard.overlap"}) {
    const reports::CheckRecord& record = record_of(report, id);
    EXPECT_EQ(record.status, std::string_view(id) == complaining ? status : Status::pass) << id << record.message;
    if (record.status != Status::pass) {
      EXPECT_EQ(record.subjects, Names{k_up}) << id;
    }
  }
}

TEST(RankParts, HolesOverlapsAndPartsOutsideAreToldApart) {
  expect_parts(with_second_part(2, 4), "");
  const reports::Report hole = with_second_part(3, 4);
  expect_parts(hole, "shard.coverage");
  EXPECT_NE(record_of(hole, "shard.coverage").message.find("[2,0]"), std::string::npos);
  EXPECT_EQ(record_of(with_second_part(2, 5), "shard.bounds").status, Status::fail) << "behind the last row";
  EXPECT_EQ(record_of(with_second_part(2, 4, 1), "shard.bounds").status, Status::fail) << "along the other axis";
}

// Changes a byte of one tensor for whoever reads it.
class OtherByte final : public PlainCalls {
 public:
  OtherByte(storage::FileCalls& inner, std::uint64_t place) : PlainCalls(inner), place_(place) {}
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    const std::int64_t read = PlainCalls::pread(fd, buffer, bytes, offset);
    change(static_cast<std::byte*>(buffer), read, offset);
    return read;
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    const std::int64_t read = PlainCalls::preadv(fd, parts, count, offset);
    for (int i = 0; i < count; offset += static_cast<std::int64_t>(parts[i].iov_len), ++i) {
      change(static_cast<std::byte*>(parts[i].iov_base), static_cast<std::int64_t>(parts[i].iov_len), offset);
    }
    return read;
  }

 private:
  void change(std::byte* buffer, std::int64_t bytes, std::int64_t offset) const {
    const std::int64_t at = static_cast<std::int64_t>(place_) - offset;
    if (at >= 0 && at < bytes) {
      buffer[at] ^= std::byte{0x40};
    }
  }
  std::uint64_t place_;
};

// What the second rank reads of that element of the matrix is another value.
void misread_by_second_rank(VerifyOptions& options, const std::filesystem::path& path, std::uint64_t element) {
  const storage::Checkpoint checkpoint = storage::open_checkpoint(path, {});
  const std::uint64_t place = checkpoint.catalog.find(k_up)->begin + element * 2;
  // The first calls are those of the single rank, the next ones those of rank 0.
  options.perturbation.load_calls =
      [place, made = std::make_shared<int>(0)](storage::FileCalls& inner) -> std::unique_ptr<storage::FileCalls> {
    if (++*made == 3) {
      return std::make_unique<OtherByte>(inner, place);
    }
    return std::make_unique<PlainCalls>(inner);
  };
}

TEST(RankParts, OverlapsOfEqualBytesAreAWarningAndOthersFail) {
  const TemporaryDirectory directory;
  const auto path = four_rows(directory);
  const reports::Report equal = verify(path, second_part(1, 4));
  expect_parts(equal, "shard.overlap", Status::warn);
  EXPECT_EQ(record_of(equal, "shard.overlap").message,
            k_up + ": element [1,0] is in different parts, of rank 0 and of rank 1, with equal bytes");
  VerifyOptions options = second_part(1, 4);
  misread_by_second_rank(options, path, 6);
  const reports::Report differing = verify(path, options);
  expect_parts(differing, "shard.overlap");
  EXPECT_EQ(record_of(differing, "shard.overlap").message,
            k_up +
                ": element [1,0] is in different parts, of rank 0 and of rank 1; element [1,2] differs between rank "
                "0 and rank 1");
  // A byte that is not shared is no matter of the overlap.
  options = second_part(1, 4);
  misread_by_second_rank(options, path, 9);
  expect_parts(verify(path, options), "shard.overlap", Status::warn);
  // Where a rank cannot be loaded nothing is known of its bytes.
  options = second_part(1, 4);
  options.perturbation.placement = [inner = options.perturbation.placement](const Schema& schema,
                                                                            plan::RankPlacement& placement) {
    inner(schema, placement);
    if (placement.rank == 1) {
      placement.locals[schema.find_native(k_query)].pieces.front().global.length[0] += 9;
    }
  };
  const reports::CheckRecord unknown = record_of(verify(path, options), "shard.overlap");
  EXPECT_EQ(unknown.status, Status::fail);
  EXPECT_EQ(unknown.explanation, "the bytes that ranks share were not compared: 1 rank of 2 could not be loaded");
}

TEST(RankParts, WhatIsHeldWholeWhereItIsToBeCutIsNamed) {
  const TemporaryDirectory directory;
  const auto path = four_rows(directory);
  // Both ranks hold all of it: one part, and no two of them overlap.
  VerifyOptions options = second_part(0, 4);
  options.perturbation.placement = [inner = options.perturbation.placement](const Schema& schema,
                                                                            plan::RankPlacement& placement) {
    const std::uint32_t rank = placement.rank;
    placement.rank = 1;
    inner(schema, placement);
    placement.rank = rank;
  };
  const reports::Report report = verify(path, options);
  expect_parts(report, "shard.overlap", Status::warn);
  const std::string message = ": element [0,0] is on 2 ranks, rank 0 and rank 1 among them, and its rule puts it on 1";
  EXPECT_EQ(record_of(report, "shard.overlap").message, k_up + message + ", with equal bytes");
  EXPECT_TRUE(names(record_of(report, "shard.reassembly"), k_up));
  misread_by_second_rank(options, path, 0);
  EXPECT_EQ(record_of(verify(path, options), "shard.overlap").message,
            k_up + message + "; element [0,0] differs between rank 0 and rank 1");
  // Every matrix that tensor parallelism cuts.
  const std::vector<Mutant> all = placement_mutants();
  const Mutant& mutant = mutant_named(all, "placement.replicated");
  const reports::CheckRecord cut = record_of(judged_by(mutant, true), "shard.overlap");
  EXPECT_EQ(cut.status, Status::warn);
  EXPECT_TRUE(names(cut, "model.layers.0.mlp.up_proj.weight"));
  EXPECT_TRUE(names(cut, "model.layers.2.self_attn.k_proj.weight"));
  EXPECT_FALSE(names(cut, "model.norm.weight")) << "every rank holds it";
  const reports::CheckRecord sound = record_of(judged_by(mutant, false), "shard.overlap");
  EXPECT_EQ(sound.status, Status::pass);
  EXPECT_EQ(sound.explanation, "");
}

// A family whose rule itself leaves a matrix whole: nothing is wrong by that rule, and it is told.
TEST(RankParts, MatricesThatTheRuleLeavesWholeAreANote) {
  const TemporaryDirectory directory;
  VerifyOptions options;
  options.topology = "tp=2";
  const reports::Report report = verify(made(directory, "deepseek_v3", "tiny"), options);
  const reports::CheckRecord& record = record_of(report, "shard.overlap");
  EXPECT_EQ(record.status, Status::pass);
  EXPECT_NE(record.explanation.find("held whole where others are cut, as their rule states: "), std::string::npos)
      << record.explanation;
  EXPECT_NE(record.explanation.find(".self_attn."), std::string::npos) << record.explanation;
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
