// SPDX-License-Identifier: Apache-2.0
#include "suites/state/identity_schema.hpp"

namespace weightproof::suites {

std::shared_ptr<const Schema> identity_schema(const Catalog& catalog) {
  SchemaBuilder builder("identity");
  for (const StoredTensor& row : catalog.tensors()) {
    builder.identity(row.key, row.shape, is_ordinary_float(row.dtype) ? DTypeRule::weight : DTypeRule::any);
  }
  return std::make_shared<const Schema>(std::move(builder).finish());
}

std::shared_ptr<const Schema> identity_schema(const Catalog& catalog, const DecodedState& state) {
  SchemaBuilder builder("identity");
  std::size_t read = 0;
  std::vector<bool> is_read(catalog.size(), false);
  const auto mark = [&](std::uint32_t row) {
    read += is_read[row] ? 0U : 1U;
    is_read[row] = true;
  };
  for (const StateTensor& tensor : state.tensors()) {
    const bool is_number = tensor.codec || is_ordinary_float(tensor.stored_dtype);
    builder.identity(tensor.key, tensor.shape, is_number ? DTypeRule::weight : DTypeRule::any);
    mark(tensor.row);
    for (const std::uint32_t row : tensor.parts) {
      mark(row);
    }
  }
  if (read < catalog.size()) {
    // Whatever no tensor above takes. A rule for each of them would need its name as a pattern, and names may hold '*'.
    builder.drop("*", "beside a quantized tensor, of no weight in its values");
  }
  return std::make_shared<const Schema>(std::move(builder).finish());
}

}  // namespace weightproof::suites
