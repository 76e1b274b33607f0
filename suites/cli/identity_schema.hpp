// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "loader/core/catalog.hpp"
#include "loader/core/schema.hpp"

namespace weightproof::suites::cli {

/// The schema of a checkpoint whose family nobody knows: every tensor is itself. The catalog is described.
std::shared_ptr<const Schema> identity_schema(const Catalog& catalog);

}  // namespace weightproof::suites::cli
