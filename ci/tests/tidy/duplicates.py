# SPDX-License-Identifier: Apache-2.0
"""Independence of the reference: it and the fast side share no run of lines."""
import re

from .tree import Finding

RUN = 6
SIDES = (("loader/", "adapters/"), ("reference/",))


def _nontrivial(tree, path):
    """(line number, line without spaces) of the lines that say something: no brackets, includes, comments or lone keywords."""
    for number, line in enumerate(tree.lines(path), 1):
        bare = re.sub(r"\s+", "", re.sub(r"//.*", "", line))
        if len(re.findall(r"\w", bare)) < 4 or bare.startswith(("#include", "#pragma", "namespace", "usingnamespace", "break;", "public:", "private:")):
            continue
        yield number, bare


def check_duplicates(tree):
    first, second = ([p for p in tree.cpp() if p.startswith(side)] for side in SIDES)
    seen = {}
    for path in first:
        lines = list(_nontrivial(tree, path))
        for i in range(len(lines) - RUN + 1):
            seen.setdefault(tuple(text for _, text in lines[i : i + RUN]), (path, lines[i][0]))
    findings = []
    for path in second:
        lines, i = list(_nontrivial(tree, path)), 0
        while i + RUN <= len(lines):
            twin = seen.get(tuple(text for _, text in lines[i : i + RUN]))
            if twin:
                findings.append(Finding(path, lines[i][0], f"{RUN} lines equal those at {twin[0]}:{twin[1]}: the reference is written on its own"))
                i += RUN
            else:
                i += 1
    return findings
