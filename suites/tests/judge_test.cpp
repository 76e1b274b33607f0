// SPDX-License-Identifier: Apache-2.0
// judge: what it makes of commands that answer rightly, wrongly, badly and not at all.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <set>
#include <thread>

#include "fixtures/quantized.hpp"
#include "fixtures/schema.hpp"
#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "suites/judge/cases.hpp"
#include "suites/judge/run_subject.hpp"
#include "suites/tests/judge_testing.hpp"

namespace weightproof::suites::test {
namespace {

using judge::SubjectEnd;
using reports::CheckRecord;
using reports::Status;

/// The one record that did not pass.
const CheckRecord& only_finding(const reports::Report& report) {
  static const CheckRecord none;
  const CheckRecord* found = nullptr;
  for (const CheckRecord& record : report.checks) {
    if (record.status != Status::pass) {
      EXPECT_EQ(found, nullptr) << record.id << ' ' << record.message << record.reason;
      found = &record;
    }
  }
  EXPECT_NE(found, nullptr);
  return found == nullptr ? none : *found;
}

TEST(JudgeCases, CoverEveryFamilyAndForm) {
  const std::vector<judge::Case> cases = judge::list_cases({});
  std::set<std::string> families;
  std::set<std::string> ids;
  std::set<std::string> forms;
  for (const judge::Case& row : cases) {
    families.insert(row.fixture.family);
    EXPECT_TRUE(ids.insert(row.id()).second) << row.id();
    if (row.fixture.family == fixtures::k_quantized_family) {
      continue;
    }
    const std::string form =
        row.fixture.form.empty() ? fixtures::preset_form(row.fixture.family, row.fixture.preset) : row.fixture.form;
    forms.insert(row.fixture.family + ':' + form);
  }
  std::vector<std::string> all = fixtures::families();
  all.emplace_back(fixtures::k_quantized_family);
  EXPECT_EQ(families, std::set<std::string>(all.begin(), all.end()));
  for (const std::string& family : fixtures::families()) {
    const std::vector<std::string> of_family = fixtures::forms(family);
    for (std::size_t i = 0; i < of_family.size(); ++i) {
      EXPECT_TRUE(forms.count(family + ':' + of_family[i]) != 0 || (i == 0 && forms.count(family + ':') != 0))
          << family << ' ' << of_family[i];
    }
  }
  judge::CaseFilter filter;
  filter.globs = {"llama/*/export/*"};
  filter.dtypes = {"f32"};
  for (const judge::Case& row : judge::list_cases(filter)) {
    EXPECT_EQ(row.wanted, judge::Wanted::exported);
    EXPECT_EQ(row.dtype, "f32");
    EXPECT_EQ(row.fixture.family, "llama");
  }
}

TEST(Judge, OurOwnCommandLinePassesOnAllCases) {
  const reports::Report report = judged(own_subject(), {});
  for (const CheckRecord& record : report.checks) {
    EXPECT_NE(record.status, Status::fail) << record.case_name << ' ' << record.id << ' ' << record.message;
    EXPECT_NE(record.status, Status::error) << record.case_name << ' ' << record.id << ' ' << record.reason;
    if (record.status == Status::skip) {
      EXPECT_TRUE(record.case_name.starts_with("qwen3_mlx/")) << record.case_name << ' ' << record.reason;
    }
  }
  EXPECT_GE(report.timing.cases.size(), 520U);
}

TEST(Judge, OurOwnCommandLinePassesInOtherDtypesAndNames) {
  for (const char* dtype : {"bf16", "f32"}) {
    const reports::Report report =
        judged(own_subject(), {"*/tiny/*"}, [&](judge::JudgeOptions& options) { options.filter.dtypes = {dtype}; });
    EXPECT_EQ(summarize(report.checks).fail + summarize(report.checks).error, 0U) << described(report);
  }
  const reports::Report native = judged(own_subject(), {"*/tiny/*"}, [&](auto& options) {
    options.filter.names = judge::Names::native;
    options.filter.wanted = {judge::Wanted::state};
  });
  EXPECT_EQ(summarize(native.checks).fail + summarize(native.checks).error, 0U) << described(native);
}

TEST(Judge, ANumpyLoaderOfItsOwnPasses) {
  NEEDS_NUMPY
  const reports::Report report = judged({"/usr/bin/python3", k_subjects + "numpy_reader.py"}, {"*/tiny/*"});
  for (const CheckRecord& record : report.checks) {
    EXPECT_TRUE(record.status == Status::pass || record.status == Status::skip)
        << record.case_name << ' ' << record.id << ' ' << record.message << record.reason;
    if (record.status == Status::skip) {
      EXPECT_TRUE(record.case_name.starts_with("qwen3_mlx/") || record.case_name.starts_with("llama_nf4/"))
          << record.case_name << ' ' << record.reason;
    }
  }
  EXPECT_GT(summarize(report.checks).pass, 350U);
}

TEST(Judge, TheSafetensorsPackagePasses) {
  if (!has_python_module("safetensors")) {
    GTEST_SKIP() << "the safetensors package is not installed";
  }
  const reports::Report report = judged({"/usr/bin/python3", k_subjects + "safetensors_raw.py"}, {"*/tiny/*"});
  EXPECT_EQ(summarize(report.checks).fail + summarize(report.checks).error, 0U) << described(report);
  EXPECT_GT(summarize(report.checks).pass, 100U);
}

struct Wrong {
  const char* script;
  const char* glob;
  const char* dtype;
  const char* check;
  const char* tensor;
  const char* words;  ///< part of the message
};

class WrongSubject : public testing::TestWithParam<Wrong> {};

TEST_P(WrongSubject, IsNamed) {
  NEEDS_NUMPY
  const Wrong& wrong = GetParam();
  const reports::Report report = judged({"/usr/bin/python3", k_subjects + "wrong/" + wrong.script + ".py"},
                                        {wrong.glob}, [&](auto& options) { options.filter.dtypes = {wrong.dtype}; });
  ASSERT_EQ(report.timing.cases.size(), 1U);
  const auto found = std::find_if(report.checks.begin(), report.checks.end(), [&](const CheckRecord& record) {
    return record.id == wrong.check && record.status == Status::fail;
  });
  ASSERT_NE(found, report.checks.end()) << described(report);
  EXPECT_TRUE(wrong.tensor == nullptr || names(*found, wrong.tensor))
      << described(report) << testing::PrintToString(found->subjects);
  EXPECT_NE(found->message.find(wrong.words), std::string::npos) << found->message;
  EXPECT_EQ(reports::exit_status(report), 1);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().status, Status::fail);
  // The same case answered rightly has no finding.
  const reports::Report right = judged({"/usr/bin/python3", k_subjects + "numpy_reader.py"}, {wrong.glob},
                                       [&](auto& options) { options.filter.dtypes = {wrong.dtype}; });
  EXPECT_EQ(described(right), "");
}

const Wrong k_wrong[] = {
    {"swapped_gate_up", "llama/tiny/state/*", "stored", "value.exact", "model.layers.1.mlp.gate_proj.weight", "[0, 0]"},
    {"transposed", "llama/tiny_square/export/*", "stored", "value.exact", "model.layers.0.self_attn.o_proj.weight",
     "[0, 1]"},
    {"dropped_row", "qwen3/tiny/state/*", "stored", "value.exact", "model.layers.1.mlp.down_proj.weight", "0x0000 (0)"},
    {"expert_off_by_one", "qwen3_moe/tiny/export/*", "stored", "value.exact",
     "model.layers.1.mlp.experts.0.gate_proj.weight", "[0, 0]"},
    {"nibble_order", "gpt_oss/tiny/state/*", "stored", "value.exact", "model.layers.0.mlp.experts.gate_up_proj", ""},
    {"inverted_scale", "mistral3_fp8_causal/tiny/export/*", "bf16", "value.exact",
     "model.layers.0.self_attn.q_proj.weight", ""},
    {"truncated_bf16", "deepseek_v3/tiny/state/*", "stored", "value.exact", "model.layers.0.self_attn.o_proj.weight",
     ""},
    {"lost_head", "llama/tiny/export/*", "stored", "tied.head_missing", "lm_head.weight", "not tied"},
    {"stale_shard", "llama/tiny/export/*", "stored", "value.exact", "model.layers.1.self_attn.q_proj.weight", ""},
    {"norm_offset", "gemma/tiny/state/*", "stored", "value.exact", "model.layers.0.input_layernorm.weight", "[0]"},
    {"rotary_rows", "llama/tiny/state/*", "stored", "value.exact", "model.layers.0.self_attn.q_proj.weight", "[1, 0]"},
    {"state_narrowed", "ling_v2/tiny/state/*", "stored", "dtype.f32_state", "model.layers.1.mlp.gate.expert_bias",
     "BF16"},
    {"swapped_norms", "llama/tiny/export/*", "stored", "value.exact", "model.layers.0.post_attention_layernorm.weight",
     "[0]"},
    {"inverted_scale", "quantized/fp8_block_f32/state/*", "stored", "value.exact", nullptr, ""},
    {"wrapper_prefix", "llama/tiny/state/*", "stored", "keys.unexpected", "_orig_mod.model.norm.weight", ""},
    {"quantized_config_left", "mistral3_fp8_causal/tiny/export/*", "stored", "quant.config_mismatch", nullptr,
     "no tensor is quantized"},
};
INSTANTIATE_TEST_SUITE_P(All, WrongSubject, testing::ValuesIn(k_wrong), [](const auto& row) {
  const std::string glob(row.param.glob);
  return std::string(row.param.script) + "_" + glob.substr(0, glob.find('/'));
});

struct Bad {
  const char* name;
  const char* script;
  const char* words;  ///< part of the reason
  const char* title;
  double timeout_s = 30;
};
class BadSubject : public testing::TestWithParam<Bad> {};

TEST_P(BadSubject, EndsAsAnErrorWithTheReason) {
  const Bad& bad = GetParam();
  const auto start = std::chrono::steady_clock::now();
  const reports::Report report = judged(shell(bad.script), {"llama/tiny_one_layer/state/*"}, [&](auto& options) {
    options.timeout_s = bad.timeout_s;
    options.memory_limit = 64U << 20U;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << "the subject was waited for";
  const CheckRecord& record = only_finding(report);
  EXPECT_EQ(record.id, "io.error");
  EXPECT_EQ(record.status, Status::error);
  EXPECT_NE(record.reason.find(bad.words), std::string::npos) << record.reason;
  EXPECT_EQ(reports::exit_status(report), 3);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().title, bad.title);
}

const Bad k_bad[] = {
    {"hangs", "sleep 100", "still running after 1 s", "Subject hangs", 1},
    {"hangs_in_a_grandchild", "(sleep 100; true) & wait", "still running after 1 s", "Subject hangs", 1},
    {"ignores_signals", "trap '' TERM INT HUP; while :; do sleep 1; done", "still running after 1 s", "Subject hangs",
     1},
    {"writes_without_end", "while :; do echo nothing to say; done", "still running after 1 s", "Subject hangs", 1},
    {"crashes", "kill -SEGV $$", "SIGSEGV", "Subject crashes"},
    {"is_killed", "kill -KILL $$", "SIGKILL, as the kernel does where memory runs out", "Subject crashes"},
    {"fails", "echo cannot find a tensor >&2; exit 4", "status 4; it said: cannot find a tensor", "Subject fails"},
    // The shell stays beside its sleep, or its memory would go: a last command replaces it.
    {"takes_memory", "x=$(head -c 100000000 /dev/zero | tr '\\0' a); sleep 100; :", "of memory, allowed are 64.00 MiB",
     "Subject over its memory"},
    {"takes_memory_in_children",
     "for i in 1 2 3 4; do (x=$(head -c 24000000 /dev/zero | tr '\\0' a); sleep 100; :) & done; wait",
     "of memory, allowed", "Subject over its memory"},
    {"answers_nothing", "true", "wrote nothing", "Answer unreadable"},
    {"answers_garbage", "head -c 4096 /dev/urandom > \"$JUDGE_OUTPUT\"", "cannot be read", "Answer unreadable"},
    {"answers_half",
     "f=\"$JUDGE_CHECKPOINT/model.safetensors\"; head -c $(($(stat -c %s \"$f\") / 2)) \"$f\" > \"$JUDGE_OUTPUT\"",
     "cannot be read", "Answer unreadable"},
    {"answers_a_pipe", "mkfifo \"$JUDGE_OUTPUT\"", "no plain file", "Answer unreadable"},
    {"answers_a_device", "ln -s /dev/zero \"$JUDGE_OUTPUT\"", "no plain file", "Answer unreadable"},
    {"answers_a_link_in_a_directory", "mkdir \"$JUDGE_OUTPUT\"; ln -s /etc/passwd \"$JUDGE_OUTPUT/model.safetensors\"",
     "no plain file", "Answer unreadable"},
    {"answers_without_end", "head -c 300000000 /dev/zero > \"$JUDGE_OUTPUT\"", "wrote a file larger than",
     "Subject fails"},
};
INSTANTIATE_TEST_SUITE_P(All, BadSubject, testing::ValuesIn(k_bad),
                         [](const auto& row) { return std::string(row.param.name); });

// However many cases there are, the command is one cause, and what to do about it is said.
TEST(Judge, ACommandThatIsNotThereIsOneError) {
  const reports::Report report = judged({"/no/such/command"}, {"llama/tiny*"});
  const CheckRecord& record = only_finding(report);
  EXPECT_NE(record.reason.find("No such file"), std::string::npos) << record.reason;
  EXPECT_NE(record.reason.find("none of "), std::string::npos) << record.reason;
  EXPECT_EQ(record.evidence.find("title")->as_string(), "Subject cannot be started");
  EXPECT_TRUE(names(record, "/no/such/command"));
  EXPECT_NE(record.hint.find("python3 my_loader.py"), std::string::npos) << record.hint;
  EXPECT_EQ(reports::exit_status(report), 3);
  EXPECT_EQ(reports::count_causes(report).causes, 1U);
  EXPECT_EQ(report.timing.cases.size(), 0U);
  const std::string text = reports::emit_text(report);
  EXPECT_EQ(text.find("ERROR Subject cannot be started: /no/such/command\n"), 0U) << text;
  EXPECT_EQ(text.find("--case"), std::string::npos) << "no case repeats it: " << text;
}

// A script that is not there starts an interpreter each time: as many errors, one cause.
TEST(Judge, CasesThatEndAlikeHaveOneCause) {
  const reports::Report report = judged(shell("echo no module named loader >&2; exit 1"), {"llama/tiny*"});
  EXPECT_GT(summarize(report.checks).error, 5U);
  EXPECT_EQ(reports::count_causes(report).causes, 1U);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings.front().total, summarize(report.checks).error);
  EXPECT_EQ(report.findings.front().title, "Subject fails");
  const reports::Report two = judged(shell("echo \"$JUDGE_WANTED is beyond me\" >&2; exit 1"), {"llama/tiny*"});
  EXPECT_EQ(reports::count_causes(two).causes, 2U) << "other words, another cause";
}

TEST(Judge, NotSupportedIsASkipWithTheReason) {
  const reports::Report report =
      judged(shell("echo noise >&2; echo no such family >&2; exit 77"), {"llama/tiny/state/*"});
  const CheckRecord& record = only_finding(report);
  EXPECT_EQ(record.status, Status::skip);
  EXPECT_EQ(record.reason, "not supported by the subject: no such family");
  EXPECT_EQ(reports::exit_status(report), 3);  // nothing ran at all: that is no pass
}

TEST(Judge, CasesSkippedForOneReasonAreSaidOnce) {
  const reports::Report report = judged(shell("exit 77"), {"llama/tiny*"});
  const std::size_t cases = report.checks.size();
  ASSERT_GT(cases, 5U);
  const std::string said =
      "not supported by the subject: no reason given: value.exact in " + std::to_string(cases) + " cases\n";
  const std::string text = reports::emit_text(report, {.width = 100});
  EXPECT_NE(text.find(said), std::string::npos) << text;
  EXPECT_EQ(text.find("value.exact, value.exact"), std::string::npos) << text;
  const std::string comment = reports::emit_markdown(report);
  EXPECT_NE(comment.find("`value.exact` in " + std::to_string(cases) + " cases"), std::string::npos) << comment;
}

TEST(Judge, ASubjectThatChangesItsCheckpointIsNamed) {
  const reports::Report report = judged(
      shell("cp \"$JUDGE_CHECKPOINT/model.safetensors\" \"$JUDGE_OUTPUT\"; echo >> \"$JUDGE_CHECKPOINT/config.json\""),
      {"llama/tiny/state/*", "llama/tiny/export/*"});
  std::size_t stale = 0;
  for (const CheckRecord& record : report.checks) {
    stale += record.id == "io.stale" && record.status == Status::fail ? 1U : 0U;
  }
  EXPECT_EQ(stale, 2U) << described(report);  // made anew for the second case
}

TEST(Judge, WhatIsLeftRunningIsEnded) {
  const TemporaryDirectory directory;
  const std::string file = (directory / "pid").string();
  const reports::Report report = judged(shell("setsid sleep 1000 >/dev/null 2>&1 & echo $! > " + file +
                                              "; cp \"$JUDGE_CHECKPOINT/model.safetensors\" \"$JUDGE_OUTPUT\""),
                                        {"llama/tiny/state/*"});
  EXPECT_EQ(described(report), "");
  const pid_t process = std::stoi(read_file(file));
  EXPECT_EQ(::kill(process, 0), -1);
  const auto note = std::find_if(report.checks.begin(), report.checks.end(),
                                 [](const CheckRecord& record) { return record.id == "io.interrupted"; });
  ASSERT_NE(note, report.checks.end());
  EXPECT_NE(note->explanation.find("1 process running"), std::string::npos) << note->explanation;
}

TEST(RunSubject, MemoryOfTheWholeTreeIsMeasured) {
  judge::SubjectCommand command;
  command.directory = "/";
  // Three processes that hold 24 MB each, at the same time.
  command.words = {"/bin/sh", "-c",
                   "for i in 1 2 3; do (x=$(head -c 24000000 /dev/zero | tr '\\0' a); sleep 1) & done; wait"};
  const judge::SubjectRun run = judge::run_subject(command, {});
  EXPECT_EQ(run.end, SubjectEnd::exited);
  EXPECT_GT(run.peak_bytes, 60'000'000U);
  EXPECT_GT(run.largest_peak, 20'000'000U);
  EXPECT_LT(run.largest_peak, 60'000'000U);
  EXPECT_GE(run.processes, 4U);
  EXPECT_GT(run.seconds, 0.9);
}

TEST(RunSubject, OutputIsKeptToItsEnd) {
  judge::SubjectCommand command;
  command.directory = "/";
  command.words = {"/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x; printf end; printf problem >&2"};
  const judge::SubjectRun run = judge::run_subject(command, {});
  EXPECT_EQ(run.out.size(), judge::k_output_bytes);
  EXPECT_TRUE(run.out.ends_with("xend"));
  EXPECT_EQ(run.err, "problem");
}

TEST(RunSubject, AWishToStopEndsIt) {
  judge::SubjectCommand command;
  command.directory = "/";
  command.words = {"/bin/sleep", "100"};
  std::stop_source source;
  std::jthread later([&source] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    source.request_stop();
  });
  const judge::SubjectRun run = judge::run_subject(command, {}, source.get_token());
  EXPECT_EQ(run.end, SubjectEnd::interrupted);
  EXPECT_LT(run.seconds, 10);
}

TEST(RunSubject, ChildrenOfThisProcessAreLeftAlone) {
  const pid_t own = ::fork();
  if (own == 0) {
    ::pause();
    ::_exit(0);
  }
  judge::SubjectCommand command;
  command.directory = "/";
  command.words = {"/bin/true"};
  const judge::SubjectRun run = judge::run_subject(command, {});
  EXPECT_EQ(run.end, SubjectEnd::exited);
  EXPECT_EQ(::kill(own, 0), 0);
  ::kill(own, SIGKILL);
  ::waitpid(own, nullptr, 0);
}

TEST(JudgeCommand, WritesReportsAndKeepsWhatItAsked) {
  const TemporaryDirectory directory;
  const std::string keep = (directory / "keep").string();
  const std::string pages = (directory / "report").string();
  const ProcessResult result =
      run_tool({"judge", "--case", "llama/tiny/state/*", "--keep", keep, "--report", pages, "--json", "--", "/bin/sh",
                "-c", "echo done; sleep 1; cp \"$JUDGE_CHECKPOINT/model.safetensors\" \"$JUDGE_OUTPUT\""});
  EXPECT_EQ(result.status, 0) << result.err << result.out;
  const std::string verdict = validate("weightproof.report-1", result.out);
  EXPECT_TRUE(verdict.empty() || verdict == "skipped") << verdict;
  for (const char* name : {"report.json", "report.html", "report.md", "junit.xml", "report.sarif"}) {
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(pages) / name)) << name;
  }
  const std::filesystem::path asked = std::filesystem::path(keep) / "llama/tiny/state/stored";
  const std::string request = validate("weightproof.request-1", read_file(asked / "request.json"));
  EXPECT_TRUE(request.empty() || request == "skipped") << request;
  EXPECT_EQ(read_file(asked / "stdout.txt"), "done\n");
  EXPECT_TRUE(std::filesystem::exists(asked / "state.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(keep) / "llama/tiny/checkpoint/config.json"));
  const reports::Report report = reports::read_json(result.out);
  ASSERT_EQ(report.timing.cases.size(), 1U);
  EXPECT_GT(report.timing.cases[0].seconds.value_or(0), 0);
  ASSERT_EQ(report.memory.parts.size(), 1U);
  EXPECT_GT(report.memory.parts[0].uncounted, 100'000U) << "looked at while it slept";
}

TEST(JudgeCommand, UsageIsTwo) {
  EXPECT_EQ(run_tool({"judge"}).status, 2);
  const ProcessResult none = run_tool({"judge", "--case", "no such case", "--", "/bin/true"});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("judge --list"), std::string::npos) << none.err;
  const ProcessResult list = run_tool({"judge", "--list", "--case", "llama/tiny/*"});
  EXPECT_EQ(list.out, "llama/tiny/state/stored\nllama/tiny/export/stored\n");
  const ProcessResult ranks = run_tool({"judge", "--list", "--case", "llama/tiny/*", "--topology", "tp=2,pp=1"});
  EXPECT_EQ(ranks.out, "llama/tiny/rank/stored/tp=2/0\nllama/tiny/rank/stored/tp=2/1\n");
  EXPECT_EQ(run_tool({"judge", "--list", "--topology", "tp=2", "--wanted", "state"}).status, 2);
  EXPECT_EQ(run_tool({"judge", "--list", "--topology", "tq=2"}).status, 2);
}

}  // namespace
}  // namespace weightproof::suites::test
