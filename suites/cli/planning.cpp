// SPDX-License-Identifier: Apache-2.0
#include "suites/cli/planning.hpp"

#include "suites/state/identity_schema.hpp"
#include "suites/verify/quantization.hpp"

namespace weightproof::suites::cli {

plan::PlanBasis make_plan_basis(const OpenedCheckpoint& opened, const Arguments& arguments) {
  // What codecs yield: the decoded state knows them, with their probes read.
  StateOptions as_coded;
  as_coded.has_codec_shapes = true;
  const DecodedState state(opened.checkpoint, as_coded);
  if (arguments.has("--include") || arguments.has("--exclude")) {
    require_subset(state, arguments);
  }
  std::shared_ptr<const Schema> schema =
      opened.schema ? opened.schema : identity_schema(opened.checkpoint.catalog, state);
  plan::Request request;
  request.dtype = target_dtype(arguments);
  request.decoded_dtype = decoded_dtype(opened.checkpoint.config ? &*opened.checkpoint.config : nullptr);
  request.side = arguments.text("--layout", "native") == "hf" ? plan::Side::hf : plan::Side::native;
  if (request.side == plan::Side::hf && arguments.flag("--gemma-fold")) {
    ErrorFacts facts;
    facts.hint =
        "leave one of the two out, or use `weightproof export --gemma-fold`, which leaves scales of one in their place";
    throw Error(ErrorCode::usage,
                "--layout hf has the names of the files, and --gemma-fold leaves the scales of the experts out",
                std::move(facts));
  }
  request.keys.include = arguments.texts("--include");
  request.keys.exclude = arguments.texts("--exclude");
  request.keys.allow_missing = arguments.texts("--allow-missing");
  request.keys.allow_unexpected = arguments.flag("--allow-unexpected");
  request.route = asked_route(arguments);
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
  for (plan::DecodeSource& fold : declared_decodes(*schema, opened.checkpoint.catalog)) {
    request.decodes.push_back(std::move(fold));
  }
  const std::vector<plan::Source> sources = {
      {opened.checkpoint.display_path, std::make_shared<const Catalog>(opened.checkpoint.catalog)}};
  return plan::PlanBasis(std::move(schema), sources, request);
}

plan::Plan make_load_plan(const OpenedCheckpoint& opened, const Arguments& arguments) {
  return make_plan_basis(opened, arguments).plan();
}

}  // namespace weightproof::suites::cli
