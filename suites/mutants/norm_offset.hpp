// SPDX-License-Identifier: Apache-2.0
// A loader that adds to a norm weight the one that another convention leaves out.
#pragma once

#include <memory>
#include <string>

#include "loader/storage/file.hpp"

namespace weightproof::suites {

/// File calls under which every element of the stored tensor `key` (BF16, F16 or F32) reads as one more. Thread-safe.
std::unique_ptr<storage::FileCalls> add_one_to(const std::string& key, storage::FileCalls& inner);

}  // namespace weightproof::suites
