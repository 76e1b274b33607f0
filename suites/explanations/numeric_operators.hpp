// SPDX-License-Identifier: Apache-2.0
// The mistakes that decoders of quantized weights are known for, each as a codec that makes it.
#pragma once

#include <span>
#include <string_view>

#include "suites/explanations/numeric_codec.hpp"

namespace weightproof::suites {

struct NumericOperator {
  std::string_view id;    ///< "scale_inverted"
  std::string_view says;  ///< what was done: follows "as if"
  /// A codec that makes the mistake; null where the scheme has no place for it.
  SharedCodec (*apply)(const SharedCodec& codec);
  bool is_probe = true;   ///< false: seen only from outside one tensor, or never alone
  bool is_order = false;  ///< takes the codes of a byte or word in another order
};

/// In the order in which a difference is explained: the plainest first.
std::span<const NumericOperator> numeric_operators();
const NumericOperator* find_numeric_operator(std::string_view id);
/// Whether there are codes whose order within a byte or word can be mistaken. Null has none.
bool has_order(const SharedCodec& codec);

}  // namespace weightproof::suites
