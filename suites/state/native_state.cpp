// SPDX-License-Identifier: Apache-2.0
#include "suites/state/native_state.hpp"

#include <algorithm>
#include <map>

#include "adapters/family.hpp"
#include "loader/core/error.hpp"
#include "loader/storage/file.hpp"
#include "suites/state/identity_schema.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites {

std::string NativeMark::text() const {
  std::string out = "native state" + (family.empty() ? std::string() : " of family " + printable(family)) + ": ";
  out += is_part() ? "what rank " + printable(rank) + " of " + printable(topology) + " holds"
                   : "what a load without a topology holds";
  return out;
}

std::optional<NativeMark> native_mark(const storage::Checkpoint& checkpoint) {
  const auto value = [](const storage::Shard& shard, std::string_view name) {
    const auto& metadata = shard.header->metadata;
    const auto found =
        std::find_if(metadata.begin(), metadata.end(), [name](const auto& row) { return row.first == name; });
    return found == metadata.end() ? std::string() : found->second;
  };
  for (const storage::Shard& shard : checkpoint.shards) {
    if (!shard.header || !shard.header->has_metadata || value(shard, "weightproof.layout") != "native") {
      return std::nullopt;
    }
  }
  if (checkpoint.shards.empty()) {
    return std::nullopt;
  }
  const storage::Shard& first = checkpoint.shards.front();
  return NativeMark{value(first, "weightproof.family"), value(first, "weightproof.topology"),
                    value(first, "weightproof.rank")};
}

bool is_native_state(const storage::Checkpoint& checkpoint) { return native_mark(checkpoint).has_value(); }

std::vector<save::ExportTensor> restorable(const plan::Plan& plan, const DecodedState& state) {
  const Schema& schema = plan.schema();
  const plan::KeyCoverage& coverage = plan.coverage();
  std::vector<bool> is_filled(schema.stored_tensors().size(), false);
  for (const Binding& binding : schema.bindings()) {
    if (binding.stored != k_no_id && coverage.row_of[binding.stored] != plan::k_no_row &&
        plan.proof().left_out[binding.native] == plan::LeftOut::no) {
      is_filled[binding.stored] = true;
    }
  }
  std::vector<bool> is_passed(plan.catalog().size(), false);
  for (const plan::MatchedRows& rows : coverage.passed_through) {
    for (const plan::Row row : rows.rows) {
      is_passed[row] = true;
    }
  }
  std::vector<save::ExportTensor> out;
  for (const StateTensor& tensor : state.tensors()) {
    const StoredId id = schema.find_stored(tensor.key);
    if (id == k_no_id ? is_passed[tensor.row] : is_filled[id]) {
      out.push_back({tensor.key, tensor.dtype, tensor.shape, UINT64_MAX});
    }
  }
  return out;
}

std::string native_layout_text(const storage::Checkpoint& source, std::span<const save::ExportTensor> wanted,
                               bool is_decoded) {
  save::SavedLayout layout;
  if (!is_decoded && wanted.size() == source.catalog.size()) {
    layout = save::layout_of(source);
    std::map<std::string_view, DType> dtypes;
    for (const save::ExportTensor& tensor : wanted) {
      dtypes.emplace(tensor.key, tensor.dtype);
    }
    for (save::FileLayout& file : layout.files) {
      for (std::size_t i = 0; i < file.keys.size(); ++i) {
        file.dtypes[i] = dtypes.at(file.keys[i]);
      }
    }
    return save::layout_text(layout);
  }
  save::FileLayout file;
  for (const save::ExportTensor& tensor : wanted) {
    file.keys.push_back(tensor.key);
    file.dtypes.push_back(tensor.dtype);
    file.shapes.push_back(tensor.shape);
  }
  layout.files.push_back(std::move(file));
  return save::layout_text(layout);
}

save::SavedLayout read_native_layout(const storage::Checkpoint& checkpoint) {
  const std::string name(k_native_layout_file);
  const storage::File file = storage::File::open(checkpoint.root / name, name);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span<char>(text)));
  return save::parse_layout(text, name);
}

NativeState read_native_state(const storage::Checkpoint& checkpoint, const ConfigValue* config,
                              std::string_view family) {
  if (const auto mark = native_mark(checkpoint); mark && mark->is_part()) {
    ErrorFacts facts;
    facts.hint = "load the whole model without --topology, or put the parts together first";
    throw Error(ErrorCode::usage, "there is no way back to the stored files out of a part: this is " + mark->text(),
                std::move(facts));
  }
  NativeState out;
  out.layout = read_native_layout(checkpoint);
  out.has_files = !out.layout.files.empty() && !out.layout.files.front().name.empty();
  CatalogBuilder builder;
  for (const save::FileLayout& file : out.layout.files) {
    const std::uint32_t number = builder.add_file(file.name);
    if (file.dtypes.size() != file.keys.size()) {
      ErrorFacts facts;
      facts.file = std::string(k_native_layout_file);
      throw Error(ErrorCode::config_invalid, "the layout does not say dtypes and shapes of its tensors",
                  std::move(facts));
    }
    for (std::size_t i = 0; i < file.keys.size(); ++i) {
      StoredTensor row;
      row.key = file.keys[i];
      row.dtype = file.dtypes[i];
      row.shape = file.shapes[i];
      row.bytes = byte_count(row.shape, row.dtype).value_or(0);
      row.file = number;
      row.is_described = true;
      builder.add_copy(row);
      out.wanted.push_back({file.keys[i], file.dtypes[i], file.shapes[i], UINT64_MAX});
    }
  }
  const Catalog catalog = std::move(builder).finish();
  const adapters::Detection detection = adapters::detect(config, catalog, family);
  if (detection.family == nullptr || config == nullptr || !detection.missing_fields.empty()) {
    out.schema = identity_schema(catalog);
    return out;
  }
  const Form form = detection.family->find_form(*config, catalog);
  out.schema = std::make_shared<const Schema>(detection.family->describe(*config, form, ExpertStorage::grouped));
  if (!out.has_files) {
    // Decoded, a tensor has the shape in which its codes are stored; the family's plain form may turn it.
    for (save::ExportTensor& tensor : out.wanted) {
      const StoredId id = out.schema->find_stored(tensor.key);
      tensor.shape = id == k_no_id ? tensor.shape : out.schema->shape_of(out.schema->stored_tensors()[id]);
    }
  }
  return out;
}

}  // namespace weightproof::suites
