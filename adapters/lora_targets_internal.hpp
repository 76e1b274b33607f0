// SPDX-License-Identifier: Apache-2.0
// Which modules and parameters of a base an adapter's config asks for.
#pragma once

#include <string>
#include <string_view>

#include "adapters/lora.hpp"

namespace weightproof::adapters::detail {

/// `target` is the module's whole name, or its last parts.
bool names_module(std::string_view target, std::string_view module);

class LoraTargets {
 public:
  explicit LoraTargets(const LoraConfig& config) : config_(config) {}

  /// Under either of its names.
  bool asks(const LoraLinear& linear) const;
  /// One matrix of the experts, stored one by one: "gate_proj" and the file's name of it. `is_by_name`: a target that
  /// does not speak of experts does not count.
  bool asks_expert(const LoraExperts& experts, std::string_view native_name, std::string_view stored_name,
                   bool is_by_name) const;
  /// The packed input or output projections.
  bool asks_packed_input(const LoraExperts& experts) const;
  bool asks_packed_output(const LoraExperts& experts) const;
  /// The rank of a module that has these names.
  std::uint64_t rank(std::string_view stored, std::string_view native) const;
  std::uint64_t rank(const LoraExperts& experts) const;
  /// Whether the config states that this tensor is stored whole.
  bool saves(std::string_view key) const;

 private:
  bool asks_module(std::string_view module, std::uint32_t layer) const;
  bool asks_parameter(const LoraExperts& experts, std::string_view parameter) const;
  bool is_in_layers(std::uint32_t layer) const;
  const LoraConfig& config_;
};

}  // namespace weightproof::adapters::detail
