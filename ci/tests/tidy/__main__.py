# SPDX-License-Identifier: Apache-2.0
"""python3 -m tidy CHECK --root TREE [--build FOLDER]: prints what CHECK finds. Exit status 0 clean, 1 findings, 77 skipped."""
import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from . import duplicates, flags, includes, text
from .tree import Finding, Tree

CHECKS = {
    "arrows": includes.check_arrows,
    "json": includes.check_json,
    "spdx": text.check_spdx,
    "length": text.check_length,
    "words": text.check_words,
    "readme": text.check_readme,
    "links": text.check_links,
    "tables": text.check_tables,
    "duplicates": duplicates.check_duplicates,
}


def shellcheck(tree):
    findings = []
    for path in tree.shell():
        done = subprocess.run(["shellcheck", "-x", "-f", "gcc", path], cwd=tree.root, capture_output=True, text=True, check=False)
        findings += [Finding(path, 0, line) for line in done.stdout.splitlines()]
        if done.returncode and not done.stdout:
            findings.append(Finding(path, 0, done.stderr.strip() or f"shellcheck ended with {done.returncode}"))
    return findings


def main():
    parser = argparse.ArgumentParser(prog="tidy", description="Check the tree itself.")
    parser.add_argument("check", choices=[*CHECKS, "flags", "shellcheck"])
    parser.add_argument("--root", required=True, type=Path)
    parser.add_argument("--build", type=Path)
    arguments = parser.parse_args()
    tree = Tree(arguments.root)
    if arguments.check == "flags":
        findings = flags.check_flags(arguments.root, arguments.build)
    elif arguments.check == "shellcheck":
        if not shutil.which("shellcheck"):
            print("skip: shellcheck is not installed")
            return 77
        findings = shellcheck(tree)
    else:
        findings = CHECKS[arguments.check](tree)
    for finding in findings:
        print(finding)
    print(f"tidy {arguments.check}: {len(tree.paths)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
