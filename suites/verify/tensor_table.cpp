// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/tensor_table.hpp"

#include <set>

namespace weightproof::suites {

void add_tensor_table(const Catalog& catalog, reports::Report& report) {
  if (catalog.size() == 0 || catalog.size() > k_table_tensors_max) {
    return;
  }
  reports::TensorTableBuilder builder;
  for (const StoredTensor& row : catalog.tensors()) {
    reports::TensorFacts facts;
    if (row.is_described) {
      facts.dtype = name_of(row.dtype);
      facts.shape.assign(row.shape.begin(), row.shape.end());
      facts.bytes = row.bytes;
    }
    facts.file = catalog.files()[row.file];
    builder.add(row.key, facts);
  }
  std::set<std::string> added;
  for (const reports::Finding& finding : report.findings) {
    if (catalog.find(finding.key) == nullptr && !finding.shape.empty() && added.insert(finding.key).second) {
      reports::TensorFacts facts;
      facts.dtype = finding.expected.dtype;
      facts.shape = finding.shape;
      facts.native = finding.key;
      builder.add(finding.key, facts);
    }
  }
  report.tensors = builder.take();
}

}  // namespace weightproof::suites
