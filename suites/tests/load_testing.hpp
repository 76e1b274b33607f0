// SPDX-License-Identifier: Apache-2.0
// A checkpoint on disk brought into native memory by the loader, for tests that look at single values.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/family.hpp"
#include "loader/exec/engine.hpp"
#include "loader/plan/ranks.hpp"
#include "suites/state/decoded_state.hpp"

namespace weightproof::suites::test {

struct LoadAs {
  std::string family = {};  ///< --family
  plan::TargetDType dtype = plan::TargetDType::stored;
  ExpertStorage storage = ExpertStorage::grouped;
  storage::FileCalls* calls = nullptr;
  Topology topology = {};
  std::uint32_t rank = 0;
};

class LoadedModel {
 public:
  /// Plans; throws what planning throws.
  explicit LoadedModel(const std::filesystem::path& path, const LoadAs& how = {});
  /// Loads, once more with every call.
  const exec::LoadAttempt& load();

  const storage::Checkpoint& checkpoint() const { return checkpoint_; }
  const Schema& schema() const { return *schema_; }
  const plan::Plan& plan() const { return *plan_; }
  const DecodedState& state() const { return *state_; }
  DType dtype(std::string_view native) const;
  std::span<const std::byte> bytes(std::string_view native) const { return attempt_->bytes(native); }
  std::vector<double> numbers(std::string_view native) const;

 private:
  storage::Checkpoint checkpoint_;
  std::shared_ptr<const Schema> schema_;
  std::unique_ptr<DecodedState> state_;
  std::unique_ptr<plan::Plan> plan_;
  std::unique_ptr<exec::SourceFiles> sources_;
  std::unique_ptr<exec::LoadAttempt> attempt_;
};

}  // namespace weightproof::suites::test
