// SPDX-License-Identifier: Apache-2.0
// The parts of explain_difference(): what one pass gathered, and the recognisers that look at it, surest first.
#pragma once

#include <optional>
#include <string>

#include "suites/explanations/explanation.hpp"
#include "suites/explanations/line_digests.hpp"
#include "suites/explanations/order.hpp"
#include "suites/explanations/votes.hpp"

namespace weightproof::suites {

/// Elements of one window of a pass.
inline constexpr std::uint64_t k_window_elements = std::uint64_t{1} << 17;

/// Both sides in one dtype and shape, and what was seen of them.
struct Gathered {
  std::string_view key;
  const TensorSource* expected = nullptr;
  const TensorSource* actual = nullptr;
  const RelatedTensors* related = nullptr;
  const ExplainOptions* options = nullptr;
  DType dtype = DType::bf16;  ///< of both; U8 where elements are narrower than a byte
  unsigned width = 1;
  MatrixView view;
  std::uint64_t elements = 0;  ///< looked at
  LineDigests declared;
  LineDigests found;
  const ElementVotes* votes = nullptr;
  bool is_vector() const { return view.columns == 1; }
  /// "expert", "matrix"; "row", "element".
  std::string lead_unit() const;
  std::string row_unit() const;
};

/// Gives the explanation kind, check, title and sentence. The kind stands in the table of explanation_kinds().
void name(Explanation& out, std::string_view kind, std::string title, std::string text, Certainty certainty);

// Each returns true where it named the difference.
bool recognise_related(const Gathered& seen, Explanation& out);
bool recognise_lines(const Gathered& seen, Explanation& out);
bool recognise_repeats(const Gathered& seen, Explanation& out);
bool recognise_shift(const Gathered& seen, Explanation& out);
bool recognise_rounding(const Gathered& seen, Explanation& out);
bool recognise_values(const Gathered& seen, Explanation& out);

/// Two shapes: equal but for the last two axes, with the elements of a transposition.
bool recognise_transposed_shapes(std::string_view key, const TensorSource& expected, const TensorSource& actual,
                                 std::uint64_t elements_max, Explanation& out);

/// Evidence that holds whatever the kind: where the differences lie, what was not looked at.
void add_place(const Gathered& seen, Explanation& out);

}  // namespace weightproof::suites
