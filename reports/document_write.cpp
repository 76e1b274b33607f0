// SPDX-License-Identifier: Apache-2.0
#include "reports/emit.hpp"
#include "reports/fields_internal.hpp"
#include "reports/sha256_internal.hpp"

namespace weightproof::reports {
namespace {

template <typename Record>
Value record_value(const Record& record);

Value encode(const std::string& text) { return text; }
Value encode(bool flag) { return flag; }
Value encode(double number) { return number; }
Value encode(std::uint64_t number) { return number; }
Value encode(std::int64_t number) { return number; }
Value encode(std::uint32_t number) { return number; }
Value encode(Status status) { return to_string(status); }
Value encode(const Value& value) { return value; }

template <typename Item>
Value encode(const std::vector<Item>& items);
template <typename Item>
Value encode(const std::map<std::string, Item>& items);
template <typename Item>
Value encode(const std::optional<Item>& item);
Value encode(const TensorTable& table);
template <typename Record>
Value encode(const Record& record) {
  return record_value(record);
}

template <typename Item>
Value encode(const std::vector<Item>& items) {
  Value::Array out;
  out.reserve(items.size());
  for (const Item& item : items) {
    out.push_back(encode(item));
  }
  return out;
}

template <typename Item>
Value encode(const std::map<std::string, Item>& items) {
  Value::Object out;
  for (const auto& [name, item] : items) {
    out.emplace(name, encode(item));
  }
  return out;
}

template <typename Item>
Value encode(const std::optional<Item>& item) {
  return item ? encode(*item) : Value();
}

// Columns: about 40 bytes a tensor instead of several hundred.
Value encode(const TensorTable& table) {
  Value::Array cls;
  Value::Array layer;
  Value::Array expert;
  Value::Array file;
  std::string verdict;
  std::string change;
  std::string digest;
  std::string fingerprint;
  bool experts = false;
  for (const TensorRow& row : table.rows) {
    cls.emplace_back(row.cls);
    layer.emplace_back(row.layer);
    expert.emplace_back(row.expert);
    experts = experts || row.expert >= 0;
    file.emplace_back(row.file);
    verdict += to_string(row.verdict).front();
    change += row.change;
    digest += row.digest.size() == 16 ? row.digest : std::string(16, '-');
    fingerprint += tensor_fingerprint(table.key(row));
  }
  Value out;
  out["files"] = encode(table.files);
  out["classes"] = encode(table.classes);
  out["class"] = std::move(cls);
  out["layer"] = std::move(layer);
  if (experts) {
    out["expert"] = std::move(expert);
  }
  out["file"] = std::move(file);
  out["verdict"] = std::move(verdict);
  out["change"] = std::move(change);
  out["digest"] = std::move(digest);
  out["fingerprint"] = std::move(fingerprint);
  return out;
}

class Write {
 public:
  template <typename Field>
  void must(std::string_view name, const Field& field) {
    out_[name] = encode(field);
  }
  template <typename Field>
  void may(std::string_view name, const Field& field) {
    Value value = encode(field);
    const auto* text = value.if_string();
    const auto* items = value.if_array();
    const auto* members = value.if_object();
    const bool empty = value.is_null() || (text != nullptr && text->empty()) || (items != nullptr && items->empty()) ||
                       (members != nullptr && members->empty()) || value == Value(false);
    if (!empty) {
      out_[name] = std::move(value);
    }
  }
  void may(std::string_view name, std::uint32_t number) {
    if (number != 0) {
      out_[name] = number;
    }
  }
  // A list whose items are told apart by name becomes an object.
  void named(std::string_view name, const std::vector<MemoryFigure>& figures) {
    Value::Object members;
    for (const MemoryFigure& figure : figures) {
      members.insert_or_assign(figure.name, encode(figure));
    }
    out_[name] = std::move(members);
  }
  void derived(std::string_view name, std::int64_t number) { out_[name] = number; }
  void fixed_text(std::string_view name, std::string_view text) { out_[name] = text; }

  Value take() { return std::move(out_); }

 private:
  Value out_{Value::Object{}};
};

template <typename Record>
Value record_value(const Record& record) {
  Write codec;
  // The listing is shared with the reader, which fills records in; writing only reads them.
  fields::list(codec, const_cast<Record&>(record));
  return codec.take();
}

}  // namespace

Value to_value(const Report& report) {
  Value out = record_value(report);
  const Summary summary = summarize(report.checks);
  out["verdict"] = to_string(verdict_of(summary));
  out["summary"] = Value::object({{"pass", summary.pass},
                                  {"fail", summary.fail},
                                  {"warn", summary.warn},
                                  {"skip", summary.skip},
                                  {"error", summary.error}});
  return out;
}

Value to_value(const ErrorRecord& error) {
  Value out = record_value(error);
  for (const char* name : {"class", "file", "hint"}) {
    if (out[name] == Value("")) {
      out[name] = Value();
    }
  }
  return out;
}

std::string emit_json(const Report& report, bool pretty) { return to_json(to_value(report), pretty) + "\n"; }

Value comparable_part(const Report& report) {
  Report kept = report;
  for (CheckRecord& check : kept.checks) {
    if (check.suite == "mem") {
      for (std::string* text : {&check.message, &check.explanation, &check.reason, &check.hint}) {
        text->clear();
      }
      check.expected = check.actual = check.evidence = Value();
    }
  }
  for (Finding& finding : kept.findings) {
    if (group_of(finding.rule) == "mem") {
      Finding bare;
      bare.rule = finding.rule;
      bare.key = finding.key;
      bare.property = finding.property;
      bare.status = finding.status;
      bare.also = finding.also;
      bare.explained_by = finding.explained_by;
      bare.keys = finding.keys;
      bare.total = finding.total;
      bare.fingerprint = finding.fingerprint;
      finding = std::move(bare);
    }
  }
  Value out = to_value(kept);
  auto& members = *out.if_object();
  for (const char* name : {"run", "environment", "timing", "memory"}) {
    members.erase(name);
  }
  out["checkpoint"].if_object()->erase("path");
  return out;
}

std::string comparable_digest(const Report& report) { return hex(sha256(to_json(comparable_part(report)))); }

}  // namespace weightproof::reports
