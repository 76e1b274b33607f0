// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "reports/page/parts_internal.hpp"

// Was the bound kept; if not when, in which part, by what. Bytes beyond final storage: on a scale that holds the whole
// model 64 MiB would be invisible. Final storage and page cache have strips and scales of their own.
namespace weightproof::reports::page {
namespace {

constexpr double k_left = 104;
constexpr double k_right = 880;
constexpr double k_top = 24;
constexpr double k_bottom = 214;
constexpr std::size_t k_parts_drawn = 400;

std::uint64_t counted(const MemoryPart& part) { return part.metadata + part.companion + part.staging; }
std::uint64_t sum(const MemoryPart& part) { return counted(part) + part.uncounted; }

struct Worst {
  std::size_t index = 0;
  std::uint64_t bytes = 0;
  std::size_t over = 0;  // parts over bound and allowance
};

Worst worst_of(const MemoryInfo& memory) {
  Worst out;
  for (std::size_t i = 0; i < memory.parts.size(); ++i) {
    const std::uint64_t bytes = sum(memory.parts[i]);
    if (i == 0 || bytes > out.bytes) {
      out.index = i;
      out.bytes = bytes;
    }
    out.over += memory.bound && bytes > *memory.bound + memory.allowance.value_or(0) ? 1U : 0U;
  }
  return out;
}

// A step of 1, 2 or 5 times a power of ten MiB that gives at most five lines.
double tick_mib(double most) {
  double step = 1;
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0, 25.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0,
                              10000.0, 50000.0, 100000.0}) {
    step = factor;
    if (most / factor <= 5) {
      break;
    }
  }
  return step;
}

class Chart {
 public:
  Chart(Context& context, const MemoryInfo& memory, const Worst& worst)
      : context_(context), memory_(memory), worst_(worst) {
    for (const MemoryPart& part : memory.parts) {
      first_ = std::min(first_, part.begin_s);
      last_ = std::max(last_, part.end_s);
    }
    for (const MemorySample& sample : memory.series) {
      first_ = std::min(first_, sample.seconds);
      last_ = std::max(last_, sample.seconds);
    }
    if (!(last_ > first_)) {
      first_ = 0;
      last_ = 1;
    }
    most_ = std::max<double>(static_cast<double>(worst.bytes),
                             static_cast<double>(memory.bound.value_or(0) + memory.allowance.value_or(0)));
    most_ = std::max(most_ * 1.12, 1.0);
  }

  std::string draw() {
    const bool strips = !memory_.series.empty();
    std::string out = svg_open(context_, 1000, strips ? 380 : 240, "Memory over time",
                               "Bytes beyond final storage by part. The largest part is " +
                                   std::to_string(worst_.index) + " with " + human_bytes(worst_.bytes) +
                                   (memory_.bound ? "; the bound is " + human_bytes(*memory_.bound) : std::string()) +
                                   ". The table below says the same.",
                               "wide");
    out += grid() + parts() + bound() + marks();
    if (strips) {
      out += strip(236, 54, "Final", "storage", &MemorySample::final_storage, "f3", {});
      out += strip(308, 54, "Page", "cache", &MemorySample::page_cache, "", " fill=\"url(#hm)\"");
    }
    const double foot = strips ? 378 : 232;
    out += label(k_left, foot, at(first_) + " s", "t2") + label(k_right, foot, at(last_) + " s", "t2", "end");
    return out + "</svg>";
  }

 private:
  double x(double seconds) const { return k_left + (k_right - k_left) * (seconds - first_) / (last_ - first_); }
  double y(double bytes) const { return k_bottom - (k_bottom - k_top) * bytes / most_; }

  std::string grid() const {
    std::string out;
    const double mib = 1048576;
    const double step = tick_mib(most_ / mib);
    for (double value = 0; value * mib <= most_; value += step) {
      out += line(k_left, y(value * mib) + 0.5, k_right, y(value * mib) + 0.5, value == 0 ? "ax" : "gr") +
             label(96, y(value * mib) + 4, at(value), "t2", "end");
    }
    return out + label(0, 84, "MiB", "t2") + label(0, 100, "beyond", "t2") + label(0, 116, "final", "t2");
  }

  std::string parts() const {
    std::string out;
    const std::size_t n = std::min(memory_.parts.size(), k_parts_drawn);
    for (std::size_t i = 0; i < n; ++i) {
      const MemoryPart& part = memory_.parts[i];
      const double left = x(part.begin_s);
      const double width = std::max((x(part.end_s) - left) * 0.86, 1.0);
      double base = 0;
      const auto block = [&](std::uint64_t bytes, std::string_view css, std::string_view more = {}) {
        if (bytes > 0) {
          out += rect(left, y(base + static_cast<double>(bytes)), width, y(base) - y(base + static_cast<double>(bytes)),
                      css, more);
        }
        base += static_cast<double>(bytes);
      };
      block(part.metadata, "f1");
      block(part.companion, "f2");
      block(part.staging, "f3");
      const bool over = memory_.bound && sum(part) > *memory_.bound + memory_.allowance.value_or(0);
      if (over) {
        const double from = base;
        block(part.uncounted, "fs");
        base = from;
        block(part.uncounted, "", " fill=\"url(#hf)\"");
        out += rect(left, y(base), width, y(from) - y(base), "sf");
      } else {
        block(part.uncounted, "", " fill=\"url(#hm)\"");
      }
    }
    return out;
  }

  std::string bound() const {
    if (!memory_.bound) {
      return {};
    }
    const double at_bound = y(static_cast<double>(*memory_.bound));
    std::string out;
    if (memory_.allowance) {
      const double top = y(static_cast<double>(*memory_.bound + *memory_.allowance));
      out += rect(k_left, top, k_right - k_left, at_bound - top, "", " fill=\"url(#hm)\" opacity=\".55\"") +
             label(888, top + 2, "+ " + human_bytes(*memory_.allowance), "t2");
    }
    return out + line(k_left, at_bound, k_right, at_bound, "sb") +
           label(888, at_bound + 6, "bound " + human_bytes(*memory_.bound));
  }

  std::string marks() const {
    const MemoryPart& part = memory_.parts[worst_.index];
    const double middle = (x(part.begin_s) + x(part.end_s)) / 2;
    const bool left = middle > (k_left + k_right) / 2;
    const double text_x = left ? x(part.begin_s) - 8 : x(part.end_s) + 8;
    const std::string_view anchor = left ? "end" : "start";
    const bool over = worst_.over > 0;
    // Beside its bar under a bound, whose line is above; else above all bars, since others may be as high.
    return label(text_x, y(static_cast<double>(worst_.bytes)) + (memory_.bound ? 10 : -6),
                 human_bytes(worst_.bytes) + " at " + at(part.begin_s) + " s, part " + std::to_string(worst_.index) +
                     " (" + cut_end(part.name, 24) + ")",
                 over ? "tf" : "t2", anchor);
  }

  std::string strip(double top, double height, std::string_view name, std::string_view second,
                    std::uint64_t MemorySample::*field, std::string_view css, std::string_view fill) const {
    std::uint64_t most = 0;
    for (const MemorySample& sample : memory_.series) {
      most = std::max(most, sample.*field);
    }
    const auto height_of = [&](std::uint64_t bytes) {
      return most > 0 ? height * static_cast<double>(bytes) / static_cast<double>(most) : 0.0;
    };
    std::string points = "M" + at(x(memory_.series.front().seconds)) + " " + at(top + height);
    const std::size_t stride = std::max<std::size_t>(memory_.series.size() / 400, 1);
    for (std::size_t i = 0; i < memory_.series.size(); i += stride) {
      const MemorySample& sample = memory_.series[i];
      points += "L" + at(x(sample.seconds)) + " " + at(top + height - height_of(sample.*field));
    }
    points += "L" + at(x(memory_.series.back().seconds)) + " " +
              at(top + height - height_of(memory_.series.back().*field)) + "V" + at(top + height) + "Z";
    return "<path" + (css.empty() ? std::string() : " class=\"" + std::string(css) + "\"") + std::string(fill) +
           " d=\"" + points + "\"/>" + line(k_left, top + height + 0.5, k_right, top + height + 0.5, "ax") +
           label(0, top + height / 2 - 4, name, "t2") + label(0, top + height / 2 + 12, second, "t2") +
           label(888, top + 12, human_bytes(most)) +
           label(888, top + 28, name == "Page" ? "not counted" : "at the end", "t2");
  }

  Context& context_;
  const MemoryInfo& memory_;
  const Worst& worst_;
  double first_ = 1e300;
  double last_ = -1e300;
  double most_ = 1;
};

// The kinds of memory that some part has.
std::string key_of(const MemoryInfo& memory) {
  const auto has = [&](std::uint64_t MemoryPart::*field) {
    return std::any_of(memory.parts.begin(), memory.parts.end(),
                       [field](const MemoryPart& part) { return part.*field > 0; });
  };
  std::string out;
  out += has(&MemoryPart::staging) ? "<span><i class=\"sw f3\"></i>staging</span>" : "";
  out += has(&MemoryPart::companion) ? "<span><i class=\"sw f2\"></i>companion</span>" : "";
  out += has(&MemoryPart::metadata) ? "<span><i class=\"sw f1\"></i>metadata</span>" : "";
  if (has(&MemoryPart::uncounted)) {
    out += out.empty() ? "<span>hatched: what the kernel saw</span>"
                       : "<span>hatched on top: what only the kernel saw</span>";
  }
  return out;
}

std::string figures(const MemoryInfo& memory) {
  std::string out = "<dl class=\"kv figs\">";
  std::map<std::string, std::vector<std::string>> absent;
  for (const MemoryFigure& figure : memory.figures) {
    std::string name = cut_middle(figure.name, 40);
    std::replace(name.begin(), name.end(), '_', ' ');
    if (figure.bytes) {
      out += "<dt>" + xml_text(name) + "</dt><dd><span class=\"k\">" + grouped(*figure.bytes) + "</span> B, " +
             human_bytes(*figure.bytes) + ": " + xml_text(cut_middle(figure.method, 200)) + "</dd>";
    } else {
      absent[figure.why].push_back(name);
    }
  }
  for (const auto& [why, names] : absent) {
    std::string list;
    for (const std::string& name : names) {
      list += (list.empty() ? "" : ", ") + name;
    }
    out += "<dt>unavailable</dt><dd>" + xml_text(list) + ": " + xml_text(cut_middle(why, 200)) + "</dd>";
  }
  return out + "</dl>";
}

std::string parts_table(const MemoryInfo& memory) {
  std::string out =
      "<details class=\"twin\"><summary>As a table, " + plural(memory.parts.size(), "part") +
      "</summary><div class=\"scroll\"><table class=\"t stack\"><caption>Bytes beyond final storage</caption>" +
      table_head("#Part|Tensors|Seconds|#Metadata|#Companion|#Staging|#Uncounted|#Sum|Bound") + "<tbody>";
  for (std::size_t i = 0; i < memory.parts.size(); ++i) {
    const MemoryPart& part = memory.parts[i];
    const bool over = memory.bound && sum(part) > *memory.bound + memory.allowance.value_or(0);
    out += "<tr>" + number_cell(i, "part") + cell(html_name(part.name, "n0"), "tensors") +
           cell(at(part.begin_s) + " to " + at(part.end_s), "seconds", "nw") + number_cell(part.metadata, "metadata") +
           number_cell(part.companion, "companion") + number_cell(part.staging, "staging") +
           number_cell(part.uncounted, "uncounted") + number_cell(sum(part), "sum") +
           cell(over           ? state(Status::fail, "over")
                : memory.bound ? "within"
                               : "none",
                "bound") +
           "</tr>";
  }
  return out + "</tbody></table></div></details>";
}

}  // namespace

std::string memory(Context& context) {
  const MemoryInfo& memory = context.report.memory;
  const bool measured = std::any_of(memory.figures.begin(), memory.figures.end(),
                                    [](const MemoryFigure& f) { return f.bytes.has_value(); });
  if (!measured && memory.parts.empty()) {
    return {};
  }
  const Worst worst = worst_of(memory);
  const bool bad = context.group_failed("mem") || worst.over > 0;
  std::string small = memory.rank ? "rank " + std::to_string(*memory.rank) : std::string("beyond final storage");
  std::string sentence;
  if (memory.bound && worst.bytes > *memory.bound && worst.over > 0) {
    sentence = "Over the bound by " + human_bytes(worst.bytes - *memory.bound) + " in " + grouped(worst.over) + " of " +
               plural(memory.parts.size(), "part") + ".";
    if (memory.parts.size() > worst.over) {
      sentence += " The others stay within " + human_bytes(*memory.bound) + " beyond final storage.";
    }
  } else if (bad) {
    sentence = "A memory check failed; see the findings.";
  } else if (memory.bound && !memory.parts.empty()) {
    sentence = "Within the bound: at most " + human_bytes(worst.bytes) + " of " + human_bytes(*memory.bound) +
               " beyond final storage.";
  } else if (const MemoryFigure* peak = memory.find("allocator_peak"); peak != nullptr && peak->bytes) {
    sentence = "The allocator's peak is " + human_bytes(*peak->bytes) + " beyond final storage.";
  } else {
    sentence = "Measured as far as this machine allows; no bound was declared.";
  }
  std::string out =
      section_open("memory", "Memory", small) + answer(bad                         ? Status::fail
                                                       : context.summary.ran() > 0 ? std::optional(Status::pass)
                                                                                   : std::nullopt,
                                                       sentence);
  if (!memory.parts.empty()) {
    out += "<figure><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Memory over time\" data-see=\"" +
           at((static_cast<double>(worst.index) + 0.5) / static_cast<double>(memory.parts.size())) + "\">" +
           Chart(context, memory, worst).draw() + "</div></figure><p class=\"key2\">" + key_of(memory) + "</p>";
  }
  out += figures(memory);
  if (!memory.parts.empty()) {
    out += parts_table(memory);
  }
  return out + section_close();
}

}  // namespace weightproof::reports::page
