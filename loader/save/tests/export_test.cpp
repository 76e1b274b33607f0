// SPDX-License-Identifier: Apache-2.0
#include "loader/save/export.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <iostream>

#include "loader/core/error.hpp"
#include "loader/save/tests/save_testing.hpp"

namespace weightproof::save {
namespace {

using testing::Model;
using testing::read_file;
using testing::read_tree;
using testing::small_model;
using testing::TemporaryDirectory;
using Names = std::vector<std::string>;

// Every tensor of `model` as the checkpoint at `path` holds it.
void expect_holds(const std::filesystem::path& path, const Model& model) {
  const storage::Checkpoint checkpoint = storage::open_checkpoint(path, {});
  for (const Diagnostic& found : checkpoint.diagnostics) ADD_FAILURE() << found.check << ": " << found.message;
  ASSERT_EQ(checkpoint.catalog.size(), model.tensors.size());
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const StoredTensor* row = checkpoint.catalog.find(model.tensors[i].key);
    ASSERT_NE(row, nullptr) << model.tensors[i].key;
    EXPECT_EQ(row->dtype, model.tensors[i].dtype);
    EXPECT_EQ(row->shape, model.tensors[i].shape);
    std::string bytes(static_cast<std::size_t>(row->bytes), ' ');
    storage::File::open(checkpoint.path_of(row->file), "x")
        .read(row->begin, std::as_writable_bytes(std::span<char>(bytes)));
    EXPECT_EQ(bytes, model.bytes(i)) << model.tensors[i].key;
  }
}

TEST(Export, OneFileWithoutIndex) {
  const TemporaryDirectory directory;
  const Model model = small_model();
  MemorySource source = model.source();
  ExportOptions options;
  options.carried = {{"config.json", "{}"}};
  const ExportResult result = export_checkpoint(model.tensors, source, directory / "out", options);
  expect_holds(directory / "out", model);
  const auto files = read_tree(directory / "out");
  EXPECT_EQ(files.size(), 2U);
  EXPECT_EQ(files.at("config.json"), "{}");
  EXPECT_EQ(result.index_name, "");
  EXPECT_EQ(result.total_size, 16U * 8 * 2 + 32 + 32 + 3 + 8);
  EXPECT_EQ(result.total_parameters, 128U + 8 + 8 + 3 + 1);
  EXPECT_EQ(result.bytes_written, files.at("model.safetensors").size());
  EXPECT_EQ(result.bytes_verified, result.bytes_written);
  EXPECT_NE(files.at("model.safetensors").find("{\"__metadata__\":{\"format\":\"pt\"},\"scalar\""), std::string::npos);
}

TEST(Export, ShardsWithIndexForAnyThreadsAndWindows) {
  const Model model = small_model();
  std::map<std::string, std::string> first;
  for (const unsigned threads : {1U, 2U, 7U}) {
    for (const std::size_t window : {1U, 13U, 4096U}) {
      const TemporaryDirectory directory;
      MemorySource source = model.source();
      ExportOptions options;
      options.shard_bytes = 70;
      options.threads = threads;
      options.window_bytes = window;
      const ExportResult result = export_checkpoint(model.tensors, source, directory / "out", options);
      EXPECT_EQ(result.files.size(), 3U);
      EXPECT_EQ(result.index_name, "model.safetensors.index.json");
      expect_holds(directory / "out", model);
      if (first.empty()) first = read_tree(directory / "out");
      EXPECT_EQ(read_tree(directory / "out"), first);
    }
  }
}

TEST(Export, SizesAndBack) {
  const TemporaryDirectory directory;
  const Model model = small_model();
  MemorySource source = model.source();
  export_checkpoint(model.tensors, source, directory / "a");
  std::filesystem::path from = directory / "a";
  for (const std::uint64_t bytes : {std::uint64_t{40}, std::uint64_t{120}, k_shard_bytes_default}) {
    const storage::Checkpoint checkpoint = storage::open_checkpoint(from, {});
    CheckpointSource files(checkpoint);
    ExportOptions options;
    options.shard_bytes = bytes;
    const std::filesystem::path to = directory / ("to_" + std::to_string(bytes));
    export_checkpoint(CheckpointSource::tensors_of(checkpoint), files, to, options);
    expect_holds(to, model);
    from = to;
  }
  EXPECT_EQ(read_tree(from), read_tree(directory / "a"));
}

TEST(Export, OneFileTarget) {
  const TemporaryDirectory directory;
  const Model model = small_model();
  MemorySource source = model.source();
  export_checkpoint(model.tensors, source, directory / "x.safetensors");
  EXPECT_EQ(directory.names(), Names{"x.safetensors"});
  expect_holds(directory / "x.safetensors", model);
}

TEST(Export, NoTensors) {
  const TemporaryDirectory directory;
  MemorySource source({});
  ExportOptions options;
  options.metadata.reset();
  export_checkpoint({}, source, directory / "out", options);
  EXPECT_EQ(read_file(directory / "out/model.safetensors"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

void expect_code(const std::function<void()>& action, ErrorCode code, const std::string& key = {}) {
  try {
    action();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    if (!key.empty()) {
      ASSERT_FALSE(error.facts().keys.empty()) << error.what();
      EXPECT_EQ(error.facts().keys[0], key);
    }
  }
}

TEST(Export, Refusals) {
  const TemporaryDirectory directory;
  Model model = small_model();
  model.add("scalar", DType::u8, {1});
  MemorySource source = model.source();
  expect_code([&] { export_checkpoint(model.tensors, source, directory / "out"); }, ErrorCode::duplicate_key, "scalar");
  const Model good = small_model();
  MemorySource good_source = good.source();
  ExportOptions options;
  options.carried = {{"model.safetensors", "x"}};
  expect_code([&] { export_checkpoint(good.tensors, good_source, directory / "out", options); }, ErrorCode::usage);
  testing::write_file(directory / "out/a", "x");
  expect_code([&] { export_checkpoint(good.tensors, good_source, directory / "out"); }, ErrorCode::target_exists);
  EXPECT_EQ(directory.names(), Names{"out"});
}

/// Gives other bytes for one element after some reads: a write that went wrong, as seen from the verification.
class WrongWrites : public WriteCalls {
 public:
  std::int64_t pwrite(int fd, const void* buffer, std::size_t bytes, std::int64_t offset) override {
    const std::int64_t wrong_at = static_cast<std::int64_t>(place);
    if (offset > wrong_at || wrong_at >= offset + static_cast<std::int64_t>(bytes)) {
      return WriteCalls::pwrite(fd, buffer, bytes, offset);
    }
    std::string copy(static_cast<const char*>(buffer), bytes);
    copy[static_cast<std::size_t>(wrong_at - offset)] ^= 1;
    return WriteCalls::pwrite(fd, copy.data(), bytes, offset);
  }
  int fsync(int) override { return 0; }  // one export per byte: not through the disk
  std::uint64_t place = 0;
};

TEST(Verification, NamesTensorAndElementOfEveryWrongByte) {
  const TemporaryDirectory directory;
  const Model model = small_model();
  MemorySource source = model.source();
  export_checkpoint(model.tensors, source, directory / "good");
  const storage::Checkpoint good = storage::open_checkpoint(directory / "good", {});
  const std::uint64_t data_begin = good.shards[0].header->data_begin();
  const std::uint64_t size = good.shards[0].header->file_bytes;
  std::size_t in_header = 0;
  for (std::uint64_t place = 0; place < size; ++place) {
    SCOPED_TRACE(place);
    WrongWrites calls;
    calls.place = place;
    ExportOptions options;
    options.calls = &calls;
    options.window_bytes = 64;
    try {
      export_checkpoint(model.tensors, source, directory / "bad", options);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::export_verify_failed) << error.what();
      EXPECT_EQ(error.facts().byte_offset, place);
      if (place < data_begin) {
        ++in_header;
        EXPECT_TRUE(error.facts().keys.empty());
        continue;
      }
      const auto rows = good.catalog.tensors();
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const StoredTensor& candidate) {
        return place >= candidate.begin && place < candidate.begin + candidate.bytes;
      });
      ASSERT_NE(row, rows.end());
      ASSERT_EQ(error.facts().keys, Names{std::string(row->key)});
      const std::uint64_t element = (place - row->begin) * 8 / bits_of(row->dtype);
      EXPECT_EQ(Coordinate(std::span<const std::uint64_t>(error.facts().coordinate)),
                coordinate_of(row->shape, element));
    }
    EXPECT_FALSE(std::filesystem::exists(directory / "bad"));
  }
  EXPECT_EQ(in_header, data_begin);
  EXPECT_EQ(directory.names(), Names{"good"});
}

TEST(Verification, CanBeLeftOut) {
  const TemporaryDirectory directory;
  const Model model = small_model();
  MemorySource source = model.source();
  WrongWrites calls;
  calls.place = 1000;
  ExportOptions options;
  options.calls = &calls;
  options.is_verified = false;
  EXPECT_EQ(export_checkpoint(model.tensors, source, directory / "out", options).bytes_verified, 0U);
}

// Every system call fails once, for each kind of fault, until the export succeeds: nothing is left, and a retry works.
TEST(FaultLoop, EveryCallOfAnExport) {
  const Model model = small_model();
  for (const int fault : {EIO, ENOSPC, EINTR}) {
    unsigned failures = 0;
    unsigned successes = 0;
    for (unsigned n = 1;; ++n) {
      const TemporaryDirectory directory;
      MemorySource source = model.source();
      testing::TrickyCalls calls;
      calls.fail_at = n;
      calls.fault = fault;
      ExportOptions options;
      options.shard_bytes = 120;
      options.window_bytes = 64;
      options.carried = {{"config.json", "{}"}};
      options.calls = &calls;
      bool has_failed = false;
      try {
        export_checkpoint(model.tensors, source, directory / "out", options);
        ++successes;
      } catch (const Error& error) {
        has_failed = true;
        ++failures;
        EXPECT_EQ(error.code(), ErrorCode::io_error) << error.what();
        EXPECT_EQ(std::string(error.what()).find(directory.path().string()), std::string::npos) << error.what();
      }
      const bool is_past = calls.calls < n;
      if (std::filesystem::exists(directory / "out")) {
        // Only the very last call, after the rename, may fail with the target in place: then it is whole.
        expect_holds(directory / "out", model);
      } else {
        EXPECT_TRUE(has_failed);
        export_checkpoint(model.tensors, source, directory / "out");
      }
      EXPECT_EQ(directory.names(), Names{"out"}) << n;
      if (is_past) break;
    }
    std::cout << "errno " << fault << ": " << failures << " calls failed one by one, then the export was whole\n";
    ::testing::Test::RecordProperty("failures_errno_" + std::to_string(fault), static_cast<int>(failures));
    if (fault == EINTR) {
      EXPECT_GT(successes, 10U);
    } else {
      EXPECT_GT(failures, 20U);
    }
  }
}

// The process dies in front of every call. What stands under the name is the old content or the new, whole.
TEST(FaultLoop, DeathAtEveryCall) {
  const Model model = small_model();
  for (const bool is_replacing : {false, true}) {
    unsigned deaths = 0;
    std::map<std::string, std::string> new_files;
    for (unsigned n = 1;; ++n) {
      const TemporaryDirectory directory;
      if (is_replacing) testing::write_file(directory / "out/old.txt", "old");
      const ::pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        MemorySource source = model.source();
        testing::TrickyCalls calls;
        calls.fail_at = n;
        calls.dies = true;
        ExportOptions options;
        options.shard_bytes = 120;
        options.window_bytes = 64;
        options.calls = &calls;
        options.replace = is_replacing ? Replace::exchange : Replace::never;
        int status = 0;
        try {
          export_checkpoint(model.tensors, source, directory / "out", options);
        } catch (...) {
          status = 1;
        }
        ::_exit(status);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      const auto files = read_tree(directory / "out");
      const bool is_old =
          is_replacing ? files == std::map<std::string, std::string>{{"old.txt", "old"}} : files.empty();
      if (!is_old) expect_holds(directory / "out", model);
      if (WIFEXITED(status)) {
        EXPECT_EQ(WEXITSTATUS(status), 0);
        EXPECT_FALSE(is_old);
        break;
      }
      ++deaths;
      // Whatever is left beside it says what it is.
      for (const std::string& name : directory.names()) {
        EXPECT_TRUE(name == "out" || name.find(storage::k_staging_infix) != std::string::npos) << name;
      }
    }
    std::cout << deaths << " deaths, " << (is_replacing ? "old or new whole" : "nothing or new whole")
              << " each time\n";
    EXPECT_GT(deaths, 20U);
  }
}

/// A source that fails at the Nth read, or is asked to stop there.
class TrickySource : public ExportSource {
 public:
  explicit TrickySource(MemorySource inner) : inner_(std::move(inner)) {}
  void read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> target) override {
    if (++reads_ == fail_at) throw Error(ErrorCode::io_error, "planted");
    if (reads_ == stop_at) stop.request_stop();
    inner_.read(tensor, offset, target);
  }
  unsigned fail_at = 0;
  unsigned stop_at = 0;
  std::stop_source stop;

 private:
  MemorySource inner_;
  std::atomic<unsigned> reads_{0};
};

TEST(Export, FailedAndStoppedSourcesLeaveNothing) {
  const Model model = small_model();
  for (const unsigned threads : {1U, 3U}) {
    for (unsigned n = 1; n <= 6; ++n) {
      for (const bool is_stop : {false, true}) {
        const TemporaryDirectory directory;
        TrickySource source(model.source());
        (is_stop ? source.stop_at : source.fail_at) = n;
        ExportOptions options;
        options.window_bytes = 32;
        options.threads = threads;
        options.stop = source.stop.get_token();
        expect_code([&] { export_checkpoint(model.tensors, source, directory / "out", options); },
                    is_stop ? ErrorCode::load_failed_partial : ErrorCode::io_error);
        EXPECT_TRUE(directory.names().empty());
      }
    }
  }
}

TEST(Export, ProgressEndsAtTheTotal) {
  const TemporaryDirectory directory;
  const Model model = small_model();
  MemorySource source = model.source();
  ExportOptions options;
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  options.window_bytes = 64;
  options.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  };
  const ExportResult result = export_checkpoint(model.tensors, source, directory / "out", options);
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, result.bytes_written + result.bytes_verified);
}

TEST(Export, ASourceThatChangesIsRefused) {
  const TemporaryDirectory directory;
  const Model model = small_model();
  MemorySource memory = model.source();
  export_checkpoint(model.tensors, memory, directory / "a");
  const storage::Checkpoint checkpoint = storage::open_checkpoint(directory / "a", {});
  std::filesystem::resize_file(directory / "a/model.safetensors", 20);
  expect_code([&] { CheckpointSource source(checkpoint); }, ErrorCode::file_changed);
}

}  // namespace
}  // namespace weightproof::save
