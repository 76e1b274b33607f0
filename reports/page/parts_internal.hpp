// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reports/markup_internal.hpp"
#include "reports/page/page_internal.hpp"
#include "reports/text_internal.hpp"
#include "reports/verdict_internal.hpp"

// Small pieces of markup that the blocks share.
namespace weightproof::reports::page {

/// Class letter of a status: f, e, w, s, p.
char letter(Status status);
/// The shape alone: `<i class="m f"></i>`.
std::string mark(Status status);
/// Shape and word.
std::string state(Status status, std::string_view word = {});
/// Opens a section with its name in the margin; `small` stands under it.
std::string section_open(std::string_view id, std::string_view name, std::string_view small_html);
std::string section_close();
/// The section's first sentence; without a status it informs.
std::string answer(std::optional<Status> status, std::string_view html);
/// `<a href="#f-...">text</a>` to a finding.
std::string finding_link(const Finding& finding, std::string_view html, std::string_view css_class = {});
/// Table head: columns separated by '|'; a leading '#' aligns a column to the right, "name@70" gives a width in px.
std::string table_head(std::string_view columns);
/// `<td class="n">1,234</td>` with a label for narrow screens.
std::string number_cell(std::uint64_t number, std::string_view label);
std::string cell(std::string_view html, std::string_view label = {}, std::string_view css_class = {});
/// A command with a copy button.
std::string command(std::string_view text);

// SVG.
/// A coordinate with at most two digits.
std::string at(double value);
std::string svg_open(Context& context, double width, double height, std::string_view title,
                     std::string_view description, std::string_view css_class = {});
std::string rect(double x, double y, double width, double height, std::string_view css_class,
                 std::string_view more = {});
std::string line(double x1, double y1, double x2, double y2, std::string_view css_class);
/// `text` is escaped here.
std::string label(double x, double y, std::string_view text, std::string_view css_class = {},
                  std::string_view anchor = {});

// Pictures of findings; empty where the finding has nothing to draw.
std::string figure(Context& context, const Finding& finding);
std::string thumbnail(Context& context, const Finding& finding);
std::string votes(const Finding& finding);

}  // namespace weightproof::reports::page
