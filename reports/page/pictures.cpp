// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "reports/page/parts_internal.hpp"

// Pictures of a finding, drawn from the numbers in its record and true to scale: where in the tensor, which order, how
// far off.
namespace weightproof::reports::page {
namespace {

constexpr std::uint32_t k_max_columns = 32;
constexpr std::uint32_t k_max_rows = 16;
constexpr double k_width = 360;
constexpr double k_height = 136;

// At most 32 x 16 bins; larger maps are averaged, so a share stays the share of elements.
WhereMap binned(const WhereMap& where) {
  WhereMap out;
  out.unit = where.unit;
  if (where.rows == 0 || where.columns == 0 || where.shares.size() != std::size_t{where.rows} * where.columns) {
    return out;
  }
  out.rows = std::min(where.rows, k_max_rows);
  out.columns = std::min(where.columns, k_max_columns);
  out.shares.assign(std::size_t{out.rows} * out.columns, 0);
  std::vector<double> weight(out.shares.size(), 0);
  for (std::uint32_t r = 0; r < where.rows; ++r) {
    for (std::uint32_t c = 0; c < where.columns; ++c) {
      const std::size_t to =
          std::size_t{r} * out.rows / where.rows * out.columns + std::size_t{c} * out.columns / where.columns;
      const double share = where.shares[std::size_t{r} * where.columns + c];
      out.shares[to] += std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 1.0;
      weight[to] += 1;
    }
  }
  for (std::size_t i = 0; i < out.shares.size(); ++i) {
    out.shares[i] /= std::max(weight[i], 1.0);
  }
  return out;
}

// Shade in eighths; anything at all is visible.
int shade(double share) { return share <= 0 ? 0 : std::max(1, static_cast<int>(std::ceil(share * 8 - 1e-9))); }

bool uniform(const WhereMap& where) {
  return !where.shares.empty() && std::all_of(where.shares.begin(), where.shares.end(),
                                              [&](double s) { return shade(s) == shade(where.shares[0]); });
}

// Equal neighbours become one rectangle: first along the row, then the rows that repeat the one above.
std::string cells(const WhereMap& where, double x, double y, double width, double height) {
  std::string out = rect(x, y, width, height, "fr");
  const double cw = width / where.columns;
  const double ch = height / where.rows;
  const auto level = [&](std::uint32_t r, std::uint32_t c) {
    return shade(where.shares[std::size_t{r} * where.columns + c]);
  };
  const auto same_row = [&](std::uint32_t a, std::uint32_t b) {
    for (std::uint32_t c = 0; c < where.columns; ++c) {
      if (level(a, c) != level(b, c)) {
        return false;
      }
    }
    return true;
  };
  for (std::uint32_t r = 0; r < where.rows;) {
    std::uint32_t below = r + 1;
    while (below < where.rows && same_row(r, below)) {
      ++below;
    }
    for (std::uint32_t c = 0; c < where.columns;) {
      std::uint32_t right = c + 1;
      while (right < where.columns && level(r, right) == level(r, c)) {
        ++right;
      }
      if (level(r, c) > 0) {
        // A sliver would be lost: at least 5 px where a bin is a single one, its middle kept.
        const double w = std::max(cw * (right - c), right - c == 1 ? std::min(5.0, width) : 1.0);
        const double h = std::max(ch * (below - r), below - r == 1 ? std::min(5.0, height) : 1.0);
        const double cx = x + cw * (c + right) / 2;
        const double cy = y + ch * (r + below) / 2;
        out += rect(std::clamp(cx - w / 2, x, x + width - w), std::clamp(cy - h / 2, y, y + height - h), w, h, "ff",
                    level(r, c) == 8 ? std::string_view()
                                     : std::string_view(" fill-opacity=\"" + at(0.36 + 0.08 * level(r, c)) + "\""));
      }
      c = right;
    }
    r = below;
  }
  return out + rect(x + 0.5, y + 0.5, width - 1, height - 1, "ax");
}

std::string where_words(const WhereMap& where) {
  std::size_t hit = 0;
  double sum = 0;
  for (const double share : where.shares) {
    hit += share > 0 ? 1U : 0U;
    sum += share;
  }
  const std::string unit = where.unit.empty() ? "bin" : cut_middle(where.unit, 24);
  if (uniform(where)) {
    const double share = std::min(1.0, sum / static_cast<double>(where.shares.size()));
    return (share >= 0.01 && share < 0.995 ? fixed(share * 100, 0) + " %" : percent(share)) + " everywhere";
  }
  return grouped(hit) + " of " + plural(where.shares.size(), unit);
}

// The one element of a finding that names a coordinate alone.
bool has_point(const Finding& finding) {
  return finding.coordinate.size() >= 2 && finding.shape.size() == finding.coordinate.size() &&
         finding.shape.back() > 0 && finding.shape[finding.shape.size() - 2] > 0;
}

std::string point(const Finding& finding, double x, double y, double width, double height) {
  const std::size_t n = finding.shape.size();
  const double row = static_cast<double>(finding.coordinate[n - 2]) / static_cast<double>(finding.shape[n - 2]);
  const double column = static_cast<double>(finding.coordinate[n - 1]) / static_cast<double>(finding.shape[n - 1]);
  return rect(x, y, width, height, "fr") + rect(x + 0.5, y + 0.5, width - 1, height - 1, "ax") +
         rect(x + std::clamp(column * width - 2.5, 0.0, width - 5), y + std::clamp(row * height - 2.5, 0.0, height - 5),
              5, 5, "ff");
}

// Where, on the right of a picture.
std::string where_aside(const Finding& finding) {
  if (finding.where) {
    const WhereMap where = binned(*finding.where);
    if (where.rows > 0) {
      return label(258, 13, "Where", "t2") + cells(where, 258, 20, 100, 92) + label(258, 131, where_words(where), "t2");
    }
  }
  if (has_point(finding)) {
    return label(258, 13, "First at", "t2") + point(finding, 258, 20, 100, 92);
  }
  return {};
}

std::string order_picture(Context& context, const Finding& finding) {
  const OrderPicture& order = *finding.order;
  const std::size_t n = std::min<std::size_t>({order.declared.size(), order.found.size(), 9});
  const std::string axis = order.axis.empty() ? "slots" : cut_middle(order.axis, 24);
  std::string out = svg_open(
      context, k_width, k_height, "Order declared and found",
      "The declared order of " + axis + " stands above, the found order below; lines join equal slots that moved.");
  out += label(0, 13, "Declared " + axis, "t2") + label(0, 131, "Found " + axis, "t2");
  // Nine slots are the first eight and the last.
  const bool gap = n == 9;
  const double step = std::min(25.0, 234.0 / static_cast<double>(std::max<std::size_t>(n + (gap ? 1 : 0), 1)));
  const auto left = [&](std::size_t i) { return step * static_cast<double>(gap && i == 8 ? 9 : i); };
  if (gap) {
    out += label(left(7) + step * 1.4, 37, "...", "t2", "middle") +
           label(left(7) + step * 1.4, 105, "...", "t2", "middle");
  }
  std::vector<bool> used(n, false);
  const auto box = [&](std::size_t i, double y, const std::string& text, bool strong) {
    const std::string name = cut_middle(text, 6);
    return rect(left(i), y, step - 4, 26, strong ? "f1" : "fr") + rect(left(i) + 0.5, y + 0.5, step - 5, 25, "ax") +
           label(left(i) + (step - 4) / 2, y + 17, name, "", "middle");
  };
  for (std::size_t i = 0; i < n; ++i) {
    // The found slot that holds what stands at i, the nearest first.
    std::size_t best = n;
    for (std::size_t j = 0; j < n; ++j) {
      const auto distance = [&](std::size_t k) { return k > i ? k - i : i - k; };
      if (!used[j] && order.found[j] == order.declared[i] && (best == n || distance(j) < distance(best))) {
        best = j;
      }
    }
    if (best < n) {
      used[best] = true;
      if (best != i) {
        out += line(left(i) + (step - 4) / 2, 46, left(best) + (step - 4) / 2, 88, "si");
      }
    }
    out += box(i, 20, order.declared[i], order.declared[i] == order.declared[0]) +
           box(i, 88, order.found[i], order.found[i] == order.declared[0]);
  }
  return out + where_aside(finding) + "</svg>";
}

// Below a bar there is room for a few characters.
std::string bin_label(const std::string& text) {
  for (const auto& [words, sign] : {std::pair(" or less", "\u2264 "), std::pair(" or more", "\u2265 ")}) {
    if (text.ends_with(words)) {
      return sign + cut_end(std::string_view(text).substr(0, text.size() - std::string_view(words).size()), 6);
    }
  }
  return cut_end(text, 8);
}

std::string histogram_picture(Context& context, const Finding& finding) {
  const Histogram& histogram = *finding.histogram;
  const std::size_t n = std::min<std::size_t>(histogram.bins.size(), 15);
  double most = 0;
  std::string description;
  for (std::size_t i = 0; i < n; ++i) {
    const HistogramBin& bin = histogram.bins[i];
    most = std::max(most, bin.share);
    if (bin.share > 0) {
      description += percent(bin.share) + " at " + cut_middle(bin.label, 24) + ". ";
    }
  }
  std::string out = svg_open(context, k_width, k_height, "Histogram of " + cut_middle(histogram.what, 60), description);
  out += label(0, 13, "Elements by " + cut_middle(histogram.what, 30), "t2");
  const double step = 240.0 / static_cast<double>(std::max<std::size_t>(n, 1));
  for (std::size_t i = 0; i < n; ++i) {
    const HistogramBin& bin = histogram.bins[i];
    const double height = most > 0 ? 75 * bin.share / most : 0;
    const double middle = step * (static_cast<double>(i) + 0.5);
    if (bin.share > 0) {
      out += rect(middle - step * 0.34, 112 - height, step * 0.68, height, bin.bad ? "ff" : "f1");
    }
    if (n <= 6 || bin.share == most) {
      out += label(middle, 107 - height, bin.share > 0 ? percent(bin.share) : "0",
                   bin.bad && bin.share > 0 ? "tf" : "t2", "middle");
    }
    out += label(middle, 127, bin_label(bin.label), "t2", "middle");
  }
  return out + line(0, 112.5, 240, 112.5, "ax") + where_aside(finding) + "</svg>";
}

std::uint64_t sum(const MemoryPart& part) { return part.metadata + part.companion + part.staging + part.uncounted; }

std::string memory_picture(Context& context) {
  const MemoryInfo& memory = context.report.memory;
  const std::uint64_t bound = memory.bound.value_or(0);
  std::uint64_t most = bound;
  std::size_t worst = 0;
  for (std::size_t i = 0; i < memory.parts.size(); ++i) {
    most = std::max(most, sum(memory.parts[i]));
    worst = sum(memory.parts[i]) > sum(memory.parts[worst]) ? i : worst;
  }
  const double scale = most > 0 ? 86.0 / static_cast<double>(most) : 0;
  const std::size_t n = std::min<std::size_t>(memory.parts.size(), 120);
  std::string out =
      svg_open(context, k_width, k_height, "Memory peak by part",
               "The largest part, " + std::to_string(worst) + ", reaches " + human_bytes(sum(memory.parts[worst])) +
                   (bound > 0 ? "; the bound is " + human_bytes(bound) + "." : "."));
  out += label(0, 13, "Peak beyond final storage, by part", "t2");
  const double step = 323.0 / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double all = static_cast<double>(sum(memory.parts[i])) * scale;
    const double within = bound > 0 ? std::min(all, static_cast<double>(bound) * scale) : all;
    const double x = 34 + step * static_cast<double>(i);
    out += rect(x, 112 - within, step * 0.83, within, "f1");
    if (all > within + 0.01) {
      out += rect(x, 112 - all, step * 0.83, all - within, "ff");
    }
  }
  if (bound > 0) {
    const double y = 112 - static_cast<double>(bound) * scale;
    out += line(28, y, 357, y, "sb") + label(34, std::max(y - 5, 24.0), "bound " + human_bytes(bound));
  }
  const double x = 34 + step * static_cast<double>(worst);
  const bool left = x > 200;
  if (sum(memory.parts[worst]) > bound) {
    out +=
        label(left ? x - 5 : x + step + 5, 36,
              human_bytes(sum(memory.parts[worst])) + ", part " + std::to_string(worst), "tf", left ? "end" : "start");
  }
  return out + line(28, 112.5, 357, 112.5, "ax") + label(34, 131, "part 0", "t2") +
         label(357, 131, std::to_string(n - 1), "t2", "end") + "</svg>";
}

}  // namespace

std::string figure(Context& context, const Finding& finding) {
  if (finding.order && !finding.order->declared.empty() && !finding.order->found.empty()) {
    return order_picture(context, finding);
  }
  if (finding.histogram && !finding.histogram->bins.empty()) {
    return histogram_picture(context, finding);
  }
  if (group_of(finding.rule) == "mem" && !context.report.memory.parts.empty()) {
    return memory_picture(context);
  }
  if (finding.where) {
    const WhereMap where = binned(*finding.where);
    if (where.rows > 0) {
      return svg_open(context, k_width, k_height, "Where in the tensor",
                      where_words(where) + " hold elements that differ.") +
             label(0, 13, "Where: shade is the share of elements that differ", "t2") + cells(where, 0, 20, 340, 92) +
             label(0, 131, where_words(where), "t2") + "</svg>";
    }
  }
  if (has_point(finding)) {
    return svg_open(context, k_width, k_height, "First element that differs",
                    "At " + coordinate_text(finding) + "; drawn larger than it is.") +
           label(0, 13, "First at, drawn larger than it is", "t2") + point(finding, 0, 20, 340, 92) + "</svg>";
  }
  return {};
}

std::string thumbnail(Context& context, const Finding& finding) {
  if (finding.where) {
    const WhereMap where = binned(*finding.where);
    if (where.rows > 0) {
      return svg_open(context, 64, 40, "Where in it", where_words(where) + " hold elements that differ.", "thumb") +
             cells(where, 0, 0, 64, 40) + "</svg>";
    }
  }
  if (has_point(finding)) {
    return svg_open(context, 64, 40, "One element", "At " + coordinate_text(finding) + "; drawn larger than it is.",
                    "thumb") +
           point(finding, 0, 0, 64, 40) + "</svg>";
  }
  return {};
}

std::string votes(const Finding& finding) {
  if (finding.votes.empty()) {
    return {};
  }
  double most = 0;
  for (const Vote& vote : finding.votes) {
    most = std::max(most, vote.share);
  }
  std::string out = "<table class=\"vote\"><caption class=\"sr\">Vote</caption><tbody>";
  for (const Vote& vote : finding.votes) {
    const double share = std::isfinite(vote.share) ? std::clamp(vote.share, 0.0, 1.0) : 0.0;
    out += "<tr><th scope=\"row\">" + xml_text(cut_middle(vote.name, 40)) + "</th><td><span class=\"barr" +
           (vote.share < most ? " lo" : "") + "\" style=\"width:" + at(share * 90) + "px\"></span></td><td>" +
           percent(share) + "</td></tr>";
  }
  return out + "</tbody></table>";
}

}  // namespace weightproof::reports::page
