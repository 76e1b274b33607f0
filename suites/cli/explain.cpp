// SPDX-License-Identifier: Apache-2.0
// explain: the page of a check id or an error code.
#include "suites/explain/pages.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "loader/core/check.hpp"
#include "loader/core/error.hpp"
#include "reports/rules.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = text.find(' ');
    const std::string_view word = text.substr(0, end);
    if (column > 0 && column + 1 + word.size() > width) {
      out += "\n";
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

void list_all(Console& console) {
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    json.begin_object().member("schema", "weightproof.explain/1").name("checks").begin_array();
    for (const CheckInfo& info : all_checks()) {
      json.begin_object()
          .compact()
          .member("id", info.id)
          .member("summary", info.summary)
          .member("severity", info.severities)
          .member("needs", info.needs)
          .end_object();
    }
    json.end_array().name("errors").begin_array();
    for (const ErrorPage& page : error_pages()) {
      json.begin_object().compact().member("id", page.code).member("summary", page.meaning).end_object();
    }
    json.end_array().end_object();
    json.flush();
    console.out("\n");
    return;
  }
  std::string_view group;
  for (const CheckInfo& info : all_checks()) {
    if (info.group() != group) {
      group = info.group();
      console.line((info.id == all_checks().front().id ? "" : "\n") + console.styled(Tone::strong, group));
    }
    std::string left = "  " + std::string(info.id);
    left.append(left.size() < 32 ? 32 - left.size() : 1, ' ');
    console.line(left + std::string(info.summary));
  }
  console.line("\n" + console.styled(Tone::strong, "error codes"));
  for (const ErrorPage& page : error_pages()) {
    std::string left = "  " + std::string(page.code);
    left.append(left.size() < 32 ? 32 - left.size() : 1, ' ');
    console.line(left + std::string(page.meaning.substr(0, page.meaning.find(". ") == std::string_view::npos
                                                               ? page.meaning.size()
                                                               : page.meaning.find(". ") + 1)));
  }
}

struct Section {
  std::string_view title;
  std::string_view text;
  bool is_verbatim = false;
};

/// `summary` is the rule in the words of the specification and goes to programs alone; people get `title` and what the
/// first section says, which needs no heading.
void write_page(Console& console, std::string_view id, std::string_view summary, std::string_view title,
                std::span<const Section> sections) {
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    json.begin_object().member("schema", "weightproof.explain/1").member("id", id).member("summary", summary);
    for (const Section& section : sections) {
      if (!section.text.empty()) {
        json.member(section.title, section.text);
      }
    }
    json.end_object();
    json.flush();
    console.out("\n");
    return;
  }
  const std::size_t width = std::min(console.width(), 100U);
  console.line(console.styled(Tone::strong, id) + (title.empty() ? std::string() : ": " + std::string(title)));
  console.line(wrapped(sections.front().text, width));
  for (const Section& section : sections.subspan(1)) {
    if (section.text.empty()) {
      continue;
    }
    std::string heading(section.title);
    std::replace(heading.begin(), heading.end(), '_', ' ');
    console.line("\n" + console.styled(Tone::strong, heading));
    console.line(section.is_verbatim ? std::string(section.text) : wrapped(section.text, width));
  }
}

}  // namespace

int run_explain(const Arguments& arguments, Console& console) {
  if (arguments.positionals().empty()) {
    list_all(console);
    return k_exit_done;
  }
  const std::string& asked = arguments.positionals().front();
  if (const CheckPage* page = find_check_page(asked)) {
    const CheckInfo& info = *find_check(asked);
    const std::string_view needs = info.needs.empty() ? std::string_view("nothing") : info.needs;
    const std::array sections = {Section{"what_it_means", page->meaning},
                                 Section{"why_it_matters", page->importance},
                                 Section{"example", page->example},
                                 Section{"how_to_mend_it", page->remedy},
                                 Section{"rule", info.summary},
                                 Section{"severity", info.severities},
                                 Section{"needs", needs}};
    const reports::Rule* rule = reports::find_rule(info.id);
    write_page(console, info.id, info.summary, rule == nullptr ? std::string_view() : rule->title, sections);
    return k_exit_done;
  }
  if (const ErrorPage* page = find_error_page(asked)) {
    const ErrorCode code = *error_code_from_string(page->code);
    const std::array sections = {
        Section{"what_it_means", page->meaning},      Section{"example", page->example},
        Section{"how_to_mend_it", page->remedy},      Section{"class", to_string(class_of(code))},
        Section{"format_name", format_name_of(code)}, Section{"reported_by", check_of(code)}};
    write_page(console, page->code, "error code", "an error code", sections);
    return k_exit_done;
  }
  std::vector<std::string_view> names;
  for (const CheckInfo& info : all_checks()) {
    names.push_back(info.id);
  }
  for (const ErrorPage& page : error_pages()) {
    names.push_back(page.code);
  }
  const std::string_view near = nearest(asked, names);
  ErrorFacts facts;
  facts.hint =
      near.empty() ? "`weightproof explain` lists all checks and codes" : "did you mean " + std::string(near) + "?";
  throw Error(ErrorCode::usage, "no check and no error code is called '" + printable(asked) + "'", facts);
}

}  // namespace weightproof::suites::cli
