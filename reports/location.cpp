// SPDX-License-Identifier: Apache-2.0
#include "reports/location_internal.hpp"

#include "reports/text_internal.hpp"

namespace weightproof::reports {
namespace {

bool names_a_file(std::string_view key) {
  for (const std::string_view end : {".safetensors", ".json", ".bin", ".txt", ".py"}) {
    if (key.size() > end.size() && key.substr(key.size() - end.size()) == end) {
      return true;
    }
  }
  return false;
}

// No absolute path and no step upwards leaves the machine in a document that others read.
std::string relative(std::string_view path) {
  std::string out;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (!part.empty() && part != "." && part != "..") {
      out += (out.empty() ? "" : "/") + std::string(part);
    }
    begin = end + 1;
  }
  return out;
}

std::string last_part(std::string_view path) {
  const std::string clean = relative(path);
  return clean.substr(clean.rfind('/') + 1);
}

}  // namespace

std::string location_path(const Report& report, const Finding& finding) {
  std::string out;
  if (!finding.location_file.empty()) {
    out = relative(finding.location_file);
  } else if (names_a_file(finding.key)) {
    out = last_part(finding.key);
  } else {
    out = last_part(report.checkpoint.path);
  }
  return out.empty() ? "checkpoint" : cut_middle(out, 256);
}

std::string location_uri(const Report& report, const Finding& finding) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (const char c : location_path(report, finding)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || c == '/';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += digits[byte >> 4U];
      out += digits[byte & 0xFU];
    }
  }
  return out;
}

}  // namespace weightproof::reports
