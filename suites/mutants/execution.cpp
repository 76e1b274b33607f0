// SPDX-License-Identifier: Apache-2.0
// Mutants of execution: a load that does not do exactly what its plan says. Each meets a copy that is direct, one that
// is strided and one that decodes, in the load that is compared with the reference, in the one that is compared with
// the first, and in both.
#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "loader/exec/engine.hpp"
#include "loader/plan/plan.hpp"
#include "loader/storage/header.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/verify/instrumented.hpp"

namespace weightproof::suites {
namespace {

using LoadHook = std::function<void(const plan::Plan&, exec::LoadOptions&)>;

LoadHook fault_in(exec::Fault fault, std::string tensor) {
  return [faults = std::make_shared<exec::Faults>(), fault, tensor = std::move(tensor)](const plan::Plan& plan,
                                                                                        exec::LoadOptions& options) {
    const auto tensors = plan.tensors();
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].key == tensor) {
        *faults = {fault, i, 0};
        options.faults = faults.get();
      }
    }
  };
}

// Takes memory that no plan knows of, from an allocator without a limit.
LoadHook with_memory(exec::Purpose purpose) {
  struct Extra {
    exec::Allocator allocator;
    exec::Charge charge;
  };
  return [extra = std::make_shared<Extra>(), purpose](const plan::Plan&, exec::LoadOptions& options) {
    extra->charge = extra->allocator.charge(exec::MemoryKind::host, purpose, 1);
    options.allocator = &extra->allocator;
  };
}

// Takes memory that no allocator sees.
class Hoard final : public exec::ProgressSink {
 public:
  void advance(std::uint64_t, std::uint64_t) override {
    const std::lock_guard lock(mutex_);
    if (memory_.empty()) {
      memory_.assign(std::size_t{48} << 20U, std::byte{1});
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::byte> memory_;
};

// Looks at every file once more than it needs to.
class TwiceOpening final : public storage::FileCalls {
 public:
  explicit TwiceOpening(storage::FileCalls& inner) : inner_(inner) {}
  int open(const char* path, int flags) override {
    const storage::File probe = storage::File::open(path, "probe", inner_);
    return inner_.open(path, flags);
  }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    return inner_.pread(fd, buffer, bytes, offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    return inner_.preadv(fd, parts, count, offset);
  }

 private:
  storage::FileCalls& inner_;
};

// Reads everything twice.
class TwiceReading final : public storage::FileCalls {
 public:
  explicit TwiceReading(storage::FileCalls& inner) : inner_(inner) {}
  int open(const char* path, int flags) override { return inner_.open(path, flags); }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    inner_.pread(fd, buffer, bytes, offset);
    return inner_.pread(fd, buffer, bytes, offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    inner_.preadv(fd, parts, count, offset);
    return inner_.preadv(fd, parts, count, offset);
  }

 private:
  storage::FileCalls& inner_;
};

// Reads one tensor twice, and everything else once.
class TensorTwice final : public storage::FileCalls {
 public:
  TensorTwice(storage::FileCalls& inner, std::string tensor) : inner_(inner), tensor_(std::move(tensor)) {}
  int open(const char* path, int flags) override {
    // Past those who count.
    const storage::Header header = storage::read_header(storage::File::open(path, "probe"));
    const int fd = inner_.open(path, flags);
    const std::lock_guard lock(mutex_);
    places_.erase(fd);
    for (const storage::HeaderTensor& row : header.tensors) {
      if (row.name == tensor_) {
        places_[fd] = {header.data_begin() + row.begin, header.data_begin() + row.end};
      }
    }
    return fd;
  }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    const std::int64_t read = inner_.pread(fd, buffer, bytes, offset);
    read_again(fd, read, offset);
    return read;
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    const std::int64_t read = inner_.preadv(fd, parts, count, offset);
    read_again(fd, read, offset);
    return read;
  }

 private:
  void read_again(int fd, std::int64_t bytes, std::int64_t offset) {
    std::pair<std::uint64_t, std::uint64_t> place;
    {
      const std::lock_guard lock(mutex_);
      const auto found = places_.find(fd);
      if (bytes <= 0 || found == places_.end()) {
        return;
      }
      place = found->second;
    }
    const std::uint64_t begin = std::max(place.first, static_cast<std::uint64_t>(offset));
    const std::uint64_t end = std::min(place.second, static_cast<std::uint64_t>(offset + bytes));
    if (begin < end) {
      std::vector<std::byte> scratch(static_cast<std::size_t>(end - begin));
      inner_.pread(fd, scratch.data(), scratch.size(), static_cast<std::int64_t>(begin));
    }
  }
  storage::FileCalls& inner_;
  std::string tensor_;
  std::mutex mutex_;
  std::map<int, std::pair<std::uint64_t, std::uint64_t>> places_;  // of the tensor, by descriptor
};

struct Place {
  std::string_view name;
  fixtures::GenerateOptions fixture;
  std::string tensor;
};

std::vector<Place> places() {
  std::vector<Place> out(4);
  out[0] = {"direct", {}, "model.layers.0.mlp.down_proj.weight"};
  out[0].fixture.family = "llama";
  out[0].fixture.shard_count = 2;
  out[1] = {"strided", {}, "model.layers.0.mlp.experts.gate_and_up_projs"};
  out[1].fixture.family = "qwen3_moe";
  out[1].fixture.preset = "tiny_all_moe";
  out[2] = {"fp8", {}, "model.layers.0.mlp.down_proj.weight"};
  out[2].fixture.family = "mistral3_fp8_causal";
  out[3] = {"mxfp4", {}, "model.layers.0.mlp.experts.down_projs"};
  out[3].fixture.family = "gpt_oss";
  return out;
}

}  // namespace

std::vector<Mutant> execution_mutants() {
  std::vector<Mutant> mutants;
  for (const Place& place : places()) {
    for (const exec::Fault fault : exec::all_faults()) {
      const std::string name(to_string(fault));
      const auto add = [&](const char* where, bool in_first, bool in_second, std::vector<std::string> checks) {
        Mutant mutant;
        mutant.id = "execution." + name + "." + std::string(place.name) + "." + where;
        mutant.kind = "execution";
        mutant.fault = "a load does " + name + " on one tensor";
        mutant.fixture = place.fixture;
        if (in_first) mutant.perturbation.first_load = fault_in(fault, place.tensor);
        if (in_second) mutant.perturbation.second_load = fault_in(fault, place.tensor);
        mutant.tensors = {place.tensor};
        mutant.checks = std::move(checks);
        mutants.push_back(std::move(mutant));
      };
      add("first", true, false, {"value.exact"});
      add("second", false, true,
          {fault == exec::Fault::reuse_early ? std::string("io.poison") : std::string("io.reload")});
      const bool is_skip = fault == exec::Fault::skip_tile || fault == exec::Fault::skip_row ||
                           fault == exec::Fault::skip_byte || fault == exec::Fault::write_to_copy ||
                           fault == exec::Fault::stale_record;
      if (is_skip) add("both", true, true, {"io.sentinel"});
      // Nothing was written, and no row of the ledger says it was.
      if (fault == exec::Fault::skip_tile) add("ledger", true, false, {"io.ledger"});
      add("route", false, false, {"value.routes"});
      mutants.back().perturbation.route_load = fault_in(fault, place.tensor);
    }
  }
  return mutants;
}

std::vector<Mutant> resource_mutants() {
  std::vector<Mutant> mutants(8);
  for (Mutant& mutant : mutants) {
    mutant.kind = "resource";
    mutant.fixture = places()[0].fixture;
  }
  mutants[0].id = "resource.one_byte_more";
  mutants[0].fault = "a load takes one byte that was not predicted";
  mutants[0].perturbation.first_load = with_memory(exec::Purpose::staging);
  mutants[0].checks = {"mem.predicted"};
  mutants[1].id = "resource.temporary_kept";
  mutants[1].fault = "a temporary byte outlives the load";
  mutants[1].perturbation.first_load = with_memory(exec::Purpose::companion);
  mutants[1].checks = {"mem.temporaries"};
  mutants[2].id = "resource.opened_again";
  mutants[2].fault = "every file is opened twice";
  mutants[2].perturbation.load_calls = [](storage::FileCalls& inner) { return std::make_unique<TwiceOpening>(inner); };
  mutants[2].checks = {"io.opens"};
  mutants[3].id = "resource.unseen_memory";
  mutants[3].fault = "a load takes 48 MiB past the allocator";
  mutants[3].perturbation.first_load = [hoard = std::make_shared<Hoard>()](const plan::Plan&,
                                                                           exec::LoadOptions& options) {
    options.progress = hoard.get();
  };
  mutants[3].checks = {"mem.peak"};
  mutants[4].id = "resource.read_twice";
  mutants[4].fault = "every byte is read twice";
  mutants[4].fixture.preset = "small";  // a rank's range may have 4 KiB of company
  mutants[4].perturbation.load_calls = [](storage::FileCalls& inner) { return std::make_unique<TwiceReading>(inner); };
  mutants[4].checks = {"io.amplification"};
  const Place strided = places()[1];
  mutants[5].id = "resource.copied_twice";
  mutants[5].fault = "a tensor is copied out of its buffer twice";
  mutants[5].fixture = strided.fixture;
  mutants[5].perturbation.first_load = fault_in(exec::Fault::copy_twice, strided.tensor);
  mutants[5].tensors = {strided.tensor};
  mutants[5].checks = {"mem.copies"};
  mutants[6].id = "resource.read_again";
  mutants[6].fault = "one tensor of many is read twice";
  mutants[6].fixture.preset = "small";
  // Large beside the company that ranges may have.
  mutants[6].fixture.config_changes = R"({"num_hidden_layers": 2, "intermediate_size": 2048})";
  mutants[6].tensors = {places()[0].tensor};
  mutants[6].perturbation.load_calls = [tensor = places()[0].tensor](storage::FileCalls& inner) {
    return std::make_unique<TensorTwice>(inner, tensor);
  };
  mutants[6].checks = {"io.amplification"};
  mutants[7].id = "resource.tied_read_again";
  mutants[7].fault = "the embedding is read once for each of its names";
  mutants[7].fixture = {};
  mutants[7].fixture.family = "llama";
  mutants[7].fixture.preset = "tiny_tied";
  mutants[7].tensors = {"model.embed_tokens.weight"};
  mutants[7].perturbation.load_calls = [](storage::FileCalls& inner) {
    return std::make_unique<TensorTwice>(inner, "model.embed_tokens.weight");
  };
  mutants[7].checks = {"tied.storage"};
  // Nothing can see it where the process's memory is not the load's.
  if (k_is_instrumented) mutants.erase(mutants.begin() + 3);
  return mutants;
}

}  // namespace weightproof::suites
