// SPDX-License-Identifier: Apache-2.0
// The planner at work: one object per plan, its steps in files by subject. Nothing here outlives make_plan().
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "loader/core/error.hpp"
#include "loader/core/hash.hpp"
#include "loader/core/limits.hpp"
#include "loader/plan/planner.hpp"

namespace weightproof::plan {

/// What plans of several ranks share; made by basis.cpp.
struct Basis {
  std::shared_ptr<const Schema> schema;
  std::shared_ptr<const Catalog> catalog;
  std::vector<std::string> sources;
  Request request;
  std::shared_ptr<const KeyCoverage> coverage;
  std::shared_ptr<const Proof> proof;
  std::shared_ptr<const std::vector<DecodeSource>> decodes;
  std::vector<std::uint32_t> decode_of;            // per StoredId, empty without decodes
  std::vector<std::uint32_t> codec_class;          // per decode: equal ones take equal bytes for equal boxes
  std::vector<std::vector<bool>> unused_of_class;  // per class and component: decoding needs none of it
  std::vector<bool> shares_rows;                   // per decode: another one takes bytes of the same rows
  // Rows by file and offset, and the reverse; empty where the catalog has that order already, as it mostly does. Rows
  // are disjoint, so whatever is sorted by row rank is sorted by place, and counting does it in linear time.
  std::vector<Row> row_order;
  std::vector<std::uint32_t> rank_of;
  // Bindings of each native tensor, and between which positions of its first axis each lies.
  std::vector<std::uint32_t> first_binding;  // in binding_ids, one more at the end
  std::vector<std::uint32_t> binding_ids;
  std::vector<std::uint64_t> first_at;  // by position in binding_ids
  std::vector<std::uint64_t> last_at;
  std::vector<bool> is_ascending;  // per native tensor: both follow the order of its bindings
  std::vector<DType> dtypes;       // per native tensor
  // Required keys that are absent: an error of whoever holds something of them. Empty where none is.
  std::optional<Error> missing;
  std::vector<bool> is_missing;  // per StoredId
  std::uint64_t rows_asked = 0;
  std::uint64_t metadata_bytes = 0;  // of schema and catalog

  const StoredTensor& row(Row row) const { return catalog->tensors()[row]; }
  DType source_dtype(StoredId stored, Row row) const;
  std::optional<DType> stored_dtype(std::span<const Move> moves) const;
  DType target_dtype(DTypeRule rule, DType fixed, std::optional<DType> stored) const;
  void order_rows();
  void group_bindings();
  void class_codecs();
};

class Planner {
 public:
  Planner(const Basis& basis, const RankPlacement& placement);
  Plan make();

 private:
  // planner.cpp: what is produced and from what.
  void check_inputs();
  void add_tensors();
  void add_hf_tensor(StoredId stored);
  void add_native_tensor(NativeId native);
  void add_passed_through(Row row, const Passthrough& rule);
  void add_tensor(PlannedTensor tensor);
  void list_unread();

  // locals.cpp: what the rank holds.
  void gather_moves();
  bool take_binding(std::uint32_t binding, Move& move) const;
  void take_moves(NativeId native);
  void take_parts(NativeId native);
  bool is_incomplete(NativeId native) const;
  void require_present();
  void prove_locals() const;

  // routes.cpp: dtypes and routes.
  void choose_routes();
  void choose_route(const PlannedTensor& tensor, Move& move);
  struct KnownPair {
    LayoutId source = k_no_id;
    LayoutId target = k_no_id;
    bool is_run = false;         ///< both together
    bool is_source_run = false;  ///< the source alone
  };
  struct KnownBox {
    LayoutId layout = k_no_id;
    std::uint32_t codec_class = k_no_id;
    std::uint64_t offset = 0;
    bool is_box = false;
  };
  const KnownPair& runs_of(LayoutId source, LayoutId target);
  bool is_box_of_codec(const Move& move);
  void weigh_routes();

  // reads.cpp: requests and scatter entries.
  struct Piece {
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t file = 0;
    std::uint32_t move = 0;
  };
  void plan_reads(std::uint64_t read_bytes_max);
  void plan_row(std::span<const std::uint32_t> moves, std::uint64_t read_bytes_max);
  template <typename Use>
  void for_each_piece(const Move& move, std::uint64_t read_bytes_max, Use use) const;
  void coalesce(const Piece& piece, bool is_staged, std::uint64_t read_bytes_max);
  void order_codec_moves();

  // budget.cpp: arena and memory.
  void place_in_arena();
  void measure_codec_moves();
  void state_memory(std::uint32_t threads);
  void fit_budget();
  std::uint64_t metadata_bytes() const;

  Row ranked(std::size_t rank) const {
    return basis_.row_order.empty() ? static_cast<Row>(rank) : basis_.row_order[rank];
  }
  std::uint32_t rank_of(Row row) const { return basis_.rank_of.empty() ? row : basis_.rank_of[row]; }
  LayoutId intern(const Layout& layout);
  const StoredTensor& row(Row row) const { return plan_.catalog_->tensors()[row]; }
  std::string_view key_of(const Move& move) const;

  const Basis& basis_;
  const Schema& schema_;
  const RankPlacement& placement_;
  const Request& request_;
  /// The rank holds parts: reads stay close to what it holds, and all it does not hold is accounted for.
  bool is_part_ = false;
  std::uint64_t gap_bytes_max_ = limits::read_gap_bytes_max;
  Plan plan_;
  // Moves of each native tensor that is planned, clipped to what the rank holds, and where they begin.
  struct Gathered {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    bool is_held = false;
  };
  std::vector<Move> gathered_moves_;
  std::vector<Gathered> gathered_;
  std::vector<Piece> pieces_;       // of one row
  std::uint64_t taken_end_ = 0;     // of the file being coalesced, up to where bytes are taken already
  bool is_request_staged_ = false;  // the request being coalesced
  // Answers to the questions asked last, by their number.
  std::array<KnownPair, 64> known_pairs_;
  std::array<KnownBox, 64> known_boxes_;
  LayoutId last_layout_ = k_no_id;  // interned last by this planner
  struct LayoutHash {
    std::size_t operator()(const Layout& layout) const {
      return hash_words(layout.strides.span(), hash_words(layout.extents.span()));
    }
  };
  std::unordered_map<Layout, LayoutId, LayoutHash> layout_ids_;  // of parts

  // Filled by measure_codec_moves().
  std::uint64_t decode_read_bytes_ = 0;     // all moves
  std::uint64_t decode_encoded_bytes_ = 0;  // largest tile
  std::uint64_t decode_tile_bytes_ = 0;
  std::uint64_t decode_companion_bytes_ = 0;
  std::uint64_t whole_bytes_ = 0;
  // What equal codecs take for equal boxes.
  struct CodecCost {
    std::uint64_t read_bytes = 0;    // by all tiles
    std::uint64_t wanted_bytes = 0;  // of the whole box, each byte once
    // Of the largest tile.
    std::uint64_t encoded_bytes = 0;
    std::uint64_t companion_bytes = 0;
    std::uint64_t tile_bytes = 0;
  };
  CodecCost codec_cost(const Move& move, const Box& whole, std::vector<codec::ByteRun>& runs) const;
  std::uint64_t decode_wanted_bytes_ = 0;  // of decodes that one move takes
  // Bytes of stored tensors that several moves or codecs take, where the rank holds parts.
  struct RowBytes {
    Row row = k_no_row;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  std::vector<RowBytes> decode_bytes_;
  std::uint64_t wanted_by_decodes();
};

/// The verdict on keys where codecs yield some stored tensors; `options.decoded` is not looked at.
KeyCoverage check_keys(const Schema& schema, const Catalog& catalog, const CoverageOptions& options,
                       std::span<const DecodeSource> decodes);

/// Box of a dense tensor that a view is, axes in whatever order; nothing where it is none.
std::optional<Box> box_of(const View& view, const Shape& shape);

/// True where walking both views in step visits consecutive elements on both sides: one copy of one run.
bool is_one_run(const View& source, const View& target);

}  // namespace weightproof::plan
