// SPDX-License-Identifier: Apache-2.0
// The subjects of this tree: the loader, on any route and with whatever is done wrong to it, and the reference.
#pragma once

#include <memory>

#include "loader/plan/plan.hpp"
#include "suites/subject/subject.hpp"
#include "suites/verify/context.hpp"

namespace weightproof::suites {

struct LoaderSubjectOptions {
  std::string family;                ///< --family; empty: detected
  std::optional<plan::Route> route;  ///< forced
  unsigned threads = 1;
  Perturbation perturbation;  ///< `schema`, `codec`, `first_load` and `load_calls` are met by regions
};

/// Every region is a load of that box alone. Errors: what opening, describing and planning throw; usage where the
/// checkpoint cannot be loaded.
std::unique_ptr<Subject> loader_subject(const std::filesystem::path& checkpoint,
                                        const LoaderSubjectOptions& options = {});

/// Names and shapes are its own; dtypes are those of `like`, which decide what both are asked for.
std::unique_ptr<Subject> reference_subject(const std::filesystem::path& checkpoint, Subject& like,
                                           const std::string& family = {});

}  // namespace weightproof::suites
