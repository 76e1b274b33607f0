# SPDX-License-Identifier: Apache-2.0
"""The files of a source tree, read without git so that an unpacked archive is checked alike."""
import os
from dataclasses import dataclass
from pathlib import Path

SKIPPED_FOLDERS = {".git", ".cache", ".venv", "build", "reports-out", "__pycache__", "node_modules"}
CPP_SUFFIXES = (".cpp", ".hpp", ".cu", ".cuh", ".h", ".def", ".inc")
SCRIPT_SUFFIXES = (".py", ".sh", ".cmake", ".yml", ".yaml")
ROOMS = ("loader", "reference", "adapters", "fixtures", "suites", "reports", "ci")


@dataclass(frozen=True)
class Finding:
    """One fault: the file, from the root of the tree, its line (0: the file as a whole) and a sentence."""

    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


class Tree:
    """Files below a root by their slash-separated relative paths."""

    def __init__(self, root):
        self.root = Path(root)
        self.paths = []
        self._texts = {}
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith("build-"))
            for name in sorted(files):
                path = Path(folder, name)
                if name != ".git" and path.is_file() and not path.is_symlink():
                    self.paths.append(path.relative_to(self.root).as_posix())

    def text(self, path):
        """The file as text, or None where it is binary."""
        if path not in self._texts:
            data = (self.root / path).read_bytes()
            try:
                self._texts[path] = None if b"\0" in data else data.decode("utf-8")
            except UnicodeDecodeError:
                self._texts[path] = None
        return self._texts[path]

    def lines(self, path):
        text = self.text(path)
        return [] if text is None else text.splitlines()

    def cpp(self):
        return [p for p in self.paths if p.endswith(CPP_SUFFIXES) and p.split("/")[0] in ROOMS]

    def is_script(self, path):
        """Python, shell, CMake and pipeline sources, by suffix or by their first line."""
        name = path.rsplit("/", 1)[-1]
        if path.endswith(SCRIPT_SUFFIXES) or name == "CMakeLists.txt":
            return True
        return "." not in name.lstrip(".") and (self.text(path) or "").startswith("#!")

    def shell(self):
        found = []
        for path in self.paths:
            first = (self.text(path) or "").split("\n", 1)[0]
            if path.endswith(".sh") or (first.startswith("#!") and first.rstrip().endswith(("sh", "bash"))):
                found.append(path)
        return found


def is_public(path):
    """Whether a header is installed for others to include."""
    return path.endswith((".hpp", ".cuh", ".h")) and not path.endswith("_internal.hpp") and not is_test(path) and not path.startswith(("suites/", "ci/"))


def is_test(path):
    """Whether a C++ file belongs to tests, benchmarks or fuzz targets rather than to what is shipped."""
    parts = path.split("/")
    stem = parts[-1].rsplit(".", 1)[0]
    return bool({"tests", "bench", "benchmarks", "fuzz"} & set(parts[:-1])) or stem.endswith(("_test", "_bench", "_fuzz", "_testing"))
