// SPDX-License-Identifier: Apache-2.0
// load: execute a plan, say what was planned beside what was measured, and write the loaded state where asked.
#include <algorithm>
#include <chrono>

#include "loader/exec/engine.hpp"
#include "loader/measure/memory.hpp"
#include "loader/save/export.hpp"
#include "suites/cli/checkpoints.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/interrupt.hpp"
#include "suites/cli/planning.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

class ConsoleProgress final : public exec::ProgressSink {
 public:
  explicit ConsoleProgress(Console& console) : console_(console) {}
  void advance(std::uint64_t done, std::uint64_t total) override { console_.progress("loading", done, total); }

 private:
  Console& console_;
};

// Writes the arena's tensors as a checkpoint that says what it is.
void emit(const OpenedCheckpoint& opened, const plan::Plan& plan, exec::LoadAttempt& attempt, const std::string& target,
          const Arguments& arguments) {
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
      {"weightproof.version", WEIGHTPROOF_VERSION},
  };
  const std::filesystem::path config = opened.checkpoint.root / "config.json";
  if (opened.checkpoint.config && !target.ends_with(".safetensors")) {
    options.carried.push_back({"config.json", read_text_file(config, limits::config_bytes_max)});
  }
  save::MemorySource source(std::move(bytes));
  save::export_checkpoint(tensors, source, target, options);
}

}  // namespace

int run_load(const Arguments& arguments, Console& console) {
  const OpenedCheckpoint opened(arguments.positionals().front(), arguments);
  const plan::Plan plan = make_load_plan(opened, arguments);
  const storage::Checkpoint* checkpoint = &opened.checkpoint;
  const exec::SourceFiles sources = exec::SourceFiles::of(std::span(&checkpoint, 1));
  const InterruptGuard interrupt;
  ConsoleProgress progress(console);
  exec::LoadOptions options;
  options.stop = interrupt.token();
  options.progress = &progress;
  options.has_digests = exec::digest_unavailable().empty();
  measure::MemoryWatch watch;
  exec::LoadAttempt attempt = exec::load(plan, sources, options);
  const measure::MemoryReport memory = watch.finish();
  console.end_progress();
  attempt.require_complete();
  const std::string target = arguments.text("--emit");
  if (!target.empty()) {
    emit(opened, plan, attempt, target, arguments);
  }

  // One digest for the whole: of the tensors' digests in the order of their keys.
  std::string digest;
  if (options.has_digests) {
    exec::DigestStream stream;
    std::vector<std::size_t> order(plan.tensors().size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
    }
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return plan.tensors()[a].key < plan.tensors()[b].key; });
    for (const std::size_t i : order) {
      const std::string text = std::string(plan.tensors()[i].key) + ' ' + exec::to_string(*attempt.digest(i)) + '\n';
      stream.update(std::as_bytes(std::span(text.data(), text.size())));
    }
    digest = exec::to_string(stream.finish());
  }
  const exec::Counters& counters = attempt.counters();
  const exec::Usage& host = attempt.memory().of(exec::MemoryKind::host);
  if (!console.is_json()) {
    console.line("loaded " + counted(plan.tensors().size(), "tensor", "tensors") + ", " +
                 human_bytes(plan.memory().final_tensor_bytes) + ", route " + std::string(to_string(plan.route())));
    console.line("read    " + human_bytes(counters.read_bytes) + " in " +
                 counted(counters.requests, "request", "requests") + ", " +
                 counted(counters.opens, "file opened", "files opened"));
    console.line("memory  " + human_bytes(host.peak) + " at the peak, predicted " +
                 human_bytes(plan.memory().peak_bytes()));
    console.line("time    " + std::to_string(attempt.phases().total) + " s");
    if (!digest.empty()) {
      console.line("digest  " + digest);
    }
    if (!target.empty()) {
      console.line("written to " + printable(target));
    }
    return k_exit_done;
  }
  JsonWriter json([&console](std::string_view text) { console.out(text); });
  json.begin_object().member("schema", "weightproof.load/1");
  write_checkpoint(json, opened);
  json.name("planned")
      .begin_object()
      .member("bytes", plan.traffic().read_bytes)
      .member("predicted_peak", plan.memory().peak_bytes());
  json.member("opens", plan.traffic().files).member("ranges", plan.traffic().requests).end_object();
  json.name("measured")
      .begin_object()
      .member("bytes_requested", counters.requested_bytes)
      .member("bytes_read", counters.read_bytes);
  json.member("opens", counters.opens)
      .member("reads", counters.requests)
      .member("copies", counters.copies)
      .end_object();
  json.name("memory").begin_object().member("bound", plan.memory().beyond_final_bytes()).name("figures").begin_object();
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
  json.end_object().end_object();
  const exec::Phases& phases = attempt.phases();
  json.name("timing").begin_object().member("total_s", phases.total).name("phases").begin_array();
  const std::pair<const char*, double> times[] = {{"prepare", phases.prepare}, {"populate", phases.populate},
                                                  {"read", phases.read},       {"transform", phases.transform},
                                                  {"compare", phases.compare}, {"digest", phases.digest}};
  for (const auto& [name, seconds] : times) {
    json.begin_object().compact().member("name", name).member("seconds", seconds).end_object();
  }
  json.end_array().member("cache_before", "unknown").member("cache_after", "unknown").end_object();
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
