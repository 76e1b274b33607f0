// SPDX-License-Identifier: Apache-2.0
// The pages of `weightproof explain`: one for each check id and each error code. The texts are static.
#pragma once

#include <span>
#include <string_view>

namespace weightproof::suites {

struct CheckPage {
  std::string_view id;
  std::string_view meaning;     ///< what a finding says
  std::string_view importance;  ///< what goes wrong where it is ignored
  std::string_view example;     ///< how it comes about
  std::string_view remedy;
};

struct ErrorPage {
  std::string_view code;
  std::string_view meaning;
  std::string_view example;  ///< an input that leads to it
  std::string_view remedy;
};

std::span<const CheckPage> check_pages();
std::span<const ErrorPage> error_pages();
const CheckPage* find_check_page(std::string_view id);
/// By the code or by the format's own name of it.
const ErrorPage* find_error_page(std::string_view code);

}  // namespace weightproof::suites
