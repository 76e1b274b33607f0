// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Escapers. Each takes any bytes and gives text that its format cannot take for markup.
namespace weightproof::reports {

/// Text for HTML and XML elements and double-quoted attributes. Hidden characters are spelled out, invalid bytes are
/// U+FFFD.
std::string xml_text(std::string_view text);
/// As xml_text, but line breaks and tabs stay.
std::string xml_block(std::string_view text);
/// A tensor or file name for HTML: isolated (bdi), hidden characters marked, break opportunities after dots and
/// slashes, the middle cut past 256 characters.
std::string html_name(std::string_view name, std::string_view css_class = "k");
/// Text of Markdown in which nothing is markup, no name mentions a person and no link arises.
std::string markdown_text(std::string_view text);
/// A code span that shows the text as it is.
std::string markdown_code(std::string_view text);
/// A fenced block that the text cannot close.
std::string markdown_fence(std::string_view text, std::string_view language);

}  // namespace weightproof::reports
