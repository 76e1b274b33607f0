// SPDX-License-Identifier: Apache-2.0
// index.*: which files are the checkpoint and whether the index tells the truth about them.
#include <algorithm>
#include <array>

#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"
#include "suites/verify/registry.hpp"
#include "suites/verify/total_size.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;
using reports::CheckRecord;

constexpr const char* k_no_index = "there is no index file";

CheckRecord selection(Context& context) {
  const storage::Checkpoint& checkpoint = context.checkpoint;
  for (const Diagnostic& diagnostic : checkpoint.diagnostics) {
    if (diagnostic.check == "index.selection" && diagnostic.severity == Severity::fail) {
      CheckRecord record = record_of_diagnostics(context, "index.selection", 0);
      record.status = reports::Status::error;
      record.reason = record.message;
      return record;
    }
  }
  if (!checkpoint.is_selected) {
    return CheckBuilder("index.selection").skip(context.fault_text());
  }
  const std::string what = "taken as " + std::string(to_string(checkpoint.kind)) + ": " +
                           counted(checkpoint.shards.size(), "file", "files") +
                           (checkpoint.index ? ", named by " + printable(checkpoint.index->file) : std::string());
  return CheckBuilder("index.selection").examined(checkpoint.shards.size()).note(what);
}

// Rows about the index document itself.
CheckRecord document(Context& context, std::string_view id) {
  const bool has_index = context.checkpoint.index.has_value() || !context.index_fault().empty();
  std::string undecided;
  if (!has_index) {
    undecided = k_no_index;
  } else if (!context.index_fault().empty() && context.index_fault() != id && !context.checkpoint.index) {
    undecided = context.fault_text();
  }
  return record_of_diagnostics(context, id, context.checkpoint.index ? context.checkpoint.index->weight_map.size() : 0,
                               undecided);
}

CheckRecord syntax(Context& context) { return document(context, "index.syntax"); }
CheckRecord duplicate_key(Context& context) { return document(context, "index.duplicate_key"); }
CheckRecord path(Context& context) { return document(context, "index.path"); }

CheckRecord missing_shard(Context& context) {
  if (context.is_keys_only()) {
    return CheckBuilder("index.missing_shard")
        .hint("leave out --keys-only")
        .skip("weight files are not looked for under --keys-only");
  }
  const bool is_blind = !context.index_fault().empty() && !context.checkpoint.index;
  return record_of_diagnostics(context, "index.missing_shard", context.checkpoint.shards.size(),
                               is_blind ? context.fault_text() : std::string());
}

// Rows that compare the index with the headers.
CheckRecord against_headers(Context& context, std::string_view id) {
  if (!context.checkpoint.index && context.index_fault().empty()) {
    return CheckBuilder(std::string(id)).skip(k_no_index);
  }
  const std::string fault = context.fault_text();
  return record_of_diagnostics(context, id, context.checkpoint.index ? context.checkpoint.index->weight_map.size() : 0,
                               fault.empty() ? fault : "undecided where " + fault);
}

CheckRecord mapping(Context& context) { return against_headers(context, "index.mapping"); }
CheckRecord unlisted_tensor(Context& context) { return against_headers(context, "index.unlisted_tensor"); }

CheckRecord orphan_shard(Context& context) {
  return record_of_diagnostics(context, "index.orphan_shard",
                               std::max<std::uint64_t>(context.checkpoint.files.size(), 1));
}

CheckRecord shard_numbering(Context& context) {
  const bool is_blind = !context.index_fault().empty() && !context.checkpoint.index;
  return record_of_diagnostics(context, "index.shard_numbering", context.checkpoint.shards.size(),
                               is_blind ? context.fault_text() : std::string());
}

CheckRecord total_size(Context& context) {
  const auto& diagnostics = context.checkpoint.diagnostics;
  const bool has_finding = std::any_of(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& diagnostic) {
    return diagnostic.check == "index.total_size" && diagnostic.severity != Severity::note;
  });
  if (has_finding) {
    return record_of_diagnostics(context, "index.total_size", 1);
  }
  CheckBuilder builder("index.total_size");
  if (!context.checkpoint.index || !context.index_fault().empty()) {
    return builder.skip(context.index_fault().empty() ? std::string(k_no_index) : context.fault_text());
  }
  const storage::Index& index = *context.checkpoint.index;
  if (!index.total_size || *index.total_size == 0) {
    return builder.skip(index.total_size ? "the index says 0: it states no total" : "the index states no total_size");
  }
  if (!context.faults.empty()) {
    return builder.skip("undecided where " + context.fault_text());
  }
  if (!context.is_keys_only()) {
    return record_of_diagnostics(context, "index.total_size", index.weight_map.size());
  }
  return total_size_from_config(context);
}

CheckRecord referenced_file(Context& context) {
  CheckBuilder builder("index.referenced_file");
  if (!context.checkpoint.config) {
    return builder.skip("there is no config.json");
  }
  // auto_map names code as "module.Class", or as "org/repository--module.Class" where it lies in another repository.
  std::vector<std::string> missing;
  std::uint64_t named = 0;
  const auto look_for = [&](std::string_view reference) {
    if (reference.find("--") != std::string_view::npos) {
      return;
    }
    std::string file(reference.substr(0, reference.rfind('.')));
    std::replace(file.begin(), file.end(), '.', '/');
    file += ".py";
    ++named;
    const auto& files = context.checkpoint.files;
    const std::string top = file.substr(0, file.find('/'));
    if (std::find(files.begin(), files.end(), file) == files.end() &&
        std::find(files.begin(), files.end(), top) == files.end()) {
      missing.push_back(file);
    }
  };
  if (const ConfigValue* map = context.checkpoint.config->find("auto_map")) {
    for (const auto& [name, value] : map->members()) {
      if (const auto text = value.as_string()) {
        look_for(*text);
      }
      for (const ConfigValue& item : value.items()) {
        if (const auto text = item.as_string()) {
          look_for(*text);
        }
      }
    }
  }
  builder.examined(named);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  for (const std::string& file : missing) {
    builder.subject(file);
  }
  if (missing.empty()) {
    return builder.pass();
  }
  return builder.hint("put the files beside config.json, or take the entries out of auto_map")
      .warn("config.json names " + counted(missing.size(), "file", "files") + " that do not exist: " + listed(missing));
}

constexpr std::array k_checks = {
    VerifyCheck{"index.selection", &selection},
    VerifyCheck{"index.syntax", &syntax},
    VerifyCheck{"index.duplicate_key", &duplicate_key},
    VerifyCheck{"index.path", &path},
    VerifyCheck{"index.missing_shard", &missing_shard},
    VerifyCheck{"index.mapping", &mapping},
    VerifyCheck{"index.unlisted_tensor", &unlisted_tensor},
    VerifyCheck{"index.orphan_shard", &orphan_shard},
    VerifyCheck{"index.total_size", &total_size},
    VerifyCheck{"index.shard_numbering", &shard_numbering},
    VerifyCheck{"index.referenced_file", &referenced_file},
};

}  // namespace

std::span<const VerifyCheck> index_checks() { return k_checks; }

}  // namespace weightproof::suites
