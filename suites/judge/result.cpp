// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/result.hpp"

#include <algorithm>

#include "loader/core/error.hpp"
#include "loader/storage/file.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::judge {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(ErrorCode code, std::string message, ErrorFacts facts) {
  throw Error(code, std::move(message), std::move(facts));
}

/// Throws where one entry is no plain file or directory; adds its size.
void look_at(const fs::directory_entry& entry, const std::string& shown, std::uint64_t bytes_max,
             std::uint64_t& bytes) {
  const fs::file_status status = entry.symlink_status();
  if (fs::is_directory(status)) {
    return;
  }
  ErrorFacts facts;
  facts.file = shown;
  if (!fs::is_regular_file(status)) {
    facts.expected = "plain files and directories";
    facts.hint = "write the answer itself, not a link or a device";
    refuse(ErrorCode::io_error, "the answer holds " + printable(shown) + ", which is no plain file", facts);
  }
  bytes += entry.file_size();
  if (bytes > bytes_max) {
    facts.expected = "at most " + grouped(bytes_max) + " bytes";
    facts.actual = "more";
    refuse(ErrorCode::limit_exceeded, "the answer is larger than " + human_bytes(bytes_max), facts);
  }
}

/// Nothing is opened before this: a link to a device or a pipe would never end.
bool is_directory_of_files(const fs::path& path, std::uint64_t bytes_max) {
  std::error_code error;
  const fs::directory_entry top(path, error);
  if (error || !fs::exists(top.symlink_status(error))) {
    ErrorFacts facts;
    facts.expected = path.filename().string();
    facts.hint = "write one .safetensors file or a directory at the path \"output\" of the request";
    refuse(ErrorCode::no_checkpoint_found, "the subject ended well and wrote nothing", facts);
  }
  std::uint64_t bytes = 0;
  look_at(top, path.filename().string(), bytes_max, bytes);
  if (!fs::is_directory(top.symlink_status())) {
    return false;
  }
  std::uint64_t entries = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    if (++entries > k_result_entries_max) {
      refuse(ErrorCode::limit_exceeded, "the answer has more than " + grouped(k_result_entries_max) + " files", {});
    }
    look_at(entry, entry.path().lexically_relative(path).string(), bytes_max, bytes);
  }
  return true;
}

}  // namespace

Result::Result(const fs::path& path, Wanted wanted, std::uint64_t bytes_max) {
  try {
    is_directory_ = is_directory_of_files(path, bytes_max);
  } catch (const fs::filesystem_error& failure) {
    refuse(ErrorCode::io_error, std::string("the answer cannot be listed: ") + failure.code().message(), {});
  }
  checkpoint_ = std::make_unique<storage::Checkpoint>(storage::open_checkpoint(path, {}));
  if (wanted == Wanted::exported) {
    try {
      decoded_ = std::make_unique<DecodedState>(*checkpoint_, StateOptions{});
    } catch (const Error& error) {
      if (class_of(error.code()) != ErrorClass::quant) {
        throw;
      }
      quant_fault_ = error;
    }
  }
  if (decoded_) {
    for (std::size_t i = 0; i < decoded_->tensors().size(); ++i) {
      const StateTensor& row = decoded_->tensors()[i];
      tensors_.push_back({row.key, row.shape, row.dtype, row.bytes, i});
    }
  } else {
    files_.resize(checkpoint_->shards.size());
    for (std::size_t i = 0; i < checkpoint_->catalog.size(); ++i) {
      const StoredTensor& row = checkpoint_->catalog.tensors()[i];
      tensors_.push_back({std::string(row.key), row.shape, row.dtype, row.bytes, i});
    }
    for (std::uint32_t i = 0; i < files_.size(); ++i) {
      const storage::Shard& shard = checkpoint_->shards[i];
      files_[i] = std::make_unique<storage::File>(storage::File::open(checkpoint_->path_of(i), shard.name));
      files_[i]->require_identity(shard.header->identity);
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
}

const Result::Tensor* Result::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const Tensor& row, std::string_view text) { return row.name < text; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

void Result::read(const Tensor& tensor, std::uint64_t offset, std::span<std::byte> target) const {
  if (decoded_) {
    decoded_->read(decoded_->tensors()[tensor.row], offset, target);
    return;
  }
  const StoredTensor& row = checkpoint_->catalog.tensors()[tensor.row];
  files_[row.file]->read(row.begin + offset, target);
}

}  // namespace weightproof::suites::judge
