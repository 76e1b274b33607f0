// SPDX-License-Identifier: Apache-2.0
// The checks that `verify` knows, one row each, in the order of listings. A check yields exactly one record.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "reports/report.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::suites {

struct VerifyCheck {
  std::string_view id;
  reports::CheckRecord (*run)(Context& context);
};

std::span<const VerifyCheck> format_checks();
std::span<const VerifyCheck> index_checks();
std::span<const VerifyCheck> keys_checks();
std::span<const VerifyCheck> tied_checks();
std::span<const VerifyCheck> layout_checks();
std::span<const VerifyCheck> norm_checks();
std::span<const VerifyCheck> quant_checks();
std::span<const VerifyCheck> quant_value_checks();
std::span<const VerifyCheck> quant_parameter_checks();
std::span<const VerifyCheck> quant_parity_checks();
std::span<const VerifyCheck> requant_checks();
std::span<const VerifyCheck> dtype_checks();
std::span<const VerifyCheck> value_checks();
std::span<const VerifyCheck> io_checks();
std::span<const VerifyCheck> mem_checks();
std::span<const VerifyCheck> load_checks();
std::span<const VerifyCheck> against_checks();
std::span<const VerifyCheck> adapter_checks();
/// Asked only with a topology.
std::span<const VerifyCheck> shard_checks();

/// All of the above.
std::vector<VerifyCheck> all_verify_checks();

/// Runs one check: skips it where what it needs is not there, and turns what it throws into its record.
reports::CheckRecord run_check(const VerifyCheck& check, Context& context);

}  // namespace weightproof::suites
