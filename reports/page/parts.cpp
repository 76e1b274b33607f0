// SPDX-License-Identifier: Apache-2.0
#include "reports/page/parts_internal.hpp"

#include <algorithm>
#include <cmath>

namespace weightproof::reports::page {

Context::Context(const Report& r, Step s)
    : report(r), step(s), summary(summarize(r.checks)), verdict(verdict_of(summary)) {
  for (const Finding& finding : r.findings) {
    by_fingerprint_.emplace(finding.fingerprint, &finding);
    // Findings are sorted by gravity: the first of a key is the one to show.
    for (const std::string& key : finding.keys) {
      by_key_.emplace(key, &finding);
    }
  }
  cards_ = gravest(r, 3);
}

const Finding* Context::finding_of(std::string_view key) const {
  const auto it = by_key_.find(key);
  return it == by_key_.end() ? nullptr : it->second;
}

const Finding* Context::finding_with(std::string_view fingerprint) const {
  const auto it = by_fingerprint_.find(fingerprint);
  return it == by_fingerprint_.end() ? nullptr : it->second;
}

bool Context::group_failed(std::string_view group) const {
  return std::any_of(report.checks.begin(), report.checks.end(), [&](const CheckRecord& check) {
    return check.suite == group && (check.status == Status::fail || check.status == Status::error);
  });
}

bool Context::check_failed(std::string_view id) const {
  return std::any_of(report.checks.begin(), report.checks.end(), [&](const CheckRecord& check) {
    return check.id == id && (check.status == Status::fail || check.status == Status::error);
  });
}

bool Context::is_card(const Finding& finding) const {
  return std::find(cards_.begin(), cards_.end(), &finding) != cards_.end();
}

std::string Context::next_id() { return "p" + std::to_string(++pictures_); }

char letter(Status status) { return to_string(status).front(); }

std::string mark(Status status) { return std::string("<i class=\"m ") + letter(status) + "\"></i>"; }

std::string state(Status status, std::string_view word) {
  return std::string("<span class=\"st ") + letter(status) + "\">" + mark(status) +
         xml_text(word.empty() ? to_string(status) : word) + "</span>";
}

std::string section_open(std::string_view id, std::string_view name, std::string_view small_html) {
  const std::string i(id);
  return "<section id=\"" + i + "\" aria-labelledby=\"h-" + i + "\"><h2 id=\"h-" + i + "\">" + std::string(name) +
         (small_html.empty() ? std::string() : "<small>" + std::string(small_html) + "</small>") + "</h2><div>";
}

std::string section_close() { return "</div></section>\n"; }

std::string answer(std::optional<Status> status, std::string_view html) {
  return "<p class=\"ans\">" +
         (status ? mark(*status) + "<span class=\"sr\">" + std::string(to_string(*status)) + ": </span>"
                 : std::string()) +
         std::string(html) + "</p>";
}

std::string finding_link(const Finding& finding, std::string_view html, std::string_view css_class) {
  return "<a href=\"#f-" + xml_text(finding.fingerprint) + "\"" +
         (css_class.empty() ? std::string() : " class=\"" + std::string(css_class) + "\"") + ">" + std::string(html) +
         "</a>";
}

std::string table_head(std::string_view columns) {
  std::string out = "<thead><tr>";
  for (std::size_t begin = 0; begin <= columns.size();) {
    const std::size_t end = std::min(columns.find('|', begin), columns.size());
    std::string_view column = columns.substr(begin, end - begin);
    out += "<th scope=\"col\"";
    if (!column.empty() && column.front() == '#') {
      out += " class=\"n\"";
      column.remove_prefix(1);
    }
    if (const std::size_t width = column.find('@'); width != std::string_view::npos) {
      out += " style=\"width:" + std::string(column.substr(width + 1)) + "px\"";
      column = column.substr(0, width);
    }
    out += ">" + std::string(column) + "</th>";
    begin = end + 1;
  }
  return out + "</tr></thead>";
}

std::string cell(std::string_view html, std::string_view label_text, std::string_view css_class) {
  return "<td" + (css_class.empty() ? std::string() : " class=\"" + std::string(css_class) + "\"") +
         (label_text.empty() ? std::string() : " data-l=\"" + std::string(label_text) + "\"") + ">" +
         std::string(html) + "</td>";
}

std::string number_cell(std::uint64_t number, std::string_view label_text) {
  return "<td class=\"n\" data-l=\"" + std::string(label_text) + "\" data-v=\"" + std::to_string(number) + "\">" +
         grouped(number) + "</td>";
}

std::string command(std::string_view text) {
  return "<div class=\"cmd\"><pre>" + xml_block(cut_middle(text, 2000)) +
         "</pre><button type=\"button\" class=\"jo\" data-c=\"cmd\">Copy</button></div>";
}

std::string at(double value) {
  std::string text = fixed(value, 2);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') {
      text.pop_back();
    }
  }
  return text;
}

std::string svg_open(Context& context, double width, double height, std::string_view title,
                     std::string_view description, std::string_view css_class) {
  const std::string id = context.next_id();
  return "<svg class=\"" + std::string(css_class) + "\" viewBox=\"0 0 " + at(width) + " " + at(height) +
         "\" role=\"img\" aria-labelledby=\"" + id + "t " + id + "d\"><title id=\"" + id + "t\">" + xml_text(title) +
         "</title><desc id=\"" + id + "d\">" + xml_text(description) + "</desc>";
}

std::string rect(double x, double y, double width, double height, std::string_view css_class, std::string_view more) {
  return "<rect x=\"" + at(x) + "\" y=\"" + at(y) + "\" width=\"" + at(std::max(width, 0.0)) + "\" height=\"" +
         at(std::max(height, 0.0)) + "\"" +
         (css_class.empty() ? std::string() : " class=\"" + std::string(css_class) + "\"") + std::string(more) + "/>";
}

std::string line(double x1, double y1, double x2, double y2, std::string_view css_class) {
  return "<line x1=\"" + at(x1) + "\" y1=\"" + at(y1) + "\" x2=\"" + at(x2) + "\" y2=\"" + at(y2) + "\" class=\"" +
         std::string(css_class) + "\"/>";
}

std::string label(double x, double y, std::string_view text, std::string_view css_class, std::string_view anchor) {
  return "<text x=\"" + at(x) + "\" y=\"" + at(y) + "\"" +
         (css_class.empty() ? std::string() : " class=\"" + std::string(css_class) + "\"") +
         (anchor.empty() ? std::string() : " text-anchor=\"" + std::string(anchor) + "\"") + ">" + xml_text(text) +
         "</text>";
}

}  // namespace weightproof::reports::page
