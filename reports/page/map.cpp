// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>

#include "reports/page/parts_internal.hpp"

// The map: one row per module, one column per layer (or bin of layers), the worst verdict in the cell.
namespace weightproof::reports::page {
namespace {

constexpr std::int32_t k_wide_columns = 48;    // 22 px each
constexpr std::int32_t k_narrow_columns = 96;  // 11 px each, then bins
constexpr std::size_t k_outside_listed = 40;

struct Cell {
  const TensorRow* worst = nullptr;
  std::uint64_t tensors = 0;
  std::uint64_t bad = 0;  // as bad as the worst
  char change = '.';
};

struct Row {
  std::string name;
  std::vector<std::uint32_t> classes;
  std::vector<Cell> cells;
};

char worse_change(char a, char b) {
  constexpr std::string_view order = "nsf.";
  return order.find(a) < order.find(b) ? a : b;
}

// What stands behind the layer number; the whole pattern where there is none.
std::string module_of(const TensorClass& cls) {
  const std::size_t hole = cls.pattern.find("{}.");
  return hole == std::string::npos ? cls.pattern : cls.pattern.substr(hole + 3);
}

class Grid {
 public:
  explicit Grid(const TensorTable& table) : table_(table) {
    std::int32_t top = -1;
    for (const TensorRow& row : table.rows) {
      top = std::max(top, row.layer);
    }
    layers = top + 1;
    per_bin = std::max((layers + k_narrow_columns - 1) / k_narrow_columns, 1);
    columns = layers == 0 ? 0 : (layers + per_bin - 1) / per_bin;
    std::map<std::string, std::size_t> by_name;
    std::vector<std::size_t> row_of(table.classes.size(), 0);
    for (std::size_t c = 0; c < table.classes.size(); ++c) {
      const bool in_layers = table.classes[c].pattern.find("{}") != std::string::npos;
      if (!in_layers) {
        continue;
      }
      const std::string name = module_of(table.classes[c]);
      const auto [it, fresh] = by_name.emplace(name, rows.size());
      if (fresh) {
        rows.push_back({name, {}, std::vector<Cell>(static_cast<std::size_t>(columns))});
      }
      rows[it->second].classes.push_back(static_cast<std::uint32_t>(c));
      row_of[c] = it->second;
    }
    for (const TensorRow& row : table.rows) {
      counts[static_cast<std::size_t>(row.verdict)]++;
      const bool in_layers =
          row.cls < table.classes.size() && table.classes[row.cls].pattern.find("{}") != std::string::npos;
      if (row.layer < 0 || !in_layers) {
        outside.push_back(&row);
        continue;
      }
      Cell& cell = rows[row_of[row.cls]].cells[static_cast<std::size_t>(row.layer / per_bin)];
      cell.change = cell.tensors == 0 ? row.change : worse_change(cell.change, row.change);
      ++cell.tensors;
      if (cell.worst == nullptr || row.verdict < cell.worst->verdict) {
        cell.worst = &row;
        cell.bad = 1;
      } else if (row.verdict == cell.worst->verdict) {
        ++cell.bad;
      }
    }
  }

  const TensorTable& table_;
  std::int32_t layers = 0;
  std::int32_t per_bin = 1;
  std::int32_t columns = 0;
  std::vector<Row> rows;
  std::vector<const TensorRow*> outside;
  std::array<std::uint64_t, 5> counts{};
};

std::string cell_html(const Context& context, const Grid& grid, const Cell& cell) {
  if (cell.worst == nullptr) {
    return "<td class=\"b\"></td>";
  }
  const Status verdict = cell.worst->verdict;
  std::string css;
  if (verdict != Status::pass) {
    css += letter(verdict);
  }
  if (cell.change != '.') {
    css += (css.empty() ? "c" : " c") + std::string(1, cell.change);
  }
  std::string text = std::string(to_string(verdict));
  if (cell.tensors > 1 && verdict != Status::pass) {
    text = grouped(cell.bad) + " of " + grouped(cell.tensors) + " " + text;
  }
  if (verdict == Status::fail || verdict == Status::warn || verdict == Status::error) {
    if (const Finding* finding = context.finding_of(grid.table_.key(*cell.worst))) {
      text = finding_link(*finding, text);
    }
  }
  return "<td" + (css.empty() ? std::string() : " class=\"" + css + "\"") + ">" + text + "</td>";
}

std::string row_total(const Row& row) {
  std::uint64_t fails = 0;
  std::uint64_t warns = 0;
  for (const Cell& cell : row.cells) {
    if (cell.worst != nullptr) {
      const bool bad = cell.worst->verdict == Status::fail || cell.worst->verdict == Status::error;
      fails += bad ? cell.bad : 0;
      warns += cell.worst->verdict == Status::warn ? cell.bad : 0;
    }
  }
  if (fails > 0) {
    return "<td class=\"z bad\">" + grouped(fails) + " fail</td>";
  }
  return "<td class=\"z\">" + (warns > 0 ? grouped(warns) + " warn" : std::string()) + "</td>";
}

std::string table(const Context& context, const Grid& grid) {
  const std::string count = std::to_string(grid.columns);
  std::string out =
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Map of verdicts\" data-see=\"cell\"><table "
      "class=\"map" +
      std::string(grid.columns > k_wide_columns ? " fine" : "") + "\" style=\"--n:" + count +
      "\"><caption class=\"sr\">Worst verdict per module and layer</caption><colgroup><col class=\"l\"/>";
  for (std::int32_t i = 0; i < grid.columns; ++i) {
    out += "<col/>";
  }
  out += "<col class=\"z\"/></colgroup><thead><tr><th scope=\"col\">" +
         std::string(grid.per_bin > 1 ? "layers" : "layer") + "</th>";
  for (std::int32_t i = 0; i < grid.columns; ++i) {
    const std::int32_t first = i * grid.per_bin;
    const std::int32_t last = std::min(first + grid.per_bin, grid.layers) - 1;
    const std::string range =
        first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
    const bool named = grid.columns <= k_wide_columns || i % 8 == 0;
    out += "<th scope=\"col\" data-b=\"" + range + "\">" +
           (named ? std::to_string(first) : "<span class=\"sr\">" + range + "</span>") + "</th>";
  }
  out += "<td class=\"z\"></td></tr></thead><tbody>";
  for (const Row& row : grid.rows) {
    std::string classes;
    for (const std::uint32_t c : row.classes) {
      classes += (classes.empty() ? "" : ",") + std::to_string(c);
    }
    out += "<tr data-c=\"" + classes + "\"><th scope=\"row\">" + html_name(cut_middle(row.name, 60)) + "</th>";
    for (const Cell& cell : row.cells) {
      out += cell_html(context, grid, cell);
    }
    out += row_total(row) + "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string outside(const Context& context, const Grid& grid) {
  if (grid.outside.empty()) {
    return {};
  }
  std::vector<const TensorRow*> list = grid.outside;
  std::stable_sort(list.begin(), list.end(),
                   [](const TensorRow* a, const TensorRow* b) { return a->verdict < b->verdict; });
  std::string out = "<p class=\"outside\"><span class=\"mu\">Outside the layers:</span>";
  for (std::size_t i = 0; i < std::min(list.size(), k_outside_listed); ++i) {
    const std::string key = grid.table_.key(*list[i]);
    const Finding* finding = context.finding_of(key);
    out += "<span>" + state(list[i]->verdict) + " " +
           (finding != nullptr ? finding_link(*finding, html_name(key)) : html_name(key)) + "</span>";
  }
  if (list.size() > k_outside_listed) {
    out += "<span class=\"mu\">and " + grouped(list.size() - k_outside_listed) + " more</span>";
  }
  return out + "</p>";
}

// Which tensors fail, in words.
std::string sentence(const Grid& grid) {
  const auto of = [&](Status status) { return grid.counts[static_cast<std::size_t>(status)]; };
  const std::uint64_t bad = of(Status::fail) + of(Status::error);
  std::string out;
  if (bad == 0) {
    out = "No tensor fails.";
  } else {
    std::vector<std::string> names;
    for (const TensorRow& row : grid.table_.rows) {
      if ((row.verdict == Status::fail || row.verdict == Status::error) && names.size() < 3) {
        names.push_back("<b>" + html_name(cut_middle(grid.table_.key(row), 120)) + "</b>");
      }
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      out += (i == 0 ? "" : i + 1 == names.size() && bad == names.size() ? " and " : ", ") + names[i];
    }
    out += (bad > names.size() ? " and " + grouped(bad - names.size()) + " more" : std::string()) +
           (bad == 1 ? " fails." : " fail.");
  }
  if (of(Status::warn) > 0) {
    out += " " + plural(of(Status::warn), "tensor warns", "tensors warn") + ".";
  }
  const std::uint64_t rest = of(Status::pass) + of(Status::skip);
  if (of(Status::pass) > 0) {
    out += " " + std::string(rest == grid.table_.rows.size() ? "All " : "The other ") + grouped(of(Status::pass)) +
           " pass.";
  }
  return out;
}

}  // namespace

std::string map(Context& context) {
  if (!context.report.tensors || context.report.tensors->rows.empty() || context.step == Step::counts) {
    return {};
  }
  const Grid grid(*context.report.tensors);
  const bool bad =
      grid.counts[static_cast<std::size_t>(Status::fail)] + grid.counts[static_cast<std::size_t>(Status::error)] > 0;
  const bool warned = grid.counts[static_cast<std::size_t>(Status::warn)] > 0;
  std::string out = section_open("map", "Map",
                                 plural(context.report.tensors->rows.size(), "tensor") + ", " +
                                     plural(static_cast<std::uint64_t>(grid.layers), "layer"));
  out += answer(bad ? Status::fail : warned ? Status::warn : Status::pass, sentence(grid));
  if (!grid.rows.empty() && grid.columns > 0) {
    out +=
        "<div class=\"mapwrap\"><div class=\"mapbar\"><fieldset><legend class=\"sr\">Colour the map "
        "by</legend><label><input type=\"radio\" "
        "name=\"mv\" id=\"mv-v\" checked=\"checked\"/>worst verdict</label>";
    if (context.report.compare) {
      out += "<label><input type=\"radio\" name=\"mv\" id=\"mv-c\"/>change against base</label>";
    }
    out += "</fieldset><span class=\"lgv\">" + state(Status::fail) + state(Status::error) + state(Status::warn) +
           state(Status::skip) + state(Status::pass) +
           "<span>blank: no such tensor</span></span><span class=\"lgc\"><span><b class=\"cf\">N</b> new "
           "failure</span><span><b class=\"cp\">F</b> "
           "fixed</span><span><b class=\"cw\">S</b> still fails or warns</span><span>dot: unchanged</span></span><span "
           "class=\"jo\">Arrows move, "
           "Enter opens a tensor</span></div>" +
           table(context, grid) + "</div>";
  }
  out += outside(context, grid);
  if (grid.per_bin > 1) {
    out += "<p class=\"said\">A column holds " + std::to_string(grid.per_bin) +
           " layers; a cell shows the worst of its tensors and how many are as bad.</p>";
    context.left_out.push_back("map columns in bins of " + std::to_string(grid.per_bin) + " layers");
  }
  return out + section_close();
}

}  // namespace weightproof::reports::page
