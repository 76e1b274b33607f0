# SPDX-License-Identifier: Apache-2.0
"""The scripts' own behaviour: help from any folder, usage errors, and a set-up that installs what is missing and nothing else. The
package tools are replaced by small programs that write down how they were called."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

CI = Path(__file__).resolve().parent.parent
MISSING = ["libcli11-dev", "ninja-build"]

FAKES = {
    # Knows every package but the missing ones; one of those it has met before and forgotten.
    "dpkg-query": """for name in "$@"; do
  case "$name" in -*|'$'*) ;; MISSING0) echo "$name not-installed" ;; MISSING1) ;; *) echo "$name:amd64 installed" ;; esac
done""",
    "apt-get": 'echo "apt-get $*" >> "$CALLS"; exit "${APT_STATUS:-0}"',
    "sudo": 'if [ "${SUDO_STATUS:-1}" != 0 ]; then exit 1; fi; shift; exec "$@"',
    "id": 'echo "${FAKE_UID:-0}"',
}


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weightproof scripts ")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.calls = self.folder / "calls"

    def fakes(self, missing):
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        for name, body in FAKES.items():
            for i in range(2):
                body = body.replace(f"MISSING{i}", missing[i] if i < len(missing) else f"none{i}")
            (tools / name).write_text(f"#!/bin/sh\n{body}\n")
            (tools / name).chmod(0o755)
        return tools

    def run_script(self, name, *words, missing=None, **environment):
        path = os.environ["PATH"] if missing is None else f"{self.fakes(missing)}:{os.environ['PATH']}"
        done = subprocess.run(
            [CI / name, *words], cwd=self.folder, env={**os.environ, "PATH": path, "CALLS": str(self.calls), **environment}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def called(self):
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def test_help(self):
        for name in ("setup", "verify", "test", "sanitize", "lint", "bare.sh"):
            for word in ("-h", "--help"):
                with self.subTest(name=name):
                    status, out, error = self.run_script(name, word)
                    self.assertEqual((status, error), (0, ""))
                    self.assertIn(f"Usage: ci/{name}", out)

    def test_usage(self):
        self.assertEqual(self.run_script("verify", "x", "--report")[0], 2)
        self.assertEqual(self.run_script("setup", "--nonsense")[0], 2)
        self.assertEqual(self.run_script("lint", "--nonsense")[0], 2)

    def test_nothing_missing(self):
        status, _, error = self.run_script("setup", missing=[])
        self.assertEqual(status, 0, error)
        self.assertEqual(self.called(), [])

    def test_root_installs_what_is_missing(self):
        status, _, error = self.run_script("setup", missing=MISSING)
        self.assertEqual(status, 0, error)
        update, install = self.called()
        self.assertTrue(update.endswith(" update"), update)
        self.assertTrue(install.endswith(f" install --no-install-recommends {MISSING[1]} {MISSING[0]}"), install)

    def test_sudo_without_password(self):
        status, _, error = self.run_script("setup", missing=MISSING, FAKE_UID="1000", SUDO_STATUS="0")
        self.assertEqual(status, 0, error)
        self.assertEqual(len(self.called()), 2)

    def test_without_rights(self):
        for name in ("setup", "verify", "test", "sanitize", "../.ci/run"):
            with self.subTest(name=name):
                status, _, error = self.run_script(name, missing=MISSING, FAKE_UID="1000")
                self.assertEqual(status, 3)
                self.assertIn(f"sudo apt-get update && sudo apt-get install -y --no-install-recommends {MISSING[1]} {MISSING[0]}\n", error)
                self.assertEqual(self.called(), [])

    def test_apt_fails(self):
        status, _, error = self.run_script("setup", missing=MISSING, APT_STATUS="100")
        self.assertEqual(status, 3)
        self.assertIn("apt-get update && apt-get install", error)


if __name__ == "__main__":
    unittest.main()
