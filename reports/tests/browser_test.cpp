// SPDX-License-Identifier: Apache-2.0
// The page in headless Chromium, offline; tests/browser_checks.py says what each check asks.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "reports/tests/support.hpp"

namespace weightproof::reports {
namespace {

class Browser : public testing::TestWithParam<const char*> {};

TEST_P(Browser, Check) {
  if (!test::have("chromium") && !test::have("chromium-browser") && !test::have("google-chrome")) {
    GTEST_SKIP() << "no Chromium is installed";
  }
  if (!test::have("python3")) {
    GTEST_SKIP() << "python3 is not installed";
  }
  const test::TempDir dir;
  const auto [made, list] =
      test::run(test::quoted(std::filesystem::path(WEIGHTPROOF_BINARY_DIR) / "reports/reports_write_sample") + " " +
                test::quoted(dir.path()));
  ASSERT_EQ(made, 0) << list;
  const auto [status, said] =
      test::run("python3 " + test::quoted(std::filesystem::path(WEIGHTPROOF_SOURCE_DIR) / "reports/tests/browser.py") +
                " check " + GetParam() + " " + test::quoted(dir.path()));
  EXPECT_EQ(status, 0) << said;
}

INSTANTIATE_TEST_SUITE_P(Page, Browser,
                         testing::Values("quiet", "minute", "keys", "contained", "printed", "large", "themes"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace weightproof::reports
