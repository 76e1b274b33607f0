# SPDX-License-Identifier: Apache-2.0
"""Compiler flags: nothing that changes what floating point means."""
import json
import re
from pathlib import Path

from .tree import Finding

FORBIDDEN = re.compile(
    r"(?:^|\s)(-ffast-math|-Ofast|-funsafe-math-optimizations|-fassociative-math|-freciprocal-math|-ffinite-math-only|-fno-signed-zeros"
    r"|-ffp-contract=(?:fast|on)|-march=native|-mtune=native|--use_fast_math|-use_fast_math|--fmad=true)(?=\s|$)"
)
EXACT = ("reference/", "loader/codec/", "loader/exec/", "loader/save/", "fixtures/")


def check_commands(commands, root):
    """Findings for a parsed compile_commands.json."""
    findings = []
    if not commands:
        return [Finding("compile_commands.json", 0, "is empty")]
    for command in commands:
        try:
            path = Path(command["directory"], command["file"]).resolve().relative_to(Path(root).resolve()).as_posix()
        except ValueError:
            continue
        line = command.get("command") or " ".join(command["arguments"])
        for flag in FORBIDDEN.findall(line):
            # A benchmark may measure its floor with all that this machine has: it is neither shipped nor compared bit for bit.
            if flag.endswith("=native") and "/bench/" in path:
                continue
            findings.append(Finding(path, 0, f"is compiled with {flag}"))
        if path.startswith(EXACT) and path.endswith(".cpp") and "/tests/" not in path and "-ffp-contract=off" not in line:
            findings.append(Finding(path, 0, "is compiled without -ffp-contract=off"))
        if path.startswith(EXACT) and path.endswith(".cu") and "/tests/" not in path and "--fmad=false" not in line:
            findings.append(Finding(path, 0, "is compiled without --fmad=false"))
    return findings


def check_flags(root, build):
    path = Path(build, "compile_commands.json")
    if not path.is_file():
        return [Finding("compile_commands.json", 0, f"is missing from {Path(build).name}")]
    return check_commands(json.loads(path.read_text()), root)
