// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "reports/fields_internal.hpp"
#include "reports/normalize_internal.hpp"

namespace weightproof::reports {
namespace {

[[noreturn]] void wrong(const std::string& where, std::string_view what) {
  throw DocumentError((where.empty() ? std::string("document") : where) + ": " + std::string(what));
}

std::string member(const std::string& where, std::string_view name) {
  return where.empty() ? std::string(name) : where + "." + std::string(name);
}

template <typename Record>
void decode_record(const Value& value, const std::string& where, Record& record);

void decode(const Value& value, const std::string& where, std::string& out) {
  const auto* text = value.if_string();
  if (text == nullptr) {
    wrong(where, "must be a string");
  }
  out = *text;
}

void decode(const Value& value, const std::string& where, bool& out) {
  const bool* flag = value.if_bool();
  if (flag == nullptr) {
    wrong(where, "must be true or false");
  }
  out = *flag;
}

void decode(const Value& value, const std::string& where, double& out) {
  if (value == Value("NaN")) {
    out = std::numeric_limits<double>::quiet_NaN();
  } else if (value == Value("Infinity") || value == Value("-Infinity")) {
    out =
        value == Value("Infinity") ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  } else if (!value.is_number()) {
    wrong(where, "must be a number");
  } else {
    out = value.as_double();
  }
}

template <typename Int>
void decode_integer(const Value& value, const std::string& where, Int& out) {
  if constexpr (std::is_signed_v<Int>) {
    const std::int64_t number = value.as_int64(std::numeric_limits<std::int64_t>::min());
    if (!value.is_integer() || number < std::numeric_limits<Int>::min() || number > std::numeric_limits<Int>::max()) {
      wrong(where, "must be an integer in range");
    }
    out = static_cast<Int>(number);
  } else {
    const bool negative = value.is_integer() && value.as_uint64(0) == 0 && !(value == Value(0));
    if (!value.is_integer() || negative || value.as_uint64() > std::numeric_limits<Int>::max()) {
      wrong(where, "must be a non-negative integer in range");
    }
    out = static_cast<Int>(value.as_uint64());
  }
}
void decode(const Value& value, const std::string& where, std::uint64_t& out) { decode_integer(value, where, out); }
void decode(const Value& value, const std::string& where, std::int64_t& out) { decode_integer(value, where, out); }
void decode(const Value& value, const std::string& where, std::uint32_t& out) { decode_integer(value, where, out); }
void decode(const Value& value, const std::string& where, std::int32_t& out) { decode_integer(value, where, out); }

void decode(const Value& value, const std::string& where, Status& out) {
  const auto status = status_from(value.as_string());
  if (!status) {
    wrong(where, "must be one of pass, fail, warn, skip, error");
  }
  out = *status;
}

void decode(const Value& value, const std::string&, Value& out) { out = value; }

template <typename Item>
void decode(const Value& value, const std::string& where, std::vector<Item>& out);
template <typename Item>
void decode(const Value& value, const std::string& where, std::map<std::string, Item>& out);
template <typename Item>
void decode(const Value& value, const std::string& where, std::optional<Item>& out);
void decode(const Value& value, const std::string& where, TensorTable& out);
template <typename Record>
void decode(const Value& value, const std::string& where, Record& out) {
  decode_record(value, where, out);
}

template <typename Item>
void decode(const Value& value, const std::string& where, std::vector<Item>& out) {
  const auto* items = value.if_array();
  if (items == nullptr) {
    wrong(where, "must be an array");
  }
  out.clear();
  out.reserve(items->size());
  for (std::size_t i = 0; i < items->size(); ++i) {
    Item item{};
    decode((*items)[i], where + "[" + std::to_string(i) + "]", item);
    out.push_back(std::move(item));
  }
}

template <typename Item>
void decode(const Value& value, const std::string& where, std::map<std::string, Item>& out) {
  const auto* members = value.if_object();
  if (members == nullptr) {
    wrong(where, "must be an object");
  }
  out.clear();
  for (const auto& [name, item] : *members) {
    decode(item, member(where, cut_text(spell_out(name), 80)), out[name]);
  }
}

template <typename Item>
void decode(const Value& value, const std::string& where, std::optional<Item>& out) {
  if (value.is_null()) {
    out.reset();
    return;
  }
  Item item{};
  decode(value, where, item);
  out = std::move(item);
}

Status status_of_letter(char letter, const std::string& where) {
  switch (letter) {
    case 'p':
      return Status::pass;
    case 'f':
      return Status::fail;
    case 'w':
      return Status::warn;
    case 's':
      return Status::skip;
    case 'e':
      return Status::error;
    default:
      wrong(where, "must be letters of p, f, w, s, e");
  }
}

template <typename Field>
void column(const Value& table, const std::string& where, std::string_view name, Field& out) {
  const Value* value = table.find(name);
  if (value == nullptr) {
    wrong(where, "has no \"" + std::string(name) + "\"");
  }
  decode(*value, member(where, name), out);
}

void decode(const Value& value, const std::string& where, TensorTable& out) {
  std::vector<std::uint32_t> cls;
  std::vector<std::int32_t> layer;
  std::vector<std::int32_t> expert;
  std::vector<std::uint32_t> file;
  std::string verdict;
  std::string change;
  std::string digest;
  column(value, where, "files", out.files);
  column(value, where, "classes", out.classes);
  column(value, where, "class", cls);
  column(value, where, "layer", layer);
  column(value, where, "file", file);
  column(value, where, "verdict", verdict);
  column(value, where, "change", change);
  column(value, where, "digest", digest);
  if (value.find("expert") != nullptr) {
    column(value, where, "expert", expert);
  } else {
    expert.assign(cls.size(), -1);
  }
  const std::size_t count = cls.size();
  if (layer.size() != count || expert.size() != count || file.size() != count || verdict.size() != count ||
      change.size() != count || digest.size() != count * 16) {
    wrong(where, "columns differ in length");
  }
  out.rows.clear();
  out.rows.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (cls[i] >= out.classes.size() || (file[i] >= out.files.size() && !(out.files.empty() && file[i] == 0))) {
      wrong(where, "row " + std::to_string(i) + " refers to a class or file that is not there");
    }
    std::string text = digest.substr(i * 16, 16);
    if (text.front() == '-') {
      text.clear();
    }
    out.rows.push_back({cls[i], layer[i], expert[i], status_of_letter(verdict[i], member(where, "verdict")), change[i],
                        file[i], std::move(text)});
  }
}

class Read {
 public:
  Read(const Value& value, std::string where) : value_(value), where_(std::move(where)) {
    if (!value_.is_object()) {
      wrong(where_, "must be an object");
    }
  }
  template <typename Field>
  void must(std::string_view name, Field& field) {
    const Value* found = value_.find(name);
    if (found == nullptr) {
      wrong(where_, "has no \"" + std::string(name) + "\"");
    }
    decode(*found, member(where_, name), field);
  }
  template <typename Field>
  void may(std::string_view name, Field& field) {
    if (const Value* found = value_.find(name)) {
      decode(*found, member(where_, name), field);
    }
  }
  void named(std::string_view name, std::vector<MemoryFigure>& figures) {
    std::map<std::string, MemoryFigure> members;
    must(name, members);
    for (auto& [figure_name, figure] : members) {
      figure.name = figure_name;
      figures.push_back(std::move(figure));
    }
    sort_figures(figures);
  }
  void derived(std::string_view, std::int64_t) {}
  void fixed_text(std::string_view name, std::string_view text) {
    const Value* found = value_.find(name);
    if (found == nullptr || !(*found == Value(text))) {
      wrong(member(where_, name), "must be \"" + std::string(text) + "\"");
    }
  }

 private:
  const Value& value_;
  std::string where_;
};

template <typename Record>
void decode_record(const Value& value, const std::string& where, Record& record) {
  Read codec(value, where);
  fields::list(codec, record);
}

}  // namespace

Report report_from(const Value& document) {
  Report report;
  decode_record(document, "", report);
  return report;
}

Report read_json(std::string_view text) { return report_from(parse_json(text)); }

}  // namespace weightproof::reports
