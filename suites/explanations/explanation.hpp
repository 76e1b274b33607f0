// SPDX-License-Identifier: Apache-2.0
// What a difference is: two sides of one tensor that ought to be equal, streamed once, and the name of what turned one
// into the other. Memory does not grow with the tensor, work is capped, and what was not looked at is said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/dtype.hpp"
#include "loader/core/shape.hpp"
#include "reports/finding.hpp"

namespace weightproof::suites {

/// One side of a comparison: a tensor that is read piece by piece.
struct TensorSource {
  Shape shape;
  DType dtype = DType::bf16;
  /// Fills `target` with the dense row-major bytes from byte `offset`: whole elements (whole bytes of narrower ones).
  std::function<void(std::uint64_t offset, std::span<std::byte> target)> read;
};

/// A source over bytes in memory, which must outlive it.
TensorSource source_of(Shape shape, DType dtype, std::span<const std::byte> bytes);
/// A source over something that yields boxes of elements, dense and row-major. Reads are cut into boxes of consecutive
/// elements; the last box is kept. Not for threads.
TensorSource source_of_boxes(
    Shape shape, DType dtype,
    std::function<std::vector<std::byte>(const Coordinate& start, const Extents& length)> read_box);

/// Other tensors that the difference may be about. Functions may be empty, and may answer nothing for a key.
struct RelatedTensors {
  using Open = std::function<std::optional<TensorSource>(std::string_view key)>;
  std::vector<std::string> keys;
  Open expected;  ///< what a key should hold
  Open actual;    ///< what it holds: tells swapped pairs from copies
  Open earlier;   ///< what it held in an older state: tells stale copies
};

struct ExplainOptions {
  std::uint64_t elements_max = std::uint64_t{1} << 24;  ///< looked at from the beginning of the tensor
  std::size_t related_max = 4096;                       ///< of the tensor's own shape; the nearest names first
  std::optional<TensorSource> source;                   ///< F32 that the expected values were rounded from
};

enum class Certainty : std::uint8_t { none, possible, likely, certain };
std::string_view to_string(Certainty certainty);

struct Explanation {
  std::string key;
  std::string kind;   ///< "transposed", "rows_permuted", ...; empty: not recognised
  std::string title;  ///< "Gate and up swapped"
  std::string text;   ///< one or two sentences
  std::string check;  ///< id of the check that is about this kind of mistake, or empty
  Certainty certainty = Certainty::none;
  std::vector<reports::EvidenceLine> evidence;
  Shape shape;
  std::uint64_t elements = 0;   ///< looked at
  std::uint64_t differing = 0;  ///< of those
  bool is_partial = false;      ///< the tensor has more elements than were looked at
  std::optional<Coordinate> first;
  reports::BitsValue source, expected, actual;  ///< at `first`
  std::optional<reports::WhereMap> where;
  std::optional<reports::Histogram> histogram;
  std::optional<reports::OrderPicture> order;
  std::vector<reports::Vote> votes;
  bool is_recognised() const { return !kind.empty(); }
};

/// Names the difference between two sides of tensor `key`. Errors: what the sources' read() throws.
Explanation explain_difference(std::string_view key, const TensorSource& expected, const TensorSource& actual,
                               const RelatedTensors& related = {}, const ExplainOptions& options = {});

/// The finding of check `rule` about it.
reports::Finding finding_of(const Explanation& explanation, std::string_view rule);
/// Puts it there. What an export did to many tensors alike, in the same words, is one finding about all of them.
void add_finding(std::vector<reports::Finding>& findings, reports::Finding finding);
/// One sentence with certainty: "transposed (certain)"; empty where nothing was recognised.
std::string summary_of(const Explanation& explanation);

/// Every kind that explain_difference() can name.
struct ExplanationKind {
  std::string_view kind;
  std::string_view check;
  std::string_view meaning;
};
std::span<const ExplanationKind> explanation_kinds();

}  // namespace weightproof::suites
