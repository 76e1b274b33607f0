// SPDX-License-Identifier: Apache-2.0
#include "suites/explain/pages.hpp"

#include <array>

#include "loader/core/error.hpp"

namespace weightproof::suites {
namespace {

constexpr std::array k_check_pages = {
#define X(id, meaning, importance, example, remedy) CheckPage{id, meaning, importance, example, remedy},
#include "suites/explain/files.def"
#include "suites/explain/layout.def"
#include "suites/explain/names.def"
#include "suites/explain/numbers.def"
#include "suites/explain/running.def"
#undef X
};

constexpr std::array k_error_pages = {
#define X(code, meaning, example, remedy) ErrorPage{code, meaning, example, remedy},
#include "suites/explain/errors.def"
#undef X
};

}  // namespace

std::span<const CheckPage> check_pages() { return k_check_pages; }
std::span<const ErrorPage> error_pages() { return k_error_pages; }

const CheckPage* find_check_page(std::string_view id) {
  for (const CheckPage& page : k_check_pages) {
    if (page.id == id) {
      return &page;
    }
  }
  return nullptr;
}

const ErrorPage* find_error_page(std::string_view code) {
  for (const ErrorPage& page : k_error_pages) {
    const auto known = error_code_from_string(page.code);
    if (page.code == code || (known && !code.empty() && format_name_of(*known) == code)) {
      return &page;
    }
  }
  return nullptr;
}

}  // namespace weightproof::suites
