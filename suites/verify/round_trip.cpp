// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/round_trip.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <system_error>

#include "loader/exec/engine.hpp"
#include "loader/save/way_back.hpp"
#include "suites/state/native_state.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/native_memory.hpp"

namespace weightproof::suites {
namespace {

namespace fs = std::filesystem;

// Takes what an export writes and compares it with the files of the source that have those names.
class ComparingCalls final : public save::WriteCalls {
 public:
  ComparingCalls(const storage::Checkpoint& source, fs::path root, RoundTrip& result)
      : source_(source), root_(std::move(root)), result_(result) {}
  ~ComparingCalls() override {
    for (const auto& [fd, file] : open_) {
      ::close(fd);
    }
  }

  int open(const char* path, int flags, ::mode_t mode) override {
    if ((flags & O_CREAT) == 0) {
      return ::open(path, flags, mode);  // a directory that is made durable
    }
    const int fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
      return fd;
    }
    // Behind the name of the staging directory.
    const fs::path inside = fs::path(path).lexically_relative(root_);
    const std::string name = inside.lexically_relative(*inside.begin()).string();
    Written written{name, 0, nullptr, 0};
    std::error_code error;
    const fs::path original = source_.root / name;
    if (fs::is_regular_file(original, error)) {
      written.original = std::make_unique<storage::File>(storage::File::open(original, name));
      written.size = written.original->size();
    } else {
      result_.files_found.add(name, {}, " was written and is no file of the source");
    }
    names_.insert(name);
    open_.insert_or_assign(fd, std::move(written));
    return fd;
  }
  int fallocate(int, std::int64_t) override { return 0; }
  std::int64_t pwrite(int fd, const void* buffer, std::size_t bytes, std::int64_t offset) override {
    Written& written = open_.at(fd);
    compare(written, static_cast<std::uint64_t>(offset), {static_cast<const std::byte*>(buffer), bytes});
    written.done += bytes;
    return static_cast<std::int64_t>(bytes);
  }
  int fsync(int) override { return 0; }
  int close(int fd) override {
    const auto found = open_.find(fd);
    if (found != open_.end()) {
      const Written& written = found->second;
      if (written.original && written.done != written.size) {
        result_.files_found.add(written.name, {},
                                " has " + grouped(written.done) + " bytes, in the source " + grouped(written.size));
      }
      open_.erase(found);
    }
    return ::close(fd);
  }
  int rename(const char*, const char*, unsigned) override { return 0; }

  void finish() {
    for (const storage::Shard& shard : source_.shards) {
      if (names_.count(shard.name) == 0) {
        result_.files_found.add(shard.name, {}, " was not written again");
      }
    }
    if (source_.index && names_.count(source_.index->file) == 0) {
      result_.files_found.add(source_.index->file, {}, " was not written again");
    }
  }

 private:
  struct Written {
    std::string name;
    std::uint64_t done = 0;
    std::unique_ptr<storage::File> original;
    std::uint64_t size = 0;
  };

  void compare(const Written& written, std::uint64_t offset, std::span<const std::byte> bytes) {
    if (!written.original || offset >= written.size) {
      return;  // told when it is closed
    }
    buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), written.size - offset)));
    written.original->read(offset, buffer_);
    result_.bytes += buffer_.size();
    std::size_t at = 0;
    while (at < buffer_.size() && std::memcmp(bytes.data() + at, buffer_.data() + at, buffer_.size() - at) != 0) {
      const auto [ours, theirs] = std::mismatch(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                                                bytes.begin() + static_cast<std::ptrdiff_t>(buffer_.size()),
                                                buffer_.begin() + static_cast<std::ptrdiff_t>(at));
      at = blame(written, offset, static_cast<std::size_t>(ours - bytes.begin()));
    }
  }

  // Names what lies there; answers from where on something else lies.
  std::size_t blame(const Written& written, std::uint64_t offset, std::size_t at) {
    const std::uint64_t place = offset + at;
    for (const StoredTensor& row : source_.catalog.tensors()) {
      if (source_.shards[row.file].name != written.name || place < row.begin || place >= row.begin + row.bytes) {
        continue;
      }
      const std::uint64_t element = (place - row.begin) * 8 / bits_of(row.dtype);
      result_.tensors_found.add(row.key, to_string(coordinate_of(row.shape, element)),
                                " came back otherwise than it was read from " + written.name);
      return static_cast<std::size_t>(std::min<std::uint64_t>(row.begin + row.bytes - offset, buffer_.size()));
    }
    result_.files_found.add(written.name, {},
                            ": its byte " + grouped(place) + ", outside of all tensors, came back otherwise");
    return buffer_.size();
  }

  const storage::Checkpoint& source_;
  fs::path root_;
  RoundTrip& result_;
  std::map<int, Written> open_;
  std::set<std::string> names_;
  std::vector<std::byte> buffer_;
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "weightproof-round-trip-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorCode::io_error, "no temporary directory can be made: " + std::generic_category().message(errno));
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

LocalTensor nothing_of(const Shape& shape) { return {shape.rank() == 0 ? Shape{0} : Shape{}, {}}; }

class Traveller {
 public:
  Traveller(Context& context, std::uint64_t budget, bool is_enforced, RoundTrip& result)
      : context_(context),
        result_(result),
        inputs_(load_inputs(context)),
        whole_(plan::make_plan(inputs_.schema, inputs_.sources, {}, inputs_.request)),
        memory_(whole_),
        // There, back, a window of the export, and some room for natives of which more is loaded than is wanted.
        window_bytes_(std::max<std::uint64_t>(budget / 5, 64U << 10U)) {
    if (is_enforced) {
      // Metadata of both ways is stated with the first.
      staging_bytes_ =
          std::min<std::uint64_t>(budget / 6, limits::staging_bytes_max) + 2 * whole_.memory().metadata_bytes;
      inputs_.request.budget_bytes = staging_bytes_;
    }
    const storage::Checkpoint* checkpoint = &context_.checkpoint;
    sources_.emplace(exec::SourceFiles::of(std::span(&checkpoint, 1), file_calls()));
    back_sources_.emplace(std::vector<exec::SourceFile>{{"native state", "native state", std::nullopt}}, memory_);
  }

  void travel();

 private:
  storage::FileCalls& file_calls() const {
    return context_.options.calls != nullptr ? *context_.options.calls : storage::FileCalls::system();
  }
  void list_wanted();
  bool has_doubles() const;
  bool has_true_totals() const;
  exec::LoadAttempt execute(const plan::Plan& back);
  // Loads the parts of natives that a plan of the way back reads.
  void bring(const plan::Plan& back);
  void compare_files(save::RestoredSource& source);
  void compare_tensors(save::RestoredSource& source);

  Context& context_;
  RoundTrip& result_;
  LoadInputs inputs_;
  plan::Plan whole_;
  NativeMemory memory_;
  std::uint64_t window_bytes_;
  std::optional<std::uint64_t> staging_bytes_;
  std::optional<exec::SourceFiles> sources_;
  std::optional<exec::SourceFiles> back_sources_;
  std::vector<save::ExportTensor> wanted_;
  std::unique_ptr<DecodedState> state_;
  std::shared_ptr<const Schema> passed_schema_;
  // What is in memory: plans outlive their loads.
  std::optional<plan::PlanBasis> bases_[2];
  std::unique_ptr<plan::Plan> plans_[2];
  std::optional<exec::LoadAttempt> loads_[2];
};

// Everything that was loaded, as it is stored or decodes, in the order of the catalog.
void Traveller::list_wanted() {
  StateOptions options;
  options.schema = inputs_.schema.get();
  options.has_codec_shapes = true;
  state_ = std::make_unique<DecodedState>(context_.checkpoint, options);
  wanted_ = restorable(whole_, *state_);
  SchemaBuilder builder(std::string(inputs_.schema->family()));
  bool has_passed = false;
  for (const save::ExportTensor& tensor : wanted_) {
    if (inputs_.schema->find_stored(tensor.key) == k_no_id) {
      builder.rename(tensor.key, inputs_.schema->passed_native_name(tensor.key), tensor.shape, DTypeRule::any);
      has_passed = true;
    }
  }
  if (has_passed) {
    builder.drop("*", "loaded with the model");
    passed_schema_ = std::make_shared<const Schema>(std::move(builder).finish());
  }
}

void Traveller::bring(const plan::Plan& back) {
  std::map<plan::Row, std::vector<Box>> boxes;
  for (const plan::Move& move : back.moves()) {
    if (move.row != plan::k_no_row && move.action == plan::Action::write &&
        back.source_view(move).element_count() != 0) {
      const Shape& shape = back.catalog().tensors()[move.row].shape;
      boxes[move.row].push_back(move.route == plan::Route::materialized || bits_of(move.source_dtype) % 8 != 0
                                    ? Box::whole(shape)
                                    : hull_of(back.source_view(move), shape));
    }
  }
  memory_.hold({});
  std::vector<NativePart> parts;
  for (const bool is_passed : {false, true}) {
    loads_[is_passed ? 1 : 0].reset();
    plans_[is_passed ? 1 : 0].reset();
    const std::shared_ptr<const Schema>& schema = is_passed ? passed_schema_ : inputs_.schema;
    if (!schema) {
      continue;
    }
    plan::RankPlacement placement;
    placement.has_passthrough = false;
    for (const NativeTensor& tensor : schema->native_tensors()) {
      placement.locals.push_back(nothing_of(schema->shape_of(tensor)));
    }
    std::vector<std::pair<plan::Row, NativeId>> held;
    for (const auto& [row, list] : boxes) {
      const StoredTensor& native = memory_.catalog()->tensors()[row];
      const NativeId id = schema->find_native(native.key);
      if (id != k_no_id) {
        placement.locals[id] = cover(native.shape, list);
        held.emplace_back(row, id);
      }
    }
    if (held.empty()) {
      continue;
    }
    std::optional<plan::PlanBasis>& basis = bases_[is_passed ? 1 : 0];
    if (!basis) {
      plan::Request request = inputs_.request;
      if (is_passed) {
        request.decodes.clear();
        request.keys = {};
      }
      basis.emplace(schema, inputs_.sources, request);
    }
    auto& plan = plans_[is_passed ? 1 : 0];
    plan = std::make_unique<plan::Plan>(basis->plan(placement));
    auto& load = loads_[is_passed ? 1 : 0];
    load = exec::load(*plan, *sources_, {});
    load->require_complete();
    for (const auto& [row, id] : held) {
      parts.push_back({row, placement.locals[id], load->bytes(memory_.catalog()->tensors()[row].key)});
    }
  }
  memory_.hold(std::move(parts));
}

exec::LoadAttempt Traveller::execute(const plan::Plan& back) {
  bring(back);
  exec::LoadOptions options;
  if (context_.options.perturbation.back_load) {
    context_.options.perturbation.back_load(back, options);
  }
  exec::LoadAttempt attempt = exec::load(back, *back_sources_, options);
  ++result_.windows;
  return attempt;
}

void Traveller::compare_files(save::RestoredSource& source) {
  const TemporaryFolder folder;
  ComparingCalls calls(context_.checkpoint, folder.path(), result_);
  save::ExportOptions options;
  options.layout = save::layout_of(context_.checkpoint);
  options.is_verified = false;  // what is written is compared at once
  options.threads = 1;
  options.window_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(options.window_bytes, window_bytes_));
  options.calls = &calls;
  if (context_.options.perturbation.way_back) {
    context_.options.perturbation.way_back(options);
  }
  const fs::path target = context_.checkpoint.kind == storage::CheckpointKind::single_file
                              ? folder.path() / context_.checkpoint.shards.front().name
                              : folder.path() / "export";
  save::export_checkpoint(wanted_, source, target, options);
  calls.finish();
}

void Traveller::compare_tensors(save::RestoredSource& source) {
  std::vector<std::size_t> order(wanted_.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  source.begin_file(order);
  std::vector<std::byte> ours;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    bool is_different = false;
    state_->stream(*state_->find(wanted_[i].key), [&](std::uint64_t offset, std::span<const std::byte> theirs) {
      ours.resize(theirs.size());
      source.read(i, offset, ours);
      result_.bytes += ours.size();
      if (!is_different && std::memcmp(ours.data(), theirs.data(), ours.size()) != 0) {
        is_different = true;
        const auto at = std::mismatch(ours.begin(), ours.end(), theirs.begin()).first - ours.begin();
        const std::uint64_t element = (offset + static_cast<std::uint64_t>(at)) * 8 / bits_of(wanted_[i].dtype);
        result_.tensors_found.add(wanted_[i].key, to_string(coordinate_of(wanted_[i].shape, element)),
                                  " came back otherwise than it was read");
      }
    });
  }
}

bool Traveller::has_doubles() const {
  std::size_t tensors = 0;
  for (const storage::Shard& shard : context_.checkpoint.shards) {
    tensors += shard.header ? shard.header->tensors.size() : 0;
  }
  return tensors != context_.checkpoint.catalog.size();
}

bool Traveller::has_true_totals() const {
  const auto& index = context_.checkpoint.index;
  std::uint64_t elements = 0;
  for (const StoredTensor& row : context_.checkpoint.catalog.tensors()) {
    elements += element_count(row.shape).value_or(0);
  }
  return !index ||
         (index->total_size.value_or(context_.checkpoint.catalog.bytes()) == context_.checkpoint.catalog.bytes() &&
          index->total_parameters.value_or(elements) == elements);
}

void Traveller::travel() {
  list_wanted();
  result_.tensors = wanted_.size();
  const save::WayBack way = save::way_back(*inputs_.schema, wanted_);
  save::RestoredSource::Options options;
  options.window_bytes = window_bytes_;
  options.threads = context_.options.threads;
  options.budget_bytes = staging_bytes_;
  save::RestoredSource source(way, wanted_, memory_.catalog(), options,
                              [this](const plan::Plan& back) { return execute(back); });
  const std::size_t left_out = context_.checkpoint.catalog.size() - wanted_.size();
  if (!inputs_.request.decodes.empty()) {
    result_.why_no_files = "quantized tensors come back decoded";
  } else if (has_doubles()) {
    result_.why_no_files = "a tensor is stored twice";
  } else if (!has_true_totals()) {
    result_.why_no_files = "the index states other totals than the files have";
  } else if (left_out != 0) {
    result_.why_no_files = counted(left_out, "stored tensor is", "stored tensors are") + " left out on purpose";
  }
  result_.has_files = result_.why_no_files.empty();
  if (result_.has_files) {
    compare_files(source);
  } else {
    compare_tensors(source);
  }
}

}  // namespace

RoundTrip make_round_trip(Context& context, std::uint64_t budget_bytes, bool is_enforced) {
  RoundTrip result;
  try {
    Traveller(context, budget_bytes, is_enforced, result).travel();
  } catch (const Error& error) {
    result.error = error;
  }
  return result;
}

}  // namespace weightproof::suites
