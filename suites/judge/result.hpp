// SPDX-License-Identifier: Apache-2.0
// What a subject answered: untrusted files. Looked at before anything is opened, read by the strict header scanner, in
// windows. Whatever is wrong with them is an Error, never more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/core/dtype.hpp"
#include "loader/core/error.hpp"
#include "loader/core/shape.hpp"
#include "loader/storage/checkpoint.hpp"
#include "suites/judge/cases.hpp"
#include "suites/state/decoded_state.hpp"

namespace weightproof::suites::judge {

/// Files and directories that an answer may consist of.
inline constexpr std::uint64_t k_result_entries_max = 10'000;

class Result {
 public:
  /// `path`: one .safetensors file or a directory. A state is taken as it is; an exported checkpoint may be quantized
  /// and is then decoded. Throws Error: no_checkpoint_found where there is nothing, limit_exceeded past `bytes_max`,
  /// io_error for what is no plain file, and what readers of checkpoints throw.
  Result(const std::filesystem::path& path, Wanted wanted, std::uint64_t bytes_max);

  struct Tensor {
    std::string name;
    Shape shape;
    DType dtype = DType::bf16;
    std::uint64_t bytes = 0;
    std::size_t row = 0;
  };
  /// Sorted by name.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;
  /// Dense row-major bytes from `offset`; whole elements.
  void read(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> target) const;
  const storage::Checkpoint& checkpoint() const { return *checkpoint_; }
  bool is_directory() const { return is_directory_; }
  /// What config and tensors of an exported checkpoint disagree on; its tensors are then taken as they are stored.
  const std::optional<Error>& quant_fault() const { return quant_fault_; }

 private:
  std::unique_ptr<storage::Checkpoint> checkpoint_;
  std::unique_ptr<DecodedState> decoded_;  ///< of an exported checkpoint
  std::vector<std::unique_ptr<storage::File>> files_;
  std::vector<Tensor> tensors_;
  bool is_directory_ = false;
  std::optional<Error> quant_fault_;
};

}  // namespace weightproof::suites::judge
