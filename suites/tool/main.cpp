// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "suites/cli/verbs.hpp"

#if defined(__GLIBC__)
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#endif

namespace {

// Short runs spend a good part of their time on page faults: a header of 100,000 tensors is 40 MB of small rows. The
// heap grows in larger steps and its first stretch may be huge pages. Nothing is taken that is not touched.
void prepare_heap() {
#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t k_step = 64U << 20U;
  constexpr std::uintptr_t k_huge_page = 2U << 20U;
  ::mallopt(M_TOP_PAD, static_cast<int>(k_step));
  // The heap that static objects began is used up, so that the next piece of it is a large one.
  void* volatile first = ::malloc(120U << 10U);
  void* volatile second = ::malloc(120U << 10U);
  ::free(second);
  ::free(first);
  const auto end = reinterpret_cast<std::uintptr_t>(::sbrk(0));
  const std::uintptr_t begin = (end - k_step + k_huge_page - 1) / k_huge_page * k_huge_page;
  if (begin < end) {
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // a wish; refused, nothing changes
  }
#endif
}

}  // namespace

int main(int argc, char** argv) {
  prepare_heap();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return weightproof::suites::cli::run(words);
}
