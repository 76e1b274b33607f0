// SPDX-License-Identifier: Apache-2.0
// The one exception of the reference. `kind` is a stable word (InvalidOffset, SCALE_MISSING, ...), what() a sentence.
#pragma once

#include <stdexcept>
#include <string>

namespace weightproof::reference {

class Failure : public std::runtime_error {
 public:
  Failure(std::string kind, const std::string& sentence)
      : std::runtime_error(kind + ": " + sentence), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

}  // namespace weightproof::reference
