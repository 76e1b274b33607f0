// SPDX-License-Identifier: Apache-2.0
// Whether ranks that hold the same elements of a tensor hold the same bytes of them, however each of them is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "suites/ranks/cluster.hpp"

namespace weightproof::suites {

/// Takes the memory of the whole tensors that it looks at. Thread rule: none.
class SharedBytes {
 public:
  /// Looks at the tensors of the findings. `whole`: the plan of a single rank.
  SharedBytes(const plan::Plan& whole, const std::vector<RankFinding>& overlaps);

  /// One rank's loaded state, in any order.
  void add(std::uint32_t rank, const RankState& state);
  /// "element [2,0] differs between rank 0 and rank 1"; empty where no two ranks that were added differ.
  std::string_view difference(const std::string& tensor) const;

 private:
  struct Tensor {
    Shape shape;
    std::vector<std::byte> bytes;
    std::vector<std::uint32_t> owners;  // the first rank that had the element
    std::string difference;
  };
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace weightproof::suites
