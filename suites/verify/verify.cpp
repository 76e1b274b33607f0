// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/verify.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>

#include "loader/measure/memory.hpp"
#include "loader/plan/ranks.hpp"
#include "suites/state/native_state.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/expectations.hpp"
#include "suites/verify/load_run.hpp"
#include "suites/verify/machine.hpp"
#include "suites/verify/registry.hpp"
#include "suites/verify/tensor_table.hpp"

namespace weightproof::suites {
namespace {

std::string read_expect_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    ErrorFacts facts;
    facts.file = path;
    facts.hint = "give a file that exists and can be read";
    throw Error(ErrorCode::usage, "the expectation file " + path + " cannot be read", facts);
  }
  return text.str();
}

void add_policies(const VerifyOptions& options, reports::Report& report) {
  const auto add = [&report](std::string name, std::string value, bool is_relaxation) {
    report.policies.push_back({std::move(name), std::move(value), "option", is_relaxation});
  };
  if (options.selection.allow_unexpected) {
    add("unexpected tensors", "noted, not failed", true);
  }
  for (const std::string& glob : options.allow_missing) {
    add("missing tensors", "allowed: " + glob, true);
  }
  for (const std::string& glob : options.include) {
    add("tensors judged", "only " + glob, true);
  }
  for (const std::string& glob : options.exclude) {
    add("tensors judged", "not " + glob, true);
  }
  if (options.selection.keys_only) {
    add("weight files", "not read", true);
  }
  if (!options.expect_file.empty()) {
    report.policies.push_back(
        {"expected failures", std::filesystem::path(options.expect_file).filename().string(), "option", true});
  }
  if (!options.topology.empty()) {
    add("ranks", options.topology + (options.stages.empty() ? "" : ", stages " + options.stages), false);
  }
  if (options.folds_expert_scales) {
    add("scales of experts", "multiplied into their down projections, lossy", false);
  }
  if (options.is_strict) {
    add("warnings", "fail", false);
  }
  const auto fixed = [&report](const char* name, const char* value) {
    report.policies.push_back({name, value, "default", false});
  };
  fixed("NaN in weights", "fail");
  fixed("Inf in weights", "warn");
  fixed("matrix of zeros", "warn");
  fixed("tied flag against stored head", "differ: fail; equal: note with the redundant bytes");
  fixed("duplicate JSON names", "rejected");
}

storage::Checkpoint open_base(const VerifyOptions& options) {
  storage::SelectionOptions selection;
  selection.calls = options.selection.calls;
  try {
    return storage::open_checkpoint(options.base, selection, options.threads);
  } catch (Error& error) {
    error.note("while opening the base model given by --base");
    throw;
  }
}

bool holds_bare_adapter(const storage::Checkpoint& checkpoint) {
  return !checkpoint.is_selected &&
         std::any_of(checkpoint.diagnostics.begin(), checkpoint.diagnostics.end(),
                     [](const Diagnostic& row) { return row.code == to_string(ErrorCode::adapter_without_base); });
}

// A topology or stages that are misspelt, or stages that are none of these layers, are a mistake of the command: one,
// and none of the checkpoint. What cannot be divided so is for shard.topology to say.
void require_asked_ranks(const Context& context) {
  if (context.options.topology.empty()) {
    return;
  }
  const Topology topology = plan::parse_topology(context.options.topology);
  if (!context.schema || context.options.stages.empty()) {
    return;
  }
  try {
    const plan::RankLayout layout(*context.schema, topology,
                                  plan::parse_stages(context.options.stages, plan::layer_count(*context.schema)));
  } catch (const Error& error) {
    if (class_of(error.code()) == ErrorClass::usage) {
      throw;
    }
  }
}

// What was loaded for the checks; null where nothing was, or it did not end.
const LoadRun* finished_loads(const Context& context) {
  const LoadRun* run = context.loads.get();
  return run != nullptr && run->skipped.empty() && !run->error ? run : nullptr;
}

void add_memory(measure::MemoryReport measured, const LoadRun* run, reports::MemoryInfo& memory) {
  if (run != nullptr && measured.peak_rss.value) {
    // The kernel's mark was set back before every load.
    measured.peak_rss.value = std::max(*measured.peak_rss.value, run->peak_before_reset);
  }
  const auto set = [&memory](const char* name, const measure::Figure& figure) {
    if (figure.value) {
      memory.set(name, *figure.value, figure.method);
    } else {
      memory.set_unavailable(name, figure.why.empty() ? "not told by the system" : figure.why);
    }
  };
  set("vm_hwm", measured.peak_rss);
  set("rss_anon", measured.peak_rss_anon);
  set("cgroup_peak", measured.cgroup_peak);
  memory.set_unavailable("page_cache", "counted under timing: it belongs to the files, not to this process");
  if (run != nullptr) {
    memory.set("predicted", run->predicted_peak, "plan of the largest load");
    memory.set("allocator_peak", run->counted_peak, "accounting allocator, of that load");
    memory.set("final_storage", run->final_bytes, "plan of that load");
  } else {
    memory.set_unavailable("predicted", "no load was planned");
    memory.set_unavailable("allocator_peak", "no load was executed");
    memory.set_unavailable("final_storage", "no load was executed");
  }
  memory.set_unavailable("device", "no device was asked for");
  memory.set_unavailable("pinned", "no device was asked for");
}

}  // namespace

reports::CheckpointInfo checkpoint_info(const Context& context) {
  const storage::Checkpoint& checkpoint = context.checkpoint;
  reports::CheckpointInfo info;
  info.path = checkpoint.display_path;
  info.format =
      checkpoint.is_selected ? "safetensors, " + std::string(to_string(checkpoint.kind)) : std::string("unknown");
  info.family = context.detection.family != nullptr ? std::string(context.detection.family->name)
                : checkpoint.is_selected            ? "identity"
                                                    : "unknown";
  if (checkpoint.config) {
    if (const ConfigValue* list = checkpoint.config->find("architectures")) {
      for (const ConfigValue& item : list->items()) {
        if (const auto text = item.as_string()) {
          info.architectures.emplace_back(*text);
        }
      }
    }
  }
  info.files = checkpoint.shards.size();
  info.tensors = context.keys().size();
  info.bytes = checkpoint.catalog.bytes();
  if (context.is_keys_only() && checkpoint.index && checkpoint.index->total_size) {
    info.bytes = *checkpoint.index->total_size;
  }
  std::map<DType, std::uint64_t> dtypes;
  for (const StoredTensor& row : checkpoint.catalog.tensors()) {
    if (row.is_described) {
      ++dtypes[row.dtype];
    }
  }
  for (const auto& [dtype, count] : dtypes) {
    info.dtypes[std::string(name_of(dtype))] = count;
  }
  info.quantization = context.detection.quantization;
  if (context.form) {
    info.tied = context.form->is_tied;
    info.form = "names under '" + context.form->name_space + "'";
    if (!context.form->expert_layout.empty()) {
      info.form += ", experts " + context.form->expert_layout;
    }
  }
  if (const auto mark = native_mark(checkpoint)) {
    info.family = mark->family.empty() ? info.family : mark->family;
    info.form = "native layout" + (mark->is_part() ? ", rank " + mark->rank + " of " + mark->topology : std::string());
  }
  return info;
}

reports::Report verify(const std::filesystem::path& path, const VerifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds_since = [](std::chrono::steady_clock::time_point from) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  reports::Report report;
  report.run.start = utc_now();
  const std::vector<Expectation> expectations =
      options.expect_file.empty() ? std::vector<Expectation>{}
                                  : parse_expectations(read_expect_file(options.expect_file),
                                                       std::filesystem::path(options.expect_file).filename().string());

  measure::MemoryWatch watch(std::chrono::milliseconds(5));
  storage::Checkpoint checkpoint = storage::read_checkpoint(path, options.selection, options.threads);
  std::optional<storage::Checkpoint> base;
  if (!options.base.empty()) {
    base = open_base(options);
    // A directory that holds nothing but an adapter: with a base it is one that can be judged.
    if (holds_bare_adapter(checkpoint)) {
      storage::SelectionOptions selection = options.selection;
      selection.want_adapter = true;
      checkpoint = storage::read_checkpoint(path, selection, options.threads);
    }
  }
  const double scan_s = seconds_since(start);
  Context context(options, checkpoint, base ? &*base : nullptr);
  require_asked_ranks(context);
  for (const VerifyCheck& check : all_verify_checks()) {
    if (options.topology.empty() && check.id.starts_with("shard.")) {
      continue;  // one rank was asked about
    }
    report.checks.push_back(run_check(check, context));
  }
  if (!options.expect_file.empty()) {
    apply_expectations(expectations, utc_today(), report.checks);
  }

  report.checkpoint = checkpoint_info(context);
  report.strict = options.is_strict;
  add_policies(options, report);
  if (context.schema) {
    for (const std::string& text : context.schema->defaulted()) {
      const std::size_t colon = text.find(": ");
      report.defaulted.push_back({text.substr(0, colon),
                                  colon == std::string::npos ? std::string() : text.substr(colon + 2),
                                  "family " + std::string(context.schema->family())});
    }
  }

  const Machine machine = describe_machine();
  auto& environment = report.environment;
  environment["system"] = machine.system;
  environment["cpu"] = machine.cpu;
  environment["cpu_features"] = machine.cpu_features;
  environment["cpu_threads"] = machine.threads;
  environment["threads_used"] = options.threads;
  environment["memory_bytes"] = machine.memory_bytes ? reports::Value(*machine.memory_bytes) : reports::Value();
  environment["gpu"] = machine.gpu.empty() ? reports::Value() : reports::Value(machine.gpu);
  environment["file_system"] = file_system_of(checkpoint.root);
  environment["compiler"] = machine.compiler;

  add_memory(watch.finish(), finished_loads(context), report.memory);
  if (const LoadRun* run = finished_loads(context)) {
    report.plan = run->plan;
    // It grows with the number of threads, on which nothing that is compared may depend.
    report.memory.bound = report.plan.predicted_peak;
    report.plan.predicted_peak.reset();
  }
  const auto phase = [&report](const char* name, std::optional<double> seconds, std::optional<std::uint64_t> bytes,
                               const char* why) {
    report.timing.phases.push_back({name, seconds, bytes, why});
  };
  phase("scan", scan_s, std::nullopt, "");
  phase("plan", std::nullopt, std::nullopt, "no load was planned");
  if (const LoadRun* run = finished_loads(context)) {
    phase("load", run->seconds, run->bytes, "");
  } else {
    phase("load", std::nullopt, std::nullopt, "no load was executed");
  }
  if (context.has_scan()) {
    phase("compare", context.scan_seconds(), context.scan().bytes, "");
  } else {
    phase("compare", std::nullopt, std::nullopt, "no values were read");
  }
  if (context.residency_before()) {
    const measure::Residency after = context.residency();
    report.timing.cache_before = to_string(context.residency_before()->cache_class());
    report.timing.cache_after = to_string(after.cache_class());
    report.timing.cache_method = after.resident.value ? after.resident.method : after.resident.why;
  } else {
    report.timing.cache_method = "no values were read";
  }
  report.timing.total_s = seconds_since(start);

  report.run.tool = "weightproof " WEIGHTPROOF_VERSION;
  report.run.host = host_name();
  report.run.command = options.command;
  report.run.command_base = options.command;
  report.run.duration_s = seconds_since(start);
  report.run.title = "verify";
  // Expected failures are notes by now: nothing is told of them as a failure.
  for (reports::Finding& finding : context.findings) {
    const bool is_failure = std::any_of(report.checks.begin(), report.checks.end(), [&](const auto& record) {
      return record.id == finding.rule && record.status == reports::Status::fail &&
             std::find(record.subjects.begin(), record.subjects.end(), finding.key) != record.subjects.end();
    });
    if (is_failure) {
      report.findings.push_back(std::move(finding));
    }
  }
  add_tensor_table(context.keys(), report);
  reports::finish(report);
  reports::fold_findings(report);
  return report;
}

}  // namespace weightproof::suites
