// SPDX-License-Identifier: Apache-2.0
#include "suites/judge/request.hpp"

#include "suites/support/json_writer.hpp"

namespace weightproof::suites::judge {

std::string request_text(const Request& request) {
  std::string text;
  JsonWriter json([&text](std::string_view part) { text += part; });
  json.begin_object()
      .member("schema", "weightproof.request/1")
      .member("case", request.asked.id())
      .member("family", request.asked.fixture.family)
      .member("checkpoint", request.checkpoint.string())
      .member("wanted", to_string(request.asked.wanted))
      .member("names", to_string(request.asked.names))
      .member("dtype", request.asked.dtype);
  if (request.asked.is_of_rank()) {
    json.member("topology", request.asked.topology).member("rank", request.asked.rank);
  } else {
    json.name("topology").null().name("rank").null();  // one rank owns everything
  }
  json.member("output", request.output.string()).end_object();
  json.flush();
  return text + '\n';
}

std::vector<std::pair<std::string, std::string>> request_environment(const Request& request,
                                                                     const std::filesystem::path& document) {
  return {{"JUDGE_CASE", request.asked.id()},
          {"JUDGE_CHECKPOINT", request.checkpoint.string()},
          {"JUDGE_WANTED", std::string(to_string(request.asked.wanted))},
          {"JUDGE_NAMES", std::string(to_string(request.asked.names))},
          {"JUDGE_DTYPE", request.asked.dtype},
          {"JUDGE_TOPOLOGY", request.asked.topology},
          {"JUDGE_RANK", request.asked.is_of_rank() ? std::to_string(request.asked.rank) : std::string()},
          {"JUDGE_OUTPUT", request.output.string()},
          {"JUDGE_REQUEST", document.string()}};
}

}  // namespace weightproof::suites::judge
