// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/json.hpp"
#include "reports/report.hpp"
#include "reports/text_internal.hpp"

// One listing of every record's JSON members serves writing and reading: a codec (Write or Read) walks it. `must` is
// always written and must be there when read; `may` is left out where it holds the value of a new record.
namespace weightproof::reports::fields {

template <typename Codec>
void list(Codec& c, CheckRecord& r) {
  c.must("id", r.id);
  c.must("suite", r.suite);
  c.must("status", r.status);
  c.must("subjects", r.subjects);
  c.must("total", r.total);
  c.must("shown", r.shown);
  c.may("message", r.message);
  c.may("explanation", r.explanation);
  c.may("expected", r.expected);
  c.may("actual", r.actual);
  c.may("reason", r.reason);
  c.may("hint", r.hint);
  c.may("code", r.code);
  c.may("evidence", r.evidence);
  c.may("case", r.case_name);
}

template <typename Codec>
void list(Codec& c, CheckpointInfo& r) {
  c.must("path", r.path);
  c.must("format", r.format);
  c.must("family", r.family);
  c.must("architectures", r.architectures);
  c.must("files", r.files);
  c.must("tensors", r.tensors);
  c.must("bytes", r.bytes);
  c.must("dtypes", r.dtypes);
  c.must("quantization", r.quantization);
  c.must("tied", r.tied);
  c.may("form", r.form);
}

template <typename Codec>
void list(Codec& c, RouteRecord& r) {
  c.must("tensors", r.tensors);
  c.must("count", r.count);
  c.must("route", r.route);
  c.must("reason", r.reason);
  c.must("stored_bytes", r.stored_bytes);
  c.may("change", r.change);
}

template <typename Codec>
void list(Codec& c, ConsideredRoute& r) {
  c.must("tensors", r.tensors);
  c.must("route", r.route);
  c.must("rejected", r.rejected);
}

template <typename Codec>
void list(Codec& c, LedgerRow& r) {
  c.must("stored", r.stored);
  c.must("tensors", r.tensors);
  c.must("bytes", r.bytes);
  c.must("route", r.route);
  c.must("destination", r.destination);
  c.must("destination_bytes", r.destination_bytes);
}

template <typename Codec>
void list(Codec& c, CoverageInfo& r) {
  c.must("native_tensors", r.native_tensors);
  c.must("exact", r.exact);
  c.must("holes", r.holes);
  c.must("overlaps", r.overlaps);
  c.must("undecided", r.undecided);
  c.must("stored_bytes", r.stored_bytes);
  c.must("moved_bytes", r.moved_bytes);
  c.must("decoded_bytes", r.decoded_bytes);
  c.must("dropped_bytes", r.dropped_bytes);
  c.derived("unaccounted", r.unaccounted());
  c.must("rows", r.rows);
}

template <typename Codec>
void list(Codec& c, PlanInfo& r) {
  c.must("routes", r.routes);
  c.must("considered", r.considered);
  c.must("coverage", r.coverage);
  c.must("predicted_peak", r.predicted_peak);
  c.must("bytes_planned", r.bytes_planned);
  c.must("bytes_read", r.bytes_read);
  c.must("bytes_minimum", r.bytes_minimum);
  c.may("more", r.more);
}

template <typename Codec>
void list(Codec& c, MemoryFigure& r) {
  c.must("bytes", r.bytes);
  c.may("method", r.method);
  c.may("why", r.why);
}

template <typename Codec>
void list(Codec& c, MemorySample& r) {
  c.must("seconds", r.seconds);
  c.must("metadata", r.metadata);
  c.must("companion", r.companion);
  c.must("staging", r.staging);
  c.must("uncounted", r.uncounted);
  c.must("final_storage", r.final_storage);
  c.must("page_cache", r.page_cache);
}

template <typename Codec>
void list(Codec& c, MemoryPart& r) {
  c.must("name", r.name);
  c.must("begin_s", r.begin_s);
  c.must("end_s", r.end_s);
  c.must("metadata", r.metadata);
  c.must("companion", r.companion);
  c.must("staging", r.staging);
  c.must("uncounted", r.uncounted);
}

template <typename Codec>
void list(Codec& c, MemoryInfo& r) {
  c.named("figures", r.figures);
  c.may("rank", r.rank);
  c.may("bound", r.bound);
  c.may("allowance", r.allowance);
  c.may("parts", r.parts);
  c.may("series", r.series);
}

template <typename Codec>
void list(Codec& c, TimingPhase& r) {
  c.must("name", r.name);
  c.must("seconds", r.seconds);
  c.may("bytes", r.bytes);
  c.may("why", r.why);
}

template <typename Codec>
void list(Codec& c, TimingCase& r) {
  c.must("name", r.name);
  c.must("baseline", r.baseline);
  c.must("cache", r.cache);
  c.may("cache_note", r.cache_note);
  c.may("seconds", r.seconds);
  c.may("baseline_seconds", r.baseline_seconds);
  c.must("ratios", r.ratios);
  c.may("goal", r.goal);
  c.may("base_median", r.base_median);
  c.may("bytes_per_second", r.bytes_per_second);
}

template <typename Codec>
void list(Codec& c, TimingInfo& r) {
  c.must("total_s", r.total_s);
  c.must("phases", r.phases);
  c.must("cache_before", r.cache_before);
  c.must("cache_after", r.cache_after);
  c.may("cache_method", r.cache_method);
  c.may("cases", r.cases);
}

template <typename Codec>
void list(Codec& c, RunInfo& r) {
  c.must("tool", r.tool);
  c.must("start", r.start);
  c.must("host", r.host);
  c.must("duration_s", r.duration_s);
  c.must("command", r.command);
  c.must("seed", r.seed);
  c.may("commit", r.commit);
  c.may("base", r.base);
  c.may("title", r.title);
  c.may("command_base", r.command_base);
}

template <typename Codec>
void list(Codec& c, PolicyRecord& r) {
  c.must("name", r.name);
  c.must("value", r.value);
  c.must("source", r.source);
  c.may("relaxation", r.relaxation);
}

template <typename Codec>
void list(Codec& c, DefaultedRecord& r) {
  c.must("name", r.name);
  c.must("value", r.value);
  c.must("rule", r.rule);
}

template <typename Codec>
void list(Codec& c, SupportRecord& r) {
  c.must("family", r.family);
  c.must("form", r.form);
  c.must("route", r.route);
  c.must("dtype", r.dtype);
  c.must("status", r.status);
  c.must("cases", r.cases);
  c.may("note", r.note);
}

template <typename Codec>
void list(Codec& c, BitsValue& r) {
  c.may("dtype", r.dtype);
  c.may("hex", r.hex);
  c.may("decimal", r.decimal);
  c.may("text", r.text);
}

template <typename Codec>
void list(Codec& c, HistogramBin& r) {
  c.must("label", r.label);
  c.must("share", r.share);
  c.may("bad", r.bad);
}

template <typename Codec>
void list(Codec& c, Histogram& r) {
  c.must("what", r.what);
  c.must("bins", r.bins);
}

template <typename Codec>
void list(Codec& c, WhereMap& r) {
  c.must("rows", r.rows);
  c.must("columns", r.columns);
  c.must("shares", r.shares);
  c.may("unit", r.unit);
}

template <typename Codec>
void list(Codec& c, OrderPicture& r) {
  c.must("declared", r.declared);
  c.must("found", r.found);
  c.may("axis", r.axis);
}

template <typename Codec>
void list(Codec& c, EvidenceLine& r) {
  c.must("text", r.text);
  c.may("certainty", r.certainty);
}

template <typename Codec>
void list(Codec& c, Vote& r) {
  c.must("name", r.name);
  c.must("share", r.share);
}

template <typename Codec>
void list(Codec& c, Finding& r) {
  c.must("rule", r.rule);
  c.must("key", r.key);
  c.may("property", r.property);
  c.must("status", r.status);
  c.must("title", r.title);
  c.may("explanation", r.explanation);
  c.may("also", r.also);
  c.may("explained_by", r.explained_by);
  c.may("keys", r.keys);
  c.must("total", r.total);
  c.may("coordinate", r.coordinate);
  c.may("axes", r.axes);
  c.may("shape", r.shape);
  c.may("source", r.source);
  c.may("expected", r.expected);
  c.may("actual", r.actual);
  c.may("count", r.count);
  c.may("elements", r.elements);
  c.may("histogram", r.histogram);
  c.may("where", r.where);
  c.may("order", r.order);
  c.may("evidence", r.evidence);
  c.may("votes", r.votes);
  c.may("reproduce", r.reproduce);
  c.may("location_file", r.location_file);
  c.may("location_line", r.location_line);
  c.may("change", r.change);
  c.must("fingerprint", r.fingerprint);
}

template <typename Codec>
void list(Codec& c, TensorClass& r) {
  c.must("module", r.module);
  c.must("pattern", r.pattern);
  c.must("dtype", r.dtype);
  c.must("shape", r.shape);
  c.must("bytes", r.bytes);
  c.may("stored", r.stored);
  c.may("native", r.native);
  c.may("native_dtype", r.native_dtype);
  c.may("native_shape", r.native_shape);
  c.may("route", r.route);
  c.may("reason", r.reason);
  c.may("placement", r.placement);
  c.may("checks", r.checks);
}

template <typename Codec>
void list(Codec& c, CompareEntry& r) {
  c.must("rule", r.rule);
  c.may("key", r.key);
  c.must("text", r.text);
  c.may("fingerprint", r.fingerprint);
  c.must("status", r.status);
  c.may("base", r.base);
  c.may("head", r.head);
  c.must("gates", r.gates);
}

template <typename Codec>
void list(Codec& c, CompareInfo& r) {
  c.must("base", r.base);
  c.must("head", r.head);
  c.must("new", r.fresh);
  c.must("fixed", r.fixed);
  c.must("still", r.still);
  c.must("changed_passing", r.changed_passing);
}

template <typename Codec>
void list(Codec& c, MutantRecord& r) {
  c.must("id", r.id);
  c.must("fault", r.fault);
  c.must("area", r.area);
  c.must("subject", r.subject);
  c.must("killed", r.killed);
  c.must("named", r.named);
  c.may("caught_by", r.caught_by);
  c.may("note", r.note);
}

template <typename Codec>
void list(Codec& c, SelftestInfo& r) {
  c.must("mutants", r.mutants);
  c.must("good_inputs", r.good_inputs);
  c.must("false_alarms", r.false_alarms);
  c.may("alarms", r.alarms);
}

template <typename Codec>
void list(Codec& c, ErrorRecord& r) {
  c.must("code", r.code);
  c.must("class", r.error_class);
  c.must("message", r.message);
  c.must("file", r.file);
  c.must("keys", r.keys);
  c.must("expected", r.expected);
  c.must("actual", r.actual);
  c.must("rank", r.rank);
  c.must("hint", r.hint);
}

template <typename Codec>
void list(Codec& c, Report& r) {
  c.fixed_text("schema", k_report_schema);
  c.must("checkpoint", r.checkpoint);
  c.must("checks", r.checks);
  c.must("plan", r.plan);
  c.must("memory", r.memory);
  c.must("timing", r.timing);
  c.must("environment", r.environment);
  c.must("run", r.run);
  c.must("policies", r.policies);
  c.must("defaulted", r.defaulted);
  c.may("sample", r.sample);
  c.may("strict", r.strict);
  c.may("findings", r.findings);
  c.may("compare", r.compare);
  c.may("tensors", r.tensors);
  c.may("selftest", r.selftest);
  c.may("support", r.support);
}

}  // namespace weightproof::reports::fields
