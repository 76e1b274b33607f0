// SPDX-License-Identifier: Apache-2.0
#include "loader/core/catalog.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "loader/core/error.hpp"
#include "loader/core/key_table_internal.hpp"

namespace weightproof {
namespace {

constexpr std::size_t k_block_bytes = 64 * 1024;

auto keys_of(const std::vector<StoredTensor>& tensors) {
  return [&tensors](std::uint32_t position) { return tensors[position].key; };
}

std::string file_text(const std::vector<std::string>& files, std::uint32_t file) {
  return file < files.size() ? files[file] : "file " + std::to_string(file);
}

}  // namespace

const StoredTensor* Catalog::find(std::string_view key) const {
  const std::size_t position = index_of(key);
  return position == SIZE_MAX ? nullptr : &tensors_[position];
}

std::size_t Catalog::index_of(std::string_view key) const {
  const std::uint32_t position = detail::find_key(slots_, key, detail::key_hash(key), keys_of(tensors_));
  return position == detail::k_not_found ? SIZE_MAX : position;
}

void Catalog::find_all(std::span<const std::string_view> keys, std::span<std::uint32_t> positions) const {
  WEIGHTPROOF_ASSERT(keys.size() == positions.size());
  detail::find_keys(
      slots_, keys.size(), [&](std::size_t i) { return keys[i]; }, keys_of(tensors_),
      [&](std::uint32_t position) { return &tensors_[position]; },
      [&](std::size_t i, std::uint32_t position) { positions[i] = position; });
}

void CatalogBuilder::reserve(std::size_t tensors) {
  tensors = std::min(tensors, limits::tensors_max);
  catalog_.tensors_.reserve(tensors);
  hashes_.reserve(tensors);
  detail::reserve_keys(catalog_.slots_, tensors, hashes_);
}

std::uint32_t CatalogBuilder::add_file(std::string relative_path) {
  catalog_.files_.push_back(std::move(relative_path));
  return static_cast<std::uint32_t>(catalog_.files_.size() - 1);
}

void CatalogBuilder::keep_alive(std::shared_ptr<const void> keep) { catalog_.keep_alive_.push_back(std::move(keep)); }

void CatalogBuilder::add(const StoredTensor& tensor) {
  const std::uint32_t hash = detail::key_hash(tensor.key);
  const auto key_of = keys_of(catalog_.tensors_);
  const std::uint32_t known = detail::find_key(catalog_.slots_, tensor.key, hash, key_of);
  if (known != detail::k_not_found) {
    const std::string first = file_text(catalog_.files_, catalog_.tensors_[known].file);
    const std::string second = file_text(catalog_.files_, tensor.file);
    ErrorFacts facts;
    facts.file = second;
    facts.keys = {std::string(tensor.key)};
    facts.expected = "each tensor in one file";
    facts.actual = first + " and " + second;
    facts.hint = "remove one of the two copies, or name the right one in an index";
    throw Error(ErrorCode::duplicate_tensor,
                "tensor '" + std::string(tensor.key) + "' is stored in " + first + " and again in " + second,
                std::move(facts));
  }
  if (catalog_.tensors_.size() >= limits::tensors_max) {
    ErrorFacts facts;
    facts.file = file_text(catalog_.files_, tensor.file);
    facts.expected = "at most " + std::to_string(limits::tensors_max) + " tensors";
    facts.check = "format.limits";
    throw Error(ErrorCode::limit_exceeded,
                "the checkpoint has more than " + std::to_string(limits::tensors_max) + " tensors", std::move(facts));
  }
  catalog_.tensors_.push_back(tensor);
  detail::insert_key(catalog_.slots_, hash, hashes_);
  catalog_.is_described_ = catalog_.is_described_ && tensor.is_described;
  if (tensor.is_described && __builtin_add_overflow(catalog_.bytes_, tensor.bytes, &catalog_.bytes_)) {
    catalog_.bytes_ = UINT64_MAX;  // only a synthetic catalog gets here
  }
}

void CatalogBuilder::add_copy(StoredTensor tensor) {
  const std::size_t size = tensor.key.size();
  if (!owned_) {
    owned_ = std::make_shared<std::vector<std::unique_ptr<char[]>>>();
    catalog_.keep_alive_.push_back(owned_);
  }
  if (owned_->empty() || block_size_ - block_used_ < size) {
    block_size_ = std::max(k_block_bytes, size);
    block_used_ = 0;
    owned_->push_back(std::make_unique<char[]>(block_size_));
  }
  char* copy = owned_->back().get() + block_used_;
  if (size != 0) std::memcpy(copy, tensor.key.data(), size);
  tensor.key = std::string_view(copy, size);
  add(tensor);
  block_used_ += size;
}

const StoredTensor* CatalogBuilder::find(std::string_view key) const { return catalog_.find(key); }

Catalog CatalogBuilder::finish() && { return std::move(catalog_); }

}  // namespace weightproof
