// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/pairs.hpp"

#include <algorithm>
#include <unordered_map>

#include "suites/support/text.hpp"
#include "suites/verify/records.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;

std::string hex_of(const std::vector<std::byte>& bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "0x";
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) {  // little-endian: most significant first for people
    out += digits[std::to_integer<unsigned>(*byte) >> 4U];
    out += digits[std::to_integer<unsigned>(*byte) & 0xFU];
  }
  return out;
}

storage::File open_shard(const Context& context, std::uint32_t shard) {
  const storage::Shard& row = context.checkpoint.shards[shard];
  storage::FileCalls& calls = context.options.calls != nullptr ? *context.options.calls : storage::FileCalls::system();
  storage::File file = storage::File::open(context.checkpoint.path_of(shard), row.name, calls);
  if (row.header) {
    file.require_identity(row.header->identity);
  }
  return file;
}

}  // namespace

PairComparison compare_pair(const Context& context, const StoredTensor& expected, const StoredTensor& actual) {
  PairComparison out;
  if (!expected.is_described || !actual.is_described) {
    out.undecided = context.is_keys_only() ? "asks the weight files, which --keys-only leaves alone"
                                           : "undecided where " + context.fault_text();
    return out;
  }
  out.elements = element_count(expected.shape).value_or(0);
  if (expected.shape != actual.shape) {
    out.expected = to_string(expected.shape);
    out.actual = to_string(actual.shape);
    out.difference = "its shape is " + out.actual + ", not " + out.expected;
    return out;
  }
  if (expected.dtype != actual.dtype) {
    out.expected = std::string(name_of(expected.dtype));
    out.actual = std::string(name_of(actual.dtype));
    out.difference = "it is stored as " + out.actual + ", not " + out.expected;
    return out;
  }
  const storage::File left = open_shard(context, expected.file);
  const storage::File right = open_shard(context, actual.file);
  const std::size_t element_bytes = std::max<std::size_t>(1, bits_of(expected.dtype) / 8);
  const ByteComparison bytes = compare_ranges(left, expected.begin, right, actual.begin, expected.bytes, element_bytes);
  out.is_equal = !bytes.first_element.has_value();
  if (!out.is_equal) {
    out.differing = bytes.differing_elements;
    const unsigned bits = bits_of(expected.dtype);
    const std::uint64_t element = bits < 8 ? *bytes.first_element * 8 / bits : *bytes.first_element;
    out.coordinate = coordinate_of(expected.shape, element);
    out.expected = hex_of(bytes.first_a);
    out.actual = hex_of(bytes.first_b);
    out.difference = counted(out.differing, "element", "elements") + " of " + grouped(out.elements) + ", first at " +
                     to_string(out.coordinate) + ", where it holds " + out.actual + " instead of " + out.expected;
  }
  return out;
}

reports::CheckRecord duplicate_record(Context& context) {
  const storage::Checkpoint& checkpoint = context.checkpoint;
  CheckBuilder builder("keys.duplicate_across_shards");
  struct Place {
    std::uint32_t shard;
    const storage::HeaderTensor* tensor;
  };
  std::unordered_map<std::string_view, Place> first;
  std::uint64_t examined = 0;
  bool has_difference = false;
  std::string message;
  for (std::uint32_t s = 0; s < checkpoint.shards.size(); ++s) {
    const auto& header = checkpoint.shards[s].header;
    if (!header || header->error) {
      continue;
    }
    for (const storage::HeaderTensor& tensor : header->tensors) {
      ++examined;
      const auto [place, is_new] = first.emplace(tensor.name, Place{s, &tensor});
      if (is_new) {
        continue;
      }
      builder.subject(tensor.name);
      const auto row = [&](const Place& at) {
        StoredTensor out;
        out.key = at.tensor->name;
        out.shape = at.tensor->shape;
        out.dtype = at.tensor->dtype;
        out.file = at.shard;
        out.begin = checkpoint.shards[at.shard].header->data_begin() + at.tensor->begin;
        out.bytes = at.tensor->end - at.tensor->begin;
        out.is_described = true;
        return out;
      };
      const PairComparison pair = compare_pair(context, row(place->second), row({s, &tensor}));
      if (message.empty() || (!pair.is_equal && !has_difference)) {
        message = printable(tensor.name) + " is in " + printable(checkpoint.shards[place->second.shard].name) +
                  " and in " + printable(checkpoint.shards[s].name) +
                  (pair.is_equal ? " with equal bytes" : " with other values: " + pair.difference);
        builder.evidence("files", reports::Value::array_of(std::vector<std::string>{
                                      checkpoint.shards[place->second.shard].name, checkpoint.shards[s].name}));
      }
      has_difference = has_difference || !pair.is_equal;
    }
  }
  builder.examined(examined);
  if (!builder.has_subjects()) {
    if (!context.faults.empty()) {
      return builder.skip("undecided where " + context.fault_text());
    }
    return builder.pass();
  }
  if (builder.subject_count() > 1) {
    message += " (and " + grouped(builder.subject_count() - 1) + " more of the kind)";
  }
  builder.code("DUPLICATE_TENSOR").hint("keep the tensor in one file; readers disagree about which copy counts");
  if (checkpoint.index && !has_difference) {
    return builder.explanation("the index decides which copy is read").warn(message);
  }
  return builder.fail(message);
}

}  // namespace weightproof::suites
