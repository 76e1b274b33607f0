// SPDX-License-Identifier: Apache-2.0
// doctor: what this machine offers.
#include <filesystem>

#include "suites/cli/verbs.hpp"
#include "suites/support/json_writer.hpp"
#include "suites/support/text.hpp"
#include "suites/verify/machine.hpp"
#include "suites/verify/scan.hpp"

namespace weightproof::suites::cli {

int run_doctor(const Arguments&, Console& console) {
  const Machine machine = describe_machine();
  const std::string file_system = file_system_of(std::filesystem::current_path());
  const bool keeps = keeps_subnormals();
  if (console.is_json()) {
    JsonWriter json([&console](std::string_view text) { console.out(text); });
    const auto number_or_null = [&json](const char* name, const std::optional<std::uint64_t>& number) {
      json.name(name);
      if (number) {
        json.value(*number);
      } else {
        json.null();
      }
    };
    json.begin_object().member("schema", "weightproof.doctor/1").member("version", WEIGHTPROOF_VERSION);
    json.member("system", machine.system).member("cpu", machine.cpu).member("cpu_features", machine.cpu_features);
    json.member("cpu_threads", machine.threads);
    number_or_null("memory_bytes", machine.memory_bytes);
    number_or_null("memory_available_bytes", machine.memory_available_bytes);
    number_or_null("cgroup_limit_bytes", machine.cgroup_limit_bytes);
    json.name("gpu");
    if (machine.gpu.empty()) {
      json.null().member("gpu_reason", machine.gpu_reason);
    } else {
      json.value(machine.gpu);
    }
    json.member("file_system", file_system).member("keeps_subnormals", keeps).member("compiler", machine.compiler);
    json.end_object();
    json.flush();
    console.out("\n");
    return k_exit_done;
  }
  const auto row = [&console](std::string_view name, const std::string& text) {
    std::string left(name);
    left.append(left.size() < 16 ? 16 - left.size() : 1, ' ');
    console.line(console.styled(Tone::muted, left) + text);
  };
  const auto size = [](const std::optional<std::uint64_t>& bytes, const char* otherwise) {
    return bytes ? human_bytes(*bytes) : std::string(otherwise);
  };
  row("weightproof", WEIGHTPROOF_VERSION ", built with " + machine.compiler);
  row("system", machine.system);
  row("cpu", (machine.cpu.empty() ? std::string("not told by the system") : machine.cpu) + ", " +
                 counted(machine.threads, "thread", "threads"));
  row("cpu features", machine.cpu_features.empty() ? "none that matter here" : machine.cpu_features);
  row("memory", size(machine.memory_bytes, "not told") + ", of which " +
                    size(machine.memory_available_bytes, "not told") + " available");
  row("memory limit", size(machine.cgroup_limit_bytes, "none set by a control group"));
  row("gpu", machine.gpu.empty() ? "none: " + machine.gpu_reason : machine.gpu);
  row("file system", file_system.empty() ? "not told" : file_system + " (current directory)");
  row("subnormals",
      keeps ? "kept, as they must be"
            : console.styled(Tone::fail,
                             "flushed to zero: values would be lost; see `weightproof explain value.float_mode`"));
  return k_exit_done;
}

}  // namespace weightproof::suites::cli
