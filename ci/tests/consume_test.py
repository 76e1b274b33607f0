# SPDX-License-Identifier: Apache-2.0
"""Consumes weightproof as other projects do: from an installed prefix that was moved to a path with spaces, and as a subdirectory."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
arguments = None


def run(*command, cwd=None, fails=False):
    """Runs a command and returns its output; raises with the output when it does not end as expected."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def configure(source, build, *definitions):
    instrumented = [f"-DCMAKE_CXX_FLAGS={arguments.flags}"] if arguments.flags else []
    return ["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_COMPILER={arguments.compiler}", *instrumented, *definitions]


class Consume(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weightproof consumer ")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def staged(self):
        """An installed prefix, moved after the installation."""
        first, second = self.folder / "staged here", self.folder / "and moved" / "a prefix"
        for component in ("development", "testing"):
            run("cmake", "--install", arguments.build, "--prefix", first, "--component", component)
        second.parent.mkdir()
        shutil.move(first, second)
        return second

    def test_find_package(self):
        prefix, build = self.staged(), self.folder / "build"
        run(*configure(HERE / "consume/find_package", build, f"-DCMAKE_PREFIX_PATH={prefix}"))
        run("cmake", "--build", build)
        self.assertIn("BF16 has 16 bits", run(build / "consumer"))

    def test_prefix_is_relocatable_and_clean(self):
        prefix = self.staged()
        package = sorted(prefix.rglob("*.cmake"))
        self.assertGreaterEqual(len(package), 4, package)
        for path in package:
            text = path.read_text()
            for place in (arguments.source, arguments.build, self.folder):
                self.assertNotIn(str(place), text, f"{path.name} names a folder of this machine")
            self.assertNotIn("weightproof_build_flags", text, f"{path.name} exports the build's own flags")
        headers = {path.relative_to(prefix / "include/weightproof").as_posix() for path in (prefix / "include/weightproof").rglob("*.*")}
        self.assertIn("loader/core/dtype.hpp", headers)
        self.assertIn("loader/core/dtypes.def", headers)
        self.assertEqual([h for h in headers if h.endswith("_internal.hpp") or "/tests/" in h], [])

    def test_broken_prefix_is_noticed(self):
        """The test above can fail: without one header or one library the consumer does not build."""
        prefix, build = self.staged(), self.folder / "build"
        (prefix / "include/weightproof/loader/core/dtypes.def").unlink()
        run(*configure(HERE / "consume/find_package", build, f"-DCMAKE_PREFIX_PATH={prefix}"))
        self.assertIn("dtypes.def", run("cmake", "--build", build, fails=True))
        next(prefix.rglob("libweightproof_core.a")).unlink()
        self.assertIn("libweightproof_core.a", run(*configure(HERE / "consume/find_package", build), fails=True))

    def test_add_subdirectory(self):
        build = self.folder / "build"
        run(*configure(HERE / "consume/add_subdirectory", build, f"-DWEIGHTPROOF_SOURCE={arguments.source}", "-DWEIGHTPROOF_CUDA=OFF"))
        run("cmake", "--build", build, "--parallel", os.cpu_count() or 1)
        self.assertIn("BF16 has 16 bits", run(build / "consumer"))


class Headers(unittest.TestCase):
    PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(headers LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH "{modules}")
include(weightproof_options)
include(weightproof_targets)
weightproof_library(NAME sample)
"""

    def test_header_that_needs_another_is_noticed(self):
        with tempfile.TemporaryDirectory(prefix="weightproof headers ") as folder:
            source, build = Path(folder, "source"), Path(folder, "build")
            source.mkdir()
            (source / "CMakeLists.txt").write_text(self.PROJECT.format(modules=arguments.source / "ci/cmake"))
            (source / "alone.hpp").write_text("#pragma once\n#include <string>\ninline std::string alone() { return {}; }\n")
            (source / "rows.def").write_text("X(this is a table, no header)\n")
            run(*configure(source, build))
            run("cmake", "--build", build, "--target", "all_verify_interface_header_sets")
            (source / "needy.hpp").write_text("#pragma once\ninline std::string needy() { return {}; }\n")
            self.assertIn("needy.hpp", run("cmake", "--build", build, "--target", "all_verify_interface_header_sets", fails=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True, type=Path)
    parser.add_argument("--build", required=True, type=Path)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--flags", default="")
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
