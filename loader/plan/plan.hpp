// SPDX-License-Identifier: Apache-2.0
// A plan: what one load will read, move and hold, as an immutable value. It is made from a schema, a catalog and a
// request alone, so it can be printed, compared and tested without files; a load executes exactly it.
//
//   tensors    what is produced, each at its place in one arena
//   moves      one per binding: from which stored elements to which target elements, by which route and why
//   requests   the reads, sorted by file and offset; each carries scatter entries that say which move takes which bytes
//   memory     what is held, by kind, before anything is allocated
//
// Thread rule: immutable, copied or shared freely.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/codec/codec.hpp"
#include "loader/core/catalog.hpp"
#include "loader/core/config.hpp"
#include "loader/core/dtype.hpp"
#include "loader/core/schema.hpp"
#include "loader/plan/coverage.hpp"
#include "loader/plan/proof.hpp"

namespace weightproof::plan {

/// Which side's names and shapes the result has.
enum class Side : std::uint8_t { hf, native };
std::string_view to_string(Side side);

enum class Route : std::uint8_t {
  direct,       ///< values unchanged, into final storage: read in place, or through a tile where a side is strided
  bounded,      ///< decoded or cast tile by tile
  materialized  ///< the whole stored tensor is held
};
std::string_view to_string(Route route);

/// Why a move has its route.
enum class Reason : std::uint8_t {
  contiguous,      ///< both sides are one run: read into place
  strided_target,  ///< the target is strided: through a tile
  strided_source,  ///< the stored elements are strided: through a tile
  cast,            ///< other dtype
  decode,          ///< a codec yields the values
  constant,        ///< no stored bytes
  sub_byte,        ///< strided elements smaller than a byte: only a whole tensor can be taken apart
  no_box,          ///< the view is no box of the decoded tensor
  forced           ///< asked for
};
std::string_view to_string(Reason reason);

struct PlannedTensor {
  std::string_view key;
  std::uint64_t bytes = 0;
  std::uint64_t source_bytes = 0;  ///< stored bytes that fill it: of codecs codes and companions, no gaps
  std::uint64_t arena_offset = 0;
  std::uint32_t id = k_no_id;  ///< NativeId or StoredId by Plan::side(); k_no_id where passed through
  LayoutId shape = 0;          ///< Plan::layout(shape)
  std::uint32_t first_move = 0;
  std::uint32_t move_count = 0;
  DType dtype = DType::bf16;
  friend bool operator==(const PlannedTensor&, const PlannedTensor&) = default;
};

/// Elements of one stored tensor to elements of one planned tensor, in the order of their views.
struct Move {
  std::uint64_t source_offset = 0;  ///< elements of the stored (decoded) tensor
  std::uint64_t target_offset = 0;  ///< elements of the planned tensor
  double value = 0;                 ///< fill
  std::uint32_t tensor = 0;         ///< position in Plan::tensors()
  StoredId stored = k_no_id;        ///< k_no_id for a fill and where passed through
  Row row = k_no_row;               ///< k_no_row for a fill; the weight's row for a decode
  LayoutId source_layout = 0;
  LayoutId target_layout = 0;
  std::uint32_t decode = k_no_id;  ///< position in Plan::decodes()
  RuleId rule = k_no_id;           ///< Schema::rule: compare and fill
  Action action = Action::write;
  Route route = Route::direct;
  Reason reason = Reason::contiguous;
  DType source_dtype = DType::bf16;  ///< of the stored elements; of the target for a decode or a fill
  friend bool operator==(const Move&, const Move&) = default;
};

/// What a load remembers of each move while it runs: bytes left to do. Part of Memory::metadata_bytes.
inline constexpr std::uint64_t k_load_bytes_per_move = 8;

/// Bytes of the file that a move takes out of a request. For a move with Reason::contiguous all of them, in order, go
/// to
///   arena + tensor.arena_offset + target_offset * element bytes + (file_offset - first byte of the move);
/// for the others they are a piece of the stored tensor, out of which the move takes the elements of its source view.
struct ScatterEntry {
  std::uint64_t file_offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t move = 0;
  friend bool operator==(const ScatterEntry&, const ScatterEntry&) = default;
};

/// One read of at most limits::read_bytes_max. Entries are sorted by offset; they may overlap where two moves take
/// elements of the same piece, and leave gaps of at most limits::read_gap_bytes_max.
struct ReadRequest {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t file = 0;
  std::uint32_t first_entry = 0;
  std::uint32_t entry_count = 0;
  friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};

/// A stored tensor that a codec yields. rows[c] is the catalog row of the codec's component c.
struct DecodeSource {
  StoredId stored = k_no_id;
  std::shared_ptr<const codec::Codec> codec;
  std::vector<Row> rows;
  friend bool operator==(const DecodeSource& a, const DecodeSource& b);
};

/// Small stored values that the plan depends on, read before planning.
struct ProbedValue {
  std::string key;
  std::uint64_t bytes = 0;
  std::string digest;
  friend bool operator==(const ProbedValue&, const ProbedValue&) = default;
};

/// A route that was weighed for the load as a whole.
struct Considered {
  Route route = Route::direct;
  bool is_chosen = false;
  std::string reason;
  std::uint64_t moves = 0;            ///< rejected: moves that stand against it
  std::vector<std::string> examples;  ///< their keys, three at most
  friend bool operator==(const Considered&, const Considered&) = default;
};

/// Bytes of host memory by kind, known before anything is allocated.
struct Memory {
  std::uint64_t final_bytes = 0;         ///< the arena, padding included
  std::uint64_t final_tensor_bytes = 0;  ///< of it, tensors
  std::uint64_t staging_bytes = 0;       ///< threads x (read buffer + tile + sink)
  std::uint64_t companion_bytes = 0;     ///< threads x the largest window of scales and the like
  std::uint64_t whole_bytes = 0;         ///< the largest stored tensor that is held whole
  std::uint64_t metadata_bytes = 0;      ///< plan, schema and catalog rows and keys, by count
  double metadata_per_header_byte = 0;   ///< 0 where the size of the headers is unknown
  // What the staging consists of, per thread.
  std::uint32_t threads = 1;
  std::uint64_t read_buffer_bytes = 0;        ///< 0 where everything is read into place
  std::uint64_t tile_bytes = 0;               ///< converted tile
  std::uint64_t sink_bytes = 0;               ///< where gaps are read to
  std::optional<std::uint64_t> budget_bytes;  ///< as asked, host memory beyond the final storage
  std::uint64_t minimum_budget_bytes = 0;     ///< least budget this plan can be made for

  std::uint64_t beyond_final_bytes() const { return staging_bytes + companion_bytes + whole_bytes + metadata_bytes; }
  std::uint64_t peak_bytes() const { return final_bytes + beyond_final_bytes(); }
  friend bool operator==(const Memory&, const Memory&) = default;
};

struct Traffic {
  std::uint64_t requests = 0;
  std::uint64_t entries = 0;
  std::uint64_t files = 0;          ///< opened
  std::uint64_t read_bytes = 0;     ///< planned, gaps included
  std::uint64_t wanted_bytes = 0;   ///< of these, in pieces that some move takes
  std::uint64_t write_bytes = 0;    ///< into final storage
  std::uint64_t compare_bytes = 0;  ///< of the reads, taken by comparisons
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

/// Stored bytes that no move takes, by the reason. Together with Traffic::wanted_bytes (decodes included) they are all
/// bytes of the catalog.
struct Unread {
  std::string pattern;
  std::string reason;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Unread&, const Unread&) = default;
};

class Plan {
 public:
  Side side() const { return side_; }
  /// The gravest route of any move.
  Route route() const { return route_; }
  std::span<const PlannedTensor> tensors() const { return tensors_; }
  /// Grouped by tensor.
  std::span<const Move> moves() const { return moves_; }
  std::span<const ReadRequest> requests() const { return requests_; }
  std::span<const ScatterEntry> entries() const { return entries_; }
  std::span<const ScatterEntry> entries_of(const ReadRequest& request) const {
    return std::span(entries_).subspan(request.first_entry, request.entry_count);
  }
  std::span<const DecodeSource> decodes() const { return *decodes_; }
  /// Positions of moves with Reason::decode, in the order of their weights in the files.
  std::span<const std::uint32_t> decode_order() const { return decode_order_; }
  /// Moves whose stored tensor is held whole, in the order of their files; not part of requests().
  std::span<const std::uint32_t> whole_order() const { return whole_order_; }
  const Layout& layout(LayoutId id) const { return layouts_[id]; }
  const Shape& shape_of(const PlannedTensor& tensor) const { return layouts_[tensor.shape].extents; }
  View source_view(const Move& move) const { return {move.source_offset, layouts_[move.source_layout]}; }
  View target_view(const Move& move) const { return {move.target_offset, layouts_[move.target_layout]}; }

  const Schema& schema() const { return *schema_; }
  const Catalog& catalog() const { return *catalog_; }
  const KeyCoverage& coverage() const { return *coverage_; }
  const Proof& proof() const { return *proof_; }
  const Memory& memory() const { return memory_; }
  const Traffic& traffic() const { return traffic_; }
  std::span<const Considered> considered() const { return considered_; }
  std::span<const Unread> unread() const { return unread_; }
  std::span<const ProbedValue> probes() const { return probes_; }
  std::span<const std::string> sources() const { return sources_; }

  /// Position in tensors(), or SIZE_MAX. O(1).
  std::size_t find(std::string_view key) const;

  /// Same tensors, moves, reads and memory. Schema and catalog are compared by what the plan takes of them.
  friend bool operator==(const Plan& a, const Plan& b);

 private:
  friend class Planner;
  Side side_ = Side::native;
  Route route_ = Route::direct;
  std::vector<PlannedTensor> tensors_;
  std::vector<Move> moves_;
  std::vector<ReadRequest> requests_;
  std::vector<ScatterEntry> entries_;
  // Shared by the plans of all ranks.
  std::shared_ptr<const std::vector<DecodeSource>> decodes_;
  std::vector<std::uint32_t> decode_order_;
  std::vector<std::uint32_t> whole_order_;
  std::vector<std::uint32_t> tensor_of_;  // per NativeId or StoredId by side_: position + 1, 0 where not planned
  std::vector<std::pair<Row, std::uint32_t>> passed_through_;  // ascending rows, with their positions
  std::vector<std::shared_ptr<const std::string>> renamed_;    // native names of those that have another
  std::vector<Layout> layouts_;
  std::shared_ptr<const Schema> schema_;
  std::shared_ptr<const Catalog> catalog_;
  std::shared_ptr<const KeyCoverage> coverage_;
  std::shared_ptr<const Proof> proof_;
  Memory memory_;
  Traffic traffic_;
  std::vector<Considered> considered_;
  std::vector<Unread> unread_;
  std::vector<ProbedValue> probes_;
  std::vector<std::string> sources_;
};

}  // namespace weightproof::plan
