// SPDX-License-Identifier: Apache-2.0
#include "reference/safetensors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "reference/detect.hpp"
#include "reference/json.hpp"

namespace weightproof::reference {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t k_open_files_max = 32;

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && std::string_view(text).substr(text.size() - end.size()) == end;
}

// Names in an index are relative to its directory and stay below it.
void check_shard_name(const std::string& name) {
  bool safe =
      !name.empty() && name.front() != '/' && name.find('\0') == std::string::npos && ends_with(name, ".safetensors");
  for (const fs::path& part : fs::path(name)) safe = safe && part != "..";
  if (!safe) throw Failure("UNSAFE_SHARD_PATH", "the index names '" + name + "'");
}

// A cache directory of the hub: the snapshot that refs/main names, or the only one.
fs::path snapshot_of(const fs::path& cache) {
  if (fs::is_regular_file(cache / "refs" / "main")) {
    std::string revision = read_text(cache / "refs" / "main", 1024);
    while (!revision.empty() && (revision.back() == '\n' || revision.back() == '\r')) revision.pop_back();
    if (revision.empty() || revision.find('/') != std::string::npos || revision == "..")
      throw Failure("NO_CHECKPOINT_FOUND", "refs/main names no snapshot");
    return cache / "snapshots" / revision;
  }
  std::vector<fs::path> snapshots;
  for (const auto& item : fs::directory_iterator(cache / "snapshots")) snapshots.push_back(item.path());
  if (snapshots.size() > 1)
    throw Failure("REVISION_AMBIGUOUS", std::to_string(snapshots.size()) + " snapshots, no refs/main");
  if (snapshots.empty()) throw Failure("NO_CHECKPOINT_FOUND", "no snapshot in the cache directory");
  return snapshots[0];
}

}  // namespace

std::uint64_t count_of(const Shape& shape) {
  std::uint64_t count = 1;
  for (std::uint64_t extent : shape) count *= extent;
  return count;
}

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) text += ',';
    text += std::to_string(shape[axis]);
  }
  return text += ']';
}

Box whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

File::File(const fs::path& path)
    : name_(path.filename().string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw Failure("IO_ERROR", "cannot open '" + name_ + "' as a regular file");
  }
  bytes_ = static_cast<std::uint64_t>(status.st_size);
}
File::~File() { ::close(descriptor_); }

void File::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Failure("IO_ERROR", "reading '" + name_ + "': " + std::strerror(errno));
    if (got == 0)
      throw Failure("FILE_CHANGED", "'" + name_ + "' ends before byte " + std::to_string(offset + into.size()));
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

std::string read_text(const fs::path& path, std::uint64_t bytes_max) {
  const File file(path);
  if (file.bytes() > bytes_max) throw Failure("LIMIT_EXCEEDED", "'" + path.filename().string() + "' is too large");
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::vector<std::pair<std::string, std::string>> read_index(const fs::path& index) {
  Json root;
  try {
    root = parse_json(read_text(index));
  } catch (const Failure& failure) {
    throw Failure("INDEX_INVALID", index.filename().string() + ": " + failure.what());
  }
  const Json* map = root.find("weight_map");
  if (map == nullptr || !map->is_object()) throw Failure("INDEX_INVALID", "no weight_map object in the index");
  std::vector<std::pair<std::string, std::string>> names;
  std::set<std::string> seen;
  for (const auto& [key, shard] : *map->object()) {
    if (!shard.text()) throw Failure("INDEX_INVALID", "weight_map maps '" + key + "' to something that is not a name");
    if (!seen.insert(key).second) throw Failure("DUPLICATE_KEY", "weight_map names '" + key + "' twice");
    check_shard_name(*shard.text());
    names.emplace_back(key, *shard.text());
  }
  return names;
}

void Checkpoint::add_file(const fs::path& path, std::vector<TensorEntry>& into) {
  const File file(path);
  Bytes text(static_cast<std::size_t>(std::min<std::uint64_t>(file.bytes(), 8)));
  file.read(0, text);
  if (text.size() == 8) {
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(text[i]) << (8 * i);
    if (length <= 100'000'000 && 8 + length <= file.bytes()) {  // Otherwise parse_header says which rule is broken.
      text.resize(static_cast<std::size_t>(8 + length));
      file.read(8, std::span(text).subspan(8));
    }
  }
  Header header;
  try {
    header = parse_header(text, file.bytes());
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), "'" + path.filename().string() + "': " + failure.what());
  }
  for (TensorEntry& entry : header.tensors) {
    entry.file = files_.size();
    into.push_back(std::move(entry));
  }
  for (auto& [name, value] : header.metadata) metadata_[name] = value;
  files_.push_back(path);
}

Checkpoint Checkpoint::open(const fs::path& path) {
  try {
    return open_selected(fs::is_directory(path / "snapshots") ? snapshot_of(path) : path);
  } catch (const fs::filesystem_error& error) {
    throw Failure("IO_ERROR", "'" + path.filename().string() + "': " + error.code().message());
  }
}

Checkpoint Checkpoint::open_selected(const fs::path& path) {
  Checkpoint checkpoint;
  std::vector<TensorEntry> found;
  fs::path index;
  if (fs::is_directory(path)) {
    checkpoint.directory_ = path;
    index = path / "model.safetensors.index.json";
  } else if (fs::is_regular_file(path)) {
    checkpoint.directory_ = path.parent_path();
    const std::string name = path.filename().string();
    if (ends_with(name, ".bin") || ends_with(name, ".pt") || ends_with(name, ".pth"))
      throw Failure("LEGACY_PICKLE_CHECKPOINT", "'" + name + "' is a pickle file");
    if (!ends_with(name, ".safetensors")) index = path;
  } else {
    throw Failure("NO_CHECKPOINT_FOUND", "'" + path.filename().string() + "' is no file and no directory");
  }

  if (!index.empty() && fs::exists(index)) {
    // Exactly the files of weight_map; each tensor in the file it is mapped to, no tensor beside the map.
    const auto names = read_index(index);
    const std::map<std::string, std::string> mapped(names.begin(), names.end());
    std::set<std::string> shards;
    for (const auto& [key, shard] : mapped) shards.insert(shard);
    for (const std::string& shard : shards) {
      if (!fs::exists(checkpoint.directory_ / shard)) throw Failure("SHARD_MISSING", "'" + shard + "' is not there");
      std::vector<TensorEntry> entries;
      checkpoint.add_file(checkpoint.directory_ / shard, entries);
      for (TensorEntry& entry : entries) {
        const auto home = mapped.find(entry.key);
        if (home == mapped.end())
          throw Failure("INDEX_INCOMPLETE", "'" + entry.key + "' in '" + shard + "' is not indexed");
        if (home->second == shard) found.push_back(std::move(entry));  // A second copy elsewhere does not decide.
      }
    }
    std::set<std::string_view> present;
    for (const TensorEntry& entry : found) present.insert(entry.key);
    for (const auto& [key, shard] : mapped)
      if (!present.count(key)) throw Failure("INDEX_TENSOR_NOT_IN_SHARD", "'" + key + "' is not in '" + shard + "'");
  } else if (fs::is_regular_file(path)) {
    checkpoint.add_file(path, found);
  } else if (fs::exists(path / "model.safetensors")) {
    checkpoint.add_file(path / "model.safetensors", found);
  } else {
    // A complete set model-i-of-N, or the name of what is there instead.
    std::vector<std::string> names;
    for (const auto& item : fs::directory_iterator(path)) names.push_back(item.path().filename().string());
    std::sort(names.begin(), names.end());
    std::map<std::uint64_t, std::string> shards;
    std::uint64_t total = 0;
    for (const std::string& name : names) {
      std::vector<std::string> numbers;
      if (!matches("model-#-of-#.safetensors", name, &numbers) || numbers[0].size() > 9 || numbers[1].size() > 9)
        continue;
      const std::uint64_t number = std::stoull(numbers[0]), count = std::stoull(numbers[1]);
      if (total != 0 && total != count) throw Failure("SHARD_MISSING", "two different shard counts");
      total = count;
      if (!shards.emplace(number, name).second)
        throw Failure("SHARD_MISSING", "'" + name + "' and '" + shards[number] + "' have one number");
    }
    const auto any = [&](auto predicate) { return std::any_of(names.begin(), names.end(), predicate); };
    if (shards.empty()) {
      if (any([](const std::string& n) { return n == "adapter_model.safetensors"; }))
        throw Failure("ADAPTER_WITHOUT_BASE", "only an adapter is here");
      if (any([](const std::string& n) { return ends_with(n, ".distcp"); }))
        throw Failure("NATIVE_DCP_CHECKPOINT", "a distributed checkpoint of the training framework");
      if (any([](const std::string& n) { return ends_with(n, ".bin"); }))
        throw Failure("LEGACY_PICKLE_CHECKPOINT", "only pickle files are here");
      throw Failure("NO_CHECKPOINT_FOUND", "no index, no model.safetensors, no model-*-of-*.safetensors");
    }
    for (std::uint64_t i = 1; i <= total; ++i)
      if (!shards.count(i))
        throw Failure("SHARD_MISSING", "shard " + std::to_string(i) + " of " + std::to_string(total));
    if (shards.size() != total) throw Failure("SHARD_MISSING", "shards are not numbered 1 to " + std::to_string(total));
    for (const auto& [number, name] : shards) checkpoint.add_file(path / name, found);
  }

  std::sort(found.begin(), found.end(), [](const TensorEntry& a, const TensorEntry& b) { return a.key < b.key; });
  for (std::size_t i = 1; i < found.size(); ++i)
    if (found[i - 1].key == found[i].key)
      throw Failure("DUPLICATE_TENSOR", "'" + found[i].key + "' is in '" +
                                            checkpoint.files_[found[i - 1].file].filename().string() + "' and '" +
                                            checkpoint.files_[found[i].file].filename().string() + "'");
  checkpoint.tensors_ = std::move(found);
  return checkpoint;
}

const TensorEntry* Checkpoint::find(std::string_view key) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), key,
                                   [](const TensorEntry& entry, std::string_view k) { return entry.key < k; });
  return at != tensors_.end() && at->key == key ? &*at : nullptr;
}

const TensorEntry& Checkpoint::at(std::string_view key) const {
  if (const TensorEntry* entry = find(key)) return *entry;
  throw Failure("TensorNotFound", "'" + std::string(key) + "' is not in the checkpoint");
}

const File& Checkpoint::file(std::size_t index) const {
  const auto found = open_files_.find(index);
  if (found != open_files_.end()) return *found->second;
  if (open_files_.size() >= k_open_files_max) open_files_.clear();
  return *(open_files_[index] = std::make_unique<File>(files_[index]));
}

void Checkpoint::read_bytes(const TensorEntry& entry, std::uint64_t offset, std::span<std::byte> into) const {
  if (offset > entry.end - entry.begin || into.size() > entry.end - entry.begin - offset)
    throw Failure("SliceOutOfRange", "bytes beyond the end of '" + entry.key + "'");
  file(entry.file).read(entry.begin + offset, into);
}

Bytes Checkpoint::read_elements(std::string_view key, const Box& box) const {
  const TensorEntry& entry = at(key);
  const std::size_t rank = entry.shape.size();
  if (box.start.size() != rank || box.extent.size() != rank)
    throw Failure("SliceOutOfRange", "box of another rank than '" + entry.key + "'");
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (box.extent[axis] > entry.shape[axis] || box.start[axis] > entry.shape[axis] - box.extent[axis])
      throw Failure("SliceOutOfRange", "axis " + std::to_string(axis) + " of '" + entry.key + "' has " +
                                           std::to_string(entry.shape[axis]) + " elements");
  const std::uint64_t bits = bits_of(entry.dtype), rows = count_of(box.extent);
  if (rows == 0) return {};
  // Trailing axes that are taken whole merge into one run.
  std::size_t outer = rank;
  std::uint64_t run = 1;
  while (outer > 0) {
    --outer;
    run *= box.extent[outer];
    if (box.extent[outer] != entry.shape[outer]) break;
  }
  if (run * bits % 8 != 0)
    throw Failure("MisalignedSlice", "a row of the box ends inside a byte of '" + entry.key + "'");
  Bytes out(static_cast<std::size_t>(rows * bits / 8));
  Shape at = box.start;
  for (std::size_t done = 0; done < out.size();) {
    std::uint64_t flat = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) flat = flat * entry.shape[axis] + at[axis];
    if (flat * bits % 8 != 0)
      throw Failure("MisalignedSlice", "a row of the box begins inside a byte of '" + entry.key + "'");
    const auto length = static_cast<std::size_t>(run * bits / 8);
    read_bytes(entry, flat * bits / 8, std::span(out).subspan(done, length));
    done += length;
    for (std::size_t axis = outer; axis-- > 0;) {  // The next coordinate of the axes outside the run.
      if (++at[axis] < box.start[axis] + box.extent[axis]) break;
      at[axis] = box.start[axis];
    }
  }
  return out;
}

}  // namespace weightproof::reference
