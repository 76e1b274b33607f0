#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints why tests were skipped and fails when the set of reasons is not the expected one.

The expectation file has sections. A section's reasons (shell patterns, one a line) must all occur when its condition holds, and no
reason may occur that no holding section names:

    [always]          [no data]        [no gpu, data]
    a reason          ...              a comma means "and", "no" means "not"

A reason behind "? " may occur and need not: whether it does hangs on kernel or file system, which no condition here can tell.
"""
import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

CONDITIONS = {
    "always": lambda root: True,
    "data": lambda root: Path(os.environ.get("WEIGHTPROOF_SHARED_DIR", root.parent / "shared"), "data").is_dir(),
    "gpu": lambda root: Path("/dev/nvidia0").exists(),
    "cuda": lambda root: built_with_cuda,
    "chromium": lambda root: bool(shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")),
    "shellcheck": lambda root: bool(shutil.which("shellcheck")),
    "numpy": lambda root: subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True, check=False).returncode == 0,
    "root": lambda root: os.geteuid() == 0,
    "git": lambda root: bool(shutil.which("git")),
}

# Set by main() from the build's cache: AUTO decided then, and a toolkit that came later changes nothing.
built_with_cuda = False


def holds(condition, root, conditions=None):
    """Whether a section's heading, such as "no gpu, data", is true here."""
    table = conditions or CONDITIONS
    for term in condition.split(","):
        words = term.split()
        wanted = True
        if words[:1] == ["no"]:
            wanted, words = False, words[1:]
        if len(words) != 1 or words[0] not in table:
            raise ValueError(f"unknown condition '{term.strip()}'; known: {', '.join(sorted(table))}")
        if bool(table[words[0]](root)) != wanted:
            return False
    return True


def read_expected(text, root, conditions=None):
    """The patterns of all sections whose condition holds."""
    patterns, active = [], None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        heading = re.fullmatch(r"\[([^]]+)\]", line)
        if heading:
            active = holds(heading.group(1), root, conditions)
        elif active is None:
            raise ValueError(f"line {number}: a reason before the first section")
        elif active and line not in patterns:
            patterns.append(line)
    return patterns


def reason_of(output):
    """The reason a test gave, on one line. Google Test writes it below "Skipped"; the scripts print "skip: reason"."""
    found = re.search(r"^[^\n]*: Skipped\n(.*?)(?=\n\n|\n\[  |\Z)", output, re.M | re.S)
    if not found:
        found = re.search(r"^skip: (.*)$", output, re.M)
    reason = " ".join(found.group(1).split()) if found else ""
    return reason or "(no reason given)"


def read_junit(path):
    """(number of tests that ran, {reason: [test, ...]}) of a file written by ctest --output-junit."""
    ran, reasons = 0, {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status, name = case.get("status"), case.get("name")
        output = case.findtext("system-out") or ""
        if status == "disabled":
            reasons.setdefault("(disabled)", []).append(name)
        elif status == "notrun":
            skipped = case.find("skipped")
            message = skipped.get("message", "") if skipped is not None else ""
            if "[  FAILED  ]" in output:
                reasons.setdefault("(failed and skipped)", []).append(name)
            elif message.startswith("SKIP_"):
                reasons.setdefault(reason_of(output), []).append(name)
            else:
                reasons.setdefault(f"(not run: {message or 'unknown'})", []).append(name)
        else:
            ran += 1
    return ran, reasons


def compare(reasons, patterns):
    """Sentences that say how the reasons differ from the patterns; none when they agree."""
    faults = []
    for reason, tests in sorted(reasons.items()):
        if not any(fnmatch.fnmatchcase(reason, pattern.removeprefix("? ")) for pattern in patterns):
            faults.append(f"unexpected reason: {reason} ({len(tests)} tests, first {tests[0]})")
    for pattern in patterns:
        if not pattern.startswith("? ") and not any(fnmatch.fnmatchcase(reason, pattern) for reason in reasons):
            faults.append(f"expected reason did not occur: {pattern}")
    return faults


def main():
    parser = argparse.ArgumentParser(description="Compare the reasons for skipped tests with the expected ones.")
    parser.add_argument("--junit", required=True, type=Path)
    parser.add_argument("--expected", required=True, type=Path)
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    if not arguments.junit.is_file():
        print(f"skips: {arguments.junit} is missing: ctest did not finish")
        return 1
    global built_with_cuda
    cache = arguments.junit.parent / "CMakeCache.txt"
    built_with_cuda = cache.is_file() and re.search(r"^CMAKE_CUDA_COMPILER:\w+=(?!.*NOTFOUND)\S", cache.read_text(), re.M) is not None
    ran, reasons = read_junit(arguments.junit)
    print(f"skips: {ran} tests ran, {sum(map(len, reasons.values()))} skipped for {len(reasons)} reasons")
    for reason, tests in sorted(reasons.items()):
        print(f"  {len(tests):5}  {reason}")
    faults = compare(reasons, read_expected(arguments.expected.read_text(), root))
    if ran == 0:
        faults.append("no test ran")
    for fault in faults:
        print(f"skips: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
