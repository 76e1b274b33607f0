// SPDX-License-Identifier: Apache-2.0
// One pass over the header text, no tree. Entries in the usual compact form take a short cut; everything else goes the
// strict general way, which also finds the words for every error.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "loader/core/hash.hpp"
#include "loader/core/limits.hpp"
#include "loader/storage/header_internal.hpp"
#include "loader/storage/huge_pages_internal.hpp"
#include "loader/storage/json_cursor_internal.hpp"
#include "loader/storage/utf8_internal.hpp"

namespace weightproof::storage {
namespace {

using detail::JsonCursor;
using detail::JsonFault;
using detail::KeyList;
using detail::shown_name;
using detail::TextArena;

// Bytes of the shortest possible entry, its comma included: ',"a":{"dtype":"I8","shape":[],"data_offsets":[0,0]}'.
// A name of no byte can stand only once.
constexpr std::size_t k_entry_bytes_min = 50;
// More than the longest entry the short cut takes: 8 extents and 2 offsets of 20 digits, the words around them.
constexpr std::ptrdiff_t k_entry_bytes_fast = 384;

/// What a Header keeps alive: the text and the decoded names.
struct OwnedText {
  std::shared_ptr<const void> text;
  TextArena arena;
};

struct FastDType {
  std::uint64_t word = 0;  // first 8 bytes of name and closing quote
  std::uint64_t mask = 0;
  std::string_view name;
  DType dtype = DType::u8;
};

const std::array<FastDType, k_dtype_count>& fast_dtypes() {
  static const std::array<FastDType, k_dtype_count> table = [] {
    std::array<FastDType, k_dtype_count> rows;
    for (std::size_t i = 0; i < k_dtype_count; ++i) {
      const DType dtype = all_dtypes()[i];
      const std::string text = std::string(name_of(dtype)) + '"';
      char word[8] = {};
      char mask[8] = {};
      for (std::size_t j = 0; j < std::min<std::size_t>(8, text.size()); ++j) {
        word[j] = text[j];
        mask[j] = '\xFF';
      }
      std::memcpy(&rows[i].word, word, 8);
      std::memcpy(&rows[i].mask, mask, 8);
      rows[i].name = name_of(dtype);
      rows[i].dtype = dtype;
    }
    return rows;
  }();
  return table;
}

template <std::size_t N>
bool match(const char*& at, const char (&literal)[N]) {
  if (std::memcmp(at, literal, N - 1) != 0) return false;
  at += N - 1;
  return true;
}

// Up to 19 digits, which always fit. The caller looks at what follows, so that more digits are no match.
bool take_digits(const char*& at, std::uint64_t& value) {
  const char* const start = at;
  std::uint64_t sum = 0;
  while (*at >= '0' && *at <= '9' && at - start < 19) {
    sum = sum * 10 + static_cast<std::uint64_t>(*at - '0');
    ++at;
  }
  value = sum;
  return at != start && (*start != '0' || at - start == 1);
}

class HeaderScanner {
 public:
  HeaderScanner(Header& header, std::string_view text, TextArena& arena)
      : header_(header), cursor_(text), arena_(arena), begin_(text.data()) {
    name_hashes_.reserve(header.tensors.capacity());
  }

  /// Fills tensors, metadata and the lists of notes. Throws Error.
  void scan(bool has_delete);
  /// Turns the lists into diagnostics.
  void report();
  /// Hash of each name, lower half.
  const std::vector<std::uint32_t>& name_hashes() const { return name_hashes_; }
  /// Entries stand in the order of their data.
  bool is_sorted() const { return is_sorted_; }

 private:
  void scan_value(std::string_view name, const char* entry);
  bool scan_compact(HeaderTensor& tensor);
  void scan_entry(HeaderTensor& tensor);
  void scan_shape(HeaderTensor& tensor);
  void scan_offsets(HeaderTensor& tensor);
  void scan_dtype(HeaderTensor& tensor);
  void scan_extra(std::string_view field);
  void require_distinct_extras(std::size_t position);
  void scan_metadata(std::size_t position);
  void require_distinct_metadata();
  [[noreturn]] void fail_metadata(const std::string& what, std::size_t position, ErrorCode code, const char* check);
  [[noreturn]] void refuse(const JsonFault& fault, const char* check) const;
  [[noreturn]] void refuse_entry(const std::string& what, std::size_t position, const char* check = "format.json",
                                 ErrorCode code = ErrorCode::invalid_header_deserialization, std::string expected = {},
                                 std::string actual = {}, std::string hint = {}) const;
  void note_name(std::string_view name, const char* entry);

  Header& header_;
  JsonCursor cursor_;
  TextArena& arena_;
  const char* begin_;
  std::size_t last_dtype_ = static_cast<std::size_t>(DType::bf16);
  std::string_view current_;  // name of the entry being read
  bool is_in_entry_ = false;
  bool has_delete_ = false;
  std::vector<std::uint32_t> name_hashes_;
  bool is_sorted_ = true;
  std::uint64_t last_begin_ = 0;
  std::uint64_t last_end_ = 0;
  std::vector<std::string_view> extras_;  // unknown fields of the entry being read
  KeyList extra_fields_;
  KeyList odd_names_;
  std::string first_extra_;
  bool has_null_metadata_ = false;
  std::size_t metadata_position_ = 0;
};

void HeaderScanner::refuse(const JsonFault& fault, const char* check) const {
  ErrorFacts facts;
  facts.file = header_.file;
  facts.byte_offset = 8 + fault.position;
  if (is_in_entry_) facts.keys.emplace_back(current_.substr(0, limits::name_bytes_max));
  const std::string where = is_in_entry_ ? "tensor " + shown_name(current_) + ": " : "header: ";
  if (fault.is_limit) {
    throw Error(ErrorCode::limit_exceeded, where + fault.reason, std::move(facts));
  }
  facts.check = check;
  throw Error(ErrorCode::invalid_header_deserialization, where + fault.reason, std::move(facts));
}

void HeaderScanner::refuse_entry(const std::string& what, std::size_t position, const char* check, ErrorCode code,
                                 std::string expected, std::string actual, std::string hint) const {
  ErrorFacts facts;
  facts.file = header_.file;
  facts.byte_offset = 8 + position;
  facts.keys.emplace_back(current_.substr(0, limits::name_bytes_max));
  facts.expected = std::move(expected);
  facts.actual = std::move(actual);
  facts.hint = std::move(hint);
  facts.check = check;
  throw Error(code, "tensor " + shown_name(current_) + ": " + what, std::move(facts));
}

void HeaderScanner::fail_metadata(const std::string& what, std::size_t position, ErrorCode code, const char* check) {
  ErrorFacts facts;
  facts.file = header_.file;
  facts.byte_offset = 8 + position;
  facts.check = check;
  facts.expected = "an object of strings";
  throw Error(code, "'__metadata__': " + what, std::move(facts));
}

void HeaderScanner::note_name(std::string_view name, const char* entry) {
  const bool is_raw = name.data() > begin_ && name.data() < cursor_.end();
  if (!name.empty() && is_raw && !has_delete_) return;
  const bool is_odd = name.empty() || std::any_of(name.begin(), name.end(), [](char c) {
                        return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
                      });
  if (is_odd) odd_names_.add(name, 8 + static_cast<std::uint64_t>(entry - begin_));
}

bool HeaderScanner::scan_compact(HeaderTensor& tensor) {
  if (cursor_.end() - cursor_.at() < k_entry_bytes_fast) return false;
  const char* at = cursor_.at();
  if (!match(at, "{\"dtype\":\"")) return false;
  const auto& dtypes = fast_dtypes();
  std::uint64_t word = 0;
  std::memcpy(&word, at, 8);
  if ((word & dtypes[last_dtype_].mask) != dtypes[last_dtype_].word) {
    const auto found =
        std::find_if(dtypes.begin(), dtypes.end(), [&](const FastDType& row) { return (word & row.mask) == row.word; });
    if (found == dtypes.end()) return false;
    last_dtype_ = static_cast<std::size_t>(found - dtypes.begin());
  }
  const std::string_view name = dtypes[last_dtype_].name;
  // Names longer than the word share their first 8 bytes with none that ends there.
  if (name.size() >= 8 && std::memcmp(at, name.data(), name.size()) != 0) return false;
  at += name.size();
  tensor.dtype = dtypes[last_dtype_].dtype;
  if (!match(at, "\",\"shape\":[")) return false;
  std::array<std::uint64_t, limits::rank_max> extents;
  unsigned rank = 0;
  if (*at == ']') {
    ++at;
  } else {
    for (;;) {
      if (rank == limits::rank_max || !take_digits(at, extents[rank])) return false;
      ++rank;
      const char next = *at++;
      if (next == ']') break;
      if (next != ',') return false;
    }
  }
  if (!match(at, ",\"data_offsets\":[") || !take_digits(at, tensor.begin) || *at++ != ',' ||
      !take_digits(at, tensor.end) || !match(at, "]}")) {
    return false;
  }
  tensor.shape = Shape(std::span<const std::uint64_t>(extents.data(), rank));
  cursor_.move_to(at);
  return true;
}

void HeaderScanner::scan_dtype(HeaderTensor& tensor) {
  const std::size_t position = cursor_.position();
  if (cursor_.peek() != '"') cursor_.fail("'dtype' must be a string, found " + cursor_.describe_next());
  const std::string_view name = cursor_.string(arena_);
  const std::optional<DType> dtype = dtype_from_name(name);
  if (dtype) {
    tensor.dtype = *dtype;
    return;
  }
  std::string allowed;
  std::string hint;
  for (const DType candidate : all_dtypes()) {
    const std::string_view known = name_of(candidate);
    if (!allowed.empty()) allowed += ", ";
    allowed += known;
    const bool is_near =
        known.size() == name.size() && std::equal(known.begin(), known.end(), name.begin(), [](char a, char b) {
          return a == ((b >= 'a' && b <= 'z') ? static_cast<char>(b - 'a' + 'A') : b);
        });
    if (is_near) hint = "dtype names are case-sensitive: did the writer mean '" + std::string(known) + "'?";
  }
  refuse_entry("dtype " + shown_name(name) + " is none of the " + std::to_string(k_dtype_count) + " of the format",
               position, "format.dtype", ErrorCode::invalid_header_deserialization, allowed,
               std::string(name.substr(0, 64)), hint);
}

void HeaderScanner::scan_shape(HeaderTensor& tensor) {
  cursor_.expect('[', "'[' of a shape");
  cursor_.skip_space();
  if (cursor_.accept(']')) return;
  unsigned rank = 0;
  for (;;) {
    cursor_.skip_space();
    const std::size_t position = cursor_.position();
    const std::uint64_t extent = cursor_.unsigned_integer("a dimension of 'shape'");
    if (rank == limits::rank_max) {
      refuse_entry("more than " + std::to_string(limits::rank_max) + " dimensions", position, "format.limits",
                   ErrorCode::limit_exceeded, "at most " + std::to_string(limits::rank_max) + " dimensions");
    }
    tensor.shape.push_back(extent);
    ++rank;
    cursor_.skip_space();
    if (cursor_.accept(']')) return;
    cursor_.expect(',', "',' or ']' in 'shape'");
  }
}

void HeaderScanner::scan_offsets(HeaderTensor& tensor) {
  cursor_.expect('[', "'[' of 'data_offsets'");
  cursor_.skip_space();
  tensor.begin = cursor_.unsigned_integer("the begin in 'data_offsets'");
  cursor_.skip_space();
  cursor_.expect(',', "',' and an end in 'data_offsets'");
  cursor_.skip_space();
  tensor.end = cursor_.unsigned_integer("the end in 'data_offsets'");
  cursor_.skip_space();
  cursor_.expect(']', "']' after two numbers in 'data_offsets'");
}

void HeaderScanner::scan_extra(std::string_view field) {
  const std::size_t position = cursor_.position();
  if (extras_.size() >= limits::extra_fields_max) {
    refuse_entry("more than " + std::to_string(limits::extra_fields_max) + " unknown fields", position, "format.limits",
                 ErrorCode::limit_exceeded);
  }
  extras_.push_back(field);
  cursor_.skip_value();
}

void HeaderScanner::require_distinct_extras(std::size_t position) {
  std::sort(extras_.begin(), extras_.end());
  const auto twin = std::adjacent_find(extras_.begin(), extras_.end());
  if (twin == extras_.end()) return;
  refuse_entry("field " + shown_name(*twin) + " stands twice in the entry", position, "format.duplicate_key",
               ErrorCode::duplicate_key, "one value per field");
}

void HeaderScanner::scan_entry(HeaderTensor& tensor) {
  const std::size_t position = cursor_.position();
  if (cursor_.peek() != '{') {
    cursor_.fail("an entry must be an object with dtype, shape and data_offsets, found " + cursor_.describe_next());
  }
  cursor_.accept('{');
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
  extras_.clear();
  cursor_.skip_space();
  if (!cursor_.accept('}')) {
    for (;;) {
      cursor_.skip_space();
      const std::size_t field_position = cursor_.position();
      const std::string_view field = cursor_.string(arena_);
      cursor_.skip_space();
      cursor_.expect(':', "':' after a field name");
      cursor_.skip_space();
      const auto take_once = [&](bool& has_field) {
        if (has_field) cursor_.fail_at(field_position, "field '" + std::string(field) + "' stands twice");
        has_field = true;
      };
      if (field == "dtype") {
        take_once(has_dtype);
        scan_dtype(tensor);
      } else if (field == "shape") {
        take_once(has_shape);
        scan_shape(tensor);
      } else if (field == "data_offsets") {
        take_once(has_offsets);
        scan_offsets(tensor);
      } else {
        if (extra_fields_.count == 0 && first_extra_.empty()) first_extra_ = shown_name(field);
        scan_extra(field);
      }
      cursor_.skip_space();
      if (cursor_.accept('}')) break;
      cursor_.expect(',', "',' or '}' after a field");
    }
  }
  const char* missing = !has_dtype ? "dtype" : !has_shape ? "shape" : !has_offsets ? "data_offsets" : nullptr;
  if (missing != nullptr) cursor_.fail_at(position, std::string("field '") + missing + "' is missing");
  if (!extras_.empty()) {
    require_distinct_extras(position);
    extra_fields_.add(current_, 8 + position);
  }
}

void HeaderScanner::require_distinct_metadata() {
  std::vector<std::uint32_t> order(header_.metadata.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return header_.metadata[a].first < header_.metadata[b].first; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (header_.metadata[order[i]].first == header_.metadata[order[i - 1]].first) {
      fail_metadata("name " + shown_name(header_.metadata[order[i]].first) + " stands twice", metadata_position_,
                    ErrorCode::duplicate_key, "format.duplicate_key");
    }
  }
}

void HeaderScanner::scan_metadata(std::size_t position) {
  if (header_.has_metadata || has_null_metadata_) {
    fail_metadata("stands twice in the header", position, ErrorCode::invalid_header_deserialization, "format.metadata");
  }
  metadata_position_ = position;
  try {
    if (cursor_.peek() == 'n') {
      cursor_.skip_value();
      has_null_metadata_ = true;
      return;
    }
    cursor_.expect('{', "an object of strings");
    header_.has_metadata = true;
    cursor_.skip_space();
    if (cursor_.accept('}')) return;
    TextArena scratch;
    for (;;) {
      cursor_.skip_space();
      const std::string_view key = cursor_.string(scratch);
      cursor_.skip_space();
      cursor_.expect(':', "':' after a name");
      cursor_.skip_space();
      if (cursor_.peek() != '"') {
        cursor_.fail("the value of " + shown_name(key) + " must be a string, found " + cursor_.describe_next());
      }
      const std::string_view value = cursor_.string(scratch);
      if (header_.metadata.size() >= limits::metadata_entries_max) {
        fail_metadata("more than " + std::to_string(limits::metadata_entries_max) + " entries", cursor_.position(),
                      ErrorCode::limit_exceeded, "format.limits");
      }
      header_.metadata.emplace_back(key, value);
      cursor_.skip_space();
      if (cursor_.accept('}')) break;
      cursor_.expect(',', "',' or '}' after a value");
    }
  } catch (const JsonFault& fault) {
    fail_metadata(fault.reason, fault.position, ErrorCode::invalid_header_deserialization, "format.metadata");
  }
  require_distinct_metadata();
}

void HeaderScanner::scan_value(std::string_view name, const char* entry) {
  if (name == "__metadata__") {
    scan_metadata(static_cast<std::size_t>(entry - begin_));
    return;
  }
  current_ = name;
  is_in_entry_ = true;
  if (header_.tensors.size() >= limits::tensors_per_file_max) {
    refuse_entry("more than " + std::to_string(limits::tensors_per_file_max) + " tensors",
                 static_cast<std::size_t>(entry - begin_), "format.limits", ErrorCode::limit_exceeded);
  }
  if (name.size() > limits::name_bytes_max) {
    refuse_entry("a name of " + std::to_string(name.size()) + " bytes", static_cast<std::size_t>(entry - begin_),
                 "format.limits", ErrorCode::limit_exceeded,
                 "at most " + std::to_string(limits::name_bytes_max) + " bytes", std::to_string(name.size()));
  }
  note_name(name, entry);
  name_hashes_.push_back(static_cast<std::uint32_t>(hash_text(name)));  // now, while the name is in the cache
  HeaderTensor& tensor = header_.tensors.emplace_back();
  tensor.name = name;
  tensor.header_offset = static_cast<std::uint32_t>(entry - begin_);
  try {
    if (!scan_compact(tensor)) scan_entry(tensor);
  } catch (...) {
    header_.tensors.pop_back();
    throw;
  }
  is_in_entry_ = false;
  is_sorted_ &= tensor.begin > last_begin_ || (tensor.begin == last_begin_ && tensor.end >= last_end_);
  last_begin_ = tensor.begin;
  last_end_ = tensor.end;
}

void HeaderScanner::scan(bool has_delete) {
  has_delete_ = has_delete;
  const char* check = "format.json";
  try {
    cursor_.skip_space();
    cursor_.expect('{', "'{', the begin of the header object");
    cursor_.skip_space();
    if (!cursor_.accept('}')) {
      for (;;) {
        cursor_.skip_space();
        const char* const entry = cursor_.at();
        check = "format.name";
        std::string_view name;
        if (cursor_.end() - entry > k_entry_bytes_fast && *entry == '"') {
          const char* stop = detail::find_string_stop(entry + 1, cursor_.end());
          if (stop != cursor_.end() && *stop == '"') {
            name = {entry + 1, static_cast<std::size_t>(stop - entry - 1)};
            cursor_.move_to(stop + 1);
          } else {
            name = cursor_.string(arena_);
          }
        } else {
          name = cursor_.string(arena_);
        }
        check = "format.json";
        cursor_.skip_space();
        cursor_.expect(':', "':' after a name");
        cursor_.skip_space();
        scan_value(name, entry);
        cursor_.skip_space();
        if (cursor_.accept('}')) break;
        cursor_.expect(',', "',' or '}' after an entry");
      }
    }
    cursor_.skip_space();
    if (!cursor_.is_at_end()) {
      cursor_.fail("only spaces may follow the header object, found " + cursor_.describe_next());
    }
  } catch (const JsonFault& fault) {
    refuse(fault, fault.is_unicode ? check : "format.json");
  }
}

void HeaderScanner::report() {
  const auto add = [&](const char* check, Severity severity, std::string message, const KeyList& list,
                       std::optional<std::uint64_t> offset, std::string hint) {
    Diagnostic found;
    found.check = check;
    found.severity = severity;
    found.message = std::move(message);
    found.facts.file = header_.file;
    found.facts.byte_offset = offset;
    found.facts.keys = list.keys;
    found.facts.hint = std::move(hint);
    header_.diagnostics.push_back(std::move(found));
  };
  if (header_.header_bytes != 0 && *begin_ != '{') {
    add("format.leading_whitespace", Severity::note, "the header begins with white space, not with '{'", {}, 8,
        "the format asks for '{' at byte 8; some readers insist");
  }
  if (has_null_metadata_) {
    add("format.metadata", Severity::warn, "'__metadata__' is null and was taken as absent", {}, 8 + metadata_position_,
        "leave '__metadata__' out or write an object of strings");
  }
  if (odd_names_.count != 0) {
    add("format.name", Severity::note,
        std::to_string(odd_names_.count) + " tensor names are empty or hold control characters (" +
            detail::names_text(odd_names_) + ")",
        odd_names_, odd_names_.first_offset, {});
  }
  if (extra_fields_.count != 0) {
    add("format.extra_field", Severity::warn,
        std::to_string(extra_fields_.count) + " entries have fields that the format does not know, first " +
            first_extra_ + " (" + detail::names_text(extra_fields_) + ")",
        extra_fields_, extra_fields_.first_offset, "readers ignore such a field; whatever it says is lost");
  }
}

Error length_fault(ErrorCode code, const std::string& file, std::uint64_t header_bytes, std::uint64_t file_bytes) {
  ErrorFacts facts;
  facts.file = file;
  facts.byte_offset = 0;
  facts.actual = std::to_string(header_bytes);
  if (code == ErrorCode::header_too_large) {
    facts.expected = "at most " + std::to_string(limits::header_bytes_max);
    return Error(code,
                 "the first 8 bytes say a header of " + std::to_string(header_bytes) + " bytes; at most " +
                     std::to_string(limits::header_bytes_max) + " are allowed",
                 std::move(facts));
  }
  facts.expected = "at most " + std::to_string(file_bytes < 8 ? 0 : file_bytes - 8);
  return Error(code,
               "the first 8 bytes say a header of " + std::to_string(header_bytes) + " bytes, but the file has only " +
                   std::to_string(file_bytes) + " bytes",
               std::move(facts));
}

}  // namespace

Header detail::scan_text(std::string_view text, const TextCensus& census, std::uint64_t file_bytes, std::string file,
                         std::shared_ptr<const void> text_owner) {
  Header header;
  header.file = std::move(file);
  header.header_bytes = text.size();
  header.file_bytes = file_bytes;
  if (text.size() > limits::header_bytes_max) {
    header.error = length_fault(ErrorCode::header_too_large, header.file, text.size(), file_bytes);
    return header;
  }
  if (file_bytes < 8 || text.size() > file_bytes - 8) {
    header.error = length_fault(ErrorCode::invalid_header_length, header.file, text.size(), file_bytes);
    return header;
  }
  const std::size_t invalid = census.is_ascii ? std::string_view::npos : find_invalid_utf8(text);
  if (invalid != std::string_view::npos) {
    ErrorFacts facts;
    facts.file = header.file;
    facts.byte_offset = 8 + invalid;
    header.error = Error(ErrorCode::invalid_header,
                         "the header is not UTF-8 from byte " + std::to_string(8 + invalid) + " on", std::move(facts));
    return header;
  }
  auto owned = std::make_shared<OwnedText>();
  owned->text = std::move(text_owner);
  header.text = owned;
  header.tensors.reserve(std::min(census.open_braces, text.size() / k_entry_bytes_min + 1));
  detail::advise_huge_pages(header.tensors.data(), header.tensors.capacity() * sizeof(HeaderTensor));
  HeaderScanner scanner(header, text, owned->arena);
  try {
    scanner.scan(census.has_delete);
  } catch (const Error& error) {
    header.error = error;
  }
  scanner.report();
  // Names are compared once all are known. A name that stood twice before another fault was met comes first.
  if (std::optional<Error> duplicate = detail::find_duplicate_name(header, scanner.name_hashes()))
    header.error = std::move(duplicate);
  if (header.error) return header;
  header.error = detail::validate_ranges(header, scanner.is_sorted());
  return header;
}

Header scan_header(std::string_view text, std::uint64_t file_bytes, std::string file,
                   std::shared_ptr<const void> text_owner) {
  detail::TextCensus census;
  if (text.size() <= limits::header_bytes_max) census.add(text);
  return detail::scan_text(text, census, file_bytes, std::move(file), std::move(text_owner));
}

}  // namespace weightproof::storage
