# SPDX-License-Identifier: Apache-2.0
"""Each tidy check finds a violation planted for it, at its place, and nothing in the clean twin."""
import tempfile
import unittest
from pathlib import Path

from tidy import duplicates, flags, includes, text
from tidy.tree import Tree

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weightproof-tidy-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path, content):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)

    def found(self, check):
        return [str(finding) for finding in check(Tree(self.root))]

    def assert_one(self, check, *parts):
        found = self.found(check)
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])


class Arrows(Planted):
    def test_every_arrow(self):
        """Every pair of rooms: an include is found exactly where the table has no arrow."""
        rooms = [room for room in includes.ARROWS if room != "loader/include"]
        for room in rooms:
            self.write(f"{room}/thing.hpp", "#pragma once\n")
        for source in rooms:
            for target in rooms:
                path = f"{source}/user.cpp"
                self.write(path, f'{LICENCE}#include "{target}/thing.hpp"\n')
                allowed = source == target or includes._covers(includes.ARROWS[source][0], target)
                found = self.found(includes.check_arrows)
                with self.subTest(source=source, target=target):
                    self.assertEqual(len(found), 0 if allowed else 1, found)
                    if not allowed:
                        self.assertIn(f"{path}:2: {source} may not include {target}", found[0])
                (self.root / path).unlink()

    def test_arrows_of_the_house(self):
        """The ones that matter most, stated apart from the table."""
        forbidden = [
            ("reference", "loader/core"), ("reference", "adapters"), ("loader/core", "adapters"), ("loader/exec", "adapters"), ("fixtures", "loader/core"),
            ("fixtures", "reference"), ("reports", "loader/core"), ("adapters", "loader/storage"), ("loader/core", "loader/storage"), ("loader/plan", "loader/exec"),
            ("loader/codec", "loader/storage"), ("loader/measure", "loader/storage"), ("adapters", "suites"), ("reference", "fixtures"),
        ]  # fmt: skip
        for source, target in forbidden:
            self.assertFalse(includes._covers(includes.ARROWS[source][0], target), (source, target))
        self.assertTrue(includes._covers(includes.ARROWS["suites"][0], "loader/exec"))

    def test_third_party(self):
        for path, header, kind in [
            ("reference/a.cpp", "fmt/format.h", "tool"),
            ("loader/plan/a.cpp", "nlohmann/json.hpp", "json"),
            ("loader/core/a.cpp", "Eigen/Core", "eigen"),
            ("adapters/a.cpp", "unistd.h", "posix"),
            ("reports/a.cpp", "boost/any.hpp", "unknown"),
            ("loader/core/a.cpp", "gtest/gtest.h", "test"),
        ]:
            with self.subTest(path=path, header=header):
                self.write(path, f"{LICENCE}#  include <{header}>\n")
                self.assert_one(includes.check_arrows, f"{path}:2:", kind)
                (self.root / path).unlink()
        self.write("reference/a.cpp", f"{LICENCE}#include <Eigen/Core>\n#include <vector>\n#include <nlohmann/json.hpp>\n")
        self.write("adapters/tests/a_test.cpp", f"{LICENCE}#include <gtest/gtest.h>\n#include <unistd.h>\n#include <nlohmann/json.hpp>\n")
        self.write("adapters/bench/a_bench.cpp", f"{LICENCE}#include <simdjson.h>\n")
        self.assertEqual(self.found(includes.check_arrows), [])
        self.write("adapters/tests/b_test.cpp", f"{LICENCE}#include <simdjson.h>\n")
        self.assert_one(includes.check_arrows, "adapters/tests/b_test.cpp:2:", "tool")

    def test_public_headers(self):
        self.write("reports/a.hpp", f"{LICENCE}#include <nlohmann/json_fwd.hpp>\n")
        self.assert_one(includes.check_arrows, "reports/a.hpp:2:", "public header")
        (self.root / "reports/a.hpp").rename(self.root / "reports/a_internal.hpp")
        self.assertEqual(self.found(includes.check_arrows), [])
        self.write("reports/b.hpp", f'{LICENCE}#include "reports/a_internal.hpp"\n')
        self.assert_one(includes.check_arrows, "reports/b.hpp:2:", "not installed")

    def test_spelling(self):
        self.write("adapters/b.hpp", LICENCE)
        self.write("adapters/a.cpp", f'{LICENCE}#include "b.hpp"\n')
        self.assert_one(includes.check_arrows, "adapters/a.cpp:2:", "root of the repository")
        self.write("adapters/a.cpp", f'{LICENCE}#include "adapters/c.hpp"\n')
        self.assert_one(includes.check_arrows, "does not exist")
        self.write("adapters/a.cpp", f"{LICENCE}#include <adapters/b.hpp>\n")
        self.assert_one(includes.check_arrows, "in quotes")
        self.write("adapters/tests/help_testing.hpp", LICENCE)
        self.write("adapters/a.cpp", f'{LICENCE}#include "adapters/tests/help_testing.hpp"\n')
        self.assert_one(includes.check_arrows, "belongs to tests")
        # A source compiled a second time with other flags says so.
        self.write("adapters/a.cpp", f'{LICENCE}#include "adapters/d.cpp"\n')
        self.write("adapters/d.cpp", LICENCE)
        self.assert_one(includes.check_arrows, "adapters/a.cpp:2:", "a source file")
        self.write("adapters/a.cpp", f'{LICENCE}#include "adapters/d.cpp"  // NOLINT(bugprone-suspicious-include)\n')
        self.assertEqual(self.found(includes.check_arrows), [])

    def test_unknown_room(self):
        self.write("loader/extra/a.cpp", LICENCE)
        self.assert_one(includes.check_arrows, "loader/extra/a.cpp", "no row")

    def test_json_units(self):
        self.write("fixtures/json_internal.hpp", f"{LICENCE}#include <nlohmann/json.hpp>\n")
        for i in range(includes.JSON_UNITS_MAX):
            self.write(f"fixtures/a{i}.cpp", f'{LICENCE}#include "fixtures/json_internal.hpp"\n')
        self.write("fixtures/tests/a_test.cpp", f"{LICENCE}#include <nlohmann/json.hpp>\n")
        self.assertEqual(self.found(includes.check_json), [])
        self.write("fixtures/z.cpp", f"{LICENCE}#include <nlohmann/json.hpp>\n")
        self.assert_one(includes.check_json, "fixtures/z.cpp", f"{includes.JSON_UNITS_MAX + 1} translation units")


class Text(Planted):
    def test_spdx(self):
        self.write("loader/a.cpp", "// a file\n")
        self.assert_one(text.check_spdx, "loader/a.cpp:1:")
        self.write("loader/a.cpp", LICENCE)
        self.write("ci/b", "#!/bin/sh\n# SPDX-License-Identifier: MIT\n")
        self.assert_one(text.check_spdx, "ci/b:2:")
        self.write("ci/b", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n")
        self.write("suites/CMakeLists.txt", "# SPDX-License-Identifier: Apache-2.0\n")
        self.assertEqual(self.found(text.check_spdx), [])
        self.write("loader/codes.def", "X(a)\n")
        self.assert_one(text.check_spdx, "loader/codes.def:1:")

    def test_length(self):
        self.write("loader/a.cpp", "int a;\n" * text.LINES_MAX)
        self.assertEqual(self.found(text.check_length), [])
        self.write("loader/a.cpp", "int a;\n" * (text.LINES_MAX + 1))
        self.assert_one(text.check_length, "loader/a.cpp", str(text.LINES_MAX + 1))

    def test_words(self):
        for line in [f"int a;  // {word} later" for word in (*text.WORDS, *text.PHRASES)]:
            with self.subTest(line=line):
                self.write("loader/a.cpp", f"{LICENCE}{line}\n")
                self.assert_one(text.check_words, "loader/a.cpp:2:")
        self.write("loader/a.cpp", f"{LICENCE}int todolist, hacked;\n")
        self.assertEqual(self.found(text.check_words), [])

    def test_paths(self):
        for line in ["/tm" + "p/x", "'/wor" + "k/main'", "(/ho" + "me/someone)", "see /ro" + "ot/x"]:
            with self.subTest(line=line):
                self.write("ci/notes.md", line + "\n")
                self.assert_one(text.check_words, "ci/notes.md:1:", "path of one machine")
        for line in ["build/tm" + "p/x", "https://example.org/ho" + "me/x", "$TMPDIR/wor" + "k/a", "/etc/os-release"]:
            with self.subTest(line=line):
                self.write("ci/notes.md", line + "\n")
                self.assertEqual(self.found(text.check_words), [])

    def test_layout(self):
        for content, message in [("int a; \n", "spaces"), ("\tint a;\n", "tab"), ("int a;", "newline")]:
            with self.subTest(message=message):
                self.write("loader/a.cpp", content)
                self.assert_one(text.check_words, "loader/a.cpp:1:", message)

    def test_readme(self):
        good = "# A room\n" + "".join(f"\n## {heading}\nWords.\n" for heading in text.HEADINGS)
        self.write("reports/README.md", good + "\n```sh\n## not a heading\n```\n")
        self.write("loader/README.md", good)
        self.write("loader/core/CMakeLists.txt", "")
        self.assert_one(text.check_readme, "loader/core/README.md", "missing")
        self.write("loader/core/README.md", good.replace("## Rules", "## Rule"))
        self.assert_one(text.check_readme, "loader/core/README.md", "'Rule'")
        self.write("loader/core/README.md", good + "\n## More\n")
        self.assert_one(text.check_readme, "loader/core/README.md", "'More'")
        self.write("loader/core/README.md", good)
        self.assertEqual(self.found(text.check_readme), [])

    def test_links(self):
        self.write("README.md", "[a](ci/README.md) [b](ci/gone.md#part) [c](https://example.org) [d](#here)\n")
        self.write("ci/README.md", "[up](../README.md)\n")
        self.assert_one(text.check_links, "README.md:1:", "ci/gone.md")

    def test_tables(self):
        sound = "| a | b |\n|---|---|\n| `x` `y` | z |\n\n```\n| a \\| b |\n```\nA | B, `c|d`\n"
        self.write("README.md", sound)
        self.assertEqual(self.found(text.check_tables), [])
        self.write("README.md", sound.replace("`x` `y`", "`x\\|y`"))
        self.assert_one(text.check_tables, "README.md:3:", "code span of its own")
        self.write("README.md", sound.replace("`x` `y`", "`x|y`"))
        self.assert_one(text.check_tables, "README.md:3:", "has 3 cells, the first row has 2")


class Independence(Planted):
    BODY = [f"value_{i} = compute(value_{i - 1}, {i});" for i in range(1, 7)]

    def test_run_of_six(self):
        self.write("loader/core/a.cpp", LICENCE + "void f() {\n" + "\n".join(self.BODY) + "\n}\n")
        spaced = "\n\n".join("    " + line.replace("(", "( ") + "  // said otherwise" for line in self.BODY)
        self.write("reference/b.cpp", LICENCE + "int g() {\n" + spaced + "\nreturn 1;\n}\n")
        self.assert_one(duplicates.check_duplicates, "reference/b.cpp:3:", "loader/core/a.cpp:3")

    def test_run_of_five(self):
        self.write("adapters/a.cpp", LICENCE + "\n".join(self.BODY) + "\n")
        self.write("reference/b.cpp", LICENCE + "\n".join(self.BODY[:5]) + "\n}\n{\nother = compute();\n" + self.BODY[5] + "\n")
        self.assertEqual(self.found(duplicates.check_duplicates), [])

    def test_trivial_lines_are_no_run(self):
        trivial = "#include <vector>\n#include <string>\n#include <map>\n#include <set>\n#include <array>\n#include <span>\n}\n}\n{\nelse\nif\n"
        self.write("loader/core/a.cpp", trivial)
        self.write("reference/b.cpp", trivial)
        self.assertEqual(self.found(duplicates.check_duplicates), [])


class Flags(unittest.TestCase):
    def command(self, path, extra):
        return {"directory": "/s", "file": path, "command": f"c++ {extra} -c {path}"}

    def test_forbidden(self):
        for flag in ["-ffast-math", "-Ofast", "-march=native", "-ffp-contract=fast", "--use_fast_math"]:
            found = flags.check_commands([self.command("suites/a.cpp", f"-O3 {flag}")], "/s")
            self.assertEqual([str(f) for f in found], [f"suites/a.cpp: is compiled with {flag}"])

    def test_native_in_benchmarks(self):
        found = flags.check_commands([self.command("suites/bench/a.cpp", "-march=native -ffast-math")], "/s")
        self.assertEqual([str(f) for f in found], ["suites/bench/a.cpp: is compiled with -ffast-math"])

    def test_contraction(self):
        found = flags.check_commands([self.command("reference/a.cpp", "-O3")], "/s")
        self.assertEqual(len(found), 1)
        self.assertIn("-ffp-contract=off", found[0].message)
        self.assertEqual(flags.check_commands([self.command("reference/a.cpp", "-O3 -ffp-contract=off -fno-fast-math")], "/s"), [])
        self.assertEqual(len(flags.check_commands([self.command("loader/codec/cuda/a.cu", "-O3")], "/s")), 1)

    def test_nothing_compiled(self):
        self.assertEqual(len(flags.check_commands([], "/s")), 1)
        self.assertEqual(len(flags.check_flags("/s", "/s/none")), 1)


if __name__ == "__main__":
    unittest.main()
