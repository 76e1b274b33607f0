// SPDX-License-Identifier: Apache-2.0
#include "reports/tests/sample_parts.hpp"

#include <string>

namespace weightproof::reports::sample {

CheckpointInfo checkpoint() {
  return {.path = "./gpt-oss-120b-ft",
          .format = "safetensors, 13 files, index",
          .family = "gpt_oss",
          .architectures = {"GptOssForCausalLM"},
          .files = 13,
          .tensors = 688,
          .bytes = 66407086720,
          .dtypes = {{"U8", 144}, {"BF16", 543}, {"F32", 1}},
          .quantization = "MXFP4",
          .tied = false,
          .form = "MXFP4"};
}

RunInfo run() {
  RunInfo out;
  out.tool = "weightproof 0.9.0 (sample)";
  out.commit = "3f9c1d2";
  out.base = "a81e07b";
  out.title = "verify, pull request 482";
  out.seed = 0x5eed17;
  out.start = "2026-01-14T09:14:05Z";
  out.host = "runner";
  out.duration_s = 120.02;
  out.command =
      "weightproof verify ./gpt-oss-120b-ft --dtype bf16 --topology ep=8 --all-ranks \\\n  --against ./out/export "
      "--allow-unexpected --report "
      "./out";
  out.command_base = "weightproof verify ./gpt-oss-120b-ft \\\n  --dtype bf16 --topology ep=8 --rank 0";
  return out;
}

std::vector<Finding> findings() {
  std::vector<Finding> out;
  Finding swap;
  swap.rule = "layout.gate_up_order";
  swap.key = k_gate_up;
  swap.property = "pair_order";
  swap.title = "Gate and up swapped";
  swap.explanation =
      "In all 128 experts the even columns hold up and the odd columns hold gate. The family declares the reverse, and "
      "the other 35 layers have "
      "it right.";
  swap.coordinate = {0, 0, 0};
  swap.axes = {"expert", "input", "column"};
  swap.shape = {128, 2880, 5760};
  swap.expected = {"BF16", "0xBC40", "-0.01171875", {}};
  swap.actual = {"BF16", "0x3CC0", "0.0234375", {}};
  swap.count = 1936509236;
  swap.elements = 2123366400;
  WhereMap everywhere;
  everywhere.rows = 8;
  everywhere.columns = 16;
  everywhere.shares.assign(128, 0.912);
  everywhere.unit = "expert";
  swap.where = everywhere;
  swap.order = OrderPicture{
      {"G", "U", "G", "U", "G", "U", "G", "U", "U"}, {"U", "G", "U", "G", "U", "G", "U", "G", "G"}, "columns"};
  swap.evidence = {
      {"the digest of the found even columns equals that of the declared odd columns, and the reverse.", "certain"},
      {"gate_up_proj_bias of this layer keeps its order, so each bias now meets the wrong half.", {}},
      {"Layer 17 is the only layer whose blocks and scales lie in two files.", {}}};
  swap.reproduce =
      "weightproof verify ./gpt-oss-120b-ft \\\n  --dtype bf16 --topology ep=8 \\\n  --rank 0 \\\n  --include "
      "'model.layers.17.mlp.experts.*'";
  swap.location_file = "adapters/gpt_oss.cpp";
  swap.location_line = 41;
  swap.change = "new";
  out.push_back(swap);

  Finding rounding;
  rounding.rule = "value.rounding";
  rounding.key = "lm_head.weight";
  rounding.property = "bf16";
  rounding.title = "Truncated instead of rounded to BF16";
  rounding.explanation =
      "Half of the elements are one ulp too small in magnitude: the low 16 bits of the F32 source were cut off where "
      "nearest-even was asked for.";
  rounding.coordinate = {0, 3};
  rounding.shape = {201088, 2880};
  rounding.source = {"F32", "0xBD2F9C41", "-0.0428736", {}};
  rounding.expected = {"BF16", "0xBD30", "-0.04296875", {}};
  rounding.actual = {"BF16", "0xBD2F", "-0.042724609375", {}};
  rounding.count = 289497106;
  rounding.elements = 579133440;
  rounding.histogram =
      Histogram{"ulp from expected",
                {{"-2", 0, false}, {"-1", 0.4999, true}, {"0", 0.5001, false}, {"+1", 0, false}, {"+2", 0, false}}};
  WhereMap half;
  half.rows = 16;
  half.columns = 16;
  half.shares.assign(256, 0.5);
  rounding.where = half;
  rounding.evidence = {{"All differ by -1 ulp, on all 8 ranks alike.", {}}};
  rounding.votes = {{"truncated", 1.0}, {"nearest even", 0.5001}, {"ties away", 0.5001}, {"rounded twice", 0.5002}};
  rounding.reproduce =
      "weightproof verify ./gpt-oss-120b-ft \\\n  --dtype bf16 --topology ep=8 \\\n  --rank 0 \\\n  --include "
      "lm_head.weight";
  rounding.change = "new";
  out.push_back(rounding);

  Finding peak;
  peak.rule = "mem.peak";
  peak.key = k_gate_up;
  peak.property = "host_beyond_final";
  peak.title = "Memory peak 31.7 MiB over its bound";
  peak.explanation =
      "Part 18 (layer 17) holds 31.7 MiB more than the plan allows, on all 8 ranks; worst on rank 3. The excess is one "
      "decoded expert, kept "
      "outside the accounting allocator.";
  peak.expected.text = "at most 81,561,600 B beyond final storage";
  peak.actual.text = "114,841,600 B, VmHWM less baseline and final";
  peak.evidence = {{"31.6 MiB is exactly one gate_up expert in BF16: 2880 x 5760 x 2 = 33,177,600 B.", {}},
                   {"The allocator never saw it, so the enforced limit did not trip; the kernel's counter did.", {}},
                   {"The kernel's figure may exceed the bound by 8 MiB; it does by 31.7.", {}}};
  peak.reproduce =
      "weightproof verify ./gpt-oss-120b-ft \\\n  --dtype bf16 --topology ep=8 \\\n  --rank 3 \\\n  --include "
      "'model.layers.17.*'";
  peak.change = "new";
  out.push_back(peak);

  Finding scales;
  scales.rule = "quant.scale_e8m0";
  scales.key = k_down;
  scales.property = "byte0";
  scales.status = Status::warn;
  scales.title = "Three scale bytes are 0";
  scales.explanation = "Expert 91, first at [91, 1204, 17]. Byte 0 means 2^-127 here; shift-based kernels read 0.";
  scales.coordinate = {91, 1204, 17};
  scales.shape = {128, 2880, 90};
  scales.count = 3;
  WhereMap three;
  three.rows = 8;
  three.columns = 16;
  three.shares.assign(128, 0);
  three.shares[91] = 0.00001;
  three.unit = "expert";
  scales.where = three;
  scales.change = "still";
  out.push_back(scales);

  Finding outlier;
  outlier.rule = "value.outlier";
  outlier.key = k_outlier;
  outlier.property = "sigma";
  outlier.status = Status::warn;
  outlier.title = "One element at 41.2 sigma";
  outlier.explanation =
      "[1201, 3377] = 0x3F53 = 0.824; the tensor's standard deviation is 0.020. A flipped exponent bit looks like "
      "this.";
  outlier.coordinate = {1201, 3377};
  outlier.shape = {2880, 4096};
  outlier.count = 1;
  outlier.elements = 11796480;
  outlier.change = "still";
  out.push_back(outlier);
  return out;
}

PlanInfo plan() {
  PlanInfo out;
  const std::string contiguous = "stored run and native view are both contiguous";
  out.routes = {
      {"input_layernorm, post_attention_layernorm, norm", 73, "direct", contiguous, 420480, "same"},
      {"self_attn.{q,k,v,o}_proj weights and biases", 288, "direct", contiguous, 1911605760, "same"},
      {"self_attn.sinks", 36, "direct", "rename only; " + contiguous, 4608, "same"},
      {"mlp.router weight and bias", 72, "direct", "rename only; " + contiguous, 26551296, "same"},
      {"mlp.experts.*_bias", 72, "direct", "the rank's 16 rows are one contiguous run", 79626240, "same"},
      {"embed_tokens", 1, "direct", contiguous, 1158266880, "same"},
      {"lm_head", 1, "bounded", "F32 stored, BF16 asked for: a value change, 256 KiB tiles", 2316533760, "same"},
      {"mlp.experts.gate_up_proj blocks + scales", 36, "bounded",
       "codec MXFP4, transposed and interleaved: decoded by expert tile", 40609382400, "was materialized"},
      {"mlp.experts.down_proj blocks + scales", 36, "bounded", "codec MXFP4, transposed: decoded by expert tile",
       20304691200, "was materialized"}};
  out.considered = {
      {"mlp.experts.gate_up_proj blocks + scales", "direct", "the stored values are codes: they must be decoded"},
      {"mlp.experts.gate_up_proj blocks + scales", "materialized",
       "a whole copy of 6.2 GB is over the budget of 64 MiB"}};
  CoverageInfo coverage;
  coverage.native_tensors = coverage.exact = 615;
  coverage.stored_bytes = 66407086720;
  coverage.moved_bytes = 3176475264;
  coverage.decoded_bytes = 63230607360;
  coverage.dropped_bytes = 4096;
  coverage.rows = {
      {"Expert blocks and scales, U8", 144, 60914073600, "bounded", "gate_and_up_projs, down_projs", 229323571200},
      {"Other tensors, BF16", 542, 3176475264, "direct", "542 tensors", 3176475264},
      {"lm_head, F32", 1, 2316533760, "bounded", "lm_head", 1158266880},
      {"Unmapped", 1, 4096, "dropped", "not in the family's schema; allowed by --allow-unexpected", 0}};
  out.coverage = coverage;
  out.predicted_peak = 81561600;
  out.bytes_planned = 66407082624;
  out.bytes_read = 104300762112;
  out.bytes_minimum = 103268081299;
  return out;
}

MemoryInfo memory() {
  MemoryInfo out;
  constexpr std::uint64_t mib = 1048576;
  out.rank = 3;
  out.bound = 81561600;
  out.allowance = 8 * mib;
  out.set("predicted", 81561600, "staging 67,108,864 + companion 12,441,600 + metadata 2,011,136");
  out.set("allocator_peak", 81561600, "accounting allocator");
  out.set("vm_hwm", 114841600, "VmHWM less baseline and final");
  out.set_unavailable("rss_anon", "not exported by this kernel");
  out.set("page_cache", 13032000000, "mincore over the files");
  out.set("final_storage", 32931512320, "sum of the destinations");
  double at = 0.11;
  std::uint64_t final_storage = 0;
  for (int i = 0; i < 37; ++i) {
    MemoryPart part;
    part.name = i == 0 ? "all other tensors" : "layer " + std::to_string(i - 1);
    part.begin_s = at;
    part.end_s = at + (i == 0 ? 0.82 : 0.0887);
    part.metadata = 2011136;
    part.companion = i == 0 ? 0 : 12441600;
    part.staging = 67108864 - static_cast<std::uint64_t>((i * 37) % 19) * 90000;
    part.uncounted = i == 18 ? 33280000 : 100000;
    MemorySample sample;
    sample.seconds = at;
    sample.final_storage = final_storage;
    sample.page_cache = final_storage * 2 / 5;
    sample.metadata = part.metadata;
    sample.companion = part.companion;
    sample.staging = part.staging;
    sample.uncounted = part.uncounted;
    out.series.push_back(sample);
    final_storage += i == 0 ? 4299767808 : 795325680;
    at = part.end_s;
    out.parts.push_back(part);
  }
  MemorySample last;
  last.seconds = 4.21;
  last.metadata = 2011136;
  last.final_storage = final_storage;
  last.page_cache = final_storage * 2 / 5;
  out.series.push_back(last);
  return out;
}

TimingInfo timing() {
  TimingInfo out;
  out.total_s = 120.02;
  out.cache_before = "mixed";
  out.cache_after = "warm";
  out.cache_method = "mincore before and after";
  out.phases = {{"scan", 0.09, 3000000, {}},
                {"plan", 0.02, {}, {}},
                {"load", 31.90, 104300762112, {}},
                {"compare", 58.40, {}, {}},
                {"export and reload", 24.10, {}, {}},
                {"digests", 5.20, {}, {}},
                {"report", 0.31, {}, {}}};
  const auto add = [&](std::string name, std::string baseline, std::string cache, std::string note, double seconds,
                       double base, std::vector<double> ratios, std::optional<double> goal, double before) {
    out.cases.push_back({.name = std::move(name),
                         .baseline = std::move(baseline),
                         .cache = std::move(cache),
                         .cache_note = std::move(note),
                         .seconds = seconds,
                         .baseline_seconds = base,
                         .ratios = std::move(ratios),
                         .goal = goal,
                         .base_median = before,
                         .bytes_per_second = {}});
  };
  add("load, rank 0", "plain read, 4 MiB pread", "cold", "0.0 % resident before", 4.61, 4.29,
      {1.04, 1.06, 1.061, 1.08, 1.07, 1.085, 1.10, 1.11, 1.12}, 1.10, 1.09);
  add("load, rank 3", "plain read, same residency", "mixed", "41 % resident before", 4.30, 3.98,
      {1.06, 1.061, 1.065, 1.09, 1.08, 1.10, 1.11, 1.12, 1.13}, std::nullopt, 1.12);
  add("reload, rank 0", "BF16 twin of the same result", "warm", "100 % resident before", 2.21, 3.03,
      {0.70, 0.72, 0.74, 0.745, 0.73, 0.75, 0.76, 0.77, 0.77}, 0.75, 1.94);
  add("export, 13 files", "plain copy", "warm", "written, fsync, renamed", 11.8, 10.9,
      {1.05, 1.06, 1.07, 1.11, 1.08, 1.11, 1.12, 1.12, 1.13}, 1.11, 1.07);
  return out;
}

TensorTable tensors() {
  TensorTable out;
  for (int i = 1; i <= 13; ++i) {
    out.files.push_back("model-000" + std::string(i < 10 ? "0" : "") + std::to_string(i) + "-of-00013.safetensors");
  }
  const auto add = [&](const std::string& module, std::vector<std::uint64_t> shape, bool expert) {
    TensorClass cls;
    cls.module = module;
    cls.pattern = "model.layers.{}." + module;
    const bool quantized = expert && module.find("bias") == std::string::npos;
    cls.dtype = quantized ? "MXFP4" : "BF16";
    cls.bytes = quantized ? 1 : 2;
    for (const std::uint64_t extent : shape) {
      cls.bytes *= extent;
    }
    cls.shape = shape;
    cls.native = cls.pattern;
    cls.native_shape = std::move(shape);
    cls.native_dtype = "BF16";
    cls.stored =
        quantized ? std::vector<std::string>{module + "_blocks", module + "_scales"} : std::vector<std::string>{module};
    cls.route = quantized ? "bounded" : "direct";
    cls.reason = quantized ? "codec MXFP4 and a transpose: decoded tile by tile, 256 KiB a tile"
                           : "stored run and native view are both contiguous";
    cls.placement = expert ? "rank r holds experts 16r to 16r+15" : "replicated on ranks 0-7";
    cls.checks = {"format.size",    "io.sentinel", "keys.shape",     "layout.coverage",
                  "layout.mapping", "value.exact", "value.roundtrip"};
    out.classes.push_back(cls);
  };
  add("input_layernorm.weight", {2880}, false);
  add("self_attn.q_proj.weight", {4096, 2880}, false);
  add("self_attn.q_proj.bias", {4096}, false);
  add("self_attn.k_proj.weight", {512, 2880}, false);
  add("self_attn.k_proj.bias", {512}, false);
  add("self_attn.v_proj.weight", {512, 2880}, false);
  add("self_attn.v_proj.bias", {512}, false);
  add("self_attn.o_proj.weight", {2880, 4096}, false);
  add("self_attn.o_proj.bias", {2880}, false);
  add("self_attn.sinks", {64}, false);
  add("post_attention_layernorm.weight", {2880}, false);
  add("mlp.router.weight", {128, 2880}, false);
  add("mlp.router.bias", {128}, false);
  add("mlp.experts.gate_up_proj", {128, 5760, 2880}, true);
  add("mlp.experts.gate_up_proj_bias", {128, 5760}, true);
  add("mlp.experts.down_proj", {128, 2880, 2880}, true);
  add("mlp.experts.down_proj_bias", {128, 2880}, true);
  for (std::uint32_t c = 0; c < 17; ++c) {
    for (std::int32_t layer = 0; layer < 36; ++layer) {
      TensorRow row;
      row.cls = c;
      row.layer = layer;
      row.file = static_cast<std::uint32_t>(layer / 3);
      row.digest = tensor_fingerprint(out.key(row) + "digest") + "0000";
      const std::string key = out.key(row);
      if (key == k_gate_up) {
        row.verdict = Status::fail;
        row.change = 'n';
      } else if (key == k_down || key == k_outlier) {
        row.verdict = Status::warn;
        row.change = 's';
      } else if (c == 13 || c == 15) {
        row.change = 'f';
      }
      out.rows.push_back(row);
    }
  }
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}) {
    TensorClass cls;
    cls.module = name;
    cls.pattern = name;
    cls.dtype = std::string(name) == "lm_head.weight" ? "F32" : "BF16";
    cls.shape = {201088, 2880};
    cls.bytes = 1158266880;
    cls.route = "direct";
    TensorRow row;
    row.cls = static_cast<std::uint32_t>(out.classes.size());
    row.file = 12;
    if (cls.pattern == "lm_head.weight") {
      row.verdict = Status::fail;
      row.change = 'n';
    }
    out.classes.push_back(cls);
    out.rows.push_back(row);
  }
  return out;
}

CompareInfo compare() {
  CompareInfo out;
  out.base = "a81e07b";
  out.head = "3f9c1d2";
  const auto entry = [](std::string_view rule, std::string_view key, std::string_view property, std::string_view text,
                        Status status) {
    CompareEntry e;
    e.rule = rule;
    e.key = key;
    e.text = text;
    e.status = status;
    e.fingerprint = key.empty() ? std::string() : fingerprint_of(rule, key, property);
    return e;
  };
  out.fresh = {entry("layout.gate_up_order", k_gate_up, "pair_order", "layer 17", Status::fail),
               entry("value.rounding", "lm_head.weight", "bf16", "lm_head.weight", Status::fail),
               entry("mem.peak", k_gate_up, "host_beyond_final", "part 18, 8 ranks", Status::fail),
               entry("value.exact", "lm_head.weight", "", "2 of 615 tensors", Status::fail),
               entry("mem.predicted", "rank 3", "", "8 of 8 ranks", Status::fail)};
  out.fixed = {entry("value.signed_zero", "", "", "72 expert tensors keep -0", Status::fail),
               entry("io.amplification", "", "", "1.31 to 1.01", Status::fail)};
  out.still = {
      entry("io.opens", "model-00007-of-00013.safetensors", "opens", "one file opened twice", Status::fail),
      entry("index.total_size", "model.safetensors.index.json", "total_size", "total_size is stale", Status::warn),
      entry("quant.scale_e8m0", k_down, "byte0", "three scale bytes are 0", Status::warn),
      entry("value.outlier", k_outlier, "sigma", "one element at 41.2 sigma", Status::warn)};
  const auto counter = [](std::string_view rule, Value base, Value head, std::string_view text) {
    CompareEntry e;
    e.rule = rule;
    e.text = text;
    e.base = std::move(base);
    e.head = std::move(head);
    return e;
  };
  out.changed_passing = {counter("plan.predicted_peak", 6510000000ULL, 81561600, "predicted peak 6,208.4 to 77.8 MiB"),
                         counter("plan.routes", "materialized", "bounded", "72 tensors: materialized to bounded"),
                         counter("plan.bytes_read", 135300000000ULL, 104300762112ULL, "bytes read 135.3 to 104.3 GB"),
                         counter("environment.kernel", "avx2", "avx512vbmi", "kernel avx2 to avx512vbmi")};
  return out;
}

SelftestInfo selftest() {
  SelftestInfo out;
  const auto add = [&](const char* fault, const char* area, const char* by, int count) {
    for (int i = 0; i < count; ++i) {
      MutantRecord m;
      m.id = std::string(area) + "-" + std::to_string(i);
      m.fault = fault;
      m.area = area;
      m.subject = "model.layers." + std::to_string(i) + ".weight";
      m.killed = m.named = true;
      m.caught_by = by;
      out.mutants.push_back(m);
    }
  };
  add("gate and up swapped", "layout", "layout.gate_up_order", 18);
  add("matrix transposed, square ones too", "layout", "layout.transpose", 24);
  add("truncated, ties away, rounded twice", "value", "value.rounding", 21);
  add("nibble order, lane order", "quant", "quant.nibble_order", 16);
  add("header field broken", "format", "format.json", 27);
  add("budget breached, staging reused", "mem", "mem.peak", 14);
  out.good_inputs = 214;
  return out;
}

std::vector<SupportRecord> support() {
  std::vector<SupportRecord> out;
  const auto add = [&](const char* family, const char* form, const char* route, const char* dtype, Status status) {
    out.push_back({family, form, route, dtype, status, status == Status::skip ? 0U : 12U, {}});
  };
  for (const char* dtype : {"bf16", "f32", "f16"}) {
    add("gpt_oss", "MXFP4", "bounded", dtype, std::string(dtype) == "bf16" ? Status::fail : Status::pass);
    add("gpt_oss", "MXFP4", "materialized", dtype, std::string(dtype) == "f16" ? Status::skip : Status::pass);
  }
  for (const char* family : {"gpt_oss", "llama", "qwen3", "qwen3_moe", "mistral3", "nemotron_v3"}) {
    for (const char* dtype : {"stored", "bf16"}) {
      add(family, "plain", "direct", dtype, Status::pass);
    }
    for (const char* dtype : {"f32", "f16"}) {
      add(family, "plain", "bounded", dtype, Status::pass);
    }
    for (const char* dtype : {"stored", "bf16", "f32", "f16"}) {
      add(family, "plain", "materialized", dtype, Status::pass);
    }
  }
  return out;
}

}  // namespace weightproof::reports::sample
