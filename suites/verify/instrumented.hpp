// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace weightproof::suites {

/// The thread and memory sanitizers keep several bytes for each one that is touched: a process's memory then says
/// nothing of a load's.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool k_is_instrumented = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool k_is_instrumented = true;
#else
inline constexpr bool k_is_instrumented = false;
#endif
#else
inline constexpr bool k_is_instrumented = false;
#endif

}  // namespace weightproof::suites
