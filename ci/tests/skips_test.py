# SPDX-License-Identifier: Apache-2.0
"""ci/skips.py: an unexpected reason, a missing one, a disabled test and a test that failed and skipped are all faults."""
import importlib.util
import tempfile
import unittest
from pathlib import Path
from xml.sax.saxutils import escape

specification = importlib.util.spec_from_file_location("skips", Path(__file__).resolve().parent.parent / "skips.py")
skips = importlib.util.module_from_spec(specification)
specification.loader.exec_module(skips)

GTEST = "[ RUN      ] A.b\n/a/b.cpp:3: Skipped\nno real data\nin this folder\n[  SKIPPED ] A.b (0 ms)\n"
CONDITIONS = {"always": lambda root: True, "data": lambda root: True, "gpu": lambda root: False}


def case(name, status, output="", skipped=None):
    inner = f'<skipped message="{skipped}"/>' if skipped else ""
    return f'<testcase name="{name}" status="{status}">{inner}<system-out>{escape(output)}</system-out></testcase>'


class Skips(unittest.TestCase):
    def read(self, *cases):
        with tempfile.TemporaryDirectory(prefix="weightproof-skips-") as folder:
            path = Path(folder, "junit.xml")
            path.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            return skips.read_junit(path)

    def test_reasons(self):
        ran, reasons = self.read(
            case("a", "run"),
            case("b", "notrun", GTEST, "SKIP_REGULAR_EXPRESSION_MATCHED"),
            case("c", "notrun", "skip: no browser\n", "SKIP_RETURN_CODE=77"),
            case("d", "disabled", "Disabled"),
            case("e", "notrun", GTEST + "[  FAILED  ] A.b\n", "SKIP_REGULAR_EXPRESSION_MATCHED"),
            case("f", "notrun", "", "SKIP_RETURN_CODE=77"),
            case("g", "notrun", "Unable to find executable"),
            case("h", "fail", "boom"),
        )
        self.assertEqual(ran, 2)
        self.assertEqual(
            reasons,
            {
                "no real data in this folder": ["b"],
                "no browser": ["c"],
                "(disabled)": ["d"],
                "(failed and skipped)": ["e"],
                "(no reason given)": ["f"],
                "(not run: unknown)": ["g"],
            },
        )

    def test_compare(self):
        self.assertEqual(skips.compare({"no browser at x": ["c"]}, ["no browser*"]), [])
        self.assertEqual(skips.compare({"no browser": ["c"]}, []), ["unexpected reason: no browser (1 tests, first c)"])
        self.assertEqual(skips.compare({}, ["no browser"]), ["expected reason did not occur: no browser"])

    def test_optional(self):
        self.assertEqual(skips.compare({}, ["? this kernel*"]), [])
        self.assertEqual(skips.compare({"this kernel is old": ["c"]}, ["? this kernel*"]), [])

    def test_sections(self):
        text = "# words\n[always]\na\n[data]\nb\n[no data]\nc\n[no gpu, data]\nd\n[gpu]\ne\n"
        self.assertEqual(skips.read_expected(text, None, CONDITIONS), ["a", "b", "d"])
        with self.assertRaises(ValueError):
            skips.read_expected("[moon]\n", None, CONDITIONS)
        with self.assertRaises(ValueError):
            skips.read_expected("a\n", None, CONDITIONS)


if __name__ == "__main__":
    unittest.main()
