// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "reports/fields_internal.hpp"
#include "reports/normalize_internal.hpp"

namespace weightproof::reports {
namespace {

template <typename Record>
void clean_record(Record& record);

void clean(std::string& text) {
  bool ascii = true;
  for (const char c : text) {
    ascii = ascii && static_cast<unsigned char>(c) < 0x80;
  }
  if (!ascii) {
    text = valid_utf8(text);
  }
}

void clean(Value& value) {
  if (const auto* text = value.if_string()) {
    std::string copy = *text;
    clean(copy);
    value = Value(std::move(copy));
  } else if (auto* items = value.if_array()) {
    for (Value& item : *items) {
      clean(item);
    }
  } else if (auto* members = value.if_object()) {
    Value::Object out;
    for (auto& [name, member] : *members) {
      std::string key = name;
      clean(key);
      clean(member);
      out.insert_or_assign(std::move(key), std::move(member));
    }
    *members = std::move(out);
  }
}

void clean(bool&) {}
void clean(double&) {}
void clean(std::uint64_t&) {}
void clean(std::int64_t&) {}
void clean(std::uint32_t&) {}
void clean(Status&) {}

template <typename Item>
void clean(std::vector<Item>& items);
template <typename Item>
void clean(std::map<std::string, Item>& items);
template <typename Item>
void clean(std::optional<Item>& item);
void clean(TensorTable& table);
template <typename Record>
void clean(Record& record) {
  clean_record(record);
}

template <typename Item>
void clean(std::vector<Item>& items) {
  for (Item& item : items) {
    clean(item);
  }
}

template <typename Item>
void clean(std::map<std::string, Item>& items) {
  std::map<std::string, Item> out;
  for (auto& [name, item] : items) {
    std::string key = name;
    clean(key);
    clean(item);
    out.insert_or_assign(std::move(key), std::move(item));
  }
  items = std::move(out);
}

template <typename Item>
void clean(std::optional<Item>& item) {
  if (item) {
    clean(*item);
  }
}

void clean(TensorTable& table) {
  clean(table.files);
  clean(table.classes);
}

class Clean {
 public:
  template <typename Field>
  void must(std::string_view, Field& field) {
    clean(field);
  }
  template <typename Field>
  void may(std::string_view, Field& field) {
    clean(field);
  }
  void named(std::string_view, std::vector<MemoryFigure>& figures) {
    for (MemoryFigure& figure : figures) {
      clean(figure.name);
      clean_record(figure);
    }
  }
  void derived(std::string_view, std::int64_t) {}
  void fixed_text(std::string_view, std::string_view) {}
};

template <typename Record>
void clean_record(Record& record) {
  Clean codec;
  fields::list(codec, record);
}

}  // namespace

void sort_figures(std::vector<MemoryFigure>& figures) {
  const auto rank = [](const MemoryFigure& figure) {
    return std::pair(std::find(std::begin(k_memory_figures), std::end(k_memory_figures), figure.name),
                     std::string_view(figure.name));
  };
  std::stable_sort(figures.begin(), figures.end(),
                   [&](const MemoryFigure& a, const MemoryFigure& b) { return rank(a) < rank(b); });
}

void make_text_valid(Report& report) { clean_record(report); }

}  // namespace weightproof::reports
