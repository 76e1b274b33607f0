// SPDX-License-Identifier: Apache-2.0
// plan: what a load would do, without reading a weight.
#include "loader/plan/planner.hpp"

#include "loader/plan/text.hpp"
#include "suites/cli/checkpoints.hpp"
#include "suites/cli/planning.hpp"
#include "suites/cli/rank_table.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

void write_tensors(JsonWriter& json, const plan::Plan& plan) {
  json.name("tensors").begin_array();
  for (const plan::PlannedTensor& tensor : plan.tensors()) {
    // The gravest of its moves stands for the tensor.
    plan::Route route = plan::Route::direct;
    plan::Reason reason = plan::Reason::contiguous;
    for (std::uint32_t i = 0; i < tensor.move_count; ++i) {
      const plan::Move& move = plan.moves()[tensor.first_move + i];
      if (i == 0 || move.route > route || (move.route == route && reason == plan::Reason::contiguous)) {
        route = move.route;
        reason = move.reason;
      }
    }
    json.begin_object()
        .compact()
        .member("key", tensor.key)
        .member("route", to_string(route))
        .member("reason", to_string(reason));
    json.member("stored_bytes", tensor.source_bytes)
        .member("native_dtype", name_of(tensor.dtype))
        .name("shape")
        .begin_array();
    for (const std::uint64_t extent : plan.shape_of(tensor)) {
      json.value(extent);
    }
    json.end_array().end_object();
  }
  json.end_array();
}

// With a topology: the rank that was asked for. `topology` is empty without.
void write_json(const OpenedCheckpoint& opened, const plan::Plan& plan, std::uint32_t rank, const std::string& topology,
                Console& console) {
  JsonWriter json([&console](std::string_view text) { console.out(text); });
  json.begin_object().member("schema", "weightproof.plan/1");
  write_checkpoint(json, opened);
  if (!topology.empty()) {
    json.member("topology", topology);
  }
  const plan::Proof& proof = plan.proof();
  std::uint64_t holes = 0;
  std::uint64_t overlaps = 0;
  std::uint64_t undecided = 0;
  for (const plan::ProofFault& fault : proof.faults) {
    holes += fault.tiling == Tiling::hole ? 1U : 0U;
    overlaps += fault.tiling == Tiling::overlap ? 1U : 0U;
    undecided += fault.tiling == Tiling::unprovable ? 1U : 0U;
  }
  std::uint64_t dropped = 0;
  for (const plan::Unread& rule : plan.unread()) {
    dropped += rule.bytes;
  }
  json.name("coverage")
      .begin_object()
      .member("native_tensors", proof.native_proved + proof.faults.size())
      .member("exact", proof.native_proved);
  json.member("holes", holes).member("overlaps", overlaps).member("undecided", undecided);
  json.member("stored_bytes", plan.catalog().bytes()).member("dropped_bytes", dropped).end_object();
  const plan::Memory& memory = plan.memory();
  const auto write_memory = [&json, &memory] {
    json.name("predicted_peak")
        .begin_object()
        .member("final", memory.final_bytes)
        .member("staging", memory.staging_bytes)
        .member("companion", memory.companion_bytes);
    json.member("whole", memory.whole_bytes)
        .member("metadata", memory.metadata_bytes)
        .member("beyond_final", memory.beyond_final_bytes());
    json.member("peak", memory.peak_bytes()).end_object();
  };
  write_memory();
  const plan::RankFigures figures = plan::figures_of(plan);
  json.name("ranks").begin_array().begin_object().member("rank", rank);
  write_traffic(json, figures);
  write_memory();
  json.end_object().end_array().member("amplification", figures.amplification());
  json.name("considered").begin_array();
  for (const plan::Considered& row : plan.considered()) {
    json.begin_object()
        .compact()
        .member("route", to_string(row.route))
        .member("chosen", row.is_chosen)
        .member("reason", row.reason)
        .member("moves", row.moves)
        .name("examples")
        .begin_array();
    for (const std::string& example : row.examples) {
      json.value(example);
    }
    json.end_array().end_object();
  }
  json.end_array().name("defaulted").begin_array();
  for (const std::string& text : plan.schema().defaulted()) {
    json.value(text);
  }
  json.end_array().member("total", plan.tensors().size()).member("shown", plan.tensors().size());
  write_tensors(json, plan);
  json.end_object();
  json.flush();
  console.out("\n");
}

}  // namespace

int run_plan(const Arguments& arguments, Console& console) {
  const RankChoice choice = rank_choice(arguments);
  const plan::ExpertStorageVerdict storage = asked_storage(arguments);
  const OpenedCheckpoint opened(arguments.positionals().front(), arguments);
  if (!console.is_json() && storage.storage != ExpertStorage::grouped) {
    console.out(std::string("experts of storage ") + (storage.storage == ExpertStorage::te ? "te: " : "mok: ") +
                storage.reason + "\n");
  }
  if (!choice.topology) {
    const plan::Plan plan = make_load_plan(opened, arguments);
    if (console.is_json()) {
      write_json(opened, plan, 0, {}, console);
    } else {
      console.out(plan::to_text(plan));
    }
    return k_exit_done;
  }
  const plan::PlanBasis basis = make_plan_basis(opened, arguments);
  const plan::RankLayout layout = rank_layout(basis.schema(), choice, arguments);
  if (choice.is_all) {
    return run_all_ranks(opened, basis, layout, console);
  }
  const plan::Plan plan = basis.plan(layout.of(choice.rank));
  const std::string topology = plan::to_string(layout.topology());
  if (console.is_json()) {
    write_json(opened, plan, choice.rank, topology, console);
  } else {
    console.out("rank " + std::to_string(choice.rank) + " of " + topology + "\n" + plan::to_text(plan));
  }
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
