// SPDX-License-Identifier: Apache-2.0
// From diagnostics and errors to check records.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "loader/core/diagnostic.hpp"
#include "reports/report.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::suites {

/// The record that the checkpoint's diagnostics of this id amount to: worst severity wins, the rest is told. Without
/// diagnostics: a pass over `examined`, or a skip where `undecided` says why nothing can be said.
reports::CheckRecord record_of_diagnostics(const Context& context, std::string_view id, std::uint64_t examined,
                                           const std::string& undecided = {});

/// The same over a list of diagnostics.
reports::CheckRecord record_of(std::span<const Diagnostic> diagnostics, std::string_view id, std::uint64_t examined,
                               const std::string& undecided = {});

/// Status `fail` with the facts of an error.
reports::CheckRecord failed_record(std::string_view id, const Error& error);
/// Status `error`: the check could not be carried out.
reports::CheckRecord error_record(std::string_view id, const Error& error);

/// "a, b, c and 12 more".
std::string listed(const std::vector<std::string>& names, std::size_t shown = 3);

/// "[3, 17]": a coordinate for people.
std::string coordinate_text(const Shape& shape, std::uint64_t index);

}  // namespace weightproof::suites
