// SPDX-License-Identifier: Apache-2.0
// From files through a plan and a load back into files.
#include "loader/save/loaded.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "loader/core/error.hpp"
#include "loader/exec/engine.hpp"
#include "loader/plan/planner.hpp"
#include "loader/save/tests/save_testing.hpp"

namespace weightproof::save {
namespace {

using testing::read_tree;
using testing::TemporaryDirectory;

/// A checkpoint on disk, and plans that move its tensors unchanged.
class Source {
 public:
  Source() {
    MemorySource bytes = model.source();
    export_checkpoint(model.tensors, bytes, directory / "in");
    checkpoint = std::make_unique<storage::Checkpoint>(storage::open_checkpoint(directory / "in", {}));
    catalog = std::make_shared<const Catalog>(checkpoint->catalog);
    SchemaBuilder builder("identity");
    for (const ExportTensor& tensor : model.tensors) builder.identity(tensor.key, tensor.shape, DTypeRule::any);
    schema = std::make_shared<const Schema>(std::move(builder).finish());
  }
  plan::Plan make_plan(const std::vector<std::string>& keys) const {
    plan::Request request;
    request.keys.include = keys;
    const plan::Source source{"base", catalog};
    return plan::make_plan(schema, std::span(&source, 1), {}, request);
  }
  exec::SourceFiles files() const {
    const storage::Checkpoint* const all[] = {checkpoint.get()};
    return exec::SourceFiles::of(all);
  }

  TemporaryDirectory directory;
  testing::Model model = testing::small_model();
  std::unique_ptr<storage::Checkpoint> checkpoint;
  std::shared_ptr<const Catalog> catalog;
  std::shared_ptr<const Schema> schema;
};

TEST(LoadedSource, LoadAndExportGiveTheSameFiles) {
  const Source source;
  const plan::Plan plan = source.make_plan({});
  const exec::SourceFiles files = source.files();
  const exec::LoadAttempt attempt = exec::load(plan, files);
  LoadedSource loaded(attempt);
  export_checkpoint(tensors_of(plan), loaded, source.directory / "out");
  EXPECT_EQ(read_tree(source.directory / "out"), read_tree(source.directory / "in"));
}

TEST(LoadedSource, AnIncompleteLoadIsNotExported) {
  const Source source;
  const plan::Plan plan = source.make_plan({});
  const exec::SourceFiles files = source.files();
  std::stop_source stop;
  stop.request_stop();
  exec::LoadOptions options;
  options.stop = stop.get_token();
  const exec::LoadAttempt attempt = exec::load(plan, files, options);
  EXPECT_THROW(LoadedSource{attempt}, Error);
}

/// One load, and how many of its kind are alive.
class LoadedPart : public Part {
 public:
  LoadedPart(const Source& source, std::span<const std::size_t> tensors, std::atomic<int>& alive) : alive_(alive) {
    ++alive_;
    std::vector<std::string> keys;
    for (const std::size_t tensor : tensors) keys.push_back(source.model.tensors[tensor].key);
    keys_ = keys;
    plan_ = std::make_unique<plan::Plan>(source.make_plan(keys));
    files_ = std::make_unique<exec::SourceFiles>(source.files());
    attempt_ = std::make_unique<exec::LoadAttempt>(exec::load(*plan_, *files_));
    attempt_->require_complete();
  }
  ~LoadedPart() override { --alive_; }
  std::span<const std::byte> bytes(std::size_t position) const override { return attempt_->bytes(keys_[position]); }

 private:
  std::atomic<int>& alive_;  // the last user of a part may be any thread
  std::vector<std::string> keys_;
  std::unique_ptr<plan::Plan> plan_;
  std::unique_ptr<exec::SourceFiles> files_;
  std::unique_ptr<exec::LoadAttempt> attempt_;
};

TEST(PartedSource, PartByPartGivesTheSameFiles) {
  const Source source;
  for (const std::uint64_t part_bytes : {std::uint64_t{1}, std::uint64_t{40}, std::uint64_t{1} << 30}) {
    for (const unsigned threads : {1U, 2U}) {
      std::atomic<int> alive{0};
      int alive_most = 0;
      std::vector<int> loads(source.model.tensors.size(), 0);
      PartedSource parts(source.model.tensors, part_bytes, [&](std::span<const std::size_t> tensors) {
        for (const std::size_t tensor : tensors) ++loads[tensor];
        auto part = std::make_unique<const LoadedPart>(source, tensors, alive);
        alive_most = std::max(alive_most, alive.load());
        return part;
      });
      ExportOptions options;
      options.threads = threads;
      options.window_bytes = 64;
      options.replace = Replace::exchange;
      export_checkpoint(source.model.tensors, parts, source.directory / "out", options);
      EXPECT_EQ(read_tree(source.directory / "out"), read_tree(source.directory / "in"));
      EXPECT_LE(alive_most, 2 + static_cast<int>(threads));
      if (threads == 1) {
        EXPECT_LE(alive_most, 2);
        for (std::size_t i = 0; i < loads.size(); ++i) EXPECT_LE(loads[i], 1) << source.model.tensors[i].key;
      }
      if (part_bytes > 1000) {
        EXPECT_EQ(parts.parts_loaded(), 1U);
      } else {
        EXPECT_GE(parts.parts_loaded(), 3U);
      }
    }
  }
}

TEST(PartedSource, AFailedPartEndsTheExport) {
  const Source source;
  unsigned parts_until_failure = 2;
  PartedSource parts(source.model.tensors, 1, [&](std::span<const std::size_t> tensors) -> std::unique_ptr<const Part> {
    static std::atomic<int> alive{0};
    if (parts_until_failure-- == 0) throw Error(ErrorCode::io_error, "planted");
    return std::make_unique<const LoadedPart>(source, tensors, alive);
  });
  EXPECT_THROW(export_checkpoint(source.model.tensors, parts, source.directory / "out"), Error);
  EXPECT_EQ(source.directory.names(), std::vector<std::string>{"in"});
}

}  // namespace
}  // namespace weightproof::save
