// SPDX-License-Identifier: Apache-2.0
// diff: two checkpoints, decoded, tensor by tensor.
#include <algorithm>
#include <optional>

#include "suites/cli/checkpoints.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/explanations/states.hpp"
#include "suites/state/compare.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/machine.hpp"
#include "suites/verify/tensor_table.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::size_t k_listed_max = 40;

// How far apart, and by which rounding: only of what differs.
void write_evidence(JsonWriter& json, const TensorDifference& row) {
  if (row.differing == 0 || (!row.ulps && !row.rounding)) {
    return;
  }
  json.name("evidence").begin_object();
  if (row.ulps) {
    json.name("ulp_histogram").begin_object().compact();
    for (std::size_t bucket = 0; bucket < UlpHistogram::k_buckets; ++bucket) {
      if (row.ulps->counts[bucket] > 0) {
        json.member(UlpHistogram::label(bucket), row.ulps->counts[bucket]);
      }
    }
    json.end_object();
  }
  if (row.rounding) {
    const RoundingVote& votes = *row.rounding;
    json.name("rounding").begin_object().compact();
    json.member("decisive", votes.decisive).member("nearest_even", votes.nearest_even);
    json.member("nearest_away", votes.nearest_away).member("toward_zero", votes.toward_zero);
    json.member("up", votes.up).member("down", votes.down).member("none", votes.none).end_object();
  }
  json.end_object();
}

void write_json(const StateDifference& difference, const Tolerance& tolerance, Console& console) {
  JsonWriter json([&console](std::string_view text) { console.out(text); });
  json.begin_object()
      .member("schema", "weightproof.diff/1")
      .member("verdict", difference.is_within() ? "pass" : "fail");
  const auto list = [&json](const char* name, const std::vector<std::string>& keys) {
    json.name(name).begin_array();
    for (const std::string& key : keys) {
      json.value(key);
    }
    json.end_array();
  };
  list("only_in_a", difference.only_in_a);
  list("only_in_b", difference.only_in_b);
  json.name("tolerance")
      .begin_object()
      .compact()
      .member("ulp", tolerance.ulp)
      .member("rtol", tolerance.rtol)
      .member("atol", tolerance.atol)
      .end_object();
  json.name("summary").begin_object().compact();
  for (const Equality equality : {Equality::equal, Equality::equal_values, Equality::within, Equality::different}) {
    json.member(to_string(equality), difference.count(equality));
  }
  json.end_object();
  json.member("total", difference.tensors.size()).member("shown", difference.tensors.size());
  json.name("tensors").begin_array();
  for (const TensorDifference& row : difference.tensors) {
    json.begin_object().member("key", row.key).member("status", to_string(row.equality));
    json.member("differing", row.differing).member("elements", row.elements);
    const auto optional = [&json](const char* name, const auto& value) {
      json.name(name);
      if (value) {
        json.value(*value);
      } else {
        json.null();
      }
    };
    optional("max_ulp", row.max_ulp);
    optional("max_abs", row.max_abs);
    optional("max_rel", row.max_rel);
    json.name("first_difference");
    if (row.first) {
      json.begin_object().compact().name("coordinate").begin_array();
      for (const std::uint64_t index : coordinate_of(row.shape_a, *row.first)) {
        json.value(index);
      }
      json.end_array().member("a", row.first_a).member("b", row.first_b).end_object();
    } else {
      json.null();
    }
    json.name("explanation");
    if (row.explanation.empty()) {
      json.null();
    } else {
      json.value(row.explanation);
    }
    write_evidence(json, row);
    json.member("dtype_a", row.dtype_a).member("dtype_b", row.dtype_b);
    const auto shape = [&json](const char* name, const Shape& extents) {
      json.name(name).begin_array();
      json.compact();
      for (const std::uint64_t extent : extents) {
        json.value(extent);
      }
      json.end_array();
    };
    shape("shape_a", row.shape_a);
    shape("shape_b", row.shape_b);
    json.end_object();
  }
  json.end_array().end_object();
  json.flush();
  console.out("\n");
}

std::string row_text(const TensorDifference& row) {
  std::string out = printable(row.key) + ": ";
  if (row.shape_a != row.shape_b) {
    return out + to_string(row.shape_a) + " against " + to_string(row.shape_b) +
           (row.explanation == "transposed" ? ", transposed" : "");
  }
  out += counted(row.differing, "element", "elements") + " of " + grouped(row.elements);
  if (row.dtype_a != row.dtype_b) {
    out += ", " + row.dtype_a + " against " + row.dtype_b;
  }
  if (row.first) {
    out += ", first at " + to_string(coordinate_of(row.shape_a, *row.first)) + ": " + row.first_a + " against " +
           row.first_b;
  }
  if (row.max_ulp) {
    out += ", at most " + grouped(*row.max_ulp) + " ulp";
  }
  if (row.ulps && row.differing > 0) {
    const auto in_range = [&row](std::size_t from, std::size_t to) {
      std::uint64_t sum = 0;
      for (std::size_t bucket = from; bucket < to; ++bucket) {
        sum += row.ulps->counts[bucket];
      }
      return grouped(sum);
    };
    out += " (1: " + in_range(1, 2) + ", 2-16: " + in_range(2, 6) + ", more: " + in_range(6, UlpHistogram::k_buckets) +
           ")";
  }
  return row.explanation.empty() ? out : out + "; " + row.explanation;
}

void write_text(const StateDifference& difference, Console& console) {
  const bool is_within = difference.is_within();
  std::string counts;
  for (const Equality equality : {Equality::equal, Equality::equal_values, Equality::within, Equality::different}) {
    const std::uint64_t count = difference.count(equality);
    if (count > 0) {
      std::string name(to_string(equality));
      std::replace(name.begin(), name.end(), '_', ' ');
      counts += (counts.empty() ? "" : ", ") + grouped(count) + " " + name;
    }
  }
  console.line(console.styled(is_within ? Tone::pass : Tone::fail, is_within ? "SAME" : "DIFFERENT") + "  " +
               (counts.empty() ? std::string("no tensor in both") : counts));
  const auto list = [&console](const char* side, const std::vector<std::string>& keys) {
    for (std::size_t i = 0; i < std::min(keys.size(), k_listed_max); ++i) {
      console.line("  " + std::string(side) + "  " + printable(keys[i]));
    }
    if (keys.size() > k_listed_max) {
      console.line("  and " + grouped(keys.size() - k_listed_max) + " more; --json lists them all");
    }
  };
  list("only in the first ", difference.only_in_a);
  list("only in the second", difference.only_in_b);
  std::size_t shown = 0;
  for (const TensorDifference& row : difference.tensors) {
    if (row.equality != Equality::different && row.equality != Equality::within) {
      continue;
    }
    if (++shown <= k_listed_max) {
      console.line("  " +
                   console.styled(row.equality == Equality::different ? Tone::fail : Tone::muted,
                                  std::string(to_string(row.equality))) +
                   "  " + row_text(row));
    }
  }
  if (shown > k_listed_max) {
    console.line("  and " + grouped(shown - k_listed_max) + " more; --json lists them all");
  }
}

// The comparison as a report: the second checkpoint is judged, the first is what it is judged by.
void write_report(const StateDifference& difference, const std::vector<Explanation>& explanations,
                  const OpenedCheckpoint& judged, const Arguments& arguments) {
  reports::Report report = report_of(difference, explanations);
  report.checkpoint.path = judged.checkpoint.display_path;
  report.checkpoint.format = "safetensors, " + std::string(to_string(judged.checkpoint.kind));
  report.checkpoint.family = judged.detection.family == nullptr ? "identity" : judged.detection.family->name;
  report.checkpoint.files = judged.checkpoint.shards.size();
  report.checkpoint.tensors = judged.checkpoint.catalog.size();
  report.checkpoint.bytes = judged.checkpoint.catalog.bytes();
  report.checkpoint.quantization = judged.detection.quantization;
  for (const StoredTensor& row : judged.checkpoint.catalog.tensors()) {
    ++report.checkpoint.dtypes[std::string(name_of(row.dtype))];
  }
  report.run.tool = "weightproof " WEIGHTPROOF_VERSION;
  report.run.title = "diff";
  report.run.command = report.run.command_base = arguments.command();
  report.run.commit = arguments.text("--commit");
  report.run.start = utc_now();
  for (reports::Finding& finding : report.findings) {
    finding.reproduce = arguments.command();
  }
  add_tensor_table(judged.checkpoint.catalog, report);
  reports::finish(report);
  reports::fold_findings(report);
  write_report_files(report, arguments.text("--report"), arguments.choices("--format"));
}

}  // namespace

int run_diff(const Arguments& arguments, Console& console) {
  const std::string directory = arguments.text("--report");
  Tolerance tolerance;
  tolerance.ulp = arguments.count("--ulp").value_or(0);
  tolerance.rtol = arguments.number("--rtol").value_or(0);
  tolerance.atol = arguments.number("--atol").value_or(0);
  const OpenedCheckpoint a(arguments.positionals()[0], arguments);
  const OpenedCheckpoint b(arguments.positionals()[1], arguments);
  const auto left = a.decode(arguments);
  const auto right = b.decode(arguments);
  std::optional<OpenedCheckpoint> older;
  std::unique_ptr<DecodedState> earlier;
  if (arguments.has("--earlier")) {
    older.emplace(arguments.text("--earlier"), arguments);
    earlier = older->decode(arguments);
  }
  StateDifference difference = compare_states(
      *left, *right, tolerance, asked_threads(arguments),
      [&console](std::uint64_t done, std::uint64_t total) { console.progress("comparing", done, total); });
  console.end_progress();
  const std::vector<Explanation> explanations = explain_difference(*left, *right, earlier.get(), difference);
  if (!directory.empty()) {
    write_report(difference, explanations, b, arguments);
  }
  if (console.is_json()) {
    write_json(difference, tolerance, console);
  } else {
    write_text(difference, console);
  }
  return difference.is_within() ? k_exit_done : k_exit_failed;
}

}  // namespace weightproof::suites::cli
