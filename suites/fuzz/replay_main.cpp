// SPDX-License-Identifier: Apache-2.0
// target [--rounds N] [--seed S] PATH...: runs every file below the paths, then N mutations of them drawn from the
// seed. Exit status 0: nothing was found.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "suites/fuzz/fuzz.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

// A few edits of the kinds that reach parsers: flips, copies, cuts, and words with a meaning.
void mutate(Bytes& bytes, const std::vector<Bytes>& corpus, std::mt19937_64& random) {
  constexpr const char* words[] = {"{",
                                   "}",
                                   "[",
                                   "]",
                                   "\"",
                                   ",",
                                   ":",
                                   "null",
                                   "true",
                                   "-1",
                                   "0",
                                   "1e9",
                                   "18446744073709551615",
                                   "9223372036854775808",
                                   "\\u0000",
                                   "\\ud800",
                                   "\\\"",
                                   "F32",
                                   "F4",
                                   "BOOL",
                                   "\"shape\"",
                                   "\"dtype\"",
                                   "\"data_offsets\"",
                                   "__metadata__",
                                   "weight_map",
                                   "../",
                                   ".safetensors",
                                   "\xff",
                                   "\xef\xbb\xbf"};
  const std::size_t edits = 1 + random() % 4;
  for (std::size_t i = 0; i < edits; ++i) {
    const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
    const auto position = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 6) {
      case 0:
        if (!bytes.empty()) {
          bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ (1U << (random() % 8)));
        }
        break;
      case 1:
        if (!bytes.empty()) {
          bytes[at] = static_cast<std::uint8_t>(random());
        }
        break;
      case 2: {
        const char* word = words[random() % std::size(words)];
        bytes.insert(position, word, word + std::strlen(word));
        break;
      }
      case 3:
        if (!bytes.empty()) {
          const std::size_t size = std::min<std::size_t>(1 + random() % 32, bytes.size() - at);
          bytes.erase(position, position + static_cast<std::ptrdiff_t>(size));
        }
        break;
      case 4:
        if (!bytes.empty()) {
          const std::size_t size = std::min<std::size_t>(1 + random() % 64, bytes.size() - at);
          const Bytes part(position, position + static_cast<std::ptrdiff_t>(size));
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size()), part.begin(), part.end());
        }
        break;
      default: {
        const Bytes& other = corpus[random() % corpus.size()];
        if (!other.empty()) {
          const std::size_t from = random() % other.size();
          const std::size_t size = std::min<std::size_t>(1 + random() % 64, other.size() - from);
          bytes.insert(position, other.begin() + static_cast<std::ptrdiff_t>(from),
                       other.begin() + static_cast<std::ptrdiff_t>(from + size));
        }
        break;
      }
    }
  }
}

bool number_after(const char* name, int argc, char** argv, int& i, std::uint64_t& value) {
  if (std::strcmp(argv[i], name) != 0 || i + 1 >= argc) {
    return false;
  }
  const char* text = argv[++i];
  std::from_chars(text, text + std::strlen(text), value);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t rounds = 0;
  std::uint64_t seed = 1;
  std::vector<Bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    if (number_after("--rounds", argc, argv, i, rounds) || number_after("--seed", argc, argv, i, seed)) {
      continue;
    }
    if (std::filesystem::is_directory(argv[i])) {
      std::vector<std::filesystem::path> paths;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) {
          paths.push_back(entry.path());
        }
      }
      std::sort(paths.begin(), paths.end());
      for (const auto& path : paths) {
        corpus.push_back(read(path));
      }
    } else {
      corpus.push_back(read(argv[i]));
    }
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no input: give files or directories\n");
    return 2;
  }
  for (const Bytes& bytes : corpus) {
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::mt19937_64 random(seed);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Bytes bytes = corpus[random() % corpus.size()];
    mutate(bytes, corpus, random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("seed=%llu: %zu files, %llu mutations\n", static_cast<unsigned long long>(seed), corpus.size(),
              static_cast<unsigned long long>(rounds));
  return 0;
}
