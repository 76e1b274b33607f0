// SPDX-License-Identifier: Apache-2.0
// Writes the invented reports as documents, for screenshots and for looking at: reports_write_sample DIRECTORY.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "reports/emit.hpp"
#include "reports/tests/sample_report.hpp"

namespace {

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::cout << file.string() << ": " << bytes.size() << " bytes\n";
}

}  // namespace

int main(int argc, char** argv) {
  using namespace weightproof::reports;
  if (argc != 2) {
    std::cerr << "usage: reports_write_sample DIRECTORY\n";
    return 2;
  }
  const std::filesystem::path base = argv[1];
  const auto all = [&](const std::string& name, const Report& report) {
    std::filesystem::create_directories(base / name);
    write(base / name / "report.html", emit_html(report));
    write(base / name / "report.json", emit_json(report));
    write(base / name / "report.md", emit_markdown(report));
    write(base / name / "junit.xml", emit_junit(report));
  };
  std::string list = "[";
  for (const sample::Fault& fault : sample::faults()) {
    all("fault-" + fault.name, fault.report);
    list += (list.size() == 1 ? "" : ",") + std::string("{\"name\":\"") + fault.name + "\",\"kind\":\"" + fault.kind +
            "\",\"key\":\"" + fault.key + "\"}";
  }
  write(base / "faults.json", list + "]\n");
  all("full", sample::full());
  all("passing", sample::passing());
  all("hostile", sample::hostile());
  all("large-5000", sample::large(5000));
  all("large-10000", sample::large(10000));
  all("large-100000", sample::large(100000));
  return 0;
}
