// SPDX-License-Identifier: Apache-2.0
// What a program of somebody else does with weightproof: it includes by room, links the library and calls into it.
#include <cstdio>
#include <string>

#include "loader/core/dtype.hpp"
#include "loader/core/error.hpp"

int main() {
  const auto dtype = weightproof::dtype_from_name("BF16");
  if (!dtype || weightproof::bits_of(*dtype) != 16) return 1;
  const auto code = weightproof::error_code_from_string("HEADER_TOO_SMALL");
  if (!code || weightproof::check_of(*code).empty()) return 1;
  std::printf("consumer: %s has %u bits\n", std::string(weightproof::name_of(*dtype)).c_str(),
              weightproof::bits_of(*dtype));
  return 0;
}
