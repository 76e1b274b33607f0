// SPDX-License-Identifier: Apache-2.0
#include "loader/save/layout.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "loader/core/config.hpp"
#include "loader/core/error.hpp"

namespace weightproof::save {
namespace {

using storage::HeaderStyle;
using storage::IndexStyle;

constexpr std::string_view k_schema = "weightproof.layout/1";
constexpr std::array k_styles = {HeaderStyle::reference, HeaderStyle::automodel, HeaderStyle::consolidator};
constexpr std::array<std::string_view, 3> k_style_names = {"reference", "automodel", "consolidator"};

std::string_view name_of_style(HeaderStyle style) { return k_style_names[static_cast<std::size_t>(style)]; }

std::string read_range(const storage::File& file, std::uint64_t offset, std::uint64_t bytes) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(offset, std::as_writable_bytes(std::span<char>(text)));
  return text;
}

FileLayout file_layout(const storage::Checkpoint& checkpoint, std::uint32_t shard) {
  const storage::Shard& source = checkpoint.shards[shard];
  if (!source.header || source.header->error) {
    ErrorFacts facts;
    facts.file = source.name;
    throw Error(ErrorCode::usage, "the layout of '" + source.name + "' is not known: its header was not read",
                std::move(facts));
  }
  const storage::Header& header = *source.header;
  std::vector<const storage::HeaderTensor*> order;
  for (const storage::HeaderTensor& tensor : header.tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
  });
  FileLayout layout;
  layout.name = source.name;
  std::vector<storage::TensorSpec> specs;
  for (const storage::HeaderTensor* tensor : order) {
    layout.keys.emplace_back(tensor->name);
    layout.dtypes.push_back(tensor->dtype);
    layout.shapes.push_back(tensor->shape);
    specs.push_back({std::string(tensor->name), tensor->dtype, tensor->shape});
  }
  if (header.has_metadata) layout.metadata = header.metadata;
  const storage::File file = storage::File::open(checkpoint.path_of(shard), source.name);
  file.require_identity(header.identity);
  const std::string text = read_range(file, 0, header.data_begin());
  for (const HeaderStyle style : k_styles) {
    if (style == HeaderStyle::consolidator && layout.metadata) continue;
    if (storage::plan_header(specs, layout.metadata, style).bytes != text) continue;
    layout.style = style;
    return layout;
  }
  layout.header_text = text.substr(8);
  return layout;
}

void index_layout(const storage::Checkpoint& checkpoint, SavedLayout& layout) {
  const storage::Index& index = *checkpoint.index;
  layout.index_name = index.file;
  std::vector<std::pair<std::string, std::string>> map;
  for (const auto& [key, shard] : index.weight_map) map.emplace_back(key, checkpoint.shards[shard].name);
  const storage::File file = storage::File::open(checkpoint.root / index.file, index.file);
  const std::string text = read_range(file, 0, file.size());
  const std::uint64_t size = index.total_size.value_or(0);
  if (storage::index_text(map, size, index.total_parameters.value_or(0), IndexStyle::sorted) == text) {
    layout.index_style = IndexStyle::sorted;
  } else if (storage::index_text(map, size, 0, IndexStyle::torch) == text) {
    layout.index_style = IndexStyle::torch;
    for (auto& [key, name] : map) layout.index_keys.push_back(std::move(key));
  } else {
    layout.index_text = text;
  }
}

void append_string(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_member(std::string& out, std::string_view name, std::string_view value) {
  append_string(out, name);
  out += ": ";
  append_string(out, value);
}

void append_list(std::string& out, const std::vector<std::string>& items) {
  out += '[';
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += ", ";
    append_string(out, items[i]);
  }
  out += ']';
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  [[noreturn]] void refuse(const std::string& what) const {
    ErrorFacts facts;
    facts.file = file_;
    throw Error(ErrorCode::config_invalid, "not a layout of a checkpoint: " + what, std::move(facts));
  }
  std::string text(const ConfigValue& object, std::string_view name) const {
    const ConfigValue* value = member(object, name);
    if (value == nullptr) return {};
    if (!value->is_string()) refuse("'" + std::string(name) + "' is no string");
    return std::string(*value->as_string());
  }
  std::vector<std::string> list(const ConfigValue& object, std::string_view name) const {
    std::vector<std::string> items;
    const ConfigValue* value = member(object, name);
    if (value == nullptr) return items;
    if (!value->is_array()) refuse("'" + std::string(name) + "' is no list");
    for (const ConfigValue& item : value->items()) {
      if (!item.is_string()) refuse("'" + std::string(name) + "' holds something that is no string");
      items.emplace_back(*item.as_string());
    }
    return items;
  }
  // Not ConfigValue::find, which takes a dotted path apart.
  static const ConfigValue* member(const ConfigValue& object, std::string_view name) {
    for (const auto& [key, value] : object.members()) {
      if (key == name) return &value;
    }
    return nullptr;
  }

 private:
  std::string file_;
};

void read_tensors(const Reader& reader, const ConfigValue& entry, FileLayout& saved) {
  for (const std::string& name : reader.list(entry, "dtypes")) {
    const std::optional<DType> dtype = dtype_from_name(name);
    if (!dtype) reader.refuse("unknown dtype '" + name + "'");
    saved.dtypes.push_back(*dtype);
  }
  if (const ConfigValue* shapes = Reader::member(entry, "shapes")) {
    if (!shapes->is_array()) reader.refuse("'shapes' is no list");
    for (const ConfigValue& item : shapes->items()) {
      if (!item.is_array() || item.items().size() > limits::rank_max) reader.refuse("a shape is no short list");
      Shape shape;
      for (const ConfigValue& extent : item.items()) {
        if (!extent.as_integer() || *extent.as_integer() < 0) reader.refuse("an extent is no size");
        shape.push_back(static_cast<std::uint64_t>(*extent.as_integer()));
      }
      saved.shapes.push_back(shape);
    }
  }
  if (saved.dtypes.size() != saved.shapes.size() ||
      (!saved.dtypes.empty() && saved.dtypes.size() != saved.keys.size())) {
    reader.refuse("'keys', 'dtypes' and 'shapes' are not of one length");
  }
}

}  // namespace

SavedLayout layout_of(const storage::Checkpoint& checkpoint) {
  SavedLayout layout;
  for (std::uint32_t shard = 0; shard < checkpoint.shards.size(); ++shard) {
    layout.files.push_back(file_layout(checkpoint, shard));
    const std::vector<storage::HeaderTensor>& tensors = checkpoint.shards[shard].header->tensors;
    for (const storage::HeaderTensor& tensor : tensors) layout.payload_bytes += tensor.end - tensor.begin;
  }
  if (checkpoint.index) index_layout(checkpoint, layout);
  return layout;
}

std::string layout_text(const SavedLayout& layout) {
  std::string out = "{\n  ";
  append_member(out, "schema", k_schema);
  out += ",\n  \"payload_bytes\": " + std::to_string(layout.payload_bytes) + ",\n  \"files\": [";
  for (std::size_t i = 0; i < layout.files.size(); ++i) {
    const FileLayout& file = layout.files[i];
    out += i == 0 ? "\n    {" : ",\n    {";
    append_member(out, "name", file.name);
    out += ", ";
    append_member(out, "style", name_of_style(file.style));
    if (file.metadata) {
      out += ", \"metadata\": {";
      for (std::size_t j = 0; j < file.metadata->size(); ++j) {
        if (j != 0) out += ", ";
        append_member(out, (*file.metadata)[j].first, (*file.metadata)[j].second);
      }
      out += '}';
    }
    out += ", \"keys\": ";
    append_list(out, file.keys);
    if (!file.dtypes.empty()) {
      out += ", \"dtypes\": [";
      for (std::size_t j = 0; j < file.dtypes.size(); ++j) {
        if (j != 0) out += ", ";
        append_string(out, name_of(file.dtypes[j]));
      }
      out += "], \"shapes\": [";
      for (std::size_t j = 0; j < file.shapes.size(); ++j) {
        out += j == 0 ? "[" : ", [";
        for (unsigned axis = 0; axis < file.shapes[j].rank(); ++axis) {
          out += (axis == 0 ? "" : ", ") + std::to_string(file.shapes[j][axis]);
        }
        out += ']';
      }
      out += ']';
    }
    if (!file.header_text.empty()) {
      out += ", ";
      append_member(out, "header_text", file.header_text);
    }
    out += '}';
  }
  out += layout.files.empty() ? "]" : "\n  ]";
  if (!layout.index_name.empty()) {
    out += ",\n  \"index\": {";
    append_member(out, "name", layout.index_name);
    out += ", ";
    append_member(out, "style", layout.index_style == IndexStyle::torch ? "torch" : "sorted");
    if (!layout.index_keys.empty()) {
      out += ", \"keys\": ";
      append_list(out, layout.index_keys);
    }
    if (!layout.index_text.empty()) {
      out += ", ";
      append_member(out, "text", layout.index_text);
    }
    out += '}';
  }
  return out + "\n}\n";
}

SavedLayout parse_layout(std::string_view text, std::string_view file) {
  const ConfigValue root = ConfigValue::parse(text, file);
  const Reader reader(file);
  if (!root.is_object() || reader.text(root, "schema") != k_schema) {
    reader.refuse("its 'schema' is not '" + std::string(k_schema) + "'");
  }
  SavedLayout layout;
  const ConfigValue* payload = Reader::member(root, "payload_bytes");
  if (payload == nullptr || !payload->as_integer() || *payload->as_integer() < 0) {
    reader.refuse("'payload_bytes' is no size");
  }
  layout.payload_bytes = static_cast<std::uint64_t>(*payload->as_integer());
  const ConfigValue* files = Reader::member(root, "files");
  if (files == nullptr || !files->is_array()) reader.refuse("'files' is no list");
  for (const ConfigValue& entry : files->items()) {
    if (!entry.is_object()) reader.refuse("a file is no object");
    FileLayout saved;
    saved.name = reader.text(entry, "name");
    const std::string style = reader.text(entry, "style");
    const auto known = std::find(k_style_names.begin(), k_style_names.end(), style);
    if (known == k_style_names.end()) reader.refuse("unknown style '" + style + "'");
    saved.style = k_styles[static_cast<std::size_t>(known - k_style_names.begin())];
    saved.keys = reader.list(entry, "keys");
    saved.header_text = reader.text(entry, "header_text");
    read_tensors(reader, entry, saved);
    if (const ConfigValue* metadata = Reader::member(entry, "metadata")) {
      if (!metadata->is_object()) reader.refuse("'metadata' is no object");
      saved.metadata.emplace();
      for (const auto& [key, value] : metadata->members()) {
        if (!value.is_string()) reader.refuse("'metadata' holds something that is no string");
        saved.metadata->emplace_back(key, *value.as_string());
      }
    }
    layout.files.push_back(std::move(saved));
  }
  if (const ConfigValue* index = Reader::member(root, "index")) {
    if (!index->is_object()) reader.refuse("'index' is no object");
    layout.index_name = reader.text(*index, "name");
    const std::string style = reader.text(*index, "style");
    if (style != "torch" && style != "sorted") reader.refuse("unknown style '" + style + "' of the index");
    layout.index_style = style == "torch" ? IndexStyle::torch : IndexStyle::sorted;
    layout.index_keys = reader.list(*index, "keys");
    layout.index_text = reader.text(*index, "text");
  }
  return layout;
}

}  // namespace weightproof::save
