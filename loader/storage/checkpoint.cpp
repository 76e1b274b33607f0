// SPDX-License-Identifier: Apache-2.0
#include "loader/storage/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "loader/core/limits.hpp"
#include "loader/storage/checkpoint_internal.hpp"
#include "loader/storage/header_internal.hpp"

namespace weightproof::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> k_companions = {"adapter_config.json",
                                                          "automodel_peft_config.json",
                                                          "generation_config.json",
                                                          "hf_quant_config.json",
                                                          "params.json",
                                                          "preprocessor_config.json",
                                                          "quant_config.json",
                                                          "quantize_config.json",
                                                          "quantization_config.json"};

// What became of one file.
struct ShardOutcome {
  std::optional<Header> header;
  std::optional<Error> error;
  bool exists = false;
};

ShardOutcome read_shard(const fs::path& path, const std::string& name, FileCalls& calls) {
  ShardOutcome outcome;
  std::error_code ignored;
  outcome.exists = fs::exists(path, ignored);
  if (!outcome.exists) return outcome;
  try {
    outcome.header = read_header(File::open(path, name, calls));
  } catch (const Error& error) {
    outcome.error = error;
  }
  return outcome;
}

void report_missing(Checkpoint& checkpoint, const std::vector<std::uint32_t>& missing) {
  constexpr std::size_t reported_max = 64;
  if (missing.empty()) return;
  std::vector<std::size_t> place(checkpoint.shards.size(), SIZE_MAX);
  std::vector<detail::KeyList> keys(std::min(missing.size(), reported_max));
  for (std::size_t i = 0; i < keys.size(); ++i) place[missing[i]] = i;
  if (checkpoint.index) {
    for (const auto& [key, shard] : checkpoint.index->weight_map) {
      if (place[shard] != SIZE_MAX) keys[place[shard]].add(key, 0);
    }
  }
  const bool is_none_there = checkpoint.index && missing.size() == checkpoint.shards.size() && missing.size() > 1;
  for (std::size_t i = 0; i < (is_none_there ? 1 : keys.size()); ++i) {
    const std::string& name = checkpoint.shards[missing[i]].name;
    ErrorFacts facts;
    facts.file = name;
    facts.keys = keys[i].keys;
    facts.expected = "every listed file";
    facts.actual =
        std::to_string(missing.size()) + " of " + std::to_string(checkpoint.shards.size()) + " files missing";
    std::error_code ignored;
    const bool is_dangling = fs::is_symlink(fs::symlink_status(checkpoint.root / name, ignored));
    facts.hint = is_dangling ? "the name is a link whose target is not there; fetch the file again"
                 : is_none_there
                     ? "fetch the weights, or check names and config alone: `weightproof verify --keys-only`"
                     : "fetch the file again";
    std::string message = is_none_there ? "none of the " + std::to_string(missing.size()) +
                                              " listed files exists, first " + detail::shown_name(name)
                                        : "the file " + detail::shown_name(name) + " does not exist";
    if (keys[i].count != 0) message += " (it would hold " + detail::names_text(keys[i]) + ")";
    checkpoint.diagnostics.push_back(detail::make_diagnostic("index.missing_shard", Severity::fail, std::move(message),
                                                             std::move(facts), ErrorCode::shard_missing));
  }
}

// Files named by "auto_map" of a config must lie beside it: "modeling_x.Class" means modeling_x.py.
void check_referenced(Checkpoint& checkpoint) {
  const ConfigValue* map = checkpoint.config ? checkpoint.config->find("auto_map") : nullptr;
  if (map == nullptr) return;
  std::vector<std::string> named;
  const auto add = [&](const ConfigValue& value) {
    const std::optional<std::string_view> text = value.as_string();
    if (!text || text->find("--") != std::string_view::npos) return;  // "--": another repository
    const std::size_t dot = text->rfind('.');
    if (dot == std::string_view::npos || dot == 0) return;
    std::string file(text->substr(0, dot));
    std::replace(file.begin(), file.end(), '.', '/');
    named.push_back(file + ".py");
  };
  for (const auto& [name, value] : map->members()) {
    add(value);
    for (const ConfigValue& item : value.items()) add(item);
  }
  std::sort(named.begin(), named.end());
  named.erase(std::unique(named.begin(), named.end()), named.end());
  for (std::size_t i = 0; i < std::min<std::size_t>(named.size(), 64); ++i) {
    if (named[i].find('\0') == std::string::npos && detail::is_regular(checkpoint.root / named[i])) continue;
    ErrorFacts facts;
    facts.file = named[i];
    facts.hint = "copy the file beside config.json, or loaders that follow it will fail";
    checkpoint.diagnostics.push_back(detail::make_diagnostic(
        "index.referenced_file", Severity::warn,
        "config.json names " + detail::shown_name(named[i]) + " in auto_map, but there is no such file",
        std::move(facts)));
  }
}

std::optional<ConfigValue> read_config(Checkpoint& checkpoint, std::string_view name, FileCalls& calls) {
  const std::string file(name);
  try {
    const std::string text = detail::read_text(checkpoint.root / file, file, limits::config_bytes_max, calls);
    ConfigValue value = ConfigValue::parse(text, file);
    if (value.is_object()) return value;
    ErrorFacts facts;
    facts.file = file;
    facts.byte_offset = 0;
    facts.expected = "a JSON object";
    throw Error(ErrorCode::config_invalid, "'" + file + "' is not a JSON object", std::move(facts));
  } catch (const Error& error) {
    Diagnostic diagnostic = diagnostic_of(error);
    if (error.code() == ErrorCode::duplicate_key) diagnostic.check = "format.config";
    if (diagnostic.facts.file.empty()) diagnostic.facts.file = file;
    checkpoint.diagnostics.push_back(std::move(diagnostic));
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(CheckpointKind kind) {
  switch (kind) {
    case CheckpointKind::single_file:
      return "single_file";
    case CheckpointKind::indexed:
      return "indexed";
    case CheckpointKind::shard_names:
      return "shard_names";
    case CheckpointKind::dcp_sharded:
      return "dcp_sharded";
    case CheckpointKind::adapter:
      return "adapter";
  }
  return "single_file";
}

bool Checkpoint::has_failures() const {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& diagnostic) { return diagnostic.severity == Severity::fail; });
}

namespace detail {

void read_headers(Checkpoint& checkpoint, const std::vector<bool>& is_safe, FileCalls& calls, unsigned threads) {
  std::vector<ShardOutcome> outcomes(checkpoint.shards.size());
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::atomic_flag has_failed = ATOMIC_FLAG_INIT;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < outcomes.size(); i = next++) {
        if (!is_safe[i]) continue;
        const std::string& name = checkpoint.shards[i].name;
        outcomes[i] = read_shard(checkpoint.root / name, name, calls);
      }
    } catch (...) {
      if (!has_failed.test_and_set()) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> workers;
    const std::size_t count = std::min<std::size_t>(threads, outcomes.size());
    for (std::size_t i = 1; i < count; ++i) {
      try {
        workers.emplace_back(work);
      } catch (const std::system_error&) {
        break;  // no more threads to be had: those that run do the work
      }
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);

  std::vector<std::uint32_t> missing;
  for (std::uint32_t i = 0; i < outcomes.size(); ++i) {
    if (is_safe[i] && !outcomes[i].exists) missing.push_back(i);
  }
  report_missing(checkpoint, missing);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    Shard& shard = checkpoint.shards[i];
    ShardOutcome& outcome = outcomes[i];
    shard.exists = outcome.exists;
    shard.header = std::move(outcome.header);
    if (outcome.error) checkpoint.diagnostics.push_back(diagnostic_of(*outcome.error));
    if (!shard.header) continue;
    if (shard.header->error) checkpoint.diagnostics.push_back(diagnostic_of(*shard.header->error));
    for (const Diagnostic& diagnostic : shard.header->diagnostics) checkpoint.diagnostics.push_back(diagnostic);
  }
}

void read_configs(Checkpoint& checkpoint, FileCalls& calls) {
  const auto has = [&](std::string_view name) {
    return std::binary_search(checkpoint.files.begin(), checkpoint.files.end(), name);
  };
  if (has("config.json")) checkpoint.config = read_config(checkpoint, "config.json", calls);
  for (const std::string_view name : k_companions) {
    if (!has(name)) continue;
    std::optional<ConfigValue> value = read_config(checkpoint, name, calls);
    if (value) checkpoint.companions.emplace(name, std::move(*value));
  }
  const bool has_weights =
      std::any_of(checkpoint.shards.begin(), checkpoint.shards.end(), [](const Shard& shard) { return shard.exists; });
  if (has_weights && !checkpoint.options.keys_only) check_referenced(checkpoint);
}

}  // namespace detail

Checkpoint read_checkpoint(const fs::path& path, const SelectionOptions& options, unsigned threads) {
  FileCalls& calls = options.calls != nullptr ? *options.calls : FileCalls::system();
  detail::Selection selection = detail::select_files(path, options, calls);
  Checkpoint checkpoint;
  checkpoint.root = selection.root.empty() ? fs::path(".") : selection.root;
  checkpoint.display_path = path.string();
  checkpoint.kind = selection.kind;
  checkpoint.is_selected = selection.is_selected;
  checkpoint.options = options;
  checkpoint.strays = std::move(selection.strays);
  checkpoint.files = std::move(selection.files);
  checkpoint.diagnostics = std::move(selection.diagnostics);
  if (selection.index) checkpoint.index = std::move(selection.index->index);
  for (std::string& name : selection.shards) {
    Shard shard;
    shard.name = std::move(name);
    checkpoint.shards.push_back(std::move(shard));
  }
  if (checkpoint.is_selected) {
    if (options.keys_only) {
      for (std::size_t i = 0; i < checkpoint.shards.size(); ++i) {
        Shard& shard = checkpoint.shards[i];
        shard.exists = selection.is_safe[i] && detail::is_regular(checkpoint.root / shard.name);
      }
    } else {
      detail::read_headers(checkpoint, selection.is_safe, calls, std::max(1U, threads));
    }
    detail::build_catalog(checkpoint, calls);
    detail::check_totals(checkpoint);
    detail::check_numbering(checkpoint);
  }
  if (selection.uses_config) detail::read_configs(checkpoint, calls);
  return checkpoint;
}

Checkpoint open_checkpoint(const fs::path& path, const SelectionOptions& options, unsigned threads) {
  Checkpoint checkpoint = read_checkpoint(path, options, threads);
  for (const Diagnostic& diagnostic : checkpoint.diagnostics) {
    if (diagnostic.severity != Severity::fail) continue;
    ErrorFacts facts = diagnostic.facts;
    facts.check = diagnostic.check;
    const ErrorCode code = error_code_from_string(diagnostic.code).value_or(ErrorCode::io_error);
    throw Error(code, diagnostic.message, std::move(facts));
  }
  return checkpoint;
}

}  // namespace weightproof::storage
