// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/plan_record.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "suites/explanations/names.hpp"

namespace weightproof::suites {
namespace {

// Stored bytes that fill a planned tensor, and how many of them are decoded or cast on the way.
struct StoredBytes {
  std::uint64_t all = 0;
  std::uint64_t converted = 0;
};

StoredBytes stored_bytes_of(const plan::Plan& plan, const plan::PlannedTensor& tensor) {
  StoredBytes out;
  plan::Row last = plan::k_no_row;
  for (std::uint32_t i = 0; i < tensor.move_count; ++i) {
    const plan::Move& move = plan.moves()[tensor.first_move + i];
    if (move.row == plan::k_no_row || move.action != plan::Action::write) {
      continue;
    }
    if (move.decode != k_no_id) {
      // The moves of one decode share its rows.
      if (move.row == last) {
        continue;
      }
      last = move.row;
      for (const plan::Row row : plan.decodes()[move.decode].rows) {
        out.all += plan.catalog().tensors()[row].bytes;
        out.converted += plan.catalog().tensors()[row].bytes;
      }
      continue;
    }
    const std::uint64_t bytes = plan.source_view(move).element_count() * bits_of(move.source_dtype) / 8;
    out.all += bytes;
    out.converted += move.source_dtype == tensor.dtype ? 0 : bytes;
  }
  return out;
}

// The gravest of its moves stands for the tensor.
std::pair<plan::Route, plan::Reason> way_of(const plan::Plan& plan, const plan::PlannedTensor& tensor) {
  plan::Route route = plan::Route::direct;
  plan::Reason reason = plan::Reason::contiguous;
  for (std::uint32_t i = 0; i < tensor.move_count; ++i) {
    const plan::Move& move = plan.moves()[tensor.first_move + i];
    if (i == 0 || move.route > route || (move.route == route && reason == plan::Reason::contiguous)) {
      route = move.route;
      reason = move.reason;
    }
  }
  return {route, reason};
}

reports::CoverageInfo coverage_of(const plan::Plan& plan, std::uint64_t converted) {
  reports::CoverageInfo out;
  const plan::Proof& proof = plan.proof();
  out.native_tensors = proof.native_proved + proof.faults.size();
  out.exact = proof.native_proved;
  for (const plan::ProofFault& fault : proof.faults) {
    out.holes += fault.tiling == Tiling::hole ? 1U : 0U;
    out.overlaps += fault.tiling == Tiling::overlap ? 1U : 0U;
    out.undecided += fault.tiling == Tiling::unprovable ? 1U : 0U;
  }
  out.stored_bytes = plan.catalog().bytes();
  for (const plan::Unread& rule : plan.unread()) {
    out.dropped_bytes += rule.bytes;
    out.rows.push_back({rule.pattern, rule.tensors, rule.bytes, "dropped", rule.reason, 0});
  }
  // What is read and not converted is moved as it is; comparisons read too.
  const std::uint64_t read = plan.traffic().wanted_bytes;
  out.decoded_bytes = std::min(converted, read);
  out.moved_bytes = read - out.decoded_bytes;
  return out;
}

}  // namespace

reports::PlanInfo plan_record_of(const plan::Plan& plan) {
  reports::PlanInfo out;
  std::map<std::tuple<std::string, plan::Route, plan::Reason>, reports::RouteRecord> routes;
  std::map<plan::Route, reports::LedgerRow> ledger;
  std::uint64_t converted = 0;
  for (const plan::PlannedTensor& tensor : plan.tensors()) {
    const auto [route, reason] = way_of(plan, tensor);
    const StoredBytes bytes = stored_bytes_of(plan, tensor);
    converted += bytes.converted;
    std::string pattern = module_of(tensor.key);
    reports::RouteRecord& record = routes[{pattern, route, reason}];
    record.tensors = std::move(pattern);
    record.route = to_string(route);
    record.reason = to_string(reason);
    ++record.count;
    record.stored_bytes += bytes.all;
    reports::LedgerRow& row = ledger[route];
    row.route = record.route;
    row.stored = "by route " + record.route;
    row.destination = "native state";
    ++row.tensors;
    row.bytes += bytes.all;
    row.destination_bytes += tensor.bytes;
  }
  for (auto& [key, record] : routes) {
    out.routes.push_back(std::move(record));
  }
  for (const plan::Considered& row : plan.considered()) {
    if (!row.is_chosen) {
      std::string examples;
      for (const std::string& example : row.examples) {
        examples += (examples.empty() ? "" : ", ") + example;
      }
      out.considered.push_back({std::move(examples), std::string(to_string(row.route)), row.reason});
    }
  }
  out.coverage = coverage_of(plan, converted);
  for (auto& [route, row] : ledger) {
    out.coverage->rows.insert(out.coverage->rows.begin(), std::move(row));
  }
  out.predicted_peak = plan.memory().beyond_final_bytes();
  out.bytes_planned = plan.traffic().read_bytes;
  out.bytes_minimum = plan.traffic().wanted_bytes;
  return out;
}

}  // namespace weightproof::suites
