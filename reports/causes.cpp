// SPDX-License-Identifier: Apache-2.0
#include "reports/causes_internal.hpp"

#include <algorithm>
#include <array>

#include "reports/report.hpp"

namespace weightproof::reports {
namespace {

// Rules that compare bytes fail wherever a rule that knows what is wrong with the bytes fails.
constexpr std::array<std::string_view, 24> k_value_causes = {
    "layout.qkv",           "layout.qkv_tp",       "layout.gate_up_order", "layout.gate_up_interleave",
    "layout.transpose",     "layout.expert_order", "layout.rope",          "layout.norm_offset",
    "quant.nibble_order",   "quant.global_scale",  "quant.zero_point",     "quant.dequant_parity",
    "quant.requant_parity", "quant.scale_nan",     "quant.scale_zero",     "dtype.narrowed",
    "dtype.integer_cast",   "dtype.f32_state",     "value.rounding",       "value.nan_lost",
    "value.signed_zero",    "value.overflow",      "io.sentinel",          "io.stale"};
constexpr std::array<std::string_view, 6> k_value_consequences = {"value.exact",    "value.roundtrip",  "value.routes",
                                                                  "value.manifest", "shard.reassembly", "io.reload"};

struct Pair {
  std::string_view cause;
  std::string_view consequence;
  Link link;
};
constexpr auto k_pairs = std::to_array<Pair>({
    {"mem.peak", "mem.predicted", Link::always},
    {"mem.device_peak", "mem.predicted", Link::always},
    {"mem.temporaries", "mem.predicted", Link::always},
    {"mem.temporaries", "mem.peak", Link::always},
    {"tied.head_missing", "keys.missing", Link::same_subject},
    {"keys.wrapper_prefix", "keys.missing", Link::always},
    {"keys.wrapper_prefix", "keys.unexpected", Link::always},
    {"keys.wrapper_prefix", "keys.family", Link::always},
    {"quant.scale_missing", "keys.missing", Link::same_subject},
    {"quant.scale_orphan", "keys.unexpected", Link::same_subject},
    {"quant.scale_orphan", "keys.missing", Link::same_subject},
    {"quant.scale_names", "quant.scale_orphan", Link::same_subject},
    {"quant.scale_names", "keys.unexpected", Link::same_subject},
    {"quant.scale_nan", "value.nonfinite", Link::same_subject},
    {"quant.scale_shape", "keys.shape", Link::same_subject},
    {"layout.vocab_pad", "keys.shape", Link::same_subject},
    {"index.missing_shard", "index.mapping", Link::same_subject},
    {"index.mapping", "keys.missing", Link::same_subject},
    {"index.unlisted_tensor", "keys.unexpected", Link::same_subject},
    {"io.short_read", "io.error", Link::always},
    {"io.stale", "io.error", Link::always},
    {"format.truncated", "io.short_read", Link::always},
});

template <typename List>
bool has(const List& list, std::string_view rule) {
  return std::find(list.begin(), list.end(), rule) != list.end();
}

}  // namespace

Link link_between(std::string_view cause, std::string_view consequence) {
  if (has(k_value_causes, cause) && has(k_value_consequences, consequence)) {
    return Link::same_subject;
  }
  for (const Pair& pair : k_pairs) {
    if (pair.cause == cause && pair.consequence == consequence) {
      return pair.link;
    }
  }
  return Link::none;
}

int gravity_class(std::string_view rule) {
  const std::string_view group = group_of(rule);
  constexpr std::array<std::string_view, 5> silent = {"value", "layout", "quant", "dtype", "tied"};
  constexpr std::array<std::string_view, 5> absent = {"keys", "index", "shard", "format", "io"};
  if (has(silent, group)) {
    return 0;
  }
  if (has(absent, group)) {
    return 1;
  }
  return group == "mem" ? 2 : 3;
}

}  // namespace weightproof::reports
