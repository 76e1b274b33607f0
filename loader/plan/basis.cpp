// SPDX-License-Identifier: Apache-2.0
// What the plans of all ranks share: inputs checked, keys judged, the mapping proved; rows, bindings and codecs put in
// order, so that a rank's plan need not look at what the rank does not hold.
#include <algorithm>
#include <numeric>

#include "loader/core/error.hpp"
#include "loader/plan/planner_internal.hpp"

namespace weightproof::plan {
namespace {

void require_sound(const Schema& schema, std::span<const DecodeSource> decodes) {
  for (const DecodeSource& source : decodes) {
    if (source.stored >= schema.stored_tensors().size() || source.codec == nullptr ||
        source.rows.size() != source.codec->components().size()) {
      throw Error(ErrorCode::internal, "a decode names no stored tensor, no codec, or not one row per component");
    }
  }
}

void require_sound(const Catalog& catalog) {
  if (!catalog.is_described()) {
    ErrorFacts facts;
    facts.hint = "give the weight files; with names alone only key coverage can be asked";
    throw Error(ErrorCode::usage, "a plan needs the headers of the files, and this checkpoint is known by names alone",
                std::move(facts));
  }
  for (const StoredTensor& tensor : catalog.tensors()) {
    const std::optional<std::uint64_t> bytes = byte_count(tensor.shape, tensor.dtype);
    if (bytes && *bytes == tensor.bytes && tensor.begin <= UINT64_MAX / 2 && tensor.bytes <= UINT64_MAX / 2 &&
        tensor.file < catalog.files().size()) {
      continue;
    }
    ErrorFacts facts;
    facts.keys.emplace_back(tensor.key);
    facts.expected = bytes ? std::to_string(*bytes) + " bytes" : "a shape whose bytes fit 64 bits";
    facts.actual = std::to_string(tensor.bytes) + " bytes from offset " + std::to_string(tensor.begin);
    throw Error(ErrorCode::tensor_invalid_info,
                "tensor '" + facts.keys[0] + "' has " + facts.actual + "; shape and dtype ask for " + facts.expected,
                std::move(facts));
  }
}

// Asked once for each decode, mostly of equal ones.
bool takes_equal_bytes(const codec::Codec& a, const codec::Codec& b) {
  const auto same = [](const codec::Component& x, const codec::Component& y) {
    return x.role == y.role && x.dtype == y.dtype && x.shape == y.shape;
  };
  return a.natural_shape() == b.natural_shape() && a.granule() == b.granule() &&
         std::equal(a.components().begin(), a.components().end(), b.components().begin(), b.components().end(), same) &&
         a.scheme() == b.scheme();
}

}  // namespace

std::shared_ptr<const Catalog> merge_sources(std::span<const Source> sources) {
  if (sources.empty()) throw Error(ErrorCode::usage, "a plan needs at least one checkpoint");
  if (sources.size() == 1) return sources[0].catalog;
  CatalogBuilder builder;
  std::size_t tensors = 0;
  for (const Source& source : sources) tensors += source.catalog->size();
  builder.reserve(tensors);
  std::uint32_t first_file = 0;
  for (const Source& source : sources) {
    builder.keep_alive(source.catalog);
    for (const std::string& file : source.catalog->files()) builder.add_file(source.name + "/" + file);
    for (StoredTensor tensor : source.catalog->tensors()) {
      tensor.file += first_file;
      builder.add(tensor);
    }
    first_file += static_cast<std::uint32_t>(source.catalog->files().size());
  }
  return std::make_shared<const Catalog>(std::move(builder).finish());
}

Plan make_plan(std::shared_ptr<const Schema> schema, std::span<const Source> sources, const RankPlacement& placement,
               const Request& request) {
  return PlanBasis(std::move(schema), sources, request).plan(placement);
}

PlanBasis::PlanBasis(std::shared_ptr<const Schema> schema, std::span<const Source> sources, const Request& request) {
  auto made = std::make_unique<Basis>();
  Basis& basis = *made;
  basis.schema = std::move(schema);
  basis.catalog = merge_sources(sources);
  for (const Source& source : sources) basis.sources.push_back(source.name);
  require_sound(*basis.catalog);
  require_sound(*basis.schema, request.decodes);
  basis.request = request;
  basis.decodes = std::make_shared<const std::vector<DecodeSource>>(std::move(basis.request.decodes));
  basis.request.decodes.clear();
  auto coverage =
      std::make_shared<KeyCoverage>(check_keys(*basis.schema, *basis.catalog, basis.request.keys, *basis.decodes));
  try {
    require_complete(*basis.schema, *basis.catalog, *coverage);
  } catch (const Error& error) {
    KeyCoverage others = *coverage;
    others.missing.clear();
    if (coverage->missing.empty() || !others.is_complete()) throw;
    basis.missing = error;
    basis.is_missing.assign(coverage->row_of.size(), false);
    for (const StoredId id : coverage->missing) basis.is_missing[id] = true;
  }
  basis.rows_asked = static_cast<std::uint64_t>(
      std::count_if(coverage->row_of.begin(), coverage->row_of.end(), [](Row row) { return row != k_no_row; }));
  basis.coverage = std::move(coverage);
  basis.proof = std::make_shared<const Proof>(prove_schema(*basis.schema, basis.coverage.get()));
  if (!basis.proof->is_exact()) throw error_of(*basis.schema, basis.proof->faults.front());
  basis.class_codecs();
  basis.order_rows();
  if (basis.request.side == Side::native) basis.group_bindings();
  // Each key of the schema stands in its tables with a slot and at most one more.
  const Schema& names = *basis.schema;
  basis.metadata_bytes = names.layouts().size() * sizeof(Layout) +
                         names.stored_tensors().size() * (sizeof(LogicalTensor) + sizeof(Row) + 8) +
                         names.native_tensors().size() * (sizeof(NativeTensor) + sizeof(LeftOut) + 8) +
                         names.bindings().size() * (sizeof(Binding) + sizeof(Action));
  for (const LogicalTensor& tensor : names.stored_tensors()) basis.metadata_bytes += tensor.key.size();
  for (const NativeTensor& tensor : names.native_tensors()) basis.metadata_bytes += tensor.key.size();
  for (const StoredTensor& tensor : basis.catalog->tensors())
    basis.metadata_bytes += sizeof(StoredTensor) + 8 + tensor.key.size();
  basis_ = std::move(made);
}

PlanBasis::PlanBasis(PlanBasis&&) noexcept = default;
PlanBasis& PlanBasis::operator=(PlanBasis&&) noexcept = default;
PlanBasis::~PlanBasis() = default;

Plan PlanBasis::plan(const RankPlacement& placement) const { return Planner(*basis_, placement).make(); }
const Schema& PlanBasis::schema() const { return *basis_->schema; }
const Catalog& PlanBasis::catalog() const { return *basis_->catalog; }

void Basis::order_rows() {
  const std::span<const StoredTensor> rows = catalog->tensors();
  const auto before = [&](const StoredTensor& a, const StoredTensor& b) {
    return a.file != b.file ? a.file < b.file : a.begin < b.begin;
  };
  if (std::is_sorted(rows.begin(), rows.end(), before)) return;
  row_order.resize(rows.size());
  std::iota(row_order.begin(), row_order.end(), Row{0});
  std::stable_sort(row_order.begin(), row_order.end(), [&](Row a, Row b) { return before(rows[a], rows[b]); });
  rank_of.resize(rows.size());
  for (std::uint32_t rank = 0; rank < row_order.size(); ++rank) rank_of[row_order[rank]] = rank;
}

/// Bindings by native tensor, and the dtype that all of them together give it, which every rank then has.
void Basis::group_bindings() {
  const std::span<const Binding> bindings = schema->bindings();
  const std::size_t count = schema->native_tensors().size();
  first_binding.assign(count + 1, 0);
  for (const Binding& binding : bindings) ++first_binding[binding.native + 1];
  for (std::size_t i = 1; i < first_binding.size(); ++i) first_binding[i] += first_binding[i - 1];
  binding_ids.resize(bindings.size());
  std::vector<std::uint32_t> next(first_binding.begin(), first_binding.end() - 1);
  for (std::uint32_t id = 0; id < bindings.size(); ++id) binding_ids[next[bindings[id].native]++] = id;
  first_at.resize(bindings.size());
  last_at.resize(bindings.size());
  is_ascending.assign(count, true);
  dtypes.resize(count);
  std::vector<Move> moves;
  for (NativeId native = 0; native < count; ++native) {
    const NativeTensor& tensor = schema->native_tensors()[native];
    const Shape& shape = schema->shape_of(tensor);
    std::uint64_t stride = 1;
    for (unsigned axis = 1; axis < shape.rank(); ++axis) stride *= std::max<std::uint64_t>(shape[axis], 1);
    moves.clear();
    for (std::uint32_t i = first_binding[native]; i < first_binding[native + 1]; ++i) {
      const Binding& binding = bindings[binding_ids[i]];
      const Layout& layout = schema->layout(binding.native_layout);
      std::uint64_t last = binding.native_offset;
      for (unsigned axis = 0; axis < layout.extents.rank(); ++axis)
        last += (std::max<std::uint64_t>(layout.extents[axis], 1) - 1) * layout.strides[axis];
      first_at[i] = binding.native_offset / stride;
      last_at[i] = last / stride;
      if (i != first_binding[native] && (first_at[i] < first_at[i - 1] || last_at[i] < last_at[i - 1])) {
        is_ascending[native] = false;
      }
      Move move;
      move.action = proof->actions[binding_ids[i]];
      if (move.action != Action::write) continue;
      move.source_dtype = source_dtype(binding.stored, coverage->row_of[binding.stored]);
      moves.push_back(move);
    }
    dtypes[native] = target_dtype(tensor.dtype_rule, tensor.dtype, stored_dtype(moves));
  }
}

void Basis::class_codecs() {
  if (decodes->empty()) return;
  decode_of.assign(schema->stored_tensors().size(), k_no_id);
  codec_class.resize(decodes->size());
  shares_rows.assign(decodes->size(), false);
  std::vector<std::uint32_t> known;  // first of each class
  std::vector<std::uint32_t> user_of(catalog->size(), k_no_id);
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < decodes->size(); ++i) {
    const DecodeSource& source = (*decodes)[i];
    decode_of[source.stored] = i;
    const auto is_like = [&](std::uint32_t other) {
      return takes_equal_bytes(*(*decodes)[other].codec, *source.codec);
    };
    if (known.empty() || !is_like(known[last])) {
      last = static_cast<std::uint32_t>(std::find_if(known.begin(), known.end(), is_like) - known.begin());
      if (last == known.size()) {
        known.push_back(i);
        std::vector<bool>& is_unused = unused_of_class.emplace_back();
        for (const codec::Component& component : source.codec->components())
          is_unused.push_back(component.role == codec::Role::unused);
      }
    }
    codec_class[i] = last;
    for (const Row row : source.rows) {
      if (user_of[row] != k_no_id) shares_rows[i] = shares_rows[user_of[row]] = true;
      user_of[row] = i;
    }
  }
}

}  // namespace weightproof::plan
