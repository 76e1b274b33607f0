// SPDX-License-Identifier: Apache-2.0
// Loaded in front of the C library: counts what a process takes by malloc, new and mmap, whoever asks. At the end the
// largest sum that was held at once is written to the file that WEIGHTPROOF_INTERPOSE_OUT names.
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* block);
}

namespace {

std::atomic<long> held{0};
std::atomic<long> most{0};
std::atomic<long> mapped_most{0};
std::atomic<long> mapped{0};

void change(long bytes) {
  const long now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  long seen = most.load(std::memory_order_relaxed);
  while (now > seen && !most.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

void* counted(void* block) {
  if (block != nullptr) {
    change(static_cast<long>(malloc_usable_size(block)));
  }
  return block;
}

// The string of a number, without anything that allocates.
std::size_t digits(long value, char* out) {
  char reversed[24];
  std::size_t count = 0;
  do {
    reversed[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value > 0);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = reversed[count - 1 - i];
  }
  return count;
}

struct Report {
  ~Report() {
    const char* path = std::getenv("WEIGHTPROOF_INTERPOSE_OUT");
    if (path == nullptr) {
      return;
    }
    const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) {
      return;
    }
    char text[64];
    std::size_t size = digits(most.load(), text);
    text[size++] = ' ';
    size += digits(mapped_most.load(), text + size);
    text[size++] = '\n';
    if (::write(file, text, size) < 0) {
      ::_exit(125);
    }
    ::close(file);
  }
} report;

}  // namespace

extern "C" {

void* malloc(std::size_t size) noexcept { return counted(__libc_malloc(size)); }

void* calloc(std::size_t count, std::size_t size) noexcept { return counted(__libc_calloc(count, size)); }

void* realloc(void* old, std::size_t size) noexcept {
  const long before = old == nullptr ? 0 : static_cast<long>(malloc_usable_size(old));
  void* block = __libc_realloc(old, size);
  if (block != nullptr || size == 0) {
    change(-before);
  }
  return counted(block);
}

void free(void* block) noexcept {
  if (block != nullptr) {
    change(-static_cast<long>(malloc_usable_size(block)));
  }
  __libc_free(block);
}

void* memalign(std::size_t alignment, std::size_t size) noexcept { return counted(__libc_memalign(alignment, size)); }

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return counted(__libc_memalign(alignment, size));
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) noexcept {
  void* block = counted(__libc_memalign(alignment, size));
  if (block == nullptr) {
    return ENOMEM;
  }
  *out = block;
  return 0;
}

// Address space that is not yet memory counts as memory: it is what was asked for.
void* mmap(void* address, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  using Function = void* (*)(void*, std::size_t, int, int, int, off_t);
  static const Function real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "mmap"));
  void* block = real(address, size, protection, flags, file, offset);
  if (block != MAP_FAILED && (flags & MAP_ANONYMOUS) != 0 && (protection & PROT_WRITE) != 0) {
    change(static_cast<long>(size));
    const long now = mapped.fetch_add(static_cast<long>(size)) + static_cast<long>(size);
    long seen = mapped_most.load();
    while (now > seen && !mapped_most.compare_exchange_weak(seen, now)) {
    }
  }
  return block;
}

int munmap(void* address, std::size_t size) noexcept {
  using Function = int (*)(void*, std::size_t);
  static const Function real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "munmap"));
  // What is given back of an anonymous mapping; there are no others here worth a list.
  if (mapped.load() >= static_cast<long>(size)) {
    mapped.fetch_sub(static_cast<long>(size));
    change(-static_cast<long>(size));
  }
  return real(address, size);
}

}  // extern "C"
