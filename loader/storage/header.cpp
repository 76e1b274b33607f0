// SPDX-License-Identifier: Apache-2.0
#include "loader/storage/header.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "loader/core/limits.hpp"
#include "loader/storage/header_internal.hpp"
#include "loader/storage/huge_pages_internal.hpp"

namespace weightproof::storage {
namespace {

using namespace std::string_view_literals;

// As much as the longest prefix that is looked for, and some blanks before it.
constexpr std::size_t k_prefix_bytes = 64;

// Read and looked over while it is in the cache.
constexpr std::size_t k_piece_bytes = 512 * 1024;

struct ForeignPrefix {
  std::string_view bytes;
  std::string_view what;
};

constexpr std::array k_foreign_prefixes = {
    ForeignPrefix{"version https://git-lfs"sv, "a Git LFS pointer, not the file it stands for"sv},
    ForeignPrefix{"PK\x03\x04"sv, "a zip archive (a PyTorch pickle checkpoint is one)"sv},
    ForeignPrefix{"PK\x05\x06"sv, "an empty zip archive"sv},
    ForeignPrefix{"\x80\x02"sv, "a Python pickle"sv},
    ForeignPrefix{"\x80\x03"sv, "a Python pickle"sv},
    ForeignPrefix{"\x80\x04"sv, "a Python pickle"sv},
    ForeignPrefix{"\x80\x05"sv, "a Python pickle"sv},
    ForeignPrefix{"GGUF"sv, "a GGUF file"sv},
    ForeignPrefix{"\x93NUMPY"sv, "a NumPy array"sv},
    ForeignPrefix{"\x89HDF\r\n"sv, "an HDF5 file"sv},
    ForeignPrefix{"\x1f\x8b"sv, "gzip-compressed data"sv},
    ForeignPrefix{"\x28\xb5\x2f\xfd"sv, "zstd-compressed data"sv},
    ForeignPrefix{"Entry not found"sv, "the error text of a download service, not the file asked for"sv},
    ForeignPrefix{"Invalid username or password"sv, "the error text of a download service, not the file asked for"sv},
};

constexpr std::string_view k_html = "an HTML page (an error or login page of a web server?)";

bool begins_with_ignoring_case(std::string_view text, std::string_view lower_prefix) {
  return text.size() >= lower_prefix.size() &&
         std::equal(lower_prefix.begin(), lower_prefix.end(), text.begin(), [](char a, char b) {
           return a == ((b >= 'A' && b <= 'Z') ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

Header begin_header(const File& file) {
  Header header;
  header.file = file.name();
  header.file_bytes = file.size();
  header.identity = file.identity();
  return header;
}

void hint_foreign(Header& header, std::span<const std::byte> prefix) {
  const std::string_view what = recognise_foreign_bytes(prefix);
  if (what.empty()) return;
  ErrorFacts facts = header.error->facts();
  facts.hint = "the file begins like " + std::string(what);
  header.error = Error(header.error->code(), header.error->message() + "; the file begins like " + std::string(what),
                       std::move(facts));
}

}  // namespace

std::string_view recognise_foreign_bytes(std::span<const std::byte> first_bytes) {
  std::string_view text(reinterpret_cast<const char*>(first_bytes.data()), first_bytes.size());
  for (const ForeignPrefix& prefix : k_foreign_prefixes) {
    if (text.starts_with(prefix.bytes)) return prefix.what;
  }
  if (text.size() >= 8 && std::all_of(text.begin(), text.end(), [](char c) { return c == '\0'; })) {
    return "a file of zero bytes (an unfinished download or a lost write)";
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty() && (text[0] == ' ' || text[0] == '\n' || text[0] == '\r' || text[0] == '\t')) {
    text.remove_prefix(1);
  }
  for (const std::string_view prefix : {"<!doctype html"sv, "<html"sv, "<head"sv, "<!--"sv}) {
    if (begins_with_ignoring_case(text, prefix)) return k_html;
  }
  if (begins_with_ignoring_case(text, "<?xml")) return "an XML document (an error answer of an object store?)";
  if (text.starts_with('{') || text.starts_with('[')) {
    return "a JSON text; the 8 bytes of the header length are missing";
  }
  return {};
}

Header read_header(const File& file) {
  std::array<std::byte, k_prefix_bytes> prefix{};
  const std::size_t prefix_bytes = static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), k_prefix_bytes));
  const std::span<std::byte> prefix_span(prefix.data(), prefix_bytes);
  file.read(0, prefix_span);

  Header header = begin_header(file);
  if (file.size() < 8) {
    ErrorFacts facts;
    facts.file = file.name();
    facts.expected = "at least 8 bytes";
    facts.actual = std::to_string(file.size()) + " bytes";
    header.error = Error(ErrorCode::header_too_small,
                         "the file has " + std::to_string(file.size()) + " bytes; the header length alone takes 8",
                         std::move(facts));
    hint_foreign(header, prefix_span);
    return header;
  }
  std::uint64_t header_bytes = 0;
  for (unsigned i = 8; i-- > 0;) header_bytes = (header_bytes << 8) | std::to_integer<std::uint64_t>(prefix[i]);
  header.header_bytes = header_bytes;

  ErrorFacts facts;
  facts.file = file.name();
  facts.byte_offset = 0;
  facts.actual = std::to_string(header_bytes);
  if (header_bytes > limits::header_bytes_max) {
    facts.expected = "at most " + std::to_string(limits::header_bytes_max);
    header.error = Error(ErrorCode::header_too_large,
                         "the first 8 bytes say a header of " + std::to_string(header_bytes) + " bytes; at most " +
                             std::to_string(limits::header_bytes_max) + " are allowed",
                         std::move(facts));
    hint_foreign(header, prefix_span);
    return header;
  }
  if (header_bytes > file.size() - 8) {
    facts.expected = "at most " + std::to_string(file.size() - 8);
    header.error = Error(ErrorCode::invalid_header_length,
                         "the first 8 bytes say a header of " + std::to_string(header_bytes) +
                             " bytes, but the file has only " + std::to_string(file.size()) + " bytes",
                         std::move(facts));
    hint_foreign(header, prefix_span);
    return header;
  }
  // Only now is the length known to be backed by bytes of the file.
  std::shared_ptr<char[]> text = std::make_shared_for_overwrite<char[]>(static_cast<std::size_t>(header_bytes) + 1);
  detail::advise_huge_pages(text.get(), static_cast<std::size_t>(header_bytes));
  detail::TextCensus census;
  const std::size_t bytes = static_cast<std::size_t>(header_bytes);
  for (std::size_t done = 0; done < bytes; done += k_piece_bytes) {
    const std::span<char> piece(text.get() + done, std::min(k_piece_bytes, bytes - done));
    file.read(8 + done, std::as_writable_bytes(piece));
    census.add({piece.data(), piece.size()});
  }
  header = detail::scan_text({text.get(), bytes}, census, file.size(), file.name(), text);
  header.identity = file.identity();
  if (header.error && header.tensors.empty() && header.error->code() == ErrorCode::invalid_header_deserialization) {
    hint_foreign(header, prefix_span);
  }
  return header;
}

}  // namespace weightproof::storage
