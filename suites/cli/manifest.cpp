// SPDX-License-Identifier: Apache-2.0
// manifest: digests of the decoded tensors, to compare with later without the original.
#include <algorithm>
#include <array>

#include "suites/cli/checkpoints.hpp"
#include "suites/cli/common.hpp"
#include "suites/cli/target.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/state/digests.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/shell.hpp"
#include "suites/support/text.hpp"

namespace weightproof::suites::cli {
namespace {

constexpr std::size_t k_manifest_bytes_max = std::size_t{1} << 30U;
constexpr std::size_t k_listed_max = 20;
// What decides which tensors are digested, and as what.
constexpr std::array<std::string_view, 6> k_reading = {"--revision", "--variant", "--family",
                                                       "--include",  "--exclude", "--dtype"};

int report_check(const ManifestDifference& difference, const std::string& file, Console& console) {
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    json.begin_object()
        .member("schema", "weightproof.manifest-check/1")
        .member("verdict", difference.is_empty() ? "pass" : "fail");
    json.member("equal", difference.equal);
    const auto list = [&json](const char* name, const std::vector<std::string>& keys) {
      json.name(name).begin_array();
      for (const std::string& key : keys) {
        json.value(key);
      }
      json.end_array();
    };
    list("different", difference.different);
    list("missing", difference.missing);
    list("unlisted", difference.unlisted);
    json.end_object();
    json.flush();
    console.out("\n");
  } else if (difference.is_empty()) {
    console.line(console.styled(Tone::pass, "PASS") + "  " +
                 counted(difference.equal, "tensor is as", "tensors are as") + " recorded in " + shown_path(file));
  } else {
    console.line(console.styled(Tone::fail, "FAIL") + "  not as recorded in " + shown_path(file));
    const auto list = [&console](const char* what, const std::vector<std::string>& keys) {
      for (std::size_t i = 0; i < std::min(keys.size(), k_listed_max); ++i) {
        console.line("  " + std::string(what) + "  " + printable(keys[i]));
      }
      if (keys.size() > k_listed_max) {
        console.line("  and " + grouped(keys.size() - k_listed_max) + " more; --json lists them all");
      }
    };
    list("different", difference.different);
    list("missing  ", difference.missing);
    list("unlisted ", difference.unlisted);
    console.line(counted(difference.equal, "tensor is", "tensors are") + " equal");
  }
  return difference.is_empty() ? k_exit_done : k_exit_failed;
}

}  // namespace

int run_manifest(const Arguments& arguments, Console& console) {
  const std::string check_file = arguments.text("--check");
  const std::string out = arguments.text("--out");
  if (!out.empty() && check_file.empty()) {
    require_target(out, "--out", Standing::file, false);
  }
  Manifest expected;
  if (!check_file.empty()) {
    expected = parse_manifest(read_text_file(check_file, k_manifest_bytes_max), check_file);
    if (expected.layout != "hf") {
      ErrorFacts facts;
      facts.hint = "write the manifest in the layout of the files";
      throw Error(ErrorCode::usage,
                  check_file + " records the " + printable(expected.layout) + " layout, which is not compared yet",
                  facts);
    }
    if (arguments.text("--dtype", "stored") != expected.dtype) {
      ErrorFacts facts;
      facts.hint = "give --dtype " + expected.dtype;
      throw Error(ErrorCode::usage, check_file + " records dtype " + printable(expected.dtype), facts);
    }
  }
  const OpenedCheckpoint opened(arguments.positionals().front(), arguments);
  const auto state = opened.decode(arguments);
  Manifest manifest;
  manifest.dtype = arguments.text("--dtype", "stored");
  manifest.family =
      opened.detection.family == nullptr ? std::string("identity") : std::string(opened.detection.family->name);
  manifest.tensors = digest_all(*state, asked_threads(arguments), [&console](std::uint64_t done, std::uint64_t total) {
    console.progress("digesting", done, total);
  });
  console.end_progress();
  if (!check_file.empty()) {
    return report_check(compare_manifests(expected.tensors, manifest.tensors), check_file, console);
  }
  const std::string text = manifest_text(manifest, "weightproof " WEIGHTPROOF_VERSION);
  if (!out.empty()) {
    write_text_file(out, text);
  }
  if (console.is_json()) {
    console.out(text);
    return k_exit_done;
  }
  if (out.empty()) {
    for (const auto& [key, digest] : manifest.tensors) {
      console.line(digest.sha256 + "  " + printable(key));
    }
    return k_exit_done;
  }
  if (!console.is_quiet()) {
    console.line(counted(manifest.tensors.size(), "tensor", "tensors") + ", " + human_bytes(state->bytes()) +
                 " digested; written to " + shown_path(out));
    console.line("next: weightproof manifest " + typed_path(arguments.positionals().front()) + " --check " +
                 typed_path(out) + arguments.typed(k_reading));
  }
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
