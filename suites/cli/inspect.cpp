// SPDX-License-Identifier: Apache-2.0
// inspect: what a checkpoint is, from metadata alone.
#include <algorithm>

#include "suites/cli/common.hpp"
#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/shell.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/registry.hpp"
#include "suites/verify/verify.hpp"

namespace weightproof::suites::cli {
namespace {

using reports::CheckRecord;
using reports::Status;

// Everything the metadata checks complain about: format, index and keys, without what needs weights.
std::vector<CheckRecord> find_problems(Context& context) {
  std::vector<CheckRecord> problems;
  const auto run_group = [&](std::span<const VerifyCheck> checks) {
    for (const VerifyCheck& check : checks) {
      // One compares bytes, the other asks the reference, which takes its time: both are for verify.
      if (check.id == "keys.duplicate_across_shards" || check.id == "keys.family") {
        continue;
      }
      CheckRecord record = run_check(check, context);
      if (record.status == Status::fail || record.status == Status::warn || record.status == Status::error) {
        problems.push_back(std::move(record));
      }
    }
  };
  run_group(format_checks());
  run_group(index_checks());
  run_group(keys_checks());
  run_group(quant_checks());
  return problems;
}

void write_json(const Context& context, const reports::CheckpointInfo& info, const std::vector<CheckRecord>& problems,
                bool with_tensors, Console& console) {
  // The two blocks are those of a report, so they are taken from one.
  reports::Report report;
  report.checkpoint = info;
  report.checks = problems;
  reports::finish(report);
  const reports::Value document = reports::to_value(report);

  JsonWriter json([&console](std::string_view text) { console.out(text); });
  json.begin_object().member("schema", "weightproof.inspect/1");
  json.name("checkpoint").raw(reports::to_json(*document.find("checkpoint")));
  json.name("problems").raw(reports::to_json(*document.find("checks")));
  if (context.schema) {
    json.name("defaulted").begin_array();
    for (const std::string& text : context.schema->defaulted()) {
      json.value(text);
    }
    json.end_array();
  }
  if (with_tensors) {
    const auto& files = context.keys().files();
    json.member("total", context.keys().size()).name("tensors").begin_array();
    for (const StoredTensor& row : context.keys().tensors()) {
      json.begin_object().compact().member("key", row.key);
      if (row.is_described) {
        json.member("dtype", name_of(row.dtype)).name("shape").begin_array();
        for (const std::uint64_t extent : row.shape) {
          json.value(extent);
        }
        json.end_array().member("begin", row.begin).member("end", row.begin + row.bytes).member("bytes", row.bytes);
      }
      if (row.file < files.size()) {
        json.member("file", files[row.file]);
      }
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
  json.flush();
  console.out("\n");
}

void write_row(Console& console, std::string_view name, const std::string& text) {
  std::string line(name);
  line.append(name.size() < 14 ? 14 - name.size() : 1, ' ');
  console.line(console.styled(Tone::muted, line) + text);
}

void write_files(const storage::Checkpoint& checkpoint, Console& console) {
  constexpr std::size_t most = 12;
  const std::size_t count = std::min(checkpoint.shards.size(), most);
  for (std::size_t i = 0; i < count; ++i) {
    const storage::Shard& shard = checkpoint.shards[i];
    std::string text = printable(shard.name);
    if (shard.header && !shard.header->error) {
      text += ": " + counted(shard.header->tensors.size(), "tensor", "tensors") + ", " +
              human_bytes(shard.header->file_bytes);
    } else if (shard.header) {
      text += ": " + console.styled(Tone::fail, "cannot be read");
    } else if (!checkpoint.options.keys_only && !shard.exists) {
      text += ": " + console.styled(Tone::fail, "missing");
    }
    write_row(console, i == 0 ? "files" : "", text);
  }
  if (checkpoint.shards.size() > count) {
    write_row(console, "", "and " + grouped(checkpoint.shards.size() - count) + " more");
  }
}

void write_text(const Context& context, const reports::CheckpointInfo& info, const std::vector<CheckRecord>& problems,
                bool with_tensors, Console& console) {
  console.line(console.styled(Tone::strong, shown_path(info.path)));
  std::string size =
      info.format + ", " + counted(info.files, "file", "files") + ", " + counted(info.tensors, "tensor", "tensors");
  if (info.bytes > 0) {
    size += ", " + human_bytes(info.bytes) + " of weights";
  }
  write_row(console, "format", size);
  write_row(console, "family",
            info.family + (context.detection.evidence.empty() ? std::string()
                                                              : " (" + printable(context.detection.evidence) + ")"));
  if (!info.architectures.empty()) {
    std::string names;
    for (const std::string& name : info.architectures) {
      names += (names.empty() ? "" : ", ") + printable(name);
    }
    write_row(console, "architectures", names);
  }
  if (!info.form.empty()) {
    write_row(console, "form", printable(info.form));
  }
  std::string dtypes;
  for (const auto& [name, count] : info.dtypes) {
    dtypes += (dtypes.empty() ? "" : ", ") + name + " " + grouped(count);
  }
  write_row(console, "dtypes", dtypes.empty() ? "not known without the weight files" : dtypes);
  write_row(console, "quantization", info.quantization.empty() ? "none" : printable(info.quantization));
  write_row(console, "tied", !info.tied ? "not known" : *info.tied ? "yes, head and embedding are one tensor" : "no");
  write_files(context.checkpoint, console);
  if (problems.empty()) {
    write_row(console, "problems", console.styled(Tone::pass, "none that metadata shows"));
  }
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const CheckRecord& record = problems[i];
    const Tone tone = record.status == Status::warn ? Tone::warn : Tone::fail;
    const std::string& what = record.message.empty() ? record.reason : record.message;
    write_row(
        console, i == 0 ? "problems" : "",
        console.styled(tone, std::string(to_string(record.status)) + " " + record.id) + ": " + printable(what, 600));
  }
  if (with_tensors) {
    console.line();
    for (const StoredTensor& row : context.keys().tensors()) {
      std::string line = printable(row.key);
      if (row.is_described) {
        line += "  " + std::string(name_of(row.dtype)) + " " + to_string(row.shape) + "  " + grouped(row.bytes) +
                " B at " + grouped(row.begin);
      }
      if (row.file < context.keys().files().size()) {
        line += "  " + printable(context.keys().files()[row.file]);
      }
      console.line(line);
    }
  }
}

}  // namespace

int run_inspect(const Arguments& arguments, Console& console) {
  VerifyOptions options = verify_options(arguments, console);
  const storage::Checkpoint checkpoint =
      storage::read_checkpoint(arguments.positionals().front(), options.selection, options.threads);
  Context context(options, checkpoint);
  const std::vector<CheckRecord> problems = find_problems(context);
  const reports::CheckpointInfo info = checkpoint_info(context);
  if (console.is_json()) {
    write_json(context, info, problems, arguments.flag("--tensors"), console);
  } else {
    write_text(context, info, problems, arguments.flag("--tensors"), console);
  }
  // What could not be selected could not be described either.
  return checkpoint.is_selected ? k_exit_done : k_exit_impossible;
}

}  // namespace weightproof::suites::cli
