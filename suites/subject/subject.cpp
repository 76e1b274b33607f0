// SPDX-License-Identifier: Apache-2.0
#include "suites/subject/subject.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "suites/verify/load_boxes.hpp"

namespace weightproof::suites {

std::vector<SubjectDifference> compare_subjects(Subject& expected, Subject& actual, std::uint64_t window_bytes,
                                                const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  std::vector<SubjectDifference> out;
  std::map<std::string_view, std::size_t> places;
  const std::vector<SubjectTensor>& theirs = actual.describe();
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    places.emplace(theirs[i].key, i);
  }
  std::uint64_t total = 0;
  for (const SubjectTensor& tensor : expected.describe()) {
    total += byte_count(tensor.shape, tensor.dtype).value_or(0);
  }
  std::uint64_t done = 0;
  std::vector<std::byte> left;
  std::vector<std::byte> right;
  for (std::size_t i = 0; i < expected.describe().size(); ++i) {
    const SubjectTensor& tensor = expected.describe()[i];
    const auto place = places.find(tensor.key);
    if (place == places.end()) {
      out.push_back({tensor.key, {}, "is missing from " + actual.name()});
      continue;
    }
    const std::size_t position = place->second;
    const SubjectTensor& other = theirs[position];
    places.erase(place);
    if (other.shape != tensor.shape || other.dtype != tensor.dtype) {
      out.push_back({tensor.key,
                     {},
                     "is " + std::string(name_of(other.dtype)) + " " + to_string(other.shape) + " in " + actual.name() +
                         ", " + std::string(name_of(tensor.dtype)) + " " + to_string(tensor.shape) + " in " +
                         expected.name()});
      continue;
    }
    const std::uint64_t bits = bits_of(tensor.dtype);
    bool is_different = false;
    const auto compare = [&](const Box& box, std::uint64_t first) {
      const auto bytes = static_cast<std::size_t>((box.element_count() * bits + 7) / 8);
      done += bytes;
      if (is_different) {
        return;
      }
      left.resize(bytes);
      right.resize(bytes);
      expected.region(i, box, left);
      actual.region(position, box, right);
      if (std::memcmp(left.data(), right.data(), bytes) != 0) {
        is_different = true;
        const auto at =
            static_cast<std::uint64_t>(std::mismatch(left.begin(), left.end(), right.begin()).first - left.begin());
        out.push_back({tensor.key, to_string(coordinate_of(tensor.shape, first + at * 8 / bits)),
                       "differs between " + expected.name() + " and " + actual.name()});
      }
      if (progress) {
        progress(done, total);
      }
    };
    if (bits % 8 != 0) {
      compare(Box::whole(tensor.shape), 0);
    } else {
      for_each_box(Box::whole(tensor.shape), std::max<std::uint64_t>(1, window_bytes * 8 / bits), compare);
    }
  }
  for (const auto& [key, position] : places) {
    out.push_back({std::string(key), {}, "is unknown to " + expected.name()});
  }
  return out;
}

}  // namespace weightproof::suites
