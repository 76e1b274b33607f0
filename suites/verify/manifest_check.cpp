// SPDX-License-Identifier: Apache-2.0
#include "suites/verify/manifest_check.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "suites/state/digests.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/against.hpp"
#include "suites/verify/records.hpp"

namespace weightproof::suites {
namespace {

using reports::CheckBuilder;

Manifest read_manifest(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    ErrorFacts facts;
    facts.file = name;
    facts.hint = "give a file that `weightproof manifest --out` wrote";
    throw Error(ErrorCode::io_error, "the manifest " + name + " cannot be read", std::move(facts));
  }
  return parse_manifest(text.str(), name);
}

plan::TargetDType dtype_of(const std::string& text) {
  return text == "bf16"  ? plan::TargetDType::bf16
         : text == "f32" ? plan::TargetDType::f32
         : text == "f16" ? plan::TargetDType::f16
                         : plan::TargetDType::stored;
}

}  // namespace

reports::CheckRecord manifest_record(Context& context) {
  CheckBuilder builder("value.manifest");
  if (context.options.manifest_file.empty()) {
    if (!context.options.against.empty()) {
      return against_record(context);
    }
    return builder.hint("give --manifest FILE").skip("no manifest to compare with (--manifest)");
  }
  const Manifest expected = read_manifest(context.options.manifest_file);
  if (!context.faults.empty() || !context.index_fault().empty()) {
    return builder.skip("undecided where " + context.fault_text());
  }
  if (const std::string why = why_undecodable(context.quantization()); !why.empty()) {
    return builder.skip(why);
  }
  if (expected.layout != "hf") {
    return builder.skip("the manifest records the " + printable(expected.layout) + " layout");
  }
  StateOptions options;
  options.dtype = dtype_of(expected.dtype);
  options.schema = context.schema ? &*context.schema : nullptr;
  if (context.has_subset()) {
    options.selects = [&context](std::string_view key) { return context.selects(key); };
  }
  const DecodedState state(context.checkpoint, options);
  const auto found = digest_all(state, context.options.threads, [&context](std::uint64_t done, std::uint64_t total) {
    if (context.options.progress) {
      context.options.progress("digesting", done, total);
    }
  });
  ManifestDifference difference = compare_manifests(expected.tensors, found);
  if (context.has_subset()) {
    std::erase_if(difference.missing, [&context](const std::string& key) { return !context.selects(key); });
  }
  builder.examined(found.size());
  if (difference.is_empty()) {
    return builder.pass();
  }
  std::string text;
  const auto add = [&](const char* what, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      builder.subject(key);
    }
    if (!keys.empty()) {
      text += (text.empty() ? "" : "; ") + counted(keys.size(), "tensor", "tensors") + " " + what + ": " + listed(keys);
    }
  };
  add("with another digest", difference.different);
  add("of the manifest missing", difference.missing);
  add("not in the manifest", difference.unlisted);
  if (!difference.different.empty()) {
    const std::string& first = difference.different.front();
    const TensorDigest& want = expected.tensors.at(first);
    const TensorDigest& have = found.at(first);
    if (want.dtype != have.dtype || want.shape != have.shape) {
      builder.expected(want.dtype).actual(have.dtype);
    } else {
      builder.expected(want.sha256).actual(have.sha256);
    }
    // A digest that another tensor should have says that the two were exchanged.
    for (const auto& [key, digest] : expected.tensors) {
      if (key != first && digest.sha256 == have.sha256) {
        builder.explanation(printable(first) + " holds what " + printable(key) + " should hold");
        break;
      }
    }
  }
  return builder.hint("fetch the named tensors' files again, or compare with `weightproof diff`").fail(text);
}

}  // namespace weightproof::suites
