// SPDX-License-Identifier: Apache-2.0
// fixture --list: families, presets, quantized cases and faults.
#include "fixtures/corrupt.hpp"
#include "fixtures/generate.hpp"
#include "fixtures/quantized.hpp"
#include "fixtures/schema.hpp"
#include "suites/cli/fixture_words.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"

namespace weightproof::suites::cli {

int list_fixtures(Console& console) {
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    json.begin_object().member("schema", "weightproof.fixtures/1").name("families").begin_array();
    for (const std::string& family : fixtures::families()) {
      const auto names = [&json](const char* member, const std::vector<std::string>& list) {
        json.name(member).begin_array();
        json.compact();
        for (const std::string& name : list) {
          json.value(name);
        }
        json.end_array();
      };
      json.begin_object().member("name", family);
      names("presets", fixtures::presets(family));
      names("forms", fixtures::forms(family));
      json.end_object();
    }
    json.end_array().name("faults").begin_array();
    for (const fixtures::CorruptionOperator& row : fixtures::corruption_operators()) {
      const fixtures::GenerateOptions twin = fixtures::clean_twin(row);
      json.begin_object().compact().member("name", row.name).member("check", row.check).member("status", row.status);
      json.member("family", twin.family)
          .member("preset", twin.preset)
          .member("needs_twin", row.needs_twin)
          .end_object();
    }
    json.end_array().name("quantized").begin_array();
    for (const fixtures::QuantizedCase& row : fixtures::quantized_cases()) {
      json.begin_object().compact().member("name", row.name).member("scheme", row.scheme);
      json.member("check", row.check).member("status", row.status).end_object();
    }
    json.end_array().end_object();
    json.flush();
    console.out("\n");
    return k_exit_done;
  }
  const auto row = [&console](std::string left, const std::string& right, std::size_t width) {
    left.append(left.size() < width ? width - left.size() : 1, ' ');
    console.line("  " + left + right);
  };
  console.line(console.styled(Tone::strong, "families and their presets"));
  for (const std::string& family : fixtures::families()) {
    std::string presets;
    for (const std::string& preset : fixtures::presets(family)) {
      presets += (presets.empty() ? "" : ", ") + preset;
    }
    row(family, presets, 24);
  }
  console.line("\n" +
               console.styled(Tone::strong, "quantized tensors without a family: fixture quantized --preset NAME"));
  for (const fixtures::QuantizedCase& each : fixtures::quantized_cases()) {
    row(std::string(each.name),
        each.check.empty() ? std::string(each.scheme) : std::string(each.check) + " (" + std::string(each.status) + ")",
        34);
  }
  console.line("\n" + console.styled(Tone::strong, "faults and the checks that must notice them"));
  for (const fixtures::CorruptionOperator& fault : fixtures::corruption_operators()) {
    row(std::string(fault.name),
        std::string(fault.check) + (fault.status == "fail" ? std::string() : " (" + std::string(fault.status) + ")") +
            (fault.needs_twin ? ", by `verify --against TWIN` alone" : ""),
        34);
  }
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
