// SPDX-License-Identifier: Apache-2.0
#include "suites/state/digests.hpp"

#include <openssl/evp.h>
#include <xxhash.h>

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "loader/core/config.hpp"
#include "loader/core/error.hpp"
#include "suites/support/json_writer.hpp"

namespace weightproof::suites {
namespace {

std::string hex_text(std::span<const unsigned char> bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : bytes) {
    out += digits[byte >> 4U];
    out += digits[byte & 0xFU];
  }
  return out;
}

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  ErrorFacts facts;
  facts.file = file;
  facts.hint = "give a file that `weightproof manifest --out` wrote";
  throw Error(ErrorCode::config_invalid, file + " is no manifest: " + what, std::move(facts));
}

}  // namespace

struct Hasher::State {
  EVP_MD_CTX* sha = EVP_MD_CTX_new();
  XXH3_state_t* xxh = XXH3_createState();
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  if (state_->sha == nullptr || state_->xxh == nullptr || EVP_DigestInit_ex(state_->sha, EVP_sha256(), nullptr) != 1) {
    throw Error(ErrorCode::alloc_failed, "no memory for a digest");
  }
  XXH3_128bits_reset(state_->xxh);
}

Hasher::~Hasher() {
  EVP_MD_CTX_free(state_->sha);
  XXH3_freeState(state_->xxh);
}

void Hasher::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->sha, bytes.data(), bytes.size());
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Hasher::finish(TensorDigest& digest) {
  std::array<unsigned char, 32> sha{};
  unsigned size = 0;
  EVP_DigestFinal_ex(state_->sha, sha.data(), &size);
  digest.sha256 = hex_text(sha);
  XXH128_canonical_t canonical{};
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh));
  digest.xxh3 = hex_text(canonical.digest);
}

void for_each_index(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> has_failed{false};
  std::mutex mutex;
  std::size_t failed_at = SIZE_MAX;
  std::exception_ptr failure;
  const auto run = [&] {
    while (!has_failed) {
      const std::size_t i = next.fetch_add(1);
      if (i >= count) {
        return;
      }
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
        has_failed = true;
      }
    }
  };
  std::vector<std::thread> workers;
  for (unsigned i = 1; i < threads && i < count; ++i) {
    try {
      workers.emplace_back(run);
    } catch (const std::system_error&) {  // fewer threads do the same work
      break;
    }
  }
  run();
  for (std::thread& worker : workers) {
    worker.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

std::map<std::string, TensorDigest> digest_all(const DecodedState& state, unsigned threads,
                                               const ByteProgress& progress) {
  const auto& tensors = state.tensors();
  std::vector<TensorDigest> digests(tensors.size());
  std::atomic<std::uint64_t> done{0};
  for_each_index(tensors.size(), threads, [&](std::size_t i) {
    const StateTensor& tensor = tensors[i];
    TensorDigest& digest = digests[i];
    digest.dtype = name_of(tensor.dtype);
    digest.shape.assign(tensor.shape.begin(), tensor.shape.end());
    Hasher hasher;
    state.stream(tensor, [&](std::uint64_t, std::span<const std::byte> piece) {
      hasher.update(piece);
      done += piece.size();
      if (progress) {
        progress(done, state.bytes());
      }
    });
    hasher.finish(digest);
  });
  std::map<std::string, TensorDigest> out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    out.emplace(tensors[i].key, std::move(digests[i]));
  }
  return out;
}

std::string manifest_text(const Manifest& manifest, std::string_view tool) {
  std::string text;
  JsonWriter json([&text](std::string_view part) { text += part; });
  json.begin_object()
      .member("schema", "weightproof.manifest/1")
      .member("layout", manifest.layout)
      .member("dtype", manifest.dtype);
  if (!manifest.family.empty()) {
    json.member("family", manifest.family);
  }
  json.member("tool", tool).name("tensors").begin_object();
  for (const auto& [key, digest] : manifest.tensors) {
    json.name(key).begin_object().compact().member("dtype", digest.dtype).name("shape").begin_array();
    for (const std::uint64_t extent : digest.shape) {
      json.value(extent);
    }
    json.end_array().member("sha256", digest.sha256).member("xxh3", digest.xxh3).end_object();
  }
  json.end_object().end_object();
  json.flush();
  text += '\n';
  return text;
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  const ConfigValue document = ConfigValue::parse(text, file);
  const auto text_of = [&](const ConfigValue& object, const char* name) {
    const ConfigValue* value = object.find(name);
    if (value == nullptr || !value->as_string()) {
      refuse(file, std::string("no text under '") + name + "'");
    }
    return std::string(*value->as_string());
  };
  if (!document.is_object() || text_of(document, "schema") != "weightproof.manifest/1") {
    refuse(file, "its schema is not weightproof.manifest/1");
  }
  Manifest out;
  out.layout = text_of(document, "layout");
  out.dtype = text_of(document, "dtype");
  for (const auto& [name, value] : document.members()) {
    if (name != "tensors") {
      continue;
    }
    for (const auto& [key, row] : value.members()) {
      TensorDigest digest;
      digest.dtype = text_of(row, "dtype");
      digest.sha256 = text_of(row, "sha256");
      digest.xxh3 = text_of(row, "xxh3");
      const ConfigValue* shape = row.find("shape");
      if (shape == nullptr || !shape->is_array()) {
        refuse(file, "a tensor has no shape");
      }
      for (const ConfigValue& extent : shape->items()) {
        if (!extent.as_integer() || *extent.as_integer() < 0) {
          refuse(file, "an extent is no number");
        }
        digest.shape.push_back(static_cast<std::uint64_t>(*extent.as_integer()));
      }
      out.tensors.emplace(key, std::move(digest));
    }
    return out;
  }
  refuse(file, "it has no tensors");
}

ManifestDifference compare_manifests(const std::map<std::string, TensorDigest>& expected,
                                     const std::map<std::string, TensorDigest>& found) {
  ManifestDifference out;
  for (const auto& [key, digest] : expected) {
    const auto match = found.find(key);
    if (match == found.end()) {
      out.missing.push_back(key);
    } else if (match->second == digest) {
      ++out.equal;
    } else {
      out.different.push_back(key);
    }
  }
  for (const auto& [key, digest] : found) {
    if (expected.count(key) == 0) {
      out.unlisted.push_back(key);
    }
  }
  return out;
}

}  // namespace weightproof::suites
