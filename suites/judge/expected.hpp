// SPDX-License-Identifier: Apache-2.0
// What the reference says that a subject has to answer: names, shapes, dtypes and any region of values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/core/placement.hpp"
#include "reference/model.hpp"
#include "suites/judge/cases.hpp"

namespace weightproof::suites::judge {

enum class Need : std::uint8_t {
  required,
  optional  ///< may be left out: a second name of a tied tensor, a declared default, what the family drops
};

struct ExpectedTensor {
  std::string name;
  reference::Shape shape;
  /// Which the answer may have; the first is the one that is asked for, the others hold the same values.
  std::vector<reference::Dtype> dtypes;
  Need need = Need::required;
  bool is_state_f32 = false;  ///< F32 state of the family
  bool is_head = false;
  std::string same_as;  ///< a tied head: the tensor it is one with
  std::string source;   ///< "decoded from fp8_block", "stored BF16", "dropped: ...": for people

  // Where the reference finds the values.
  int native = -1;  ///< native tensor; else the logical stored tensor of `key`
  int target = -1;  ///< key of the answer's form; else as above
  std::string key;
  bool is_plain = true;        ///< stored as itself
  bool is_transposed = false;  ///< asked for with the last two axes of `key` exchanged

  // Of a rank: axis by axis the indices of the whole tensor that its part is made of. Empty: all of it.
  std::vector<std::vector<std::uint64_t>> held;
  reference::Shape whole_shape;
};

class ExpectedState {
 public:
  /// Throws reference::Failure where the reference does not read the checkpoint.
  ExpectedState(const std::filesystem::path& checkpoint, const Case& asked);

  /// Sorted by name.
  const std::vector<ExpectedTensor>& tensors() const { return tensors_; }
  const ExpectedTensor* find(std::string_view name) const;
  /// Takes the answer's own form of the family for what is expected, where it is one: experts stacked or apart, another
  /// prefix, what a quantized tensor is called when it is plain. Native tensors that this form does not hold are
  /// expected under their native names. False, and nothing is changed, where the family does not know these names.
  bool take_form(std::vector<reference::Key> answer);
  struct Form {
    std::vector<ExpectedTensor> tensors;
    std::optional<reference::Mapping> target;
  };
  Form form() const { return {tensors_, target_}; }
  void set_form(Form form);

  /// A tensor that an answer may hold besides: the head of a tied model, or a default of the family, under any spelling
  /// of its name.
  std::optional<ExpectedTensor> find_extra(std::string_view name) const;
  /// Elements of a box in one of the dtypes of the tensor, dense, row-major.
  reference::Bytes region(const ExpectedTensor& tensor, const reference::Box& box, reference::Dtype dtype) const;

  /// Another rank of the topology whose part of a tensor has the same shape and these bytes, of ranks that are asked
  /// for: the first one.
  std::optional<std::uint32_t> rank_holding(const ExpectedTensor& tensor, reference::Dtype dtype,
                                            const reference::Bytes& bytes) const;

  /// False where every element of the tensor is a stored one, bit for bit.
  bool is_converted(const ExpectedTensor& tensor, reference::Dtype dtype) const;

  const std::string& family() const { return model_.detection().family; }
  /// Bytes of the required tensors in the dtype that was asked for.
  std::uint64_t bytes() const;
  bool is_decoded() const { return is_decoded_; }
  const Case& asked() const { return case_; }

 private:
  /// What a rank holds of a native tensor, put into the row; false where it holds no part. An alias is shared out as
  /// its primary is, unless the family says otherwise.
  bool cut_to_rank(ExpectedTensor& row, std::uint32_t rank) const;
  reference::Bytes held_region(const ExpectedTensor& tensor, const reference::Box& box, reference::Dtype dtype) const;
  ExpectedTensor native_tensor(int native) const;
  ExpectedTensor stored_tensor(int key) const;
  reference::Bytes transposed_region(const ExpectedTensor& tensor, const reference::Box& box,
                                     reference::Dtype dtype) const;
  ExpectedTensor target_tensor(const reference::Mapping& target, int key, int native) const;
  reference::Model model_;
  Case case_;
  std::optional<Schema> schema_;  ///< of a case about a rank, with its topology and the stage of each layer
  Topology topology_;
  std::vector<std::uint32_t> stages_;
  std::optional<reference::Dtype> asked_;
  Wanted wanted_;
  bool is_decoded_ = false;
  std::vector<ExpectedTensor> tensors_;
  std::optional<reference::Mapping> target_;  ///< of the answer's form
};

}  // namespace weightproof::suites::judge
