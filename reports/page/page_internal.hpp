// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

// The page in blocks. Each block function appends the markup of one section and reads nothing but the context.
namespace weightproof::reports::page {

/// How much of a large report the page shows; see growing steps in the footer.
enum class Step : std::uint8_t {
  whole,    ///< everything
  folded,   ///< passing checks of a group become one line
  grouped,  ///< findings past 200 by rule, map columns in bins, drawer for failing tensors alone
  counts,   ///< counts, three findings, findings by rule
};

class Context {
 public:
  Context(const Report& report, Step step);

  const Report& report;
  Step step;
  Summary summary;
  Verdict verdict;
  /// The gravest finding of a tensor or file, or nullptr.
  const Finding* finding_of(std::string_view key) const;
  const Finding* finding_with(std::string_view fingerprint) const;
  /// Whether any check of a group, or of one id, failed or ended in an error.
  bool group_failed(std::string_view group) const;
  bool check_failed(std::string_view id) const;
  /// The findings that get a card.
  const std::vector<const Finding*>& cards() const { return cards_; }
  bool is_card(const Finding& finding) const;
  /// What a step left out, for the footer; collected while blocks are made.
  std::vector<std::string> left_out;
  /// A new id for a picture's title and description.
  std::string next_id();

 private:
  std::map<std::string, const Finding*, std::less<>> by_key_;
  std::map<std::string, const Finding*, std::less<>> by_fingerprint_;
  std::vector<const Finding*> cards_;
  std::uint64_t pictures_ = 0;
};

// Blocks, in the order of the page. Sections append nothing where the report holds nothing for them.
std::string hero(Context& context);
std::string findings(Context& context);
std::string map(Context& context);
std::string checks(Context& context);
std::string ledger(Context& context);
std::string memory(Context& context);
std::string routes(Context& context);
std::string timings(Context& context);
std::string support(Context& context);
std::string selftest(Context& context);
std::string skips(Context& context);
std::string environment(Context& context);

/// The data that the script reads: the whole document, or where that is too much only what map and drawer need.
std::string data_block(const Context& context, bool whole);

// Assets, made from page.css and page.js at build time.
std::string_view style();
std::string_view script();

}  // namespace weightproof::reports::page
