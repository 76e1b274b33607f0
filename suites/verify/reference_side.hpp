// SPDX-License-Identifier: Apache-2.0
// What the reference finds in the same files: its own reading of config and names, asked once for a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reference/detect.hpp"
#include "reference/model.hpp"

namespace weightproof::suites {

class Context;

struct ReferenceSide {
  reference::ModelConfig config;
  std::string family;  ///< an id of reference::family_ids(); empty where config_failure says why
  std::vector<std::string> evidence;
  std::string name_space;
  std::string experts;         ///< "per_expert", "stacked", "mxfp4_blocks", "none"
  std::string config_failure;  ///< why it cannot read the config
  std::string names_failure;   ///< why it refuses the names: two spellings, two layouts of experts
};

/// Reads the config anew and looks at all names. Throws nothing of the reference's: failures are kept.
ReferenceSide ask_reference(const Context& context);

/// In which way loader and reference disagree about family, spelling and expert layout; empty where they agree.
std::string disagreement(const Context& context, const ReferenceSide& theirs);

}  // namespace weightproof::suites
