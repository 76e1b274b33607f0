// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "reports/compare.hpp"
#include "reports/json.hpp"
#include "reports/text_internal.hpp"

namespace weightproof::reports {

TrendPoint trend_point(const Report& report, std::string_view file_name) {
  TrendPoint out;
  out.label = report.run.commit.empty() ? std::string(file_name) : report.run.commit;
  out.start = report.run.start;
  out.summary = summarize(report.checks);
  out.verdict = verdict_of(out.summary);
  out.causes = count_causes(report).causes;
  if (const MemoryFigure* figure = report.memory.find("allocator_peak")) {
    out.allocator_peak = figure->bytes;
  }
  out.bytes_read = report.plan.bytes_read;
  out.total_s = report.timing.total_s;
  return out;
}

std::vector<TrendPoint> read_trend(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (entry.is_regular_file(ignored) && entry.path().extension() == ".json") {
      files.push_back(entry.path());
    } else if (entry.is_directory(ignored) && fs::is_regular_file(entry.path() / "report.json", ignored)) {
      files.push_back(entry.path() / "report.json");
    }
  }
  if (error) {
    throw DocumentError(spell_out(folder) + ": " + error.message());
  }
  std::sort(files.begin(), files.end());
  std::vector<TrendPoint> out;
  for (const fs::path& file : files) {
    const std::string name = fs::relative(file, folder, error).string();
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    try {
      out.push_back(trend_point(read_json(text.str()), name));
    } catch (const DocumentError& fault) {
      TrendPoint point;
      point.label = name;
      point.note = fault.what();
      out.push_back(std::move(point));
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const TrendPoint& a, const TrendPoint& b) { return a.start < b.start; });
  return out;
}

std::string emit_trend(const std::vector<TrendPoint>& points) {
  std::string out =
      "label\tstart\tverdict\tpass\tfail\twarn\tskip\terror\tcauses\tallocator_peak\tbytes_read\ttotal_s\tnote\n";
  const auto number = [](const std::optional<std::uint64_t>& value) {
    return value ? std::to_string(*value) : std::string();
  };
  for (const TrendPoint& p : points) {
    const bool read = p.note.empty();
    out += spell_out(p.label) + "\t" + spell_out(p.start) + "\t" +
           (read ? std::string(to_string(p.verdict)) : std::string("unreadable"));
    for (const std::uint64_t count :
         {p.summary.pass, p.summary.fail, p.summary.warn, p.summary.skip, p.summary.error, p.causes}) {
      out += "\t" + (read ? std::to_string(count) : std::string());
    }
    out += "\t" + number(p.allocator_peak) + "\t" + number(p.bytes_read) + "\t" +
           (p.total_s ? shortest(*p.total_s) : std::string()) + "\t" + spell_out(p.note) + "\n";
  }
  return out;
}

}  // namespace weightproof::reports
