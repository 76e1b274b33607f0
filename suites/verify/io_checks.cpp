// SPDX-License-Identifier: Apache-2.0
// io.*: reading itself, and what an interrupted writer leaves behind.
#include <array>

#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

// The errors of the scan that belong to `id`; the check's own record.
CheckRecord from_scan(Context& context, std::string_view id, std::uint64_t examined) {
  const ScanResult& scan = context.scan();
  const Error* first = nullptr;
  std::size_t count = 0;
  for (const Error& error : scan.errors) {
    if (error.check() == id) {
      first = first == nullptr ? &error : first;
      ++count;
    }
  }
  if (first != nullptr) {
    CheckRecord record = failed_record(id, *first);
    if (count > 1) {
      record.message += " (and " + grouped(count - 1) + " more of the kind)";
    }
    return record;
  }
  return CheckBuilder(std::string(id)).examined(examined).pass();
}

CheckRecord io_error(Context& context) {
  for (const Diagnostic& diagnostic : context.checkpoint.diagnostics) {
    if (diagnostic.check == "io.error") {
      return record_of_diagnostics(context, "io.error", context.checkpoint.shards.size());
    }
  }
  return from_scan(context, "io.error", context.scan().reads);
}

CheckRecord short_read(Context& context) { return from_scan(context, "io.short_read", context.scan().reads); }

CheckRecord stale(Context& context) { return from_scan(context, "io.stale", context.checkpoint.shards.size()); }

bool is_leftover(std::string_view name) {
  for (const std::string_view ending :
       {".tmp", ".temp", ".part", ".partial", ".incomplete", ".crdownload", ".aria2", ".lock.tmp"}) {
    if (name.size() > ending.size() && name.ends_with(ending)) {
      return true;
    }
  }
  if (name.find(".safetensors.tmp") != std::string_view::npos ||
      name.find(".safetensors.incomplete") != std::string_view::npos) {
    return true;
  }
  return name.find(storage::k_staging_infix) != std::string_view::npos || name.starts_with(".tmp-model") ||
         name == "INCOMPLETE" || name == ".incomplete";
}

CheckRecord interrupted(Context& context) {
  CheckBuilder builder("io.interrupted");
  builder.examined(context.checkpoint.files.size());
  std::vector<std::string> found;
  for (const std::string& name : context.checkpoint.files) {
    if (is_leftover(name)) {
      found.push_back(name);
      builder.subject(name);
    }
  }
  if (found.empty()) {
    return builder.pass();
  }
  return builder.hint("a save or a download did not finish: run it again, then remove what is left")
      .fail(counted(found.size(), "leftover", "leftovers") + " of an interrupted save or download: " + listed(found));
}

constexpr std::array k_checks = {
    VerifyCheck{"io.error", &io_error},
    VerifyCheck{"io.short_read", &short_read},
    VerifyCheck{"io.stale", &stale},
    VerifyCheck{"io.interrupted", &interrupted},
};

}  // namespace

std::span<const VerifyCheck> io_checks() { return k_checks; }

}  // namespace weightproof::suites
