// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/rank_table.hpp"

#include <algorithm>
#include <cstdio>

#include "loader/core/error.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::size_t k_ranks_shown = 64;
constexpr std::uint32_t k_ranks_per_node = 8;

[[noreturn]] void refuse(std::string message, std::string hint) {
  ErrorFacts facts;
  facts.hint = std::move(hint);
  throw Error(ErrorCode::usage, std::move(message), std::move(facts));
}

std::string ratio_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3f", value);
  return buffer;
}

std::string fault_text(const plan::AllRanks& all) {
  if (all.fault) {
    const std::string at = to_string(all.fault->coordinate);
    return "element " + at + " of " + printable(all.fault->key) +
           (all.fault->tiling == Tiling::hole ? " is on no rank" : " is in two different parts");
  }
  return all.diverged.empty() ? std::string()
                              : "ranks that hold the same part of " + printable(all.diverged) + " read it differently";
}

void write_rank(JsonWriter& json, const plan::RankFigures& rank, const plan::RankLayout& layout) {
  const plan::RankPosition at = plan::position_of(layout.topology(), rank.rank);
  json.begin_object().compact().member("rank", rank.rank);
  json.member("pp", at.pp).member("dp", at.dp).member("fsdp", at.fsdp).member("cp", at.cp).member("tp", at.tp);
  json.member("ep", at.ep).member("ep_shard", at.ep_shard);
  write_traffic(json, rank);
  json.name("predicted_peak")
      .begin_object()
      .member("final", rank.final_bytes)
      .member("beyond_final", rank.beyond_final_bytes)
      .member("peak", rank.peak_bytes)
      .end_object();
  json.end_object();
}

void write_json(const OpenedCheckpoint& opened, const plan::PlanBasis& basis, const plan::RankLayout& layout,
                const plan::AllRanks& all, Console& console) {
  JsonWriter json([&console](std::string_view text) { console.out(text); });
  json.begin_object().member("schema", "weightproof.plan/1");
  write_checkpoint(json, opened);
  json.member("topology", plan::to_string(layout.topology()));
  const std::uint64_t natives = basis.schema().native_tensors().size();
  const bool has_hole = all.fault && all.fault->tiling == Tiling::hole;
  const bool has_overlap = all.fault && all.fault->tiling == Tiling::overlap;
  json.name("coverage")
      .begin_object()
      .member("native_tensors", natives)
      .member("exact", all.fault ? natives - 1 : natives);
  json.member("holes", has_hole ? 1 : 0).member("overlaps", has_overlap ? 1 : 0);
  json.member("undecided", all.fault && !has_hole && !has_overlap ? 1 : 0);
  json.member("stored_bytes", basis.catalog().bytes())
      .member("dropped_bytes", basis.catalog().bytes() - std::min(basis.catalog().bytes(), all.checkpoint_bytes))
      .end_object();
  const auto largest = std::max_element(all.ranks.begin(), all.ranks.end(),
                                        [](const auto& a, const auto& b) { return a.peak_bytes < b.peak_bytes; });
  json.name("predicted_peak")
      .begin_object()
      .member("final", largest->final_bytes)
      .member("beyond_final", largest->beyond_final_bytes)
      .member("peak", largest->peak_bytes)
      .end_object();
  json.name("ranks").begin_array();
  for (const plan::RankFigures& rank : all.ranks) {
    write_rank(json, rank, layout);
  }
  json.end_array().member("amplification", all.amplification());
  json.name("all_ranks").begin_object();
  json.member("checkpoint_bytes", all.checkpoint_bytes).member("read_bytes", all.read_bytes);
  json.member("wanted_bytes", all.wanted_bytes).member("times_checkpoint", all.times_checkpoint());
  json.member("distinct_bytes", all.distinct_bytes).member("balance", all.balance());
  json.member("fault", fault_text(all)).name("nodes").begin_array();
  for (const plan::NodeFigures& node : all.nodes) {
    json.begin_object().compact().member("first_rank", node.first_rank).member("ranks", node.ranks);
    json.member("read_bytes", node.read_bytes).member("distinct_bytes", node.distinct_bytes).end_object();
  }
  json.end_array().end_object();
  json.member("total", natives).member("shown", 0).name("tensors").begin_array().end_array().end_object();
  json.flush();
  console.out("\n");
}

std::string table_text(const plan::RankLayout& layout, const plan::AllRanks& all) {
  const auto cell = [](const std::string& text, std::size_t width) {
    return std::string(text.size() < width ? width - text.size() : 1, ' ') + text;
  };
  std::string out = counted(all.ranks.size(), "rank", "ranks") + " of " + plan::to_string(layout.topology()) + "\n";
  const std::string fault = fault_text(all);
  out += fault.empty() ? "together  exactly the checkpoint; equal parts are read alike\n" : "together  " + fault + "\n";
  out += "stored    " + human_bytes(all.checkpoint_bytes) + ", different parts of all ranks " +
         human_bytes(all.distinct_bytes) + "\n";
  out += "read      " + human_bytes(all.read_bytes) + ", " + ratio_text(all.amplification()) +
         " times what is wanted, " + ratio_text(all.times_checkpoint()) + " times the checkpoint\n";
  out += "balance   the largest rank takes " + ratio_text(all.balance()) + " times the mean\n";
  out += "peak      " + human_bytes(all.peak_bytes()) + " on the largest rank\n";
  out += "   rank  pp  dp fsdp  cp  tp  ep shard  tensors  ranges        read      wanted       final        peak\n";
  for (const plan::RankFigures& rank : std::span(all.ranks).first(std::min(k_ranks_shown, all.ranks.size()))) {
    const plan::RankPosition at = plan::position_of(layout.topology(), rank.rank);
    out += cell(std::to_string(rank.rank), 7);
    for (const std::uint32_t index : {at.pp, at.dp, at.fsdp, at.cp, at.tp, at.ep}) {
      out += cell(std::to_string(index), 4);
    }
    out += cell(std::to_string(at.ep_shard), 6) + cell(std::to_string(rank.tensors), 9) +
           cell(std::to_string(rank.ranges), 8);
    for (const std::uint64_t bytes : {rank.read_bytes, rank.wanted_bytes(), rank.final_bytes, rank.peak_bytes}) {
      out += cell(human_bytes(bytes), 12);
    }
    out += '\n';
  }
  if (all.ranks.size() > k_ranks_shown) {
    out += "    ... and " + std::to_string(all.ranks.size() - k_ranks_shown) + " more\n";
  }
  for (const plan::NodeFigures& node : std::span(all.nodes).first(std::min<std::size_t>(8, all.nodes.size()))) {
    out += "node of ranks " + std::to_string(node.first_rank) + " to " +
           std::to_string(node.first_rank + node.ranks - 1) + ": " + human_bytes(node.read_bytes) + " read, " +
           human_bytes(node.distinct_bytes) + " of it different\n";
  }
  if (all.nodes.size() > 8) {
    out += "... and " + std::to_string(all.nodes.size() - 8) + " more nodes\n";
  }
  return out;
}

}  // namespace

void write_traffic(JsonWriter& json, const plan::RankFigures& rank) {
  json.member("bytes_read", rank.read_bytes).member("bytes_wanted", rank.wanted_bytes()).member("ranges", rank.ranges);
  json.member("reads", rank.requests).member("tensors", rank.tensors).member("amplification", rank.amplification());
}

RankChoice rank_choice(const Arguments& arguments) {
  RankChoice choice;
  choice.is_all = arguments.flag("--all-ranks");
  const std::optional<std::uint64_t> rank = arguments.count("--rank");
  if (!arguments.has("--topology")) {
    for (const char* option : {"--rank", "--all-ranks", "--stages"}) {
      if (arguments.has(option)) {
        refuse(std::string(option) + " is about the ranks of a topology, and there is none",
               "add --topology, such as tp=2,ep=4");
      }
    }
    return choice;
  }
  choice.topology = plan::parse_topology(arguments.text("--topology"));
  if (choice.is_all && rank) {
    refuse("--rank asks for one rank, --all-ranks for every one", "leave one of the two out");
  }
  if (!choice.is_all && !rank) {
    const bool has_table = arguments.verb() == "plan";
    refuse("a topology has many ranks, and none of them is named",
           has_table ? "add --rank R, or --all-ranks" : "add --rank R");
  }
  if (arguments.text("--layout", "native") == "hf") {
    refuse("stored tensors are not divided among ranks, native ones are", "leave out --layout hf");
  }
  if (rank && *rank >= choice.topology->world()) {
    refuse("rank " + std::to_string(*rank) + " is outside the topology",
           "choose a rank below " + std::to_string(choice.topology->world()));
  }
  choice.rank = static_cast<std::uint32_t>(rank.value_or(0));
  return choice;
}

plan::RankLayout rank_layout(const Schema& schema, const RankChoice& choice, const Arguments& arguments) {
  std::vector<plan::Interval> stages;
  if (arguments.has("--stages")) {
    stages = plan::parse_stages(arguments.text("--stages"), plan::layer_count(schema));
  }
  return {schema, *choice.topology, std::move(stages)};
}

int run_all_ranks(const OpenedCheckpoint& opened, const plan::PlanBasis& basis, const plan::RankLayout& layout,
                  Console& console) {
  const plan::AllRanks all = plan::plan_all_ranks(basis, layout, k_ranks_per_node);
  if (console.is_json()) {
    write_json(opened, basis, layout, all, console);
  } else {
    console.out(table_text(layout, all));
  }
  return fault_text(all).empty() ? k_exit_done : k_exit_failed;
}

}  // namespace weightproof::suites::cli
