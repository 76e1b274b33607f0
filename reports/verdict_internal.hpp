// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/report.hpp"

// Wording that several emitters share, so that text, page and comment say the same.
namespace weightproof::reports {

bool failed(const Finding& finding);
/// The up to `count` failures that name the faults: causes first, consequences only where there is no cause.
std::vector<const Finding*> gravest(const Report& report, std::size_t count = 3);
/// "6 failed, 3 warned, 26 skipped, 96 passed"; zeros are left out except for passed.
std::string counts_line(const Summary& summary);
/// "6 failures have 4 causes: 3 new, 1 old"; empty without failures.
std::string causes_line(const Report& report);
/// "5 new, 2 fixed, 1 still failing, 4 changed but passing".
std::string compare_line(const CompareInfo& compare);
/// Entries that fail or could not be carried out; warnings are counted apart.
std::uint64_t failing(const std::vector<CompareEntry>& entries);
/// "Pass.", "Fail.", "Error."
std::string verdict_word(Verdict verdict);
/// The sentence after the word, for a report without failures or errors.
std::string calm_sentence(const Report& report);
/// "./dir, family gpt_oss, mxfp4, 688 tensors, 61.8 GiB in 13 files"; names spelled out.
std::string checkpoint_line(const CheckpointInfo& checkpoint);
/// "[0, 3]" or "[0, 0, 0] (expert, input, column)".
std::string coordinate_text(const Finding& finding);
/// "289,497,106 of 579,133,440 elements differ (50 %)"; empty without figures.
std::string share_text(const Finding& finding);
/// "key", "key and 3 more".
std::string key_text(const Finding& finding);
/// Binary digits of a hex value grouped as sign, exponent, fraction by dtype; empty for an unknown dtype or malformed
/// hex.
std::string bit_text(const BitsValue& bits);
/// One line of a value: bits, hex and decimal, or its text.
std::string bits_line(const BitsValue& bits);
/// Skipped checks by reason, most first.
std::vector<std::pair<std::string, std::vector<const CheckRecord*>>> skips_by_reason(const Report& report);
/// The ids of some records, each once and with how many there are of it, the first `shown` of them.
std::string listed_ids(const std::vector<const CheckRecord*>& checks, std::size_t shown,
                       const std::function<std::string(std::string_view)>& spelled = {});
/// Message of a check for a listing: its message, reason or explanation, else what the rule checks.
std::string check_text(const CheckRecord& check);
/// Share for people: "50 %", "0.003 %", "< 0.001 %".
std::string percent(double share);

}  // namespace weightproof::reports
