// SPDX-License-Identifier: Apache-2.0
#include "suites/state/decoded_state.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "loader/core/error.hpp"
#include "loader/core/limits.hpp"
#include "suites/state/elements.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {
namespace {

constexpr std::size_t k_window_bytes = limits::read_bytes_max;

std::optional<DType> asked_dtype(plan::TargetDType dtype) {
  switch (dtype) {
    case plan::TargetDType::bf16:
      return DType::bf16;
    case plan::TargetDType::f32:
      return DType::f32;
    case plan::TargetDType::f16:
      return DType::f16;
    case plan::TargetDType::stored:
      break;
  }
  return std::nullopt;
}

std::uint64_t leading_extent(const Shape& shape) {
  std::uint64_t product = 1;
  for (unsigned axis = 0; axis + 2 < shape.rank(); ++axis) {
    product *= shape[axis];
  }
  return product;
}

/// Experts in MXFP4 blocks are stored [expert, out, in]; the same experts without blocks are published [expert, in,
/// out].
bool is_published_transposed(const codec::Codec& codec) {
  return codec.scheme().id == "mxfp4_blocks" && codec.components().front().key.ends_with("_blocks") &&
         codec.natural_shape().rank() == 3;
}

/// Rows of the shown matrices that are decoded at once begin at multiples of this.
std::uint64_t row_granule(const StateTensor& tensor) {
  const unsigned rank = tensor.shape.rank();
  return std::max<std::uint64_t>(1, tensor.codec->granule()[tensor.is_transposed ? rank - 1 : rank - 2]);
}

}  // namespace

DType decoded_dtype(const ConfigValue* config) {
  if (config != nullptr) {
    for (const char* field : {"torch_dtype", "dtype", "text_config.torch_dtype", "text_config.dtype"}) {
      const ConfigValue* value = config->find(field);
      if (value != nullptr && value->as_string()) {
        const auto dtype = dtype_from_config_name(*value->as_string());
        if (dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32) {
          return *dtype;
        }
      }
    }
  }
  return DType::bf16;
}

namespace {

// A scale is an ordinary float: its codec takes no other.
void fill_with_ones(DType dtype, std::span<std::byte> target) {
  const std::uint32_t one = dtype == DType::bf16 ? 0x3f80U : dtype == DType::f16 ? 0x3c00U : 0x3f800000U;
  const std::size_t width = bits_of(dtype) / 8;
  for (std::size_t at = 0; at + width <= target.size(); at += width) {
    std::memcpy(target.data() + at, &one, width);
  }
}

}  // namespace

DecodedState::DecodedState(const storage::Checkpoint& checkpoint, const StateOptions& options)
    : checkpoint_(checkpoint), called_(options.called), files_(checkpoint.shards.size()) {
  const Catalog& catalog = checkpoint.catalog;
  if (!catalog.is_described()) {
    ErrorFacts facts;
    facts.hint = "give the weight files too";
    throw Error(ErrorCode::usage, "the values are not there: only names are known", std::move(facts));
  }
  const ConfigValue* config = checkpoint.config ? &*checkpoint.config : nullptr;
  const codec::Quantization quantization = codec::detect_quantization(config, checkpoint.companions, catalog);
  for (const Diagnostic& diagnostic : quantization.diagnostics) {
    if (diagnostic.severity == Severity::fail) {
      throw Error(error_code_from_string(diagnostic.code).value_or(ErrorCode::quant_unsupported), diagnostic.message,
                  diagnostic.facts);
    }
  }
  const DType target = asked_dtype(options.dtype).value_or(decoded_dtype(config));
  std::vector<bool> is_consumed(catalog.size(), false);
  for (const std::string& key : quantization.consumed) {
    if (const std::size_t at = catalog.index_of(key); at != SIZE_MAX) {
      is_consumed[at] = true;
    }
  }
  for (const codec::QuantizedTensor& tensor : quantization.tensors) {
    StateTensor out;
    for (const codec::Component& component : tensor.components) {
      const std::size_t at = catalog.index_of(component.key);
      out.parts.push_back(static_cast<std::uint32_t>(at));
      is_consumed[at] = true;
    }
    const std::uint32_t weight = out.parts.at(0);
    if (tensor.scheme.id == "fp8_bare") {
      is_consumed[weight] = false;  // no scale: the codes are the values
      continue;
    }
    if (options.selects && !options.selects(tensor.key)) {
      continue;
    }
    std::vector<std::vector<std::byte>> probes;
    for (const codec::Probe& probe : codec::probes_of(tensor.scheme, tensor.components)) {
      const StoredTensor& row = catalog.tensors()[out.parts[probe.component]];
      std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(row.bytes, probe.bytes_max)));
      read_stored(row, 0, bytes);
      probes.push_back(std::move(bytes));
    }
    out.codec = codec::make_codec(tensor.scheme, tensor.components, probes);
    out.key = tensor.key;
    out.shape = out.codec->natural_shape();
    out.is_transposed = !options.has_codec_shapes && is_published_transposed(*out.codec);
    if (out.is_transposed) {
      std::swap(out.shape[out.shape.rank() - 2], out.shape[out.shape.rank() - 1]);
    }
    out.dtype = target;
    out.row = weight;
    out.stored_dtype = catalog.tensors()[weight].dtype;
    out.bytes = element_count(out.shape).value_or(0) * bits_of(target) / 8;
    tensors_.push_back(std::move(out));
  }
  for (std::uint32_t row = 0; row < catalog.size(); ++row) {
    if (!is_consumed[row] && (!options.selects || options.selects(catalog.tensors()[row].key))) {
      add_plain(row, options);
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const StateTensor& a, const StateTensor& b) { return a.row < b.row; });
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
    by_key_.emplace_back(tensors_[i].key, i);
    bytes_ += tensors_[i].bytes;
  }
  std::sort(by_key_.begin(), by_key_.end());
}

DecodedState::~DecodedState() = default;

void DecodedState::add_plain(std::uint32_t at, const StateOptions& options) {
  const StoredTensor& row = checkpoint_.catalog.tensors()[at];
  StateTensor out;
  out.key = row.key;
  out.shape = row.shape;
  out.stored_dtype = row.dtype;
  out.dtype = row.dtype;
  out.row = at;
  const auto asked = asked_dtype(options.dtype);
  if (asked && is_ordinary_float(row.dtype)) {
    out.dtype = *asked;
    if (options.schema != nullptr) {
      const StoredId id = options.schema->find_stored(row.key);
      const DTypeRule rule = id == k_no_id ? DTypeRule::weight : options.schema->stored_tensors()[id].dtype_rule;
      if (rule == DTypeRule::f32_state) {
        out.dtype = DType::f32;  // whatever was asked for: this state is F32 everywhere
      } else if (rule == DTypeRule::any && bits_of(*asked) <= bits_of(row.dtype)) {
        out.dtype = row.dtype;  // never narrowed
      }
    }
  }
  out.bytes = out.dtype == row.dtype ? row.bytes : element_count(row.shape).value_or(0) * bits_of(out.dtype) / 8;
  tensors_.push_back(std::move(out));
}

DecodedState::Folded DecodedState::fold(const Schema& schema, std::vector<plan::DecodeSource> declared) {
  Folded out;
  for (plan::DecodeSource& source : declared) {
    for (StateTensor& tensor : tensors_) {
      if (tensor.key == schema.stored_tensors()[source.stored].key) {
        tensor.codec = source.codec;
        tensor.parts.assign(source.rows.begin(), source.rows.end());
      } else if (source.rows.size() == 2 && tensor.row == source.rows[1]) {
        std::vector<std::byte> stored(static_cast<std::size_t>(tensor.bytes));
        std::vector<std::byte> ones(stored.size());
        read(tensor, 0, stored);
        fill_with_ones(tensor.dtype, ones);
        tensor.is_folded = true;
        ++out.scales;
        out.ones += stored == ones ? 1U : 0U;
      }
    }
  }
  return out;
}

const StateTensor* DecodedState::find(std::string_view key) const {
  const auto found = std::lower_bound(by_key_.begin(), by_key_.end(), std::pair(key, std::uint32_t{0}));
  return found == by_key_.end() || found->first != key ? nullptr : &tensors_[found->second];
}

std::vector<std::string> DecodedState::schemes() const {
  std::set<std::string> out;
  for (const StateTensor& tensor : tensors_) {
    if (tensor.codec) {
      out.insert(tensor.codec->scheme().id);
    }
  }
  return {out.begin(), out.end()};
}

const storage::File& DecodedState::file(std::uint32_t index) const {
  const std::lock_guard lock(mutex_);
  if (!files_[index]) {
    const storage::Shard& shard = checkpoint_.shards[index];
    auto opened = std::make_unique<storage::File>(storage::File::open(checkpoint_.path_of(index), shard.name));
    if (shard.header) {
      opened->require_identity(shard.header->identity);
    }
    files_[index] = std::move(opened);
  }
  return *files_[index];
}

void DecodedState::read_stored(const StoredTensor& row, std::uint64_t offset, std::span<std::byte> target) const {
  file(row.file).read(row.begin + offset, target);
}

void DecodedState::read(const StateTensor& tensor, std::uint64_t offset, std::span<std::byte> target) const {
  if (target.empty()) {
    return;
  }
  if (tensor.is_folded) {
    fill_with_ones(tensor.dtype, target);
    return;
  }
  if (tensor.codec) {
    read_decoded(tensor, offset, target);
    return;
  }
  const StoredTensor& row = checkpoint_.catalog.tensors()[tensor.row];
  if (tensor.dtype == row.dtype) {
    read_stored(row, offset, target);
    return;
  }
  const std::size_t to_bytes = bits_of(tensor.dtype) / 8;
  const std::size_t from_bytes = bits_of(row.dtype) / 8;
  std::vector<std::byte> stored;
  const std::size_t step = k_window_bytes / from_bytes;
  const std::size_t count = target.size() / to_bytes;
  for (std::size_t done = 0; done < count; done += step) {
    const std::size_t now = std::min(step, count - done);
    stored.resize(now * from_bytes);
    read_stored(row, (offset / to_bytes + done) * from_bytes, stored);
    cast_elements(row.dtype, stored, tensor.dtype, target.subspan(done * to_bytes, now * to_bytes));
  }
}

// Whole rows of one matrix of the tensor: on the codec's granule, at most a window where the granule allows it.
void DecodedState::read_decoded(const StateTensor& tensor, std::uint64_t offset, std::span<std::byte> target) const {
  const Shape& shape = tensor.shape;
  const std::size_t width = bits_of(tensor.dtype) / 8;
  const std::uint64_t cols = shape[shape.rank() - 1];
  const std::uint64_t rows = shape.rank() >= 2 ? shape[shape.rank() - 2] : 1;
  if (cols == 0 || rows == 0 || leading_extent(shape) == 0) {
    return;
  }
  const std::uint64_t granule = row_granule(tensor);
  const std::uint64_t fitting = std::max<std::uint64_t>(1, k_window_bytes / (cols * width));
  const std::uint64_t band_rows = std::max(granule, fitting / granule * granule);
  std::uint64_t at = offset / width;
  std::size_t done = 0;
  while (done < target.size()) {
    const std::uint64_t row = at / cols;
    const std::uint64_t lead = row / rows;
    const std::uint64_t first_row = row % rows / band_rows * band_rows;
    const std::uint64_t count = std::min(band_rows, rows - first_row);
    const std::vector<std::byte> band = decode_band(tensor, lead, first_row, count);
    const std::uint64_t band_begin = (lead * rows + first_row) * cols;
    const std::uint64_t skip = (at - band_begin) * width;
    const std::size_t size =
        static_cast<std::size_t>(std::min<std::uint64_t>(band.size() - skip, target.size() - done));
    std::memcpy(target.data() + done, band.data() + skip, size);
    done += size;
    at += size / width;
  }
}

std::vector<std::byte> DecodedState::decode_band(const StateTensor& tensor, std::uint64_t lead, std::uint64_t first_row,
                                                 std::uint64_t rows) const {
  const Shape& shape = tensor.shape;
  const unsigned rank = shape.rank();
  Box box = Box::whole(shape);
  for (unsigned axis = rank - 2; axis-- > 0;) {
    box.start[axis] = lead % shape[axis];
    box.length[axis] = 1;
    lead /= shape[axis];
  }
  if (!tensor.is_transposed) {
    box.start[rank - 2] = first_row;
    box.length[rank - 2] = rows;
    return decode_box(tensor, box);
  }
  const std::uint64_t columns = shape[rank - 1];
  box.length[rank - 2] = columns;
  box.start[rank - 1] = first_row;
  box.length[rank - 1] = rows;
  const std::vector<std::byte> natural = decode_box(tensor, box);
  const std::size_t width = bits_of(tensor.dtype) / 8;
  std::vector<std::byte> out(natural.size());
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t column = 0; column < columns; ++column) {
      std::memcpy(out.data() + (row * columns + column) * width, natural.data() + (column * rows + row) * width, width);
    }
  }
  return out;
}

std::vector<std::vector<std::byte>> DecodedState::read_parts(const StateTensor& tensor, const Box& aligned) const {
  std::vector<codec::ByteRun> runs;
  tensor.codec->byte_runs(aligned, runs);
  std::vector<std::uint64_t> sizes(tensor.parts.size(), 0);
  for (const codec::ByteRun& run : runs) {
    sizes[run.component] += run.bytes;
  }
  std::vector<std::vector<std::byte>> bytes(tensor.parts.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i].resize(static_cast<std::size_t>(sizes[i]));
    sizes[i] = 0;
  }
  const auto catalog_rows = checkpoint_.catalog.tensors();
  for (const codec::ByteRun& run : runs) {
    const auto piece =
        std::span(bytes[run.component])
            .subspan(static_cast<std::size_t>(sizes[run.component]), static_cast<std::size_t>(run.bytes));
    read_stored(catalog_rows[tensor.parts[run.component]], run.offset, piece);
    sizes[run.component] += run.bytes;
  }
  return bytes;
}

// Dense elements of any box of the codec's own shape.
std::vector<std::byte> DecodedState::decode_box(const StateTensor& tensor, const Box& box) const {
  const Box aligned = tensor.codec->align(box);
  const std::vector<std::vector<std::byte>> bytes = read_parts(tensor, aligned);
  std::vector<std::span<const std::byte>> parts(bytes.begin(), bytes.end());
  const std::size_t width = bits_of(tensor.dtype) / 8;
  std::vector<std::byte> out(static_cast<std::size_t>(aligned.element_count()) * width);
  tensor.codec->decode(aligned, parts, tensor.dtype, out.data());
  if (aligned == box) {
    return out;
  }
  // The granule asked for more: cut the box out, row by row.
  const unsigned rank = tensor.codec->natural_shape().rank();
  std::vector<std::byte> cut(static_cast<std::size_t>(box.element_count()) * width);
  const std::size_t row_bytes = static_cast<std::size_t>(box.length[rank - 1]) * width;
  std::vector<std::uint64_t> at(rank, 0);
  for (std::size_t done = 0; done < cut.size(); done += row_bytes) {
    std::uint64_t from = 0;
    for (unsigned axis = 0; axis < rank; ++axis) {
      from = from * aligned.length[axis] + box.start[axis] - aligned.start[axis] + at[axis];
    }
    std::memcpy(cut.data() + done, out.data() + from * width, row_bytes);
    for (unsigned axis = rank - 1; axis-- > 0;) {
      if (++at[axis] < box.length[axis]) {
        break;
      }
      at[axis] = 0;
    }
  }
  return cut;
}

void DecodedState::stream(const StateTensor& tensor,
                          const std::function<void(std::uint64_t, std::span<const std::byte>)>& use) const {
  // Bands of a codec are cut where it decodes them, so that nothing is decoded twice.
  std::uint64_t step = k_window_bytes / 24 * 24;
  if (tensor.codec && tensor.shape.rank() >= 2) {
    const std::uint64_t row_bytes = tensor.shape[tensor.shape.rank() - 1] * bits_of(tensor.dtype) / 8;
    const std::uint64_t matrix_bytes = row_bytes * tensor.shape[tensor.shape.rank() - 2];
    const std::uint64_t granule = row_granule(tensor);
    if (row_bytes > 0) {
      const std::uint64_t fitting = std::max<std::uint64_t>(1, k_window_bytes / row_bytes);
      const std::uint64_t band_bytes = std::max(granule, fitting / granule * granule) * row_bytes;
      step = matrix_bytes > band_bytes
                 ? band_bytes
                 : std::max<std::uint64_t>(1, k_window_bytes / std::max<std::uint64_t>(1, matrix_bytes)) * matrix_bytes;
    }
  }
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(step, tensor.bytes)));
  for (std::uint64_t at = 0; at < tensor.bytes; at += step) {
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(std::min(step, tensor.bytes - at)));
    read(tensor, at, piece);
    use(at, piece);
  }
}

}  // namespace weightproof::suites
