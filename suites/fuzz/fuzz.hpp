// SPDX-License-Identifier: Apache-2.0
// A fuzz target is one function, as clang's engine wants it. Without that engine replay_main.cpp feeds it files and
// seeded mutations of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace weightproof::suites::fuzz {

/// Says what two implementations disagree about and stops: the engine keeps the input.
[[noreturn]] inline void disagree(const std::string& what) {
  std::fprintf(stderr, "disagreement: %s\n", what.c_str());
  std::abort();
}

}  // namespace weightproof::suites::fuzz
