// SPDX-License-Identifier: Apache-2.0
#include "reports/evidence.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace weightproof::reports {

std::string TensorTable::key(const TensorRow& row) const {
  if (row.cls >= classes.size()) {
    return {};
  }
  const std::string& pattern = classes[row.cls].pattern;
  std::string out;
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern.compare(at, 2, "{}") == 0 && row.layer >= 0) {
      out += std::to_string(row.layer);
      at += 2;
    } else if (pattern.compare(at, 3, "{e}") == 0 && row.expert >= 0) {
      out += std::to_string(row.expert);
      at += 3;
    } else {
      out += pattern[at++];
    }
  }
  return out;
}

namespace {

struct Pattern {
  std::string text;
  std::string native;
  std::int32_t layer = -1;
  std::int32_t expert = -1;
};

bool number(std::string_view part, std::int32_t& out) {
  // Leading zeros and numbers past a million are names, not positions.
  if (part.empty() || part.size() > 6 || (part.size() > 1 && part.front() == '0')) {
    return false;
  }
  const auto result = std::from_chars(part.data(), part.data() + part.size(), out);
  return result.ec == std::errc() && result.ptr == part.data() + part.size() && out >= 0;
}

Pattern pattern_of(std::string_view key) {
  Pattern out;
  std::string_view previous;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    const std::string_view part = key.substr(begin, end - begin);
    out.text += begin == 0 ? "" : ".";
    std::int32_t value = -1;
    if (out.layer < 0 && begin > 0 && number(part, value)) {
      out.layer = value;
      out.text += "{}";
    } else if (out.layer >= 0 && out.expert < 0 && previous.find("expert") != std::string_view::npos &&
               number(part, value)) {
      out.expert = value;
      out.text += "{e}";
    } else {
      out.text += part;
    }
    previous = part;
    begin = end + 1;
  }
  return out;
}

// The native name with the layer's number taken out, where it stands between dots.
std::string native_pattern(const std::string& native, std::int32_t layer) {
  const std::string middle = "." + std::to_string(layer) + ".";
  const std::size_t at = layer < 0 ? std::string::npos : native.find(middle);
  return at == std::string::npos ? native : native.substr(0, at) + ".{}." + native.substr(at + middle.size());
}

}  // namespace

void TensorTableBuilder::add(std::string_view key, const TensorFacts& facts) {
  const Pattern pattern = pattern_of(key);
  std::string identity = pattern.text + '\0' + facts.dtype + '\0' + facts.route;
  for (const std::uint64_t extent : facts.shape) {
    identity += '\0' + std::to_string(extent);
  }
  const auto [cls, fresh] = classes_.emplace(identity, static_cast<std::uint32_t>(table_.classes.size()));
  if (fresh) {
    TensorClass out;
    const std::size_t hole = pattern.text.find("{}.");
    out.module = hole == std::string::npos ? pattern.text : pattern.text.substr(hole + 3);
    out.pattern = pattern.text;
    out.dtype = facts.dtype;
    out.shape = facts.shape;
    out.bytes = facts.bytes;
    out.stored = facts.stored;
    out.native = native_pattern(facts.native, pattern.layer);
    out.native_dtype = facts.native_dtype;
    out.native_shape = facts.native_shape;
    out.route = facts.route;
    out.reason = facts.reason;
    out.placement = facts.placement;
    table_.classes.push_back(std::move(out));
  }
  const auto [file, fresh_file] = files_.emplace(facts.file, static_cast<std::uint32_t>(table_.files.size()));
  if (fresh_file) {
    table_.files.push_back(facts.file);
  }
  TensorRow row;
  row.cls = cls->second;
  row.layer = pattern.layer;
  row.expert = pattern.expert;
  row.file = file->second;
  row.digest = facts.digest.size() == 16 ? facts.digest : std::string();
  table_.rows.push_back(std::move(row));
}

TensorTable TensorTableBuilder::take() {
  classes_.clear();
  files_.clear();
  return std::exchange(table_, {});
}

}  // namespace weightproof::reports
