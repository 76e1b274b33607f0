// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "reports/page/parts_internal.hpp"

// Times inform and never gate: no mark, cold or warm, against which baseline, with the spread of the rounds.
namespace weightproof::reports::page {
namespace {

constexpr double k_dots_width = 168;

std::optional<double> median(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v) || v <= 0; });
  if (values.empty()) {
    return std::nullopt;
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Axis {
  double low = 0.9;
  double high = 1.1;
  double x(double value) const { return 2 + (k_dots_width - 4) * (std::clamp(value, low, high) - low) / (high - low); }
};

Axis axis_of(const std::vector<TimingCase>& cases) {
  Axis axis;
  for (const TimingCase& c : cases) {
    std::vector<double> values = c.ratios;
    if (c.goal) {
      values.push_back(*c.goal);
    }
    for (const double value : values) {
      if (std::isfinite(value) && value > 0) {
        axis.low = std::min(axis.low, value);
        axis.high = std::max(axis.high, value);
      }
    }
  }
  axis.low = std::floor(axis.low * 10 - 0.5) / 10;
  axis.high = std::ceil(axis.high * 10 + 0.5) / 10;
  return axis;
}

std::string dots(Context& context, const TimingCase& c, const Axis& axis, double middle) {
  const auto [low, high] = std::minmax_element(c.ratios.begin(), c.ratios.end());
  std::string out = svg_open(context, k_dots_width, 20,
                             "Ratios of " + plural(c.ratios.size(), "round") + " of " + cut_middle(c.name, 60),
                             "Median " + fixed(middle, 2) + ", from " + fixed(*low, 2) + " to " + fixed(*high, 2) +
                                 (c.goal ? "; goal " + fixed(*c.goal, 2) + "." : "."),
                             "dots");
  out += line(2, 14.5, k_dots_width - 2, 14.5, "gr") + line(axis.x(1), 2, axis.x(1), 19, "ax");
  if (c.goal) {
    out += "<path class=\"si\" d=\"M" + at(axis.x(*c.goal)) + " 3v4\" style=\"stroke-width:2\"/>";
  }
  for (const double ratio : c.ratios) {
    if (std::isfinite(ratio) && ratio > 0) {
      out += "<circle cx=\"" + at(axis.x(ratio)) + "\" cy=\"14.5\" r=\"2\" class=\"f1\"/>";
    }
  }
  return out + "<circle cx=\"" + at(axis.x(middle)) + "\" cy=\"14.5\" r=\"3.2\" class=\"fi\"/></svg>";
}

// Cases that were only timed: beside nothing, against nothing.
bool is_plain(const TimingCase& c) {
  return c.ratios.empty() && !c.baseline_seconds && c.baseline.empty() && !c.goal && !c.base_median;
}

std::string plain_table(const std::vector<TimingCase>& cases) {
  const bool has_cache = std::any_of(cases.begin(), cases.end(),
                                     [](const TimingCase& c) { return c.cache != "unknown" || !c.cache_note.empty(); });
  std::string out =
      "<div class=\"scroll\" style=\"max-width:680px\"><table class=\"t\"><caption>Wall time of each case; "
      "there is no baseline beside it.</caption>" +
      table_head(std::string("Case") + (has_cache ? "|Cache" : "") + "|#Time") + "<tbody>";
  for (const TimingCase& c : cases) {
    out += "<tr data-s=\"pass\"><th scope=\"row\">" + html_name(cut_middle(c.name, 80), "n0") + "</th>" +
           (has_cache
                ? cell(xml_text(c.cache + (c.cache_note.empty() ? "" : ", " + cut_middle(c.cache_note, 80))), "cache")
                : std::string()) +
           cell(c.seconds ? human_seconds(*c.seconds) : std::string("unavailable"), "time", "n nw") + "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string cases_table(Context& context, const std::vector<TimingCase>& cases) {
  if (std::all_of(cases.begin(), cases.end(), is_plain)) {
    return plain_table(cases);
  }
  const Axis axis = axis_of(cases);
  std::string out =
      "<div class=\"scroll\"><table class=\"t stack\"><caption>Each case beside its baseline, measured in the same "
      "run. Long tick: the "
      "baseline; short tick: the goal; large dot: the median.</caption>" +
      table_head("Case|Cache|#Median|#Baseline|Baseline is|#Ratio|Rounds, " + at(axis.low) + " to " + at(axis.high) +
                 "@172|#Goal|#Base had") +
      "<tbody>";
  for (const TimingCase& c : cases) {
    const std::optional<double> middle = median(c.ratios);
    const auto seconds = [](const std::optional<double>& value) {
      return value ? human_seconds(*value) : std::string("unavailable");
    };
    out +=
        "<tr data-s=\"pass\"><th scope=\"row\">" + html_name(cut_middle(c.name, 80), "n0") + "</th>" +
        cell("<b>" + xml_text(c.cache) + "</b>" +
                 (c.cache_note.empty() ? std::string()
                                       : ", <span class=\"mu\">" + xml_text(cut_middle(c.cache_note, 80)) + "</span>"),
             "cache") +
        cell(seconds(c.seconds), "median", "n nw") + cell(seconds(c.baseline_seconds), "baseline", "n nw") +
        cell(xml_text(cut_middle(c.baseline, 80)), "baseline is") +
        cell(middle ? "<b>" + fixed(*middle, 2) + "</b>" : "unavailable", "ratio", "n nw") +
        cell(middle ? dots(context, c, axis, *middle) : std::string(), "rounds") +
        cell(c.goal ? fixed(*c.goal, 2) : "none", "goal", "n") +
        cell(c.base_median ? fixed(*c.base_median, 2) : "none", "base ratio", "n") + "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string phases_table(const TimingInfo& timing) {
  double all = 0;
  for (const TimingPhase& phase : timing.phases) {
    all += phase.seconds.value_or(0);
  }
  std::string rows;
  std::map<std::string, std::vector<std::string>> absent;
  for (const TimingPhase& phase : timing.phases) {
    if (!phase.seconds) {
      absent[phase.why].push_back(phase.name);
      continue;
    }
    const double share = all > 0 ? std::clamp(*phase.seconds / all, 0.0, 1.0) : 0.0;
    rows +=
        "<tr><th scope=\"row\">" + xml_text(cut_middle(phase.name, 60)) + "</th><td class=\"n\" data-l=\"seconds\">" +
        fixed(*phase.seconds, 2) +
        "</td><td data-l=\"share\" class=\"shr\"><span class=\"barr\" style=\"width:" + at(std::max(share * 64, 0.5)) +
        "%\"></span> <span class=\"mu\">" + fixed(share * 100, 0) + " %</span></td></tr>";
  }
  if (rows.empty()) {
    return {};
  }
  std::string out = "<h3 class=\"by\">Where the " +
                    (timing.total_s ? human_seconds(*timing.total_s) : std::string("time")) +
                    " went</h3><div class=\"scroll\" style=\"max-width:680px\"><table class=\"t\">" +
                    table_head("Phase|#Seconds|Share") + "<tbody>" + rows + "</tbody></table></div>";
  for (const auto& [why, names] : absent) {
    std::string list;
    for (const std::string& name : names) {
      list += (list.empty() ? "" : ", ") + name;
    }
    out += "<p class=\"said\">" + xml_text(capital(list)) + ": no time, " + xml_text(cut_middle(why, 160)) + ".</p>";
  }
  return out;
}

}  // namespace

std::string timings(Context& context) {
  const TimingInfo& timing = context.report.timing;
  const std::string phases = phases_table(timing);
  if (timing.cases.empty() && phases.empty()) {
    return {};
  }
  std::string sentence;
  std::size_t told = 0;
  for (const TimingCase& c : timing.cases) {
    if (const auto middle = median(c.ratios); middle && told < 2) {
      sentence += (sentence.empty() ? "" : " ") + xml_text(capital(cut_middle(c.name, 60))) + " (" + xml_text(c.cache) +
                  ") takes " + fixed(*middle, 2) + " times as long as " + xml_text(cut_middle(c.baseline, 60)) + ".";
      ++told;
    }
  }
  if (sentence.empty()) {
    sentence = timing.total_s ? "The run took " + human_seconds(*timing.total_s) + "." : "No total time was taken.";
    sentence += timing.cache_before == "unknown"
                    ? " Whether the files were in the page cache before is unknown"
                    : " The files were " + xml_text(timing.cache_before) + " in the page cache before";
    sentence += timing.cache_method.empty() ? "." : " (" + xml_text(cut_middle(timing.cache_method, 100)) + ").";
  }
  return section_open("timings", "Timings", "inform, never gate") + answer(std::nullopt, sentence) +
         (timing.cases.empty() ? std::string() : cases_table(context, timing.cases)) + phases + section_close();
}

}  // namespace weightproof::reports::page
