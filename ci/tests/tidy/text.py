# SPDX-License-Identifier: Apache-2.0
"""Checks of text: licence lines, length, words, paths, the shape of a room's README."""
import re

from .tree import CPP_SUFFIXES, ROOMS, Finding

LINES_MAX = 700
COLUMNS_MAX = 120
HEADINGS = ["Purpose", "Rules", "Map", "Add one", "Prove it"]
# Written in parts, so that this file does not contain them.
WORDS = ["TO" + "DO", "FIX" + "ME", "HA" + "CK", "XX" + "X"]
PHRASES = ["not " + "implemented", "un" + "implemented"]
WORD = re.compile(r"\b(" + "|".join(WORDS) + r")\b|\b(" + "|".join(PHRASES) + r")\b(?i:)", re.M)
MACHINE_PATH = re.compile(r"(?<![\w.$}~*\])-])/(?:wor" + r"k|home|root|tm" + r"p|Users)/[A-Za-z]")
DATA_SUFFIXES = (".json", ".safetensors", ".npy", ".bin", ".png", ".svg", ".xsd")


def _is_code(tree, path):
    return path.endswith(CPP_SUFFIXES) or tree.is_script(path)


def check_spdx(tree):
    """The licence line is the first of a source, or the second below an interpreter line."""
    findings = []
    for path in tree.paths:
        if not _is_code(tree, path):
            continue
        lines = tree.lines(path)[:2]
        comment = "//" if path.endswith(CPP_SUFFIXES) else "#"
        wanted = f"{comment} SPDX-License-Identifier: Apache-2.0"
        place = 1 if lines[:1] and lines[0].startswith("#!") else 0
        if len(lines) <= place or lines[place] != wanted:
            findings.append(Finding(path, place + 1, f"wants the line '{wanted}'"))
    return findings


def check_length(tree):
    findings = []
    for path in tree.paths:
        if _is_code(tree, path):
            lines = tree.lines(path)
            if len(lines) > LINES_MAX:
                findings.append(Finding(path, 0, f"has {len(lines)} lines, allowed {LINES_MAX}: split it by subject"))
    return findings


def check_words(tree):
    """Nothing left for later, no path of one machine, no stray spaces."""
    findings = []
    for path in tree.paths:
        if path.endswith(DATA_SUFFIXES) or tree.text(path) is None or path == "LICENSE":
            continue
        code = _is_code(tree, path)
        for number, line in enumerate(tree.lines(path), 1):
            word = WORD.search(line)
            if word:
                findings.append(Finding(path, number, f"'{word.group(0)}': finish it or leave it out"))
            machine = MACHINE_PATH.search(line)
            if machine:
                findings.append(Finding(path, number, f"'{machine.group(0)}...' is a path of one machine"))
            if code and line != line.rstrip():
                findings.append(Finding(path, number, "spaces at the end of the line"))
            if code and "\t" in line:
                findings.append(Finding(path, number, "a tab"))
        text = tree.text(path)
        if code and text and not text.endswith("\n"):
            findings.append(Finding(path, text.count("\n") + 1, "no newline at the end"))
    return findings


def rooms_with_readme(tree):
    """The rooms that exist: the top-level ones and the rooms of the loader."""
    found = set()
    for path in tree.paths:
        parts = path.split("/")
        if parts[0] in ROOMS and len(parts) > 1:
            found.add(parts[0])
        if parts[0] == "loader" and len(parts) == 3 and parts[2] == "CMakeLists.txt":
            found.add("/".join(parts[:2]))
    return sorted(found)


def headings_of(lines):
    """Second-level headings outside code blocks, with their line numbers."""
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and re.match(r"## ", line):
            yield number, line[3:].strip()


def check_readme(tree):
    findings = []
    for room in rooms_with_readme(tree):
        path = f"{room}/README.md"
        if path not in tree.paths:
            findings.append(Finding(path, 0, "is missing: each room has one"))
            continue
        headings = [heading for _, heading in headings_of(tree.lines(path))]
        if headings != HEADINGS:
            findings.append(Finding(path, 0, f"has the headings {headings}, wanted {HEADINGS}"))
    return findings


def check_tables(tree):
    """Tables are read in a terminal as well as on a page: no bar within a cell, which a terminal shows with its backslash and a page
    without one takes for the end of the cell, and as many cells in each row as in the first."""
    findings = []
    for path in tree.paths:
        if not path.endswith(".md"):
            continue
        fenced, cells = False, None
        for number, line in enumerate(tree.lines(path), 1):
            if line.startswith("```"):
                fenced = not fenced
            if fenced or not line.startswith("|"):
                cells = None
                continue
            if "\\|" in line:
                findings.append(Finding(path, number, "a bar within a cell: give each alternative a code span of its own"))
            found = len(re.findall(r"(?<!\\)\|", line)) - 1
            cells = cells or found
            if found != cells:
                findings.append(Finding(path, number, f"has {found} cells, the first row has {cells}"))
    return findings


def check_links(tree):
    """Relative links between the tree's Markdown files lead somewhere. A room without its README is check_readme's to find."""
    rooms = {f"{room}/README.md" for room in ROOMS}
    findings = []
    for path in tree.paths:
        if not path.endswith(".md"):
            continue
        folder = (tree.root / path).parent
        for number, line in enumerate(tree.lines(path), 1):
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
                if not re.match(r"[a-z]+:", target) and not (folder / target).exists() and not (folder == tree.root and target in rooms):
                    findings.append(Finding(path, number, f"links to {target}, which does not exist"))
    return findings
