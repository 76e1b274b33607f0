# SPDX-License-Identifier: Apache-2.0
"""Runs the blocks of README.md. A ```sh block is executed; a ```text block below it is what it must print on standard output, where
"..." stands for any text within a line and, alone on a line, for any number of lines."""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

arguments = None


def blocks_of(text):
    """[(line number, commands, expected output or None)] of a Markdown text."""
    found, fence, body, start, previous_end = [], None, [], 0, -1
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if fence is None and line.startswith("```"):
            fence, body, start = line[3:].strip(), [], number
        elif fence is not None and line.startswith("```"):
            if fence == "sh":
                found.append([start, "\n".join(body), None])
                previous_end = number
            elif fence == "text" and found and not any(part.strip() for part in lines[previous_end : start - 1]):
                found[-1][2] = body
            fence = None
        elif fence is not None:
            body.append(line)
    return [tuple(block) for block in found]


def matches(line, pattern):
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("...")), line) is not None


def difference(output, expected):
    """A sentence on the first expected line that the output lacks; None when it fits."""
    lines = [line.rstrip() for line in output.splitlines()]
    at, gap = 0, False
    for pattern in (line.rstrip() for line in expected):
        if pattern == "...":
            gap = True
            continue
        place = at
        while place < len(lines) and not matches(lines[place], pattern) and gap:
            place += 1
        if place >= len(lines) or not matches(lines[place], pattern):
            return f"expected {pattern!r}, found {lines[at] if at < len(lines) else 'the end'!r}"
        at, gap = place + 1, False
    if at < len(lines) and not gap:
        return f"expected the end, found {lines[at]!r}"
    return None


class Blocks(unittest.TestCase):
    def test_reading(self):
        text = "```sh\na\nb\n```\n\n```text\nout\n```\nwords\n```text\nnot its output\n```\n```cmake\nx\n```\n```sh\nc\n```\nwords\n```text\nz\n```\n"
        self.assertEqual(blocks_of(text), [(1, "a\nb", ["out"]), (16, "c", None)])

    def test_patterns(self):
        text = "## What holds today\n\n| what | tests |\n|---|---|\n| a | `A.*` `B` |\n| b `c` | `C` |\n\n## Next\n| x | `D` |\n"
        self.assertEqual(patterns_of(text), ["A.*", "B", "C"])

    def test_difference(self):
        self.assertIsNone(difference("a\nb 17 c\n", ["a", "b ... c"]))
        self.assertIsNone(difference("a\nx\ny\nb\n", ["a", "...", "b"]))
        self.assertIsNone(difference("a\nx\n", ["a", "..."]))
        self.assertIn("'b'", difference("a\nx\n", ["a", "b"]))
        self.assertIn("'the end'", difference("a\n", ["a", "b"]))
        self.assertIn("expected the end", difference("a\nb\n", ["a"]))
        self.assertIn("'c'", difference("a\nx\nb\n", ["a", "...", "c"]))


def patterns_of(text):
    """Test patterns in the last column of the table below "What holds today", each in a code span of its own."""
    section = text.partition("## What holds today\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row.rstrip("| ").rpartition(" | ")[2])]


class Readme(unittest.TestCase):
    def test_guarantees_name_tests(self):
        """Each row of the table names tests, and each of its patterns matches one."""
        listed = subprocess.run(["ctest", "--test-dir", str(arguments.build), "-N"], capture_output=True, text=True, check=True).stdout
        names = re.findall(r"Test +#\d+: (.+)", listed)
        patterns = patterns_of((arguments.source / "README.md").read_text())
        self.assertGreaterEqual(len(patterns), 30)
        for pattern in patterns:
            self.assertTrue(any(re.search(pattern, name) for name in names), f"no test matches {pattern}")

    def test_blocks_run(self):
        blocks = blocks_of((arguments.source / "README.md").read_text())
        self.assertGreaterEqual(len(blocks), 3)
        environment = {**os.environ, "WEIGHTPROOF_BUILD_DIR": str(arguments.build), "NO_COLOR": "1"}
        with tempfile.TemporaryDirectory(prefix="weightproof-readme-") as folder:
            # The commands are those of someone in a clone: scripts in ci/, the build in build/.
            Path(folder, "ci").symlink_to(arguments.source / "ci")
            Path(folder, "build").mkdir()
            Path(folder, "build/release").symlink_to(arguments.build)
            Path(folder, "state").write_text("")
            for line, commands, expected in blocks:
                # Variables that one block exports hold in the next, as in one terminal.
                script = f"set -euo pipefail\nsource ./state\n{commands}\nexport -p > ./state"
                done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
                said = f"README.md:{line}: status {done.returncode}\n{commands}\n--- standard output\n{done.stdout}--- standard error\n{done.stderr}"
                self.assertEqual(done.returncode, 0, said)
                if expected is not None:
                    fault = difference(done.stdout, expected)
                    self.assertIsNone(fault, f"{fault}\n{said}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--build", required=True, type=lambda text: Path(text).resolve())
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
