// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/planning.hpp"

#include "suites/cli/identity_schema.hpp"

namespace weightproof::suites::cli {
namespace {

// Codecs that the family declares between tensors that are not quantized: a fold that was asked for.
void add_declared_codecs(const Schema& schema, const Catalog& catalog, plan::Request& request) {
  const auto stored = schema.stored_tensors();
  for (StoredId id = 0; id < stored.size(); ++id) {
    if (stored[id].coding == k_no_id || schema.rule(schema.codings()[stored[id].coding].scheme) != "expert_scale") {
      continue;
    }
    plan::DecodeSource source;
    source.stored = id;
    std::vector<codec::Component> components;
    for (const CodedPart& part : schema.parts_of(stored[id])) {
      const std::size_t row = catalog.index_of(part.key);
      if (row == SIZE_MAX) {
        break;  // what is missing is named by the plan's coverage
      }
      const StoredTensor& found = catalog.tensors()[row];
      components.push_back({part.role == "scale" ? codec::Role::scale : codec::Role::weight, std::string(part.key),
                            found.dtype, found.shape});
      source.rows.push_back(static_cast<plan::Row>(row));
    }
    if (components.size() == schema.parts_of(stored[id]).size()) {
      codec::Scheme scheme;
      scheme.id = "expert_scale";
      source.codec = codec::make_codec(scheme, std::move(components));
      request.decodes.push_back(std::move(source));
    }
  }
}

}  // namespace

plan::PlanBasis make_plan_basis(const OpenedCheckpoint& opened, const Arguments& arguments) {
  // What codecs yield: the decoded state knows them, with their probes read.
  StateOptions as_coded;
  as_coded.has_codec_shapes = true;
  const DecodedState state(opened.checkpoint, as_coded);
  std::shared_ptr<const Schema> schema =
      opened.schema ? opened.schema : identity_schema(opened.checkpoint.catalog, state);
  plan::Request request;
  request.dtype = target_dtype(arguments);
  request.decoded_dtype = decoded_dtype(opened.checkpoint.config ? &*opened.checkpoint.config : nullptr);
  request.side = arguments.text("--layout", "native") == "hf" ? plan::Side::hf : plan::Side::native;
  request.keys.include = arguments.texts("--include");
  request.keys.exclude = arguments.texts("--exclude");
  request.keys.allow_missing = arguments.texts("--allow-missing");
  request.keys.allow_unexpected = arguments.flag("--allow-unexpected");
  const std::string route = arguments.text("--route", "auto");
  if (route != "auto") {
    request.route = route == "direct"    ? plan::Route::direct
                    : route == "bounded" ? plan::Route::bounded
                                         : plan::Route::materialized;
  }
  request.budget_bytes = arguments.bytes("--budget");
  request.threads = asked_threads(arguments);
  for (const storage::Shard& shard : opened.checkpoint.shards) {
    request.header_bytes += shard.header ? shard.header->header_bytes : 0;
  }
  for (const StateTensor& tensor : state.tensors()) {
    const StoredId id = schema->find_stored(tensor.key);
    if (tensor.codec && id != k_no_id) {
      request.decodes.push_back({id, tensor.codec, tensor.parts});
    }
  }
  add_declared_codecs(*schema, opened.checkpoint.catalog, request);
  const std::vector<plan::Source> sources = {
      {opened.checkpoint.display_path, std::make_shared<const Catalog>(opened.checkpoint.catalog)}};
  return plan::PlanBasis(std::move(schema), sources, request);
}

plan::Plan make_load_plan(const OpenedCheckpoint& opened, const Arguments& arguments) {
  return make_plan_basis(opened, arguments).plan();
}

}  // namespace weightproof::suites::cli
