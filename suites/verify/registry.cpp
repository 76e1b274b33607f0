// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/registry.hpp"

#include <algorithm>
#include <exception>
#include <new>

#include "loader/core/check.hpp"
#include "suites/verify/against_internal.hpp"
#include "suites/verify/records.hpp"

namespace weightproof::suites {

std::vector<VerifyCheck> all_verify_checks() {
  std::vector<VerifyCheck> all;
  for (const auto group : {format_checks(),       index_checks(),       keys_checks(),
                           tied_checks(),         layout_checks(),      norm_checks(),
                           quant_checks(),        quant_value_checks(), quant_parameter_checks(),
                           quant_parity_checks(), requant_checks(),     dtype_checks(),
                           value_checks(),        io_checks(),          mem_checks(),
                           load_checks(),         against_checks(),     against_value_checks(),
                           adapter_checks(),      shard_checks()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

namespace {

bool has_diagnostic(const Context& context, std::string_view id) {
  const auto& all = context.checkpoint.diagnostics;
  return std::any_of(all.begin(), all.end(), [id](const Diagnostic& diagnostic) { return diagnostic.check == id; });
}

}  // namespace

reports::CheckRecord run_check(const VerifyCheck& check, Context& context) {
  const std::string id(check.id);
  const CheckInfo* info = find_check(check.id);
  const std::string_view needs = info == nullptr ? std::string_view{} : info->needs;
  if (!needs.empty() && !context.checkpoint.is_selected && check.id != "index.selection" &&
      !has_diagnostic(context, check.id)) {
    if (!context.index_fault().empty()) {
      return reports::CheckBuilder(id).skip(context.fault_text());
    }
    return reports::CheckBuilder(id).skip("no checkpoint could be selected (index.selection)");
  }
  const bool needs_weights =
      needs.find("header") != std::string_view::npos || needs.find("bytes") != std::string_view::npos;
  if (context.is_keys_only() && needs_weights) {
    return reports::CheckBuilder(id)
        .hint("leave out --keys-only")
        .skip("asks the weight files, which --keys-only leaves alone");
  }
  try {
    return check.run(context);
  } catch (const Error& error) {
    return error_record(check.id, error);
  } catch (const std::bad_alloc&) {
    return reports::CheckBuilder(id).error("out of memory");
  } catch (const std::exception& error) {
    return reports::CheckBuilder(id).error(std::string("the check itself failed: ") + error.what());
  }
}

}  // namespace weightproof::suites
