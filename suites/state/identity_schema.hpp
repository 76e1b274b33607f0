// SPDX-License-Identifier: Apache-2.0
// The schema of a checkpoint whose family nobody knows: every tensor is itself. One rule for whoever plans such a load.
#pragma once

#include <memory>

#include "loader/core/catalog.hpp"
#include "loader/core/schema.hpp"
#include "suites/state/decoded_state.hpp"

namespace weightproof::suites {

/// Ordinary floats are weights, which --dtype casts; everything else stays what it is. The catalog is described.
std::shared_ptr<const Schema> identity_schema(const Catalog& catalog);
/// The same with quantized tensors under their logical names, in the shapes of their codecs: what `state` lists, which
/// was made of this catalog with `has_codec_shapes`. Other tensors that belong to them are read by nobody.
std::shared_ptr<const Schema> identity_schema(const Catalog& catalog, const DecodedState& state);

}  // namespace weightproof::suites
