// SPDX-License-Identifier: Apache-2.0
// load: execute a plan, say what was planned beside what was measured, and write the loaded state where asked.
#include <algorithm>
#include <chrono>

#include "loader/exec/engine.hpp"
#include "loader/measure/cache.hpp"
#include "loader/measure/memory.hpp"
#include "loader/plan/text.hpp"
#include "loader/save/export.hpp"
#include "suites/cli/carried.hpp"
#include "suites/cli/checkpoints.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/interrupt.hpp"
#include "suites/cli/planning.hpp"
#include "suites/cli/rank_table.hpp"
#include "suites/cli/target.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/state/native_state.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/shell.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

/// What the kernel may count beyond the bound: pages of the heap and of the stack, and its own rounding.
constexpr std::uint64_t k_allowance_bytes = 8U << 20U;

std::vector<std::filesystem::path> paths_of(const storage::Checkpoint& checkpoint) {
  std::vector<std::filesystem::path> paths;
  for (std::uint32_t i = 0; i < checkpoint.shards.size(); ++i) {
    paths.push_back(checkpoint.path_of(i));
  }
  return paths;
}

class ConsoleProgress final : public exec::ProgressSink {
 public:
  explicit ConsoleProgress(Console& console) : console_(console) {}
  void advance(std::uint64_t done, std::uint64_t total) override { console_.progress("loading", done, total); }

 private:
  Console& console_;
};

std::string form_text(const Form& form) {
  std::string text = "names under '" + form.name_space + "'";
  for (const auto& [what, value] :
       {std::pair("experts ", &form.expert_layout), std::pair("names of ", &form.generation),
        std::pair("quantization ", &form.quantization)}) {
    if (!value->empty()) {
      text += ", " + std::string(what) + *value;
    }
  }
  return text + (form.is_tied ? ", tied" : "");
}

// Writes the arena's tensors as a checkpoint that says what it is. What one rank holds says of which topology and
// carries no layout: there is no way back to the stored files out of a part.
void emit(const OpenedCheckpoint& opened, const plan::Plan& plan, exec::LoadAttempt& attempt, const std::string& target,
          const RankChoice& choice, const Arguments& arguments) {
  std::vector<save::ExportTensor> tensors;
  std::vector<std::span<const std::byte>> bytes;
  for (std::size_t i = 0; i < plan.tensors().size(); ++i) {
    const plan::PlannedTensor& tensor = plan.tensors()[i];
    tensors.push_back({std::string(tensor.key), tensor.dtype, plan.shape_of(tensor), UINT64_MAX});
    bytes.push_back(attempt.bytes(i));
  }
  save::ExportOptions options;
  options.threads = asked_threads(arguments);
  options.metadata = storage::Metadata{
      {"format", "pt"},
      {"weightproof.layout", std::string(to_string(plan.side()))},
      {"weightproof.family", std::string(plan.schema().family())},
      {"weightproof.storage", "grouped"},
      {"weightproof.version", WEIGHTPROOF_VERSION},
  };
  if (opened.form) {
    options.metadata->emplace_back("weightproof.form", form_text(*opened.form));
  }
  if (choice.topology) {
    options.metadata->emplace_back("weightproof.topology", plan::to_string(*choice.topology));
    options.metadata->emplace_back("weightproof.rank", std::to_string(choice.rank));
    options.metadata->emplace_back("weightproof.ranks", std::to_string(choice.topology->world()));
    if (arguments.has("--stages")) {
      options.metadata->emplace_back("weightproof.stages", arguments.text("--stages"));
    }
  }
  const std::filesystem::path config = opened.checkpoint.root / "config.json";
  if (opened.checkpoint.config && !target.ends_with(".safetensors")) {
    options.carried.push_back({"config.json", plan.decodes().empty()
                                                  ? read_text_file(config, limits::config_bytes_max)
                                                  : edited_config_text(*opened.checkpoint.config, std::nullopt, true)});
  }
  if (plan.side() == plan::Side::native && !choice.topology && !target.ends_with(".safetensors")) {
    StateOptions as_stored;
    as_stored.schema = opened.schema.get();
    as_stored.dtype = target_dtype(arguments);
    const DecodedState state(opened.checkpoint, as_stored);
    options.carried.push_back(
        {std::string(k_native_layout_file),
         native_layout_text(opened.checkpoint, restorable(plan, state), !plan.decodes().empty())});
  }
  save::MemorySource source(std::move(bytes));
  save::export_checkpoint(tensors, source, target, options);
}

}  // namespace

int run_load(const Arguments& arguments, Console& console) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds_since = [](std::chrono::steady_clock::time_point from) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  const RankChoice choice = rank_choice(arguments);
  const std::string target = arguments.text("--emit");
  if (!target.empty()) {
    require_target(target, "--emit", Standing::nothing, false);
  }
  const OpenedCheckpoint opened(arguments.positionals().front(), arguments);
  const double scan_s = seconds_since(start);
  const auto plan_start = std::chrono::steady_clock::now();
  const plan::PlanBasis basis = make_plan_basis(opened, arguments);
  const plan::Plan plan =
      choice.topology ? basis.plan(rank_layout(basis.schema(), choice, arguments).of(choice.rank)) : basis.plan();
  const double plan_s = seconds_since(plan_start);
  const storage::Checkpoint* checkpoint = &opened.checkpoint;
  const exec::SourceFiles sources = exec::SourceFiles::of(std::span(&checkpoint, 1));
  const InterruptGuard interrupt;
  ConsoleProgress progress(console);
  exec::LoadOptions options;
  options.stop = interrupt.token();
  options.progress = &progress;
  const std::vector<std::filesystem::path> paths = paths_of(opened.checkpoint);
  const measure::Residency before = measure::read_residency(paths);
  measure::MemoryWatch watch;
  exec::LoadAttempt attempt = exec::load(plan, sources, options);
  const measure::MemoryReport memory = watch.finish();
  console.end_progress();
  attempt.require_complete();
  if (!target.empty()) {
    emit(opened, plan, attempt, target, choice, arguments);
  }

  const measure::Residency after = measure::read_residency(paths);

  // One digest for the whole: of the tensors' digests in the order of their keys. Not made while loading: what the load
  // takes is what `plan` says, to the byte.
  const auto digest_start = std::chrono::steady_clock::now();
  std::string digest;
  if (exec::digest_unavailable().empty() && !arguments.flag("--no-digest")) {
    exec::DigestStream stream;
    std::vector<std::size_t> order(plan.tensors().size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return plan.tensors()[a].key < plan.tensors()[b].key; });
    for (const std::size_t i : order) {
      const std::string text =
          std::string(plan.tensors()[i].key) + ' ' + exec::to_string(exec::digest_of(attempt.bytes(i))) + '\n';
      stream.update(std::as_bytes(std::span(text.data(), text.size())));
    }
    digest = exec::to_string(stream.finish());
  }
  const double digest_s = seconds_since(digest_start);
  const exec::Counters& counters = attempt.counters();
  const exec::Usage& host = attempt.memory().of(exec::MemoryKind::host);
  if (!console.is_json()) {
    console.line("loaded " + counted(plan.tensors().size(), "tensor", "tensors") + ", " +
                 human_bytes(plan.memory().final_tensor_bytes) + ", route " + std::string(to_string(plan.route())));
    if (choice.topology) {
      console.line("rank    " + std::to_string(choice.rank) + " of " + plan::to_string(*choice.topology));
    }
    console.line("read    " + human_bytes(counters.read_bytes) + plan::reads_text(plan) + ", " +
                 counted(counters.opens, "file opened", "files opened"));
    console.line("memory  " + human_bytes(host.peak) + " at the peak, predicted " +
                 human_bytes(plan.memory().peak_bytes()));
    console.line("time    " + std::to_string(attempt.phases().total) + " s");
    if (!digest.empty()) {
      console.line("digest  " + digest);
    }
    if (!target.empty()) {
      console.line("written to " + shown_path(target));
    }
    return k_exit_done;
  }
  JsonWriter json([&console](std::string_view text) { console.out(text); });
  json.begin_object().member("schema", "weightproof.load/1");
  write_checkpoint(json, opened);
  if (choice.topology) {
    json.member("topology", plan::to_string(*choice.topology)).member("rank", choice.rank);
  }
  json.name("planned")
      .begin_object()
      .member("bytes", plan.traffic().read_bytes)
      .member("predicted_peak", plan.memory().peak_bytes());
  json.member("opens", plan.traffic().files).member("reads", plan.traffic().requests).end_object();
  json.name("measured")
      .begin_object()
      .member("bytes_requested", counters.requested_bytes)
      .member("bytes_read", counters.read_bytes);
  json.member("opens", counters.opens)
      .member("reads", counters.requests)
      .member("copies", counters.copies)
      .end_object();
  json.name("memory")
      .begin_object()
      .member("bound", plan.memory().beyond_final_bytes())
      .member("allowance", k_allowance_bytes)
      .name("figures")
      .begin_object();
  const auto figure = [&json](const char* name, const measure::Figure& value) {
    json.name(name).begin_object().compact().name("bytes");
    if (value.value) {
      json.value(*value.value).member("method", value.method);
    } else {
      json.null().member("why", value.why);
    }
    json.end_object();
  };
  figure("allocator_peak", measure::Figure::of(host.peak, "accounting allocator"));
  figure("predicted", measure::Figure::of(plan.memory().peak_bytes(), "plan"));
  figure("final_storage", measure::Figure::of(plan.memory().final_bytes, "plan"));
  figure("vm_hwm", memory.peak_rss);
  figure("rss_anon", memory.peak_rss_anon);
  figure("cgroup_peak", memory.cgroup_peak);
  figure("growth", memory.growth());
  figure("page_cache", after.resident);
  figure("pinned", measure::Figure::unavailable({}, "no device was asked for"));
  figure("device", measure::Figure::unavailable({}, "no device was asked for"));
  json.end_object().end_object();
  const exec::Phases& phases = attempt.phases();
  json.name("timing").begin_object().member("total_s", phases.total).name("phases").begin_array();
  const std::pair<const char*, double> times[] = {{"scan", scan_s},
                                                  {"plan", plan_s},
                                                  {"load", phases.total},
                                                  {"prepare", phases.prepare},
                                                  {"populate", phases.populate},
                                                  {"read", phases.read},
                                                  {"transform", phases.transform},
                                                  {"compare", phases.compare},
                                                  {"digest", digest_s}};
  for (const auto& [name, seconds] : times) {
    json.begin_object().compact().member("name", name).member("seconds", seconds).end_object();
  }
  json.begin_object().compact().member("name", "report").name("seconds").null();
  json.member("why", "this document is written while it would be timed").end_object();
  json.end_array()
      .member("cache_before", to_string(before.cache_class()))
      .member("cache_after", to_string(after.cache_class()));
  json.member("cache_method", after.resident.value ? after.resident.method : after.resident.why).end_object();
  json.name("digest");
  if (digest.empty()) {
    json.null();
  } else {
    json.value(digest);
  }
  json.name("emit");
  if (target.empty()) {
    json.null();
  } else {
    json.value(target);
  }
  json.end_object();
  json.flush();
  console.out("\n");
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
