// SPDX-License-Identifier: Apache-2.0
#include "reports/emit.hpp"
#include "reports/json.hpp"
#include "reports/markup_internal.hpp"
#include "reports/text_internal.hpp"
#include "reports/verdict_internal.hpp"

// Figures for machines: OpenMetrics, a badge, tab-separated lines.
namespace weightproof::reports {
namespace {

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : spell_out(cut_middle(text, 200))) {
    if (c == '\\' || c == '"') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

class Metrics {
 public:
  void family(std::string_view name, std::string_view unit, std::string_view help) {
    name_ = std::string(name);
    out_ += "# TYPE " + name_ + " gauge\n";
    if (!unit.empty()) {
      out_ += "# UNIT " + name_ + " " + std::string(unit) + "\n";
    }
    out_ += "# HELP " + name_ + " " + std::string(help) + "\n";
  }
  void sample(std::string_view label, std::string_view value, const std::string& number) {
    out_ += name_ + (label.empty() ? std::string() : "{" + std::string(label) + "=\"" + label_value(value) + "\"}") +
            " " + number + "\n";
  }
  std::string take() { return std::move(out_) + "# EOF\n"; }

 private:
  std::string name_;
  std::string out_;
};

std::string tab_field(std::string_view text) {
  std::string out;
  const std::string valid = valid_utf8(text);
  for (const char c : valid) {
    switch (c) {
      case '\\':
        out += "\\\\";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        out += c;
    }
  }
  return spell_out(out);
}

}  // namespace

std::string emit_openmetrics(const Report& report) {
  const Summary summary = summarize(report.checks);
  Metrics m;
  m.family("weightproof_verdict", "", "1 for the verdict of the run, 0 for the others");
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::error}) {
    m.sample("verdict", to_string(verdict), verdict == verdict_of(summary) ? "1" : "0");
  }
  m.family("weightproof_checks", "", "Check records by status");
  for (const auto& [status, count] : {std::pair(Status::pass, summary.pass), std::pair(Status::fail, summary.fail),
                                      std::pair(Status::warn, summary.warn), std::pair(Status::skip, summary.skip),
                                      std::pair(Status::error, summary.error)}) {
    m.sample("status", to_string(status), std::to_string(count));
  }
  m.family("weightproof_causes", "", "Failures that no other failure explains");
  m.sample("", "", std::to_string(count_causes(report).causes));
  bool any = false;
  for (const MemoryFigure& figure : report.memory.figures) {
    any = any || figure.bytes.has_value();
  }
  if (any) {
    m.family("weightproof_memory_bytes", "bytes",
             "Memory figures of the run; a figure that could not be had is absent");
    for (const MemoryFigure& figure : report.memory.figures) {
      if (figure.bytes) {
        m.sample("figure", figure.name, std::to_string(*figure.bytes));
      }
    }
  }
  if (report.plan.bytes_read) {
    m.family("weightproof_read_bytes", "bytes", "Bytes read from the checkpoint");
    m.sample("", "", std::to_string(*report.plan.bytes_read));
  }
  any = false;
  for (const TimingPhase& phase : report.timing.phases) {
    any = any || phase.seconds.has_value();
  }
  if (any) {
    m.family("weightproof_phase_seconds", "seconds", "Time by phase; informs, never gates");
    for (const TimingPhase& phase : report.timing.phases) {
      if (phase.seconds) {
        m.sample("phase", phase.name, shortest(*phase.seconds));
      }
    }
  }
  if (report.run.duration_s) {
    m.family("weightproof_run_seconds", "seconds", "Time of the whole run");
    m.sample("", "", shortest(*report.run.duration_s));
  }
  return m.take();
}

std::string emit_badge(const Report& report) {
  const Summary summary = summarize(report.checks);
  const Verdict verdict = verdict_of(summary);
  const std::string words = verdict == Verdict::pass   ? grouped(summary.pass + summary.warn) + " passed"
                            : verdict == Verdict::fail ? grouped(summary.fail) + " failed"
                                                       : std::string(summary.ran() == 0 ? "nothing ran" : "error");
  const std::string_view color = verdict == Verdict::pass   ? "#27693f"
                                 : verdict == Verdict::fail ? "#b0221b"
                                                            : "#7b2a8c";
  // About 6.6 px a character of an 11 px face; textLength makes the drawing independent of the font.
  const auto width = [](std::string_view text) { return static_cast<int>(text.size()) * 66 / 10 + 12; };
  const int left = width("weightproof");
  const int right = width(words);
  const std::string all = std::to_string(left + right);
  const auto label = [](int x, int length, std::string_view text) {
    return "<text x=\"" + std::to_string(x) + "\" y=\"14\" textLength=\"" + std::to_string(length) + "\">" +
           xml_text(text) + "</text>";
  };
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + all +
         "\" height=\"20\" role=\"img\" aria-label=\"weightproof: " + xml_text(words) +
         "\"><title>weightproof: " + xml_text(words) + "</title><rect width=\"" + std::to_string(left) +
         "\" height=\"20\" fill=\"#3a4046\"/><rect x=\"" + std::to_string(left) + "\" width=\"" +
         std::to_string(right) + "\" height=\"20\" fill=\"" + std::string(color) +
         "\"/><g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\">" +
         label(6, left - 12, "weightproof") + label(left + 6, right - 12, words) + "</g></svg>\n";
}

std::string emit_tsv(const Report& report) {
  std::string out = "status\tid\tsuite\tcase\ttotal\tsubjects\tmessage\n";
  for (const CheckRecord& check : report.checks) {
    std::string subjects;
    for (const std::string& subject : check.subjects) {
      subjects += (subjects.empty() ? "" : " ") + to_json(Value(subject));
    }
    out += std::string(to_string(check.status)) + "\t" + tab_field(check.id) + "\t" + tab_field(check.suite) + "\t" +
           tab_field(check.case_name) + "\t" + std::to_string(check.total) + "\t" + subjects + "\t" +
           tab_field(check_text(check)) + "\n";
  }
  return out;
}

}  // namespace weightproof::reports
