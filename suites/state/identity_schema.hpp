// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "loader/core/catalog.hpp"
#include "loader/core/schema.hpp"
#include "suites/state/decoded_state.hpp"

namespace weightproof::suites::cli {

/// The schema of a checkpoint whose family nobody knows: every tensor is itself. The catalog is described.
std::shared_ptr<const Schema> identity_schema(const Catalog& catalog);
/// The same with quantized tensors under their logical names, in the shapes of their codecs: what `state` lists, which
/// was made of this catalog with `has_codec_shapes`. Other tensors that belong to them are read by nobody.
std::shared_ptr<const Schema> identity_schema(const Catalog& catalog, const DecodedState& state);

}  // namespace weightproof::suites::cli
