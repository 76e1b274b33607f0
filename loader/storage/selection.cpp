// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <system_error>
#include <utility>

#include "loader/core/limits.hpp"
#include "loader/storage/header_internal.hpp"
#include "loader/storage/selection_internal.hpp"

namespace weightproof::storage::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> k_bases = {"model", "diffusion_pytorch_model"};
constexpr std::string_view k_suffix = ".safetensors";
constexpr std::size_t k_names_shown = 10;

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), k_names_shown); ++i) {
    if (i != 0) text += ", ";
    text += shown_name(names[i]);
  }
  if (names.size() > k_names_shown) text += " and " + std::to_string(names.size() - k_names_shown) + " more";
  return text;
}

bool has_directory(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_pickle_name(std::string_view name) {
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".ckpt");
}

std::vector<std::string> list_directory(const fs::path& directory, const std::string& shown) {
  std::vector<std::string> names;
  std::error_code fault;
  fs::directory_iterator entries(directory, fault);
  for (; !fault && entries != fs::directory_iterator(); entries.increment(fault)) {
    if (names.size() >= limits::directory_entries_max) {
      throw Error(ErrorCode::limit_exceeded,
                  "the directory has more than " + std::to_string(limits::directory_entries_max) + " entries");
    }
    names.push_back(entries->path().filename().string());
  }
  if (fault) {
    ErrorFacts facts;
    facts.file = shown;
    facts.actual = fault.message();
    throw Error(ErrorCode::io_error, "cannot list the directory '" + shown + "': " + fault.message(), std::move(facts));
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Selector {
 public:
  Selector(const SelectionOptions& options, FileCalls& calls) : options_(options), calls_(calls) {}

  Selection select(const fs::path& path);

 private:
  void select_file(const fs::path& path);
  void select_directory();
  bool resolve_cache(const fs::path& directory);
  bool select_index(const std::string& name);
  bool select_single(std::string_view base);
  bool select_numbered(std::string_view base);
  bool select_rank_shards();
  bool select_adapter();
  bool name_foreign();
  void name_nothing();
  void find_strays();
  void find_leftovers();
  void fail(ErrorCode code, std::string message, ErrorFacts facts = {}, const char* check = "index.selection");
  std::string with_variant(std::string_view base) const;
  bool has_entry(std::string_view name) const;
  bool has_file(std::string_view name) const;

  const SelectionOptions& options_;
  FileCalls& calls_;
  Selection selection_;
};

void Selector::fail(ErrorCode code, std::string message, ErrorFacts facts, const char* check) {
  selection_.diagnostics.push_back(make_diagnostic(check, Severity::fail, std::move(message), std::move(facts), code));
}

std::string Selector::with_variant(std::string_view base) const {
  return std::string(base) + (options_.variant.empty() ? "" : "." + options_.variant);
}

bool Selector::has_entry(std::string_view name) const {
  return std::binary_search(selection_.files.begin(), selection_.files.end(), name);
}

bool Selector::has_file(std::string_view name) const { return has_entry(name) && is_regular(selection_.root / name); }

bool Selector::resolve_cache(const fs::path& directory) {
  const fs::path snapshots = directory / "snapshots";
  const std::string wanted = options_.revision.empty() ? "main" : options_.revision;
  ErrorFacts facts;
  facts.expected = "revision " + shown_name(wanted);
  facts.hint = "name a revision with --revision, or give the path of a snapshot";
  const auto is_plain = [](std::string_view name) {
    return !name.empty() && !name.starts_with('/') && name.find('\0') == std::string_view::npos &&
           ("/" + std::string(name) + "/").find("/../") == std::string::npos;
  };
  if (!is_plain(wanted)) {
    fail(ErrorCode::no_checkpoint_found, "revision " + shown_name(wanted) + " is no name of a revision", facts);
    return false;
  }
  std::vector<std::string> names;
  if (has_directory(snapshots)) {
    for (std::string& name : list_directory(snapshots, "snapshots")) {
      if (has_directory(snapshots / name)) names.push_back(std::move(name));
    }
  }
  facts.actual = names.empty() ? "no snapshot" : list_text(names);
  const fs::path reference = directory / "refs" / wanted;
  if (is_regular(reference)) {
    std::string commit = read_text(reference, "refs/" + wanted, 4096, calls_);
    while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r' || commit.back() == ' '))
      commit.pop_back();
    if (std::find(names.begin(), names.end(), commit) != names.end()) {
      selection_.root = snapshots / commit;
      return true;
    }
    facts.file = "refs/" + wanted;
    fail(ErrorCode::no_checkpoint_found,
         "refs/" + wanted + " names the snapshot " + shown_name(commit) + ", which is not in this cache", facts);
    return false;
  }
  if (std::find(names.begin(), names.end(), wanted) != names.end()) {
    selection_.root = snapshots / wanted;
    return true;
  }
  if (names.size() == 1 && options_.revision.empty()) {
    selection_.root = snapshots / names[0];
    return true;
  }
  if (names.size() > 1) {
    fail(ErrorCode::revision_ambiguous,
         "the cache holds " + std::to_string(names.size()) + " snapshots and no refs/" + wanted + " (" +
             list_text(names) + ")",
         facts);
  } else {
    fail(ErrorCode::no_checkpoint_found,
         "the cache has no revision " + shown_name(wanted) + ": it holds " + facts.actual, facts);
  }
  return false;
}

bool Selector::select_index(const std::string& name) {
  std::string text;
  try {
    text = read_text(selection_.root / name, name, limits::index_bytes_max, calls_);
  } catch (const Error& error) {
    selection_.diagnostics.push_back(diagnostic_of(error));
    return true;
  }
  ParsedIndex parsed = parse_index(text, name);
  selection_.kind = CheckpointKind::indexed;
  std::move(parsed.diagnostics.begin(), parsed.diagnostics.end(), std::back_inserter(selection_.diagnostics));
  if (!parsed.is_usable) return true;
  selection_.shards = std::move(parsed.shards);
  selection_.is_safe = std::move(parsed.is_safe);
  selection_.index = std::move(parsed);
  selection_.is_selected = true;
  return true;
}

bool Selector::select_single(std::string_view base) {
  const std::string name = with_variant(base) + std::string(k_suffix);
  if (!has_file(name)) return false;
  selection_.kind = CheckpointKind::single_file;
  selection_.shards = {name};
  selection_.is_selected = true;
  return true;
}

// "model-i-of-N.safetensors" and "model.safetensors-i-of-N.safetensors" without an index. A set counts only if its
// numbers run from 1 to N: anything else might be a part.
bool Selector::select_numbered(std::string_view base) {
  struct Set {
    std::string prefix;
    std::uint64_t total = 0;
    std::map<std::uint64_t, std::string> files;
  };
  std::vector<Set> sets;
  const std::string plain = with_variant(base) + "-";
  const std::string doubled = with_variant(base) + std::string(k_suffix) + "-";
  for (const std::string& name : selection_.files) {
    const std::optional<ShardNumber> number = shard_number(name);
    if (!number) continue;
    for (const std::string& prefix : {plain, doubled}) {
      if (!name.starts_with(prefix) ||
          name.find_first_not_of("0123456789", prefix.size()) != name.find("-of-", prefix.size())) {
        continue;
      }
      auto set = std::find_if(sets.begin(), sets.end(), [&](const Set& candidate) {
        return candidate.prefix == prefix && candidate.total == number->total;
      });
      if (set == sets.end()) set = sets.insert(sets.end(), Set{prefix, number->total, {}});
      set->files.emplace(number->index, name);
    }
  }
  if (sets.empty()) return false;
  std::vector<const Set*> complete;
  for (const Set& set : sets) {
    const bool runs =
        set.files.size() == set.total && set.files.begin()->first == 1 && set.files.rbegin()->first == set.total;
    if (runs) complete.push_back(&set);
  }
  if (complete.size() == 1) {
    for (const auto& [number, name] : complete[0]->files) selection_.shards.push_back(name);
    selection_.kind = CheckpointKind::shard_names;
    selection_.is_selected = true;
    return true;
  }
  ErrorFacts facts;
  facts.hint = "fetch the missing files, or the index that says which files belong together";
  if (complete.size() > 1) {
    facts.file = complete[0]->files.begin()->second;
    facts.expected = "one complete set";
    facts.actual = std::to_string(complete.size()) + " sets";
    fail(ErrorCode::shard_missing, "there is no index, and more than one complete set of numbered files", facts,
         "index.missing_shard");
    return true;
  }
  // Judge the set with the most files; the others are strays.
  const Set& set = *std::max_element(sets.begin(), sets.end(),
                                     [](const Set& a, const Set& b) { return a.files.size() < b.files.size(); });
  std::vector<std::string> missing;
  std::uint64_t missing_count = 0;
  const std::string& some_name = set.files.begin()->second;
  const std::size_t digits = some_name.find("-of-", set.prefix.size()) - set.prefix.size();
  const std::string tail = some_name.substr(set.prefix.size() + digits);
  for (std::uint64_t i = 1; i <= set.total && i <= limits::shards_max; ++i) {
    if (set.files.contains(i)) continue;
    ++missing_count;
    if (missing.size() >= 64) continue;
    std::string number = std::to_string(i);
    number.insert(0, number.size() < digits ? digits - number.size() : 0, '0');
    missing.push_back(set.prefix + number + tail);
  }
  std::vector<std::string> outside;
  for (const auto& [number, name] : set.files) {
    if (number == 0 || number > set.total) outside.push_back(name);
  }
  facts.expected = "files 1 to " + std::to_string(set.total);
  facts.actual = std::to_string(set.files.size()) + " files";
  facts.file = missing.empty() ? (outside.empty() ? some_name : outside[0]) : missing[0];
  std::string message = "there is no index, and the numbered files are no complete set:";
  if (missing_count != 0) message += " " + std::to_string(missing_count) + " missing (" + list_text(missing) + ")";
  if (!outside.empty()) {
    message += std::string(missing_count != 0 ? ";" : "") + " numbers outside 1 to " + std::to_string(set.total) +
               " (" + list_text(outside) + ")";
  }
  fail(ErrorCode::shard_missing, message, facts, "index.missing_shard");
  for (const auto& [number, name] : set.files) selection_.shards.push_back(name);
  selection_.kind = CheckpointKind::shard_names;
  selection_.is_selected = true;
  return true;
}

bool Selector::select_rank_shards() {
  for (const char* folder : {"", "sharded"}) {
    const fs::path directory = *folder == '\0' ? selection_.root : selection_.root / folder;
    if (*folder != '\0' && !(has_entry(folder) && has_directory(directory))) continue;
    const std::vector<std::string> names = *folder == '\0' ? selection_.files : list_directory(directory, folder);
    std::vector<std::string> shards;
    for (const std::string& name : names) {
      if (name.starts_with("shard-") && name.find("-model-") != std::string::npos && shard_number(name)) {
        shards.push_back(name);
      }
    }
    if (shards.empty()) continue;
    bool has_info = false;
    try {
      const Header header = read_header(File::open(directory / shards[0], shards[0], calls_));
      has_info = std::any_of(header.metadata.begin(), header.metadata.end(),
                             [](const auto& entry) { return entry.first == "DCP_SHARDING_INFO"; });
    } catch (const Error& error) {
      selection_.diagnostics.push_back(diagnostic_of(error));
    }
    if (!has_info) continue;
    ErrorFacts facts;
    facts.file = *folder == '\0' ? shards[0] : std::string(folder) + "/" + shards[0];
    facts.expected = "whole tensors";
    facts.actual = std::to_string(shards.size()) + " rank shards";
    facts.hint = "consolidate the checkpoint with the tool that wrote it, then verify the result";
    selection_.kind = CheckpointKind::dcp_sharded;
    fail(ErrorCode::native_dcp_checkpoint,
         "this is a distributed (DCP) checkpoint of " + std::to_string(shards.size()) +
             " rank shards, whose files hold chunks of tensors; such files are recognised, not read (" +
             list_text(shards) + ")",
         facts);
    return true;
  }
  return false;
}

bool Selector::select_adapter() {
  const bool has_config = has_file("adapter_config.json");
  const bool has_weights = has_file("adapter_model.safetensors");
  if (options_.want_adapter) {
    if (has_config && has_weights) {
      selection_.kind = CheckpointKind::adapter;
      selection_.shards = {"adapter_model.safetensors"};
      selection_.is_selected = true;
      return true;
    }
    ErrorFacts facts;
    facts.expected = "adapter_config.json and adapter_model.safetensors";
    facts.actual = has_config    ? "adapter_config.json alone"
                   : has_weights ? "adapter_model.safetensors alone"
                                 : "neither";
    fail(ErrorCode::no_checkpoint_found, "no adapter here: expected " + facts.expected + ", found " + facts.actual,
         facts);
    return true;
  }
  if (!has_config && !has_weights) return false;
  ErrorFacts facts;
  facts.file = has_weights ? "adapter_model.safetensors" : "adapter_config.json";
  facts.expected = "a base model";
  facts.actual = "an adapter";
  facts.hint = "give the directory of the base model, or ask for the adapter";
  fail(ErrorCode::adapter_without_base, "the directory holds an adapter but no base model", facts);
  return true;
}

bool Selector::name_foreign() {
  std::vector<std::string> distributed;
  std::vector<std::string> pickles;
  std::uint64_t bytes = 0;
  for (const std::string& name : selection_.files) {
    if (name.ends_with(".distcp")) {
      distributed.push_back(name);
      std::error_code fault;
      const std::uint64_t size = fs::file_size(selection_.root / name, fault);
      if (!fault) bytes += size;
    }
    if (is_pickle_name(name) && is_regular(selection_.root / name)) pickles.push_back(name);
  }
  const bool has_metadata = has_file(".metadata");
  if (!distributed.empty() || has_metadata) {
    ErrorFacts facts;
    facts.file = distributed.empty() ? ".metadata" : distributed[0];
    facts.expected = "safetensors files";
    facts.actual = std::to_string(distributed.size()) + " .distcp files, " + std::to_string(bytes) + " bytes";
    facts.hint = has_metadata ? "convert it with torch.distributed.checkpoint.format_utils, then export safetensors"
                              : "the save was interrupted: .metadata, which is written last, is not there";
    fail(ErrorCode::native_dcp_checkpoint,
         "this is a native PyTorch distributed checkpoint (" + facts.actual +
             (has_metadata ? ")" : "; .metadata is missing: the save was interrupted)"),
         facts);
    return true;
  }
  if (!pickles.empty()) {
    ErrorFacts facts;
    facts.file = pickles[0];
    facts.expected = "safetensors files";
    facts.actual = list_text(pickles);
    facts.hint =
        "convert it to safetensors with the library that wrote it; pickles run code when opened and are never read "
        "here";
    fail(ErrorCode::legacy_pickle_checkpoint, "the directory holds only pickled weights: " + list_text(pickles), facts);
    return true;
  }
  return false;
}

void Selector::name_nothing() {
  ErrorFacts facts;
  const std::string base = with_variant(k_bases[0]);
  facts.expected = "model.safetensors.index" + (options_.variant.empty() ? "" : "." + options_.variant) + ".json, " +
                   base + ".safetensors, " + base + "-*-of-*.safetensors";
  std::vector<std::string> others;
  for (const std::string& name : selection_.files) {
    if (name.ends_with(k_suffix) || name.ends_with(".gguf")) others.push_back(name);
  }
  facts.actual = others.empty() ? "none of them" : list_text(others);
  if (!others.empty()) facts.file = others[0];
  facts.hint = others.empty() ? "give the directory that holds the weights" : "give the path of the file itself";
  if (options_.keys_only) {
    // Nothing but an index was looked for: weight files that are there are no contradiction.
    facts.expected = facts.expected.substr(0, facts.expected.find(','));
    facts.hint = others.empty() ? "give the directory or the path of an index"
                                : "leave out --keys-only: without an index the names stand in the weight files";
    fail(ErrorCode::no_checkpoint_found,
         "no index here, and --keys-only opens no weight file: looked for " + facts.expected +
             (others.empty() ? "" : "; not opened: " + list_text(others)),
         facts);
    return;
  }
  fail(ErrorCode::no_checkpoint_found,
       "no checkpoint here: looked for " + facts.expected + (others.empty() ? "" : "; found " + list_text(others)),
       facts);
}

void Selector::select_directory() {
  for (const std::string_view base : k_bases) {
    const std::string index =
        std::string(base) + ".safetensors.index" + (options_.variant.empty() ? "" : "." + options_.variant) + ".json";
    if (options_.want_adapter || !has_file(index)) continue;
    select_index(index);
    return;
  }
  if (options_.keys_only && !options_.want_adapter) {
    if (!select_rank_shards() && !select_adapter() && !name_foreign()) name_nothing();
    return;
  }
  if (!options_.want_adapter) {
    for (const std::string_view base : k_bases) {
      if (select_single(base)) return;
    }
    for (const std::string_view base : k_bases) {
      if (select_numbered(base)) return;
    }
    if (select_rank_shards()) return;
  }
  if (select_adapter()) return;
  if (!name_foreign()) name_nothing();
}

void Selector::select_file(const fs::path& path) {
  const std::string name = path.filename().string();
  selection_.root = path.parent_path();
  selection_.files = list_directory(selection_.root.empty() ? fs::path(".") : selection_.root, name);
  ErrorFacts facts;
  facts.file = name;
  if (name.ends_with(k_suffix) && options_.keys_only) {
    name_nothing();
    return;
  }
  if (name.ends_with(k_suffix)) {
    selection_.kind = CheckpointKind::single_file;
    selection_.shards = {name};
    selection_.is_selected = true;
    selection_.uses_config = !shard_number(name) && !has_entry("model.safetensors.index.json");
    return;
  }
  if (is_pickle_name(name) || name.ends_with(".bin.index.json")) {
    facts.expected = "a .safetensors file";
    facts.hint =
        "convert it to safetensors with the library that wrote it; pickles run code when opened and are never read "
        "here";
    fail(ErrorCode::legacy_pickle_checkpoint, shown_name(name) + " is a pickled checkpoint", facts);
    return;
  }
  if (name.ends_with(".json") && name.find(".safetensors.index.") != std::string::npos) {
    select_index(name);
    return;
  }
  facts.expected = "a directory, a .safetensors file or an index file";
  facts.hint = name.ends_with(".json") ? "give the directory that holds it" : "";
  fail(ErrorCode::no_checkpoint_found, shown_name(name) + " is neither a .safetensors file nor an index", facts);
}

void Selector::find_strays() {
  std::vector<std::string> selected = selection_.shards;
  std::sort(selected.begin(), selected.end());
  for (const std::string& name : selection_.files) {
    const bool is_weights = name.ends_with(k_suffix);
    if (!is_weights && !is_pickle_name(name)) continue;
    if (std::binary_search(selected.begin(), selected.end(), name) || !is_regular(selection_.root / name)) continue;
    selection_.strays.push_back(name);
    constexpr std::size_t reported_max = 256;
    if (selection_.strays.size() > reported_max) continue;
    const bool is_twin = name.starts_with("consolidated") || name.starts_with("adapter_model");
    ErrorFacts facts;
    facts.file = name;
    if (is_weights && !is_twin) facts.hint = "a left-over of an older save? Readers that open every file would load it";
    selection_.diagnostics.push_back(
        make_diagnostic("index.orphan_shard", is_weights && !is_twin ? Severity::warn : Severity::note,
                        shown_name(name) + (is_weights ? " stands beside the checkpoint but is no part of it"
                                                       : " is a pickle beside the checkpoint and was ignored"),
                        std::move(facts)));
  }
}

// What an interrupted save or download leaves. Our own staging directories carry the same infix.
void Selector::find_leftovers() {
  const auto report = [&](const std::string& name, const char* what) {
    ErrorFacts facts;
    facts.file = name;
    facts.hint = "remove it, or let the writer finish; the checkpoint may be incomplete";
    selection_.diagnostics.push_back(
        make_diagnostic("io.interrupted", Severity::fail, shown_name(name) + what, std::move(facts)));
  };
  if (selection_.root.filename().string().find(k_staging_infix) != std::string::npos) {
    report(selection_.root.filename().string(), " is the staging directory of an export that did not finish");
  }
  std::size_t reported = 0;
  for (const std::string& name : selection_.files) {
    const bool is_partial = name.ends_with(".safetensors.partial") || name.ends_with(".safetensors.incomplete") ||
                            name.ends_with(".safetensors.tmp") || name.ends_with(".index.json.partial") ||
                            name.ends_with(".index.json.tmp") || name.ends_with(".incomplete");
    if (!is_partial && name.find(k_staging_infix) == std::string::npos) continue;
    if (++reported > 64) break;
    report(name, is_partial ? " is a partly written file" : " is left over from an export that did not finish");
  }
}

Selection Selector::select(const fs::path& path) {
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  const std::string shown = path.filename().empty() ? path.parent_path().filename().string() : path.filename().string();
  if (!fs::exists(status)) {
    ErrorFacts facts;
    facts.file = shown;
    facts.actual = fault ? fault.message() : "no such file or directory";
    facts.check = "index.selection";
    const std::string message = "'" + shown + "': " + facts.actual;
    throw Error(ErrorCode::no_checkpoint_found, message, std::move(facts));
  }
  if (!fs::is_directory(status)) {
    select_file(path);
  } else {
    const bool is_cache =
        shown.starts_with("models--") || (has_directory(path / "snapshots") && has_directory(path / "refs"));
    selection_.root = path;
    if (is_cache && !resolve_cache(path)) return std::move(selection_);
    selection_.files = list_directory(selection_.root, shown);
    select_directory();
    find_leftovers();
  }
  const bool is_lone_file = !fs::is_directory(status) && selection_.kind == CheckpointKind::single_file;
  if (selection_.is_selected && !is_lone_file) find_strays();
  if (selection_.is_safe.empty()) selection_.is_safe.assign(selection_.shards.size(), true);
  return std::move(selection_);
}

}  // namespace

Selection select_files(const fs::path& path, const SelectionOptions& options, FileCalls& calls) {
  return Selector(options, calls).select(path);
}

std::string read_text(const fs::path& path, const std::string& name, std::size_t bytes_max, FileCalls& calls) {
  const File file = File::open(path, name, calls);
  if (file.size() > bytes_max) {
    ErrorFacts facts;
    facts.file = name;
    facts.expected = "at most " + std::to_string(bytes_max) + " bytes";
    facts.actual = std::to_string(file.size()) + " bytes";
    throw Error(ErrorCode::limit_exceeded, "'" + name + "' has " + facts.actual + ", " + facts.expected + " are read",
                std::move(facts));
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span<char>(text)));
  return text;
}

bool is_regular(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace weightproof::storage::detail
