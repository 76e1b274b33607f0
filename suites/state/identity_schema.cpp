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

std::shared_ptr<const Schema> identity_schema(const Catalog& catalog, const DecodedState& state) {
  SchemaBuilder builder("identity");
  std::vector<bool> is_read(catalog.size(), false);
  for (const StateTensor& tensor : state.tensors()) {
    const bool is_number = tensor.codec || is_ordinary_float(tensor.stored_dtype);
    builder.identity(tensor.key, tensor.shape, is_number ? DTypeRule::weight : DTypeRule::any);
    is_read[tensor.row] = true;
    for (const std::uint32_t row : tensor.parts) {
      is_read[row] = true;
    }
  }
  for (std::size_t row = 0; row < catalog.size(); ++row) {
    if (!is_read[row]) {
      builder.drop(std::string(catalog.tensors()[row].key), "beside a quantized tensor, of no weight in its values");
    }
  }
  return std::make_shared<const Schema>(std::move(builder).finish());
}

}  // namespace weightproof::suites::cli
