// SPDX-License-Identifier: Apache-2.0
#include "loader/plan/text.hpp"

#include <algorithm>
#include <cstdio>

#include "loader/plan/all_ranks.hpp"

namespace weightproof::plan {
namespace {

using Object = ConfigValue::Object;
using Array = ConfigValue::Array;

ConfigValue number(std::uint64_t value) {
  return value <= static_cast<std::uint64_t>(INT64_MAX) ? ConfigValue(static_cast<std::int64_t>(value))
                                                        : ConfigValue(value);
}
ConfigValue text(std::string_view value) { return ConfigValue(std::string(value)); }
ConfigValue numbers(const Extents& extents) {
  Array items;
  for (const std::uint64_t value : extents) items.push_back(number(value));
  return ConfigValue(std::move(items));
}
ConfigValue view_value(const View& view) {
  return ConfigValue(Object{
      {"offset", number(view.offset())}, {"extents", numbers(view.extents())}, {"strides", numbers(view.strides())}});
}

std::string size_text(std::uint64_t bytes) {
  char buffer[64];
  if (bytes < 1024) {
    std::snprintf(buffer, sizeof(buffer), "%llu B", static_cast<unsigned long long>(bytes));
    return buffer;
  }
  constexpr const char* k_units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(k_units); ++unit) value /= 1024;
  std::snprintf(buffer, sizeof(buffer), "%.2f %s", value, k_units[unit]);
  return buffer;
}

std::string ratio_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.3f", value);
  return buffer;
}

std::string counted(std::uint64_t count, std::string_view one) {
  return std::to_string(count) + ' ' + std::string(one) + (count == 1 ? "" : "s");
}

std::string from_text(const Plan& plan, const Move& move) {
  if (move.action == Action::fill) {
    char buffer[32];
    std::snprintf(buffer, sizeof(buffer), "%.17g", move.value);
    return std::string("constant ") + buffer;
  }
  const StoredTensor& row = plan.catalog().tensors()[move.row];
  std::string result(move.stored == k_no_id ? row.key : plan.schema().stored_tensors()[move.stored].key);
  if (move.decode != k_no_id) result += " (" + plan.decodes()[move.decode].codec->scheme().id + ")";
  return result;
}

std::string action_text(const Plan& plan, const Move& move) {
  std::string result(to_string(move.route));
  result += ' ';
  result += to_string(move.reason);
  if (move.reason == Reason::cast) {
    const PlannedTensor& tensor = plan.tensors()[move.tensor];
    result += ' ' + std::string(name_of(move.source_dtype)) + "->" + std::string(name_of(tensor.dtype));
  }
  if (move.action == Action::compare) result += ", must be equal";
  if (move.rule != k_no_id) result += " [" + plan.schema().rule(move.rule) + "]";
  return result;
}

void line(std::string& out, const std::string& name, const std::string& value) {
  out += "  " + name + std::string(name.size() < 18 ? 18 - name.size() : 1, ' ') + value + '\n';
}

std::uint64_t left_out_count(const Plan& plan) {
  return static_cast<std::uint64_t>(std::count_if(plan.proof().left_out.begin(), plan.proof().left_out.end(),
                                                  [](LeftOut reason) { return reason != LeftOut::no; }));
}

Object move_value(const Plan& plan, const Move& move) {
  Object object;
  object.emplace_back("from", text(from_text(plan, move)));
  object.emplace_back("action", text(to_string(move.action)));
  object.emplace_back("route", text(to_string(move.route)));
  object.emplace_back("reason", text(to_string(move.reason)));
  if (move.rule != k_no_id) object.emplace_back("rule", text(plan.schema().rule(move.rule)));
  if (move.row != k_no_row) {
    const StoredTensor& row = plan.catalog().tensors()[move.row];
    object.emplace_back("file", text(plan.catalog().files()[row.file]));
    object.emplace_back("dtype", text(name_of(row.dtype)));
    object.emplace_back("begin", number(row.begin));
    object.emplace_back("bytes", number(row.bytes));
    object.emplace_back("source", view_value(plan.source_view(move)));
  }
  object.emplace_back("target", view_value(plan.target_view(move)));
  return object;
}

Object tensor_value(const Plan& plan, const PlannedTensor& tensor) {
  Array moves;
  for (const Move& move : plan.moves().subspan(tensor.first_move, tensor.move_count)) {
    moves.push_back(ConfigValue(move_value(plan, move)));
  }
  return Object{{"key", text(tensor.key)},
                {"dtype", text(name_of(tensor.dtype))},
                {"shape", numbers(plan.shape_of(tensor))},
                {"bytes", number(tensor.bytes)},
                {"arena_offset", number(tensor.arena_offset)},
                {"moves", ConfigValue(std::move(moves))}};
}

ConfigValue listed(Array items, std::size_t total) {
  const std::size_t shown = items.size();
  return ConfigValue(
      Object{{"total", number(total)}, {"shown", number(shown)}, {"items", ConfigValue(std::move(items))}});
}

ConfigValue memory_value(const Memory& memory) {
  Object object{{"final", number(memory.final_bytes)},
                {"final_tensors", number(memory.final_tensor_bytes)},
                {"staging", number(memory.staging_bytes)},
                {"companions", number(memory.companion_bytes)},
                {"whole_tensors", number(memory.whole_bytes)},
                {"metadata", number(memory.metadata_bytes)},
                {"metadata_per_header_byte",
                 memory.metadata_per_header_byte == 0 ? ConfigValue() : ConfigValue(memory.metadata_per_header_byte)},
                {"threads", number(memory.threads)},
                {"read_buffer", number(memory.read_buffer_bytes)},
                {"tile", number(memory.tile_bytes)},
                {"sink", number(memory.sink_bytes)},
                {"beyond_final", number(memory.beyond_final_bytes())},
                {"peak", number(memory.peak_bytes())},
                {"budget", memory.budget_bytes ? number(*memory.budget_bytes) : ConfigValue()}};
  object.emplace_back("minimum_budget", memory.budget_bytes ? number(memory.minimum_budget_bytes) : ConfigValue());
  return ConfigValue(std::move(object));
}

}  // namespace

std::string reads_text(const Plan& plan) {
  const std::uint64_t requests = plan.traffic().requests;
  // Decoded tensors, and those that a route reads whole, are read by themselves.
  const auto apart =
      static_cast<std::uint64_t>(std::count_if(plan.moves().begin(), plan.moves().end(), [](const Move& move) {
        return move.action != Action::fill && (move.route == Route::materialized || move.decode != k_no_id);
      }));
  if (apart == 0) return " in " + counted(requests, "read");
  return requests == 0 ? " tensor by tensor" : " in " + counted(requests, "read") + " and tensor by tensor";
}

std::string to_text(const Plan& plan, const TextOptions& options) {
  const Memory& memory = plan.memory();
  const Traffic& traffic = plan.traffic();
  const Proof& proof = plan.proof();
  std::string out = "plan: " + counted(plan.tensors().size(), "tensor") + " of " + std::string(plan.schema().family()) +
                    ", " + std::string(to_string(plan.side())) + " layout, route " +
                    std::string(to_string(plan.route())) + '\n';
  for (const std::string& source : plan.sources()) line(out, "source", source);
  for (const ProbedValue& probe : plan.probes()) {
    line(out, "probed", probe.key + ", " + counted(probe.bytes, "byte") + ", " + probe.digest);
  }
  out += "routes\n";
  for (const Considered& considered : plan.considered()) {
    std::string value = (considered.is_chosen ? "chosen: " : "rejected: ") + considered.reason;
    for (std::size_t i = 0; i < considered.examples.size(); ++i)
      value += (i == 0 ? ": " : ", ") + considered.examples[i];
    line(out, std::string(to_string(considered.route)), value);
  }
  out += "proof\n";
  line(out, "native", counted(proof.native_proved, "tensor") + " filled exactly once");
  line(out, "stored", counted(proof.stored_proved, "tensor") + " read exactly once");
  line(out, "proofs", std::to_string(proof.proofs_done) + " done, equal layers share theirs");
  if (const std::uint64_t left_out = left_out_count(plan)) {
    line(out, "left out", counted(left_out, "native tensor"));
  }
  for (const Unread& unread : plan.unread()) {
    line(out, "not read",
         counted(unread.tensors, "tensor") + ", " + size_text(unread.bytes) + ": " +
             (unread.pattern.empty() ? "" : unread.pattern + ", ") + unread.reason);
  }
  out += "memory\n";
  line(out, "final", size_text(memory.final_bytes));
  line(out, "staging",
       size_text(memory.staging_bytes) + " (" + std::to_string(memory.threads) + " x " +
           size_text(memory.read_buffer_bytes) + " read, " + size_text(memory.tile_bytes) + " tile, " +
           size_text(memory.sink_bytes) + " sink)");
  line(out, "companions", size_text(memory.companion_bytes));
  if (memory.whole_bytes != 0) line(out, "whole tensors", size_text(memory.whole_bytes));
  line(out, "metadata", size_text(memory.metadata_bytes));
  line(out, "peak", size_text(memory.peak_bytes()));
  if (memory.budget_bytes) {
    line(out, "budget", size_text(*memory.budget_bytes) + ", least possible " + size_text(memory.minimum_budget_bytes));
  }
  const RankFigures figures = figures_of(plan);
  out += "traffic\n";
  line(out, "read",
       size_text(traffic.read_bytes) + reads_text(plan) + " of " + counted(traffic.files, "file") + ", " +
           ratio_text(figures.amplification()) + " times what is wanted");
  line(out, "wanted",
       size_text(figures.wanted_bytes()) + " in " + counted(figures.ranges, "range") +
           (plan.decode_order().empty() ? "" : " and codes"));
  line(out, "write", size_text(traffic.write_bytes));
  if (traffic.compare_bytes != 0) line(out, "compare", size_text(traffic.compare_bytes));
  out += "tensors\n";
  const std::size_t shown = std::min(options.tensors_max, plan.tensors().size());
  for (const PlannedTensor& tensor : plan.tensors().first(shown)) {
    out += "  " + std::string(tensor.key) + "  " + std::string(name_of(tensor.dtype)) + ' ' +
           to_string(plan.shape_of(tensor)) + " at " + std::to_string(tensor.arena_offset) + '\n';
    for (const Move& move : plan.moves().subspan(tensor.first_move, tensor.move_count)) {
      out += "    <- " + from_text(plan, move) + "  " + action_text(plan, move) + '\n';
    }
  }
  if (shown < plan.tensors().size()) {
    out += "  ... and " + std::to_string(plan.tensors().size() - shown) + " more\n";
  }
  return out;
}

ConfigValue to_value(const Plan& plan, const TextOptions& options) {
  Object root;
  root.emplace_back("family", text(plan.schema().family()));
  root.emplace_back("layout", text(to_string(plan.side())));
  root.emplace_back("route", text(to_string(plan.route())));
  Array sources;
  for (const std::string& source : plan.sources()) sources.push_back(text(source));
  root.emplace_back("sources", ConfigValue(std::move(sources)));
  Array considered;
  for (const Considered& entry : plan.considered()) {
    Array examples;
    for (const std::string& key : entry.examples) examples.push_back(text(key));
    considered.push_back(ConfigValue(Object{{"route", text(to_string(entry.route))},
                                            {"chosen", ConfigValue(entry.is_chosen)},
                                            {"reason", text(entry.reason)},
                                            {"moves", number(entry.moves)},
                                            {"examples", ConfigValue(std::move(examples))}}));
  }
  root.emplace_back("considered", ConfigValue(std::move(considered)));
  Array probes;
  for (const ProbedValue& probe : plan.probes()) {
    probes.push_back(
        ConfigValue(Object{{"key", text(probe.key)}, {"bytes", number(probe.bytes)}, {"digest", text(probe.digest)}}));
  }
  root.emplace_back("probes", ConfigValue(std::move(probes)));
  Array unread;
  for (const Unread& entry : plan.unread()) {
    unread.push_back(ConfigValue(Object{{"pattern", text(entry.pattern)},
                                        {"reason", text(entry.reason)},
                                        {"tensors", number(entry.tensors)},
                                        {"bytes", number(entry.bytes)}}));
  }
  const Proof& proof = plan.proof();
  root.emplace_back("coverage", ConfigValue(Object{{"verdict", text(proof.is_exact() ? "exact" : "failed")},
                                                   {"native_tensors", number(proof.native_proved)},
                                                   {"stored_tensors", number(proof.stored_proved)},
                                                   {"proofs", number(proof.proofs_done)},
                                                   {"left_out", number(left_out_count(plan))},
                                                   {"asked", number(plan.coverage().asked)},
                                                   {"present", number(plan.coverage().present)},
                                                   {"not_read", ConfigValue(std::move(unread))}}));
  root.emplace_back("memory", memory_value(plan.memory()));
  const Traffic& traffic = plan.traffic();
  const RankFigures figures = figures_of(plan);
  root.emplace_back("traffic", ConfigValue(Object{{"reads", number(traffic.requests)},
                                                  {"entries", number(traffic.entries)},
                                                  {"files", number(traffic.files)},
                                                  {"read", number(traffic.read_bytes)},
                                                  {"wanted", number(figures.wanted_bytes())},
                                                  {"ranges", number(figures.ranges)},
                                                  {"write", number(traffic.write_bytes)},
                                                  {"compare", number(traffic.compare_bytes)},
                                                  {"amplification", ConfigValue(figures.amplification())}}));
  Array tensors;
  const std::size_t shown = std::min(options.tensors_max, plan.tensors().size());
  for (const PlannedTensor& tensor : plan.tensors().first(shown))
    tensors.push_back(ConfigValue(tensor_value(plan, tensor)));
  root.emplace_back("tensors", listed(std::move(tensors), plan.tensors().size()));
  Array requests;
  const std::size_t requests_shown = std::min(options.tensors_max, plan.requests().size());
  for (const ReadRequest& request : plan.requests().first(requests_shown)) {
    requests.push_back(ConfigValue(Object{{"file", text(plan.catalog().files()[request.file])},
                                          {"offset", number(request.offset)},
                                          {"bytes", number(request.bytes)},
                                          {"entries", number(request.entry_count)}}));
  }
  root.emplace_back("requests", listed(std::move(requests), plan.requests().size()));
  return ConfigValue(std::move(root));
}

}  // namespace weightproof::plan
