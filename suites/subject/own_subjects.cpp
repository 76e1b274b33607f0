// SPDX-License-Identifier: Apache-2.0
#include "suites/subject/own_subjects.hpp"

#include <algorithm>
#include <cstring>

#include "loader/core/error.hpp"
#include "loader/exec/engine.hpp"
#include "loader/save/way_back.hpp"
#include "reference/failure.hpp"
#include "reference/model.hpp"
#include "suites/state/native_state.hpp"
#include "suites/verify/load_run.hpp"
#include "suites/verify/native_memory.hpp"
#include "suites/verify/value_explanations.hpp"

namespace weightproof::suites {
namespace {

VerifyOptions verify_options(const LoaderSubjectOptions& options) {
  VerifyOptions out;
  out.family = options.family;
  out.threads = options.threads;
  out.perturbation = options.perturbation;
  return out;
}

class LoaderSubject final : public Subject {
 public:
  LoaderSubject(const std::filesystem::path& path, const LoaderSubjectOptions& options)
      : options_(options),
        verify_options_(verify_options(options)),
        checkpoint_(storage::open_checkpoint(path, {}, options.threads)),
        context_(verify_options_, checkpoint_) {
    if (const std::string why = why_no_load(context_); !why.empty()) {
      throw Error(ErrorCode::usage, "the checkpoint cannot be loaded: " + why);
    }
    inputs_ = load_inputs(context_);
    inputs_.request.route = options.route;
    whole_.emplace(plan::make_plan(inputs_.schema, inputs_.sources, {}, inputs_.request));
    windows_.emplace(inputs_, *whole_, UINT64_MAX);
    storage::FileCalls* calls = &storage::FileCalls::system();
    if (options_.perturbation.load_calls) {
      calls_ = options_.perturbation.load_calls(*calls);
      calls = calls_.get();
    }
    const storage::Checkpoint* checkpoint = &checkpoint_;
    sources_.emplace(exec::SourceFiles::of(std::span(&checkpoint, 1), *calls));
    for (const plan::PlannedTensor& tensor : whole_->tensors()) {
      tensors_.push_back({std::string(tensor.key), tensor.dtype, whole_->shape_of(tensor)});
    }
  }

  std::string name() const override {
    return options_.route ? "loader, route " + std::string(plan::to_string(*options_.route)) : std::string("loader");
  }
  const std::vector<SubjectTensor>& describe() override { return tensors_; }

  void region(std::size_t tensor, const Box& box, std::span<std::byte> target) override {
    const plan::PlannedTensor& planned = whole_->tensors()[tensor];
    const plan::Plan plan = windows_->plan_of(windows_->only(planned, box));
    exec::LoadOptions load;
    if (options_.perturbation.first_load) {
      options_.perturbation.first_load(plan, load);
    }
    const exec::LoadAttempt attempt = exec::load(plan, *sources_, load);
    attempt.require_complete();
    const std::span<const std::byte> bytes = attempt.bytes(planned.key);
    std::memcpy(target.data(), bytes.data(), std::min(bytes.size(), target.size()));
    note(attempt);
  }

  // By way of the whole native state in memory: for checkpoints that fit.
  void export_to(const std::filesystem::path& target) override {
    const exec::LoadAttempt attempt = exec::load(*whole_, *sources_, {});
    attempt.require_complete();
    NativeMemory memory(*whole_);
    std::vector<NativePart> parts;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const Box box = Box::whole(tensors_[i].shape);
      parts.push_back({static_cast<std::uint32_t>(i), cover(tensors_[i].shape, std::span(&box, 1)), attempt.bytes(i)});
    }
    memory.hold(std::move(parts));
    const exec::SourceFiles natives({{"native state", "native state", std::nullopt}}, memory);
    StateOptions as_stored;
    as_stored.schema = inputs_.schema.get();
    as_stored.has_codec_shapes = true;
    const DecodedState state(checkpoint_, as_stored);
    const std::vector<save::ExportTensor> wanted = restorable(*whole_, state);
    const save::WayBack way = save::way_back(*inputs_.schema, wanted);
    save::RestoredSource source(way, wanted, memory.catalog(), {},
                                [&](const plan::Plan& back) { return exec::load(back, natives, {}); });
    save::ExportOptions options;
    options.threads = options_.threads;
    if (whole_->decodes().empty() && wanted.size() == checkpoint_.catalog.size()) {
      options.layout = save::layout_of(checkpoint_);
    }
    save::export_checkpoint(wanted, source, target, options);
    note(attempt);
  }

  SubjectCounters counters() const override { return {read_bytes_, sources_->opens(), peak_bytes_}; }

 private:
  void note(const exec::LoadAttempt& attempt) {
    read_bytes_ += attempt.counters().read_bytes;
    peak_bytes_ = std::max(peak_bytes_, attempt.memory().of(exec::MemoryKind::host).peak);
  }

  LoaderSubjectOptions options_;
  VerifyOptions verify_options_;
  storage::Checkpoint checkpoint_;
  Context context_;
  LoadInputs inputs_;
  std::optional<plan::Plan> whole_;
  std::optional<LoadWindows> windows_;
  std::unique_ptr<storage::FileCalls> calls_;
  std::optional<exec::SourceFiles> sources_;
  std::vector<SubjectTensor> tensors_;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t peak_bytes_ = 0;
};

[[noreturn]] void cannot_follow(const reference::Failure& failure) {
  throw Error(ErrorCode::internal, std::string("the reference cannot follow: ") + failure.what());
}

class ReferenceSubject final : public Subject {
 public:
  ReferenceSubject(const std::filesystem::path& path, Subject& like, const std::string& family)
      : model_(open(path, family)) {
    std::vector<SubjectTensor> asked = like.describe();
    std::sort(asked.begin(), asked.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    for (const reference::NativeTensor& native : model_.mapping().native_tensors()) {
      if (native.alias_of >= 0) {
        continue;  // one storage with another
      }
      SubjectTensor tensor;
      tensor.key = native.name;
      for (const std::uint64_t extent : native.shape) {
        tensor.shape.push_back(extent);
      }
      const auto found =
          std::lower_bound(asked.begin(), asked.end(), tensor.key,
                           [](const SubjectTensor& row, const std::string& key) { return row.key < key; });
      if (found != asked.end() && found->key == tensor.key) {
        tensor.dtype = found->dtype;
      }
      tensors_.push_back(std::move(tensor));
    }
  }

  std::string name() const override { return "reference"; }
  const std::vector<SubjectTensor>& describe() override { return tensors_; }
  void region(std::size_t tensor, const Box& box, std::span<std::byte> target) override {
    const SubjectTensor& row = tensors_[tensor];
    reference::Box asked;
    for (unsigned axis = 0; axis < box.start.rank(); ++axis) {
      asked.start.push_back(box.start[axis]);
      asked.extent.push_back(box.length[axis]);
    }
    try {
      const auto dtype = reference_dtype(row.dtype);
      const reference::Bytes bytes = dtype ? model_.region(row.key, asked, *dtype) : model_.region(row.key, asked);
      std::memcpy(target.data(), bytes.data(), std::min(bytes.size(), target.size()));
    } catch (const reference::Failure& failure) {
      cannot_follow(failure);
    }
  }
  void export_to(const std::filesystem::path&) override {
    throw Error(ErrorCode::usage, "the reference writes no checkpoints");
  }
  SubjectCounters counters() const override { return {}; }

 private:
  static reference::Model open(const std::filesystem::path& path, const std::string& family) {
    try {
      reference::ModelOptions options;
      options.family = family;
      return reference::Model::open(path, options);
    } catch (const reference::Failure& failure) {
      cannot_follow(failure);
    }
  }

  reference::Model model_;
  std::vector<SubjectTensor> tensors_;
};

}  // namespace

std::unique_ptr<Subject> loader_subject(const std::filesystem::path& checkpoint, const LoaderSubjectOptions& options) {
  return std::make_unique<LoaderSubject>(checkpoint, options);
}

std::unique_ptr<Subject> reference_subject(const std::filesystem::path& checkpoint, Subject& like,
                                           const std::string& family) {
  return std::make_unique<ReferenceSubject>(checkpoint, like, family);
}

}  // namespace weightproof::suites
