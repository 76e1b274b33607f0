// SPDX-License-Identifier: Apache-2.0
#include "reports/tests/sample_report.hpp"

#include <map>
#include <string>

#include "reports/rules.hpp"
#include "reports/tests/sample_parts.hpp"

namespace weightproof::reports::sample {
namespace {

struct Skip {
  std::string_view ids;
  std::string_view reason;
  std::string_view hint;
};
constexpr Skip k_skips[] = {
    {"adapter.config adapter.no_match adapter.partial_match adapter.shape adapter.no_effect",
     "no adapter_config.json beside the weights", "verify the adapter directory together with its base"},
    {"shard.info shard.dtype shard.coverage shard.overlap shard.bounds",
     "ranks are planned from --topology; there are no rank files", "save with 8 ranks and verify that directory"},
    {"tied.mismatch tied.redundant tied.alias tied.storage", "head and embedding are untied; no alias is declared",
     "nothing: the family is never tied"},
    {"quant.zero_point quant.global_scale quant.scale_nan",
     "MXFP4 has no zero points, no second-level scale and no floating scale", "nothing: not part of this scheme"},
    {"expect.unused expect.expired expect.unexpected_pass", "no expectation file", "pass --expect FILE"},
    {"layout.qkv layout.qkv_tp", "q, k and v are stored apart", "nothing: the family has no fused projection"},
    {"value.manifest", "no --manifest", "weightproof manifest BASE > base.json, then pass --manifest base.json"},
    {"mem.device_peak", "no CUDA device on the runner", "run ci/gpu.sh on a GPU runner"},
    {"value.bool_byte", "no BOOL tensor in the checkpoint", "nothing: there is none to check"},
    {"keys.subset", "no --include or --exclude", "nothing: the whole checkpoint was asked for"},
};

const std::map<std::string, std::uint64_t, std::less<>> k_examined = {
    {"format", 13},  {"index", 13}, {"keys", 688},  {"tied", 1}, {"layout", 615}, {"quant", 72}, {"dtype", 615},
    {"value", 5496}, {"shard", 8},  {"adapter", 0}, {"mem", 8},  {"io", 8},       {"expect", 0}};

CheckRecord noted(std::string_view id, std::string_view text) {
  return CheckBuilder(std::string(id)).examined(688).note(std::string(text));
}

std::vector<CheckRecord> special() {
  std::vector<CheckRecord> out;
  out.push_back(noted("format.name", "One name holds a direction-changing character; it is shown spelled out."));
  out.push_back(noted("keys.family", "gpt_oss, from model_type and architectures; the reference agrees."));
  out.push_back(noted("keys.dropped", "1 tensor, 4,096 bytes, with the reason in the ledger."));
  out.push_back(noted("tied.flag", "Flag absent; resolved from the family's default to untied."));
  out.push_back(noted("dtype.declared", "Config says bfloat16, lm_head is stored F32."));
  out.push_back(
      noted("value.routes",
            "542 of 615 logical tensors compared on two routes; the 73 decoded have one route under the budget."));
  out.push_back(noted("mem.residency", "Cold on rank 0, mixed on ranks 1 to 7."));
  out.push_back(CheckBuilder("keys.unexpected")
                    .subject("model.layers.3.\xE2\x80\xAEmlp<img src=x onerror=alert(1)>.weight")
                    .evidence("title", "Unexpected tensor, allowed")
                    .note("Not in the family's schema, relaxed by --allow-unexpected. The name holds a "
                          "direction-changing character."));
  out.push_back(
      CheckBuilder("index.total_size")
          .subject("model.safetensors.index.json")
          .evidence("title", "total_size is stale")
          .evidence("property", "total_size")
          .expected(66407086720ULL)
          .actual(65248815744ULL)
          .warn("Index says 65,248,815,744, headers sum to 66,407,086,720: it was written before lm_head became F32."));
  out.push_back(CheckBuilder("quant.scale_e8m0").subject(k_down).warn("3 of 3,583,180,800 scale bytes are 0."));
  out.push_back(CheckBuilder("value.outlier").subject(k_outlier).warn("1 element is far outside its tensor."));
  out.push_back(CheckBuilder("layout.gate_up_order")
                    .subject(k_gate_up)
                    .fail("Gate and up are swapped in layer 17, 1 of 36 layers."));
  out.push_back(CheckBuilder("value.rounding").subject("lm_head.weight").fail("1 of 1 narrowed tensor is truncated."));
  out.push_back(CheckBuilder("value.exact")
                    .subject(k_gate_up)
                    .subject("lm_head.weight")
                    .examined(615)
                    .fail("2 of 615 tensors differ."));
  out.push_back(
      CheckBuilder("mem.peak").subject(k_gate_up).fail("8 of 8 ranks are 31.7 MiB over the bound, worst on rank 3."));
  out.push_back(
      CheckBuilder("mem.predicted").subject("rank 3").fail("The allocator agrees with the plan, the kernel does not."));
  out.push_back(CheckBuilder("io.opens")
                    .subject("model-00007-of-00013.safetensors")
                    .expected(1)
                    .actual(2)
                    .evidence("property", "opens")
                    .fail("Opened 2 times by every rank: once for layer 17's blocks, once for its scales."));
  return out;
}

void add_all_checks(Report& report) {
  report.checks = special();
  std::set<std::string> done;
  for (const CheckRecord& check : report.checks) {
    done.insert(check.id);
  }
  for (const Skip& skip : k_skips) {
    for (std::size_t at = 0; at < skip.ids.size();) {
      const std::size_t end = std::min(skip.ids.find(' ', at), skip.ids.size());
      const std::string id(skip.ids.substr(at, end - at));
      done.insert(id);
      report.checks.push_back(CheckBuilder(id).hint(std::string(skip.hint)).skip(std::string(skip.reason)));
      at = end + 1;
    }
  }
  for (const Rule& rule : rules()) {
    if (!done.contains(std::string(rule.id))) {
      report.checks.push_back(
          CheckBuilder(std::string(rule.id)).examined(k_examined.find(group_of(rule.id))->second).pass());
    }
  }
}

}  // namespace

Report full() {
  Report report;
  report.sample = true;
  report.checkpoint = checkpoint();
  report.run = run();
  report.environment = {{"cpu", "64 cores, x86-64, AVX-512 VBMI"},
                        {"memory", "256 GiB, THP madvise"},
                        {"kernel", "Linux 6.12"},
                        {"files_on", "ext4, NVMe"},
                        {"gpu", Value()},
                        {"mpi", Value()}};
  add_all_checks(report);
  report.findings = findings();
  report.plan = plan();
  report.memory = memory();
  report.timing = timing();
  report.policies = {{"E8M0 byte 0", "2^-127, kept as a subnormal", "default"},
                     {"E8M0 byte 255", "NaN for the whole block, and a finding", "default"},
                     {"product rounding", "exact product, one rounding to F32, one to the target", "default"},
                     {"nibble order", "by format id: low nibble first", "default"},
                     {"F32 to BF16", "nearest even; overflow to Inf", "default"},
                     {"-0", "preserved; the sign of zero is part of equality", "default"},
                     {"unexpected tensors", "allowed: 1 tensor", "--allow-unexpected", true}};
  report.defaulted = {{"tie_word_embeddings", "false", "absent in config.json; the family's default"}};
  report.tensors = tensors();
  report.compare = compare();
  report.selftest = selftest();
  report.support = support();
  finish(report);
  fold_findings(report);
  return report;
}

Report passing() {
  Report report;
  report.sample = true;
  report.checkpoint = {.path = "./smollm3-tiny",
                       .format = "safetensors, 1 file",
                       .family = "smollm3",
                       .architectures = {"SmolLM3ForCausalLM"},
                       .files = 1,
                       .tensors = 47,
                       .bytes = 1234567,
                       .dtypes = {{"BF16", 47}},
                       .quantization = {},
                       .tied = true,
                       .form = {}};
  report.run.tool = "weightproof 0.1.0";
  report.run.command = "weightproof verify ./smollm3-tiny --report ./out";
  for (const char* id : {"format.header_length", "format.json", "index.selection", "keys.missing", "keys.unexpected",
                         "value.nonfinite"}) {
    report.checks.push_back(CheckBuilder(id).examined(47).pass());
  }
  report.checks.push_back(
      CheckBuilder("tied.flag").examined(1).note("Flag absent; resolved from the family's default to tied."));
  report.checks.push_back(CheckBuilder("value.manifest").hint("pass --manifest FILE").skip("no --manifest"));
  finish(report);
  fold_findings(report);
  return report;
}

Report large(std::size_t checks, std::size_t fail_every) {
  Report report;
  report.sample = true;
  report.checkpoint = checkpoint();
  report.run = run();
  TensorTable table;
  table.files = {"model.safetensors"};
  TensorClass cls;
  cls.module = "mlp.experts.down_proj.weight";
  cls.pattern = "model.layers.{}.mlp.experts.{e}.down_proj.weight";
  cls.dtype = "BF16";
  cls.shape = {64, 32};
  cls.bytes = 4096;
  table.classes.push_back(cls);
  const auto all = rules();
  for (std::size_t i = 0; i < checks; ++i) {
    const std::string key =
        "model.layers." + std::to_string(i / 128) + ".mlp.experts." + std::to_string(i % 128) + ".down_proj.weight";
    const bool fails = fail_every != 0 && i % fail_every == fail_every / 2;
    CheckBuilder builder(fails ? "value.exact" : std::string(all[i % all.size()].id));
    builder.case_name("gpt_oss/tiny/tp=1/direct/host/" + key);
    CheckRecord record;
    if (fails) {
      record = builder.subject(key).expected("0xBC40").actual("0x3CC0").fail("12 of 2,048 elements differ.");
    } else if (i % 11 == 3) {
      record = builder.skip("no rank files");
    } else {
      record = builder.examined(1).pass();
    }
    report.checks.push_back(std::move(record));
    table.rows.push_back({0,
                          static_cast<std::int32_t>(i / 128),
                          static_cast<std::int32_t>(i % 128),
                          fails ? Status::fail : Status::pass,
                          '.',
                          0,
                          {}});
  }
  report.tensors = std::move(table);
  finish(report);
  fold_findings(report);
  return report;
}

std::vector<Fault> faults() {
  struct Plant {
    const char* name;
    const char* rule;
    const char* key;
    const char* title;
    const char* message;
  };
  constexpr Plant plants[] = {{"swapped", "layout.gate_up_order", "model.layers.7.mlp.experts.gate_up_proj",
                               "Gate and up swapped", "Even columns hold up, odd columns gate."},
                              {"stale-shard", "index.orphan_shard", "model-00003-of-00004.safetensors", "Stale shard",
                               "The file belongs to an earlier save with 4 shards."},
                              {"truncated", "value.rounding", "model.layers.3.mlp.down_proj.weight",
                               "Truncated instead of rounded to BF16", "The low 16 bits were cut off."},
                              {"lost-head", "tied.head_missing", "lm_head.weight", "Head lost",
                               "The model is not tied and holds no lm_head.weight."},
                              {"memory", "mem.peak", "model.layers.17.mlp.experts.gate_up_proj",
                               "Memory peak 31.7 MiB over its bound", "One expert is kept outside the allocator."},
                              {"wrong-scale", "quant.dequant_parity", "model.layers.5.self_attn.q_proj.weight",
                               "Scale inverted", "Every decoded value is divided where it must be multiplied."}};
  std::vector<Fault> out;
  for (const Plant& plant : plants) {
    Report report = passing();
    report.findings.clear();
    // What fails beside it must not push it out of sight.
    CheckBuilder consequence("value.exact");
    consequence.subject(plant.key);
    report.checks.push_back(
        CheckBuilder(plant.rule).subject(plant.key).evidence("title", plant.title).fail(plant.message));
    report.checks.push_back(consequence.fail("1 of 47 tensors differs."));
    finish(report);
    fold_findings(report);
    out.push_back({plant.name, plant.title, plant.key, std::move(report)});
  }
  return out;
}

std::string hostile_name() {
  return std::string(
             "a.\"'><script>alert(1)</script>&amp;]]>`|*_[x](http://evil) @octocat #1 \xE2\x80\xAE"
             "rev\xE2\x80\x8B\xEF\xBB\xBF\n::error::x%0A,") +
         std::string("\0nul", 4) + "\xED\xA0\x80 -->";
}

Report hostile() {
  Report report = passing();
  const std::string name = hostile_name();
  const std::string longest = std::string(32768, 'n') + name;
  report.checkpoint.path = name;
  report.checkpoint.family = name;
  report.checkpoint.quantization = name;
  report.checkpoint.dtypes = {{name, 1}};
  report.run.command = "weightproof verify '" + name + "'";
  report.run.title = name;
  report.run.tool = name;
  report.run.host = name;
  report.environment[name] = name;
  report.policies.push_back({name, name, name, true});
  report.defaulted.push_back({name, name, name});
  report.checks.push_back(CheckBuilder("value.exact")
                              .subject(name)
                              .subject(longest)
                              .subject("")
                              .expected(name)
                              .actual(longest)
                              .explanation(name)
                              .hint(name)
                              .case_name(name)
                              .evidence(name, name)
                              .evidence("title", name)
                              .evidence("reproduce", name)
                              .fail(name));
  report.checks.push_back(CheckBuilder("value.outlier").subject(name).warn(name));
  report.checks.push_back(CheckBuilder("keys.dropped").note(name));
  report.checks.push_back(CheckBuilder("keys.subset").hint(name).skip(name));
  report.checks.push_back(CheckBuilder("io.route").error(name));
  report.plan.routes.push_back({name, 1, name, name, 1, name});
  report.plan.considered.push_back({name, name, name});
  CoverageInfo coverage;
  coverage.rows.push_back({name, 1, 10, name, name, 10});
  coverage.stored_bytes = coverage.moved_bytes = 10;
  report.plan.coverage = coverage;
  report.memory.parts.push_back({name, 0, 1, 1, 2, 3, 4});
  report.memory.bound = 5;
  report.timing.cases.push_back({.name = name,
                                 .baseline = name,
                                 .cache = "cold",
                                 .cache_note = name,
                                 .seconds = 1.0,
                                 .baseline_seconds = 1.0,
                                 .ratios = {1.0, 1.1, 0.9},
                                 .goal = 1.2,
                                 .base_median = 1.0,
                                 .bytes_per_second = 1.0});
  TensorTable table;
  table.files = {name};
  TensorClass cls;
  cls.module = name;
  cls.pattern = name + "{}";
  cls.dtype = name;
  cls.route = name;
  cls.stored = {name};
  cls.checks = {"value.exact"};
  table.classes.push_back(cls);
  table.rows.push_back({0, 0, -1, Status::fail, 'n', 0, {}});
  table.rows.push_back({0, -1, -1, Status::warn, '.', 0, {}});
  report.tensors = table;
  CompareInfo compare;
  compare.base = compare.head = name;
  CompareEntry entry;
  entry.rule = name;
  entry.key = name;
  entry.text = name;
  compare.fresh = compare.fixed = compare.still = compare.changed_passing = {entry};
  report.compare = compare;
  report.selftest = SelftestInfo{{{name, name, name, name, false, false, name, name}}, 1, 1, {name}};
  report.support.push_back({name, name, name, name, Status::fail, 1, name});
  report.findings.clear();
  finish(report);
  fold_findings(report);
  return report;
}

}  // namespace weightproof::reports::sample
