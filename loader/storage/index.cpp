// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "loader/core/limits.hpp"
#include "loader/storage/header_internal.hpp"
#include "loader/storage/index_internal.hpp"
#include "loader/storage/json_cursor_internal.hpp"
#include "loader/storage/utf8_internal.hpp"

namespace weightproof::storage::detail {
namespace {

class IndexScanner {
 public:
  IndexScanner(std::string_view text, const std::string& file) : cursor_(text), text_(text), file_(file) {}

  ParsedIndex scan();

 private:
  void scan_document();
  void scan_metadata();
  void scan_total(std::string_view name, std::optional<std::uint64_t>& total, bool keeps_float);
  void scan_weight_map();
  void report_duplicate(std::string_view name, std::size_t position, const std::string& detail);
  void report_duplicate_keys();
  void sort_shards();
  void report_unsafe();

  JsonCursor cursor_;
  TextArena arena_;
  std::string_view text_;
  const std::string& file_;
  ParsedIndex parsed_;
  std::vector<std::uint32_t> positions_;  // of weight_map rows in the text
  std::unordered_map<std::string_view, std::uint32_t, NameHash> shard_ids_;
  std::vector<std::string_view> shard_names_;
};

// Value text without the white space between its parts.
std::string compact(std::string_view text) {
  std::string out;
  bool is_in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      out += c;
      if (c == '\\' && i + 1 < text.size()) out += text[++i];
      if (c == '"') is_in_string = false;
    } else if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
      out += c;
      is_in_string = c == '"';
    }
  }
  return out;
}

void IndexScanner::report_duplicate(std::string_view name, std::size_t position, const std::string& detail) {
  ErrorFacts facts;
  facts.file = file_;
  facts.byte_offset = position;
  facts.keys.emplace_back(name);
  facts.expected = "one entry per name";
  facts.hint = "readers disagree on which of the two counts; write the index again from the shard headers";
  parsed_.diagnostics.push_back(make_diagnostic("index.duplicate_key", Severity::fail,
                                                "name " + shown_name(name) + " stands twice in the index" + detail,
                                                std::move(facts), ErrorCode::duplicate_key));
}

void IndexScanner::scan_total(std::string_view name, std::optional<std::uint64_t>& total, bool keeps_float) {
  const std::size_t position = cursor_.position();
  const std::string_view number = cursor_.number();
  std::string found(number);
  if (!number.empty()) {
    std::uint64_t value = 0;
    const auto [end, fault] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (fault == std::errc() && end == number.data() + number.size()) {
      total = value;
      return;
    }
    double real = 0;
    const auto [real_end, real_fault] = std::from_chars(number.data(), number.data() + number.size(), real);
    if (real_fault == std::errc() && real_end == number.data() + number.size() && keeps_float) {
      parsed_.index.total_size_float = real;
    }
  } else {
    cursor_.skip_value();
    found = compact(text_.substr(position, cursor_.position() - position)).substr(0, 64);
  }
  ErrorFacts facts;
  facts.file = file_;
  facts.byte_offset = position;
  facts.expected = "a non-negative integer";
  facts.actual = found;
  parsed_.diagnostics.push_back(make_diagnostic("index.total_size", Severity::warn,
                                                std::string(name) + " is " + found + ", not a non-negative integer",
                                                std::move(facts)));
}

void IndexScanner::scan_metadata() {
  if (cursor_.peek() != '{') cursor_.fail("'metadata' must be an object, found " + cursor_.describe_next());
  cursor_.accept('{');
  cursor_.skip_space();
  if (cursor_.accept('}')) return;
  std::vector<std::string_view> names;
  for (;;) {
    cursor_.skip_space();
    const std::size_t position = cursor_.position();
    const std::string_view name = cursor_.string(arena_);
    if (names.size() >= limits::metadata_entries_max) {
      throw JsonFault{position, "'metadata' has more than " + std::to_string(limits::metadata_entries_max) + " entries",
                      false, true};
    }
    names.push_back(name);
    cursor_.skip_space();
    cursor_.expect(':', "':' after a name");
    cursor_.skip_space();
    if (name == "total_size") {
      scan_total(name, parsed_.index.total_size, true);
    } else if (name == "total_parameters") {
      scan_total(name, parsed_.index.total_parameters, false);
    } else {
      const std::size_t begin = cursor_.position();
      cursor_.skip_value();
      parsed_.index.other_metadata.emplace_back(name, compact(text_.substr(begin, cursor_.position() - begin)));
    }
    cursor_.skip_space();
    if (cursor_.accept('}')) break;
    cursor_.expect(',', "',' or '}' in 'metadata'");
  }
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end()) report_duplicate(*twin, cursor_.position(), "'s metadata");
}

void IndexScanner::scan_weight_map() {
  if (cursor_.peek() != '{') cursor_.fail("'weight_map' must be an object, found " + cursor_.describe_next());
  cursor_.accept('{');
  cursor_.skip_space();
  if (cursor_.accept('}')) return;
  for (;;) {
    cursor_.skip_space();
    const std::size_t position = cursor_.position();
    const std::string_view key = cursor_.string(arena_);
    if (key.size() > limits::name_bytes_max) {
      throw JsonFault{position, "a name of " + std::to_string(key.size()) + " bytes", false, true};
    }
    if (parsed_.index.weight_map.size() >= limits::tensors_max) {
      throw JsonFault{position, "more than " + std::to_string(limits::tensors_max) + " tensors", false, true};
    }
    cursor_.skip_space();
    cursor_.expect(':', "':' after a name");
    cursor_.skip_space();
    if (cursor_.peek() != '"') {
      cursor_.fail("the file of " + shown_name(key) + " must be a string, found " + cursor_.describe_next());
    }
    const std::string_view shard = cursor_.string(arena_);
    const auto [entry, is_new] = shard_ids_.try_emplace(shard, static_cast<std::uint32_t>(shard_names_.size()));
    if (is_new) {
      if (shard_names_.size() >= limits::shards_max) {
        throw JsonFault{position, "more than " + std::to_string(limits::shards_max) + " files", false, true};
      }
      shard_names_.push_back(shard);
    }
    parsed_.index.weight_map.emplace_back(key, entry->second);
    positions_.push_back(static_cast<std::uint32_t>(position));
    cursor_.skip_space();
    if (cursor_.accept('}')) break;
    cursor_.expect(',', "',' or '}' in 'weight_map'");
  }
}

void IndexScanner::scan_document() {
  cursor_.skip_space();
  cursor_.expect('{', "'{', the begin of the index object");
  bool has_weight_map = false;
  bool has_metadata = false;
  cursor_.skip_space();
  if (!cursor_.accept('}')) {
    std::vector<std::string_view> names;
    for (;;) {
      cursor_.skip_space();
      const std::size_t position = cursor_.position();
      const std::string_view name = cursor_.string(arena_);
      cursor_.skip_space();
      cursor_.expect(':', "':' after a name");
      cursor_.skip_space();
      if (names.size() >= limits::metadata_entries_max) {
        throw JsonFault{position, "more than " + std::to_string(limits::metadata_entries_max) + " members", false,
                        true};
      }
      names.push_back(name);
      if (name == "weight_map" && !has_weight_map) {
        has_weight_map = true;
        scan_weight_map();
      } else if (name == "metadata" && !has_metadata) {
        has_metadata = true;
        scan_metadata();
      } else {
        cursor_.skip_value();
      }
      cursor_.skip_space();
      if (cursor_.accept('}')) break;
      cursor_.expect(',', "',' or '}' after a member");
    }
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin != names.end()) report_duplicate(*twin, cursor_.position(), " itself");
  }
  cursor_.skip_space();
  if (!cursor_.is_at_end())
    cursor_.fail("more text follows the index object, beginning with " + cursor_.describe_next());
  if (!has_weight_map) cursor_.fail_at(0, "'weight_map' is missing");
}

void IndexScanner::report_duplicate_keys() {
  auto& map = parsed_.index.weight_map;
  std::vector<std::uint32_t> order(map.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int compared = map[a].first.compare(map[b].first);
    return compared != 0 ? compared < 0 : a < b;
  });
  std::vector<std::uint32_t> again;  // rows whose name stood before
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (map[order[i]].first == map[order[i - 1]].first) again.push_back(order[i]);
  }
  if (again.empty()) return;
  std::sort(again.begin(), again.end());
  constexpr std::size_t reported_max = 64;
  for (std::size_t i = 0; i < std::min(again.size(), reported_max); ++i) {
    report_duplicate(map[again[i]].first, positions_[again[i]],
                     ", the second time for " + shown_name(shard_names_[map[again[i]].second]));
  }
  // The first entry stays, so that everything else can still be judged.
  std::size_t kept = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (next < again.size() && again[next] == i) {
      ++next;
      continue;
    }
    if (kept != i) map[kept] = std::move(map[i]);
    ++kept;
  }
  map.resize(kept);
}

void IndexScanner::sort_shards() {
  std::vector<std::uint32_t> order(shard_names_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return shard_names_[a] < shard_names_[b]; });
  std::vector<std::uint32_t> place(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    parsed_.shards.emplace_back(shard_names_[order[i]]);
  }
  for (auto& row : parsed_.index.weight_map) row.second = place[row.second];
}

void IndexScanner::report_unsafe() {
  constexpr std::size_t reported_max = 64;
  parsed_.is_safe.assign(parsed_.shards.size(), true);
  std::vector<std::size_t> reported(parsed_.shards.size(), reported_max);  // per shard: place in `keys`
  std::vector<KeyList> keys;
  for (std::size_t i = 0; i < parsed_.shards.size(); ++i) {
    if (unsafe_path_reason(parsed_.shards[i]).empty()) continue;
    parsed_.is_safe[i] = false;
    if (keys.size() == reported_max) continue;
    reported[i] = keys.size();
    keys.emplace_back();
  }
  if (keys.empty()) return;
  for (const auto& [key, shard] : parsed_.index.weight_map) {
    if (reported[shard] != reported_max) keys[reported[shard]].add(key, 0);
  }
  for (std::size_t i = 0; i < parsed_.shards.size(); ++i) {
    if (reported[i] == reported_max) continue;
    const KeyList& named = keys[reported[i]];
    ErrorFacts facts;
    facts.file = file_;
    facts.keys = named.keys;
    facts.expected = "a relative path below the index, ending in .safetensors";
    facts.actual = shown_name(parsed_.shards[i]);
    facts.hint = "such a file is never opened; write the index again";
    parsed_.diagnostics.push_back(make_diagnostic("index.path", Severity::fail,
                                                  "the index names the file " + shown_name(parsed_.shards[i]) + ", " +
                                                      unsafe_path_reason(parsed_.shards[i]) + " (" + names_text(named) +
                                                      ")",
                                                  std::move(facts), ErrorCode::unsafe_shard_path));
  }
}

ParsedIndex IndexScanner::scan() {
  parsed_.index.file = file_;
  const auto refuse = [&](std::size_t position, const std::string& reason, ErrorCode code) {
    ErrorFacts facts;
    facts.file = file_;
    facts.byte_offset = position;
    facts.expected = "one JSON object whose 'weight_map' maps names to files";
    facts.hint = "write the index again from the shard headers";
    const char* check = code == ErrorCode::limit_exceeded ? "format.limits" : "index.syntax";
    ParsedIndex failed;
    failed.diagnostics.push_back(make_diagnostic(
        check, Severity::fail, "the index is not valid: " + reason + " (byte " + std::to_string(position) + ")",
        std::move(facts), code));
    return failed;
  };
  const std::size_t invalid = find_invalid_utf8(text_);
  if (invalid != std::string_view::npos) return refuse(invalid, "the text is not UTF-8", ErrorCode::index_invalid);
  try {
    scan_document();
  } catch (const JsonFault& fault) {
    return refuse(fault.position, fault.reason, fault.is_limit ? ErrorCode::limit_exceeded : ErrorCode::index_invalid);
  }
  report_duplicate_keys();
  sort_shards();
  report_unsafe();
  parsed_.is_usable = true;
  return std::move(parsed_);
}

}  // namespace

ParsedIndex parse_index(std::string_view text, const std::string& file) { return IndexScanner(text, file).scan(); }

std::string unsafe_path_reason(std::string_view name) {
  if (name.find('\0') != std::string_view::npos) return "which holds a NUL character";
  if (name.starts_with('/') || name.starts_with('\\') || (name.size() > 1 && name[1] == ':')) {
    return "which is an absolute path";
  }
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("/\\", begin), name.size());
    if (name.substr(begin, end - begin) == "..") return "which leaves the directory of the index";
    begin = end + 1;
  }
  if (!name.ends_with(".safetensors") || name.size() == std::string_view(".safetensors").size()) {
    return "which does not end in .safetensors";
  }
  return {};
}

std::optional<ShardNumber> shard_number(std::string_view file_name) {
  constexpr std::string_view suffix = ".safetensors";
  if (!file_name.ends_with(suffix)) return std::nullopt;
  file_name.remove_suffix(suffix.size());
  const auto take_number = [&](std::uint64_t& value) {
    std::size_t begin = file_name.size();
    while (begin > 0 && file_name[begin - 1] >= '0' && file_name[begin - 1] <= '9') --begin;
    const std::string_view digits = file_name.substr(begin);
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || fault != std::errc() || end != digits.data() + digits.size()) return false;
    file_name = file_name.substr(0, begin);
    return true;
  };
  const auto take = [&](std::string_view text) {
    if (!file_name.ends_with(text)) return false;
    file_name.remove_suffix(text.size());
    return true;
  };
  ShardNumber number;
  if (!take_number(number.total) || !take("-of-") || !take_number(number.index) || !take("-")) return std::nullopt;
  return number;
}

Diagnostic make_diagnostic(const char* check, Severity severity, std::string message, ErrorFacts facts,
                           std::optional<ErrorCode> code) {
  Diagnostic diagnostic;
  diagnostic.check = check;
  diagnostic.severity = severity;
  diagnostic.message = std::move(message);
  diagnostic.facts = std::move(facts);
  if (code) diagnostic.code = to_string(*code);
  return diagnostic;
}

}  // namespace weightproof::storage::detail
