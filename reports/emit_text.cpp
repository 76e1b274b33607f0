// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "reports/emit.hpp"
#include "reports/text_internal.hpp"
#include "reports/verdict_internal.hpp"

namespace weightproof::reports {
namespace {

constexpr std::size_t k_findings_in_full = 12;
constexpr std::size_t k_keys_shown = 8;

class Printer {
 public:
  explicit Printer(const TextOptions& options)
      : color_(options.color), width_(static_cast<std::size_t>(std::max(options.width, 40))) {}

  // Wraps at words; continuation lines start below the first one's text. Words longer than a line (names) are never
  // broken, so that they can be copied.
  // `lead` stands before the first line as it is and counts into the indentation.
  void paragraph(std::size_t indent, std::string_view text, std::size_t hang = 0, std::string_view lead = {}) {
    std::string line(indent, ' ');
    line += lead;
    std::size_t used = indent + columns(lead);
    bool fresh = true;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = text.find_first_of(" \n", at);
      end = end == std::string_view::npos ? text.size() : end;
      const std::string_view word = text.substr(at, end - at);
      const std::size_t cells = columns(word);
      if (!word.empty()) {
        if (!fresh && used + 1 + cells > width_) {
          flush(line);
          line.assign(indent + hang, ' ');
          used = indent + hang;
          fresh = true;
        }
        if (!fresh) {
          line += ' ';
          ++used;
        }
        line += word;
        used += cells;
        fresh = false;
      }
      if (end < text.size() && text[end] == '\n' && !fresh) {
        flush(line);
        line.assign(indent + hang, ' ');
        used = indent + hang;
        fresh = true;
      }
      at = end + 1;
    }
    if (!fresh) {
      flush(line);
    }
  }

  // One at most, and none before the first line.
  void blank() {
    if (!out_.empty() && !out_.ends_with("\n\n")) {
      out_ += '\n';
    }
  }
  void raw(std::string_view text) { out_ += text; }

  std::string painted(std::string_view text, Status status) const {
    if (!color_) {
      return std::string(text);
    }
    std::string_view code = "32";
    switch (status) {
      case Status::fail:
        code = "1;31";
        break;
      case Status::error:
        code = "1;35";
        break;
      case Status::warn:
        code = "1;33";
        break;
      case Status::skip:
        code = "2";
        break;
      case Status::pass:
        code = "32";
        break;
    }
    return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
  }
  std::string strong(std::string_view text) const {
    return color_ ? "\x1b[1m" + std::string(text) + "\x1b[0m" : std::string(text);
  }

  std::string take() {
    while (out_.ends_with("\n\n")) {
      out_.pop_back();
    }
    return std::move(out_);
  }

 private:
  static std::size_t columns(std::string_view word) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < word.size(); ++count) {
      next_code_point(word, at);
    }
    return count;
  }
  void flush(std::string& line) {
    out_ += line;
    out_ += '\n';
  }

  std::string out_;
  bool color_;
  std::size_t width_;
};

std::string padded(std::string_view text, std::size_t width) {
  return std::string(text) + std::string(text.size() < width ? width - text.size() : 1, ' ');
}

std::string_view word_of(const Finding& finding) {
  return finding.status == Status::pass ? "note" : to_string(finding.status);
}

void headline(Printer& printer, const Report& report, const Finding& finding) {
  const std::string change = report.compare && !finding.change.empty()
                                 ? "  " + (finding.change == "new" ? std::string("NEW") : finding.change)
                                 : "";
  printer.raw(printer.painted(padded(word_of(finding), 6), finding.status) + printer.strong(spell_out(finding.title)) +
              "  " + finding.rule + change + "\n");
}

void keys(Printer& printer, const Finding& finding, std::size_t limit) {
  for (std::size_t i = 0; i < std::min(finding.keys.size(), limit); ++i) {
    printer.raw("      " + spell_out(cut_middle(finding.keys[i], 256)) + "\n");
  }
  const std::uint64_t left =
      finding.total - std::min<std::uint64_t>(finding.total, std::min(finding.keys.size(), limit));
  if (left > 0 && !finding.keys.empty()) {
    printer.raw("      and " + grouped(left) + " more\n");
  }
}

std::string causes_of(const Report& report, const Finding& finding) {
  std::string out;
  for (const Finding& other : report.findings) {
    if (std::find(finding.explained_by.begin(), finding.explained_by.end(), other.fingerprint) !=
        finding.explained_by.end()) {
      out += (out.empty() ? "" : "; ") + other.title + " (" + other.rule + ")";
    }
  }
  return out;
}

void full_finding(Printer& printer, const Report& report, const Finding& finding) {
  headline(printer, report, finding);
  keys(printer, finding, k_keys_shown);
  if (!finding.explanation.empty()) {
    printer.paragraph(6, spell_out(finding.explanation));
  }
  if (!finding.explained_by.empty()) {
    printer.paragraph(6, "No cause of its own: " + causes_of(report, finding) + ".");
    return;
  }
  const auto field = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) {
      printer.paragraph(6, text, 10, padded(name, 10));
    }
  };
  field("first at", coordinate_text(finding));
  field("source", bits_line(finding.source));
  field("expected", bits_line(finding.expected));
  field("actual", bits_line(finding.actual));
  field("share", share_text(finding));
  for (const EvidenceLine& line : finding.evidence) {
    printer.paragraph(
        6, "- " + (line.certainty.empty() ? std::string() : capital(line.certainty) + ": ") + spell_out(line.text), 2);
  }
}

void short_finding(Printer& printer, const Report& report, const Finding& finding) {
  headline(printer, report, finding);
  keys(printer, finding, 3);
  if (!finding.explanation.empty()) {
    printer.paragraph(6, spell_out(finding.explanation));
  }
}

void sentence(Printer& printer, const Report& report) {
  const Verdict verdict = verdict_of(summarize(report.checks));
  const Status paint = verdict == Verdict::pass   ? Status::pass
                       : verdict == Verdict::fail ? Status::fail
                                                  : Status::error;
  std::string word(to_string(verdict));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  const auto worst = gravest(report);
  printer.raw(printer.painted(padded(word, 6), paint));
  if (worst.empty()) {
    printer.raw(printer.strong(calm_sentence(report)) + "\n");
  } else {
    for (std::size_t i = 0; i < worst.size(); ++i) {
      printer.raw((i == 0 ? "" : "      ") + printer.strong(spell_out(worst[i]->title)) + ": " + key_text(*worst[i]) +
                  "\n");
    }
  }
  std::string counts = counts_line(summarize(report.checks));
  if (const std::string causes = causes_line(report); !causes.empty()) {
    counts += ". " + causes;
  }
  printer.paragraph(6, counts + ".");
}

void compared(Printer& printer, const Report& report) {
  if (!report.compare) {
    return;
  }
  const CompareInfo& c = *report.compare;
  printer.paragraph(0,
                    "against " + (c.base.empty() ? std::string("base") : spell_out(c.base)) + ": " + compare_line(c));
  for (const CompareEntry& entry : c.fixed) {
    printer.paragraph(6, spell_out(entry.text), 2, "fixed: " + spell_out(entry.rule) + " ");
  }
  printer.blank();
}

void skipped(Printer& printer, const Report& report, std::size_t lines) {
  const auto groups = skips_by_reason(report);
  if (groups.empty()) {
    return;
  }
  printer.raw(printer.painted(padded("skip", 6), Status::skip) + plural(summarize(report.checks).skip, "check") +
              " had nothing to run on\n");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i == lines) {
      printer.raw("      and " + plural(groups.size() - lines, "more reason") + "\n");
      break;
    }
    const auto& [reason, checks] = groups[i];
    printer.paragraph(6, spell_out(reason) + ": " + listed_ids(checks, 4), 2);
  }
}

// A command without its line continuations.
std::string one_line(std::string_view command) {
  std::string out;
  for (std::size_t at = 0; at < command.size(); ++at) {
    if (command[at] == '\\' && at + 1 < command.size() && command[at + 1] == '\n') {
      at = command.find_first_not_of(" \n", at + 1);
      if (at == std::string_view::npos) {
        break;
      }
      while (!out.empty() && out.back() == ' ') {
        out.pop_back();
      }
      out += ' ';
    }
    out += command[at];
  }
  return out;
}

// A command to copy: what moves a terminal is spelled out, but lines within a quoted word stay lines.
std::string spelled_lines(std::string_view command) {
  std::string out;
  while (true) {
    const std::size_t end = command.find('\n');
    out += spell_out(command.substr(0, end));
    if (end == std::string_view::npos) {
      return out;
    }
    out += '\n';
    command.remove_prefix(end + 1);
  }
}

void next_steps(Printer& printer, const Report& report, const TextOptions& options) {
  const auto worst = gravest(report, 1);
  std::vector<std::string> steps;
  if (!worst.empty()) {
    steps.push_back("weightproof explain " + worst.front()->rule);
    // Whoever just typed a command is not told to type it again.
    const std::string again = one_line(worst.front()->reproduce);
    if (!again.empty() && again != one_line(report.run.command)) {
      steps.push_back(spelled_lines(again));
    }
  }
  if (!options.report_dir.empty()) {
    steps.push_back("report: " + spell_out(options.report_dir) + "/report.html");
  }
  if (!steps.empty()) {
    printer.blank();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      printer.raw((i == 0 ? padded("next", 6) : std::string(6, ' ')) + steps[i] + "\n");
    }
  }
}

}  // namespace

std::string emit_text(const Report& report, const TextOptions& options) {
  Printer printer(options);
  if (report.sample) {
    printer.raw("SAMPLE DATA: the figures below are invented.\n");
  }
  sentence(printer, report);
  // The path is one word, whatever it holds, so that it can be copied.
  const std::string path = spell_out(report.checkpoint.path);
  const std::string line = checkpoint_line(report.checkpoint);
  const bool has_path = !path.empty() && line.starts_with(path);
  printer.paragraph(6, has_path ? std::string_view(line).substr(path.size()) : line, 0, has_path ? path : "");
  const bool calm = gravest(report, 1).empty();
  if (options.quiet && calm) {
    return printer.take();
  }
  printer.blank();
  compared(printer, report);
  std::size_t shown = 0;
  std::size_t left = 0;
  for (const Finding& finding : report.findings) {
    if (failed(finding)) {
      if (shown < k_findings_in_full) {
        full_finding(printer, report, finding);
        printer.blank();
        ++shown;
      } else if (shown < 4 * k_findings_in_full) {
        short_finding(printer, report, finding);
        ++shown;
      } else {
        ++left;
      }
    }
  }
  if (left > 0) {
    printer.raw("      and " + plural(left, "more failure") + "; all of them are in report.json\n");
    printer.blank();
  }
  if (options.quiet) {
    return printer.take();
  }
  std::size_t warnings = 0;
  for (const Finding& finding : report.findings) {
    if (finding.status == Status::warn && warnings++ < 2 * k_findings_in_full) {
      short_finding(printer, report, finding);
    }
  }
  if (warnings > 2 * k_findings_in_full) {
    printer.raw("      and " + plural(warnings - 2 * k_findings_in_full, "more warning") + "\n");
  }
  if (warnings > 0) {
    printer.blank();
  }
  const auto notes = static_cast<std::uint64_t>(std::count_if(
      report.findings.begin(), report.findings.end(), [](const Finding& f) { return f.status == Status::pass; }));
  if (notes > 0 && calm) {
    std::size_t listed = 0;
    for (const Finding& finding : report.findings) {
      if (finding.status == Status::pass && listed++ < 8) {
        printer.paragraph(0, finding.rule + ": " + spell_out(finding.explanation), 6, padded("note", 6));
      }
    }
    if (listed > 8) {
      printer.raw("      and " + plural(listed - 8, "more note") + "\n");
    }
    printer.blank();
  } else if (notes > 0) {
    printer.raw(padded("note", 6) + plural(notes, "note") +
                (options.report_dir.empty() ? ", which --json lists\n" : ", listed in the report\n"));
  }
  skipped(printer, report, calm ? 5 : 4);
  next_steps(printer, report, options);
  return printer.take();
}

}  // namespace weightproof::reports
