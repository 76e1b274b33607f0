// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "loader/codec/detect.hpp"

namespace weightproof::codec {

/// Parameters of one group of modules as a config states them.
struct StatedGroup {
  std::vector<std::string> targets;  ///< class names, module names, "re:..."; empty: everything
  std::string format;                ///< compressed-tensors format, "" if the group has none
  std::string type;                  ///< "int" or "float"
  std::string strategy;              ///< "tensor", "channel", "group", "block", "tensor_group"
  unsigned bits = 0;
  std::uint64_t group_size = 0;
  std::uint64_t block_rows = 0, block_cols = 0;
  bool is_symmetric = true;
};

/// What any of the config's places says.
struct StatedQuantization {
  std::string method;
  std::string source;
  std::string algorithm;  ///< ModelOpt quant_algo
  std::string format;     ///< compressed-tensors format; GPTQ checkpoint_format
  std::vector<StatedGroup> groups;
  std::vector<std::string> ignored;
  std::optional<Error> refusal;  ///< a method or variant that cannot be decoded
};

StatedQuantization read_stated(const ConfigValue* config, const std::map<std::string, ConfigValue>& companions);
/// Group whose targets name the module, the first otherwise; null where the config has none.
const StatedGroup* group_for(const StatedQuantization& stated, std::string_view module);

/// Stored tensors that belong together.
struct Family {
  std::string key;  ///< logical
  const StoredTensor* weight = nullptr;
  enum class Spelling : std::uint8_t { plain, packed, blocks, qweight, torchao } spelling = Spelling::plain;
  std::vector<std::pair<Role, const StoredTensor*>> companions;
  std::vector<const StoredTensor*> scales;  ///< all that claim to be the first-level scale
  const StoredTensor* companion(Role role) const;
};

struct Grouping {
  std::map<std::string, Family> families;
  std::vector<const StoredTensor*> orphans;  ///< scales without a weight
  std::vector<const StoredTensor*>
      refused;  ///< companions of schemes that cannot be decoded (MLX affine, pre_quant_scale)
  std::string refused_scheme;
};
Grouping group_by_name(const Catalog& catalog);

}  // namespace weightproof::codec
