// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/identity_schema.hpp"

namespace weightproof::suites::cli {

std::shared_ptr<const Schema> identity_schema(const Catalog& catalog) {
  SchemaBuilder builder("identity");
  for (const StoredTensor& row : catalog.tensors()) {
    builder.identity(row.key, row.shape, is_ordinary_float(row.dtype) ? DTypeRule::weight : DTypeRule::any);
  }
  return std::make_shared<const Schema>(std::move(builder).finish());
}

}  // namespace weightproof::suites::cli
