// SPDX-License-Identifier: Apache-2.0
// What tests of single checks share: small checkpoints, mutants by their names, and calls that do nothing of their own.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "loader/storage/file.hpp"
#include "suites/mutants/mutant.hpp"
#include "suites/tests/literal_testing.hpp"

namespace weightproof::suites::test {

using Names = std::vector<std::string>;

inline const std::string k_query = "model.layers.0.self_attn.q_proj.weight";
inline const std::string k_up = "model.layers.0.mlp.up_proj.weight";

/// llama of one layer, everything two wide.
std::string llama_config(bool is_tied = false);

/// DIRECTORY/model as the fixtures make it.
std::filesystem::path made(const TemporaryDirectory& directory, const std::string& family, const std::string& preset,
                           const std::string& fault = {});

/// Throws std::runtime_error where there is none.
const Mutant& mutant_named(const std::vector<Mutant>& all, std::string_view id);

/// The mutant's checkpoint, with or without what it does wrong; `topology` instead of its own.
reports::Report judged_by(const Mutant& mutant, bool is_wrong, const std::string& topology = {});

class PlainCalls : public storage::FileCalls {
 public:
  explicit PlainCalls(storage::FileCalls& inner) : inner_(inner) {}
  int open(const char* path, int flags) override { return inner_.open(path, flags); }
  std::int64_t pread(int fd, void* buffer, std::size_t bytes, std::int64_t offset) override {
    return inner_.pread(fd, buffer, bytes, offset);
  }
  std::int64_t preadv(int fd, const ::iovec* parts, int count, std::int64_t offset) override {
    return inner_.preadv(fd, parts, count, offset);
  }

 private:
  storage::FileCalls& inner_;
};

}  // namespace weightproof::suites::test
