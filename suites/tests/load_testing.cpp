// SPDX-License-Identifier: Apache-2.0
#include "suites/tests/load_testing.hpp"

#include "suites/state/elements.hpp"

namespace weightproof::suites::test {

LoadedModel::LoadedModel(const std::filesystem::path& path, const LoadAs& how)
    : checkpoint_(storage::open_checkpoint(path, {})) {
  const ConfigValue& config = checkpoint_.config.value();
  const adapters::Family* family = adapters::detect(&config, checkpoint_.catalog, how.family).family;
  if (family == nullptr) {
    throw Error(ErrorCode::usage, "no family of " + path.string());
  }
  schema_ = std::make_shared<const Schema>(
      family->describe(config, family->find_form(config, checkpoint_.catalog), how.storage));
  StateOptions as_loaded;
  as_loaded.has_codec_shapes = true;
  state_ = std::make_unique<DecodedState>(checkpoint_, as_loaded);
  plan::Request request;
  request.dtype = how.dtype;
  request.decoded_dtype = decoded_dtype(&config);
  for (const StateTensor& tensor : state_->tensors()) {
    const StoredId id = schema_->find_stored(tensor.key);
    if (tensor.codec && id != k_no_id) {
      request.decodes.push_back({id, tensor.codec, tensor.parts});
    }
  }
  const std::vector<plan::Source> sources = {{"model", std::make_shared<const Catalog>(checkpoint_.catalog)}};
  const plan::RankPlacement placement =
      how.topology.world() == 1 ? plan::RankPlacement{} : plan::RankLayout(*schema_, how.topology).of(how.rank);
  plan_ = std::make_unique<plan::Plan>(plan::make_plan(schema_, sources, placement, request));
  const storage::Checkpoint* checkpoint = &checkpoint_;
  sources_ = std::make_unique<exec::SourceFiles>(exec::SourceFiles::of(
      std::span(&checkpoint, 1), how.calls == nullptr ? storage::FileCalls::system() : *how.calls));
}

const exec::LoadAttempt& LoadedModel::load() {
  exec::LoadOptions options;
  options.sentinel = std::byte{0xFF};
  attempt_ = std::make_unique<exec::LoadAttempt>(exec::load(*plan_, *sources_, options));
  return *attempt_;
}

DType LoadedModel::dtype(std::string_view native) const { return plan_->tensors()[plan_->find(native)].dtype; }

std::vector<double> LoadedModel::numbers(std::string_view native) const {
  const DType type = dtype(native);
  const std::span<const std::byte> all = bytes(native);
  std::vector<double> out;
  for (std::size_t i = 0; i < all.size() * 8 / bits_of(type); ++i) {
    out.push_back(number_at(type, all, i));
  }
  return out;
}

}  // namespace weightproof::suites::test
