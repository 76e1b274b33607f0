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
        for name in ("setup", "verify", "test", "sanitize", "lint", "bare.sh", "gate", "gpu.sh"):
            for word in ("-h", "--help"):
                with self.subTest(name=name):
                    status, out, error = self.run_script(name, word)
                    self.assertEqual((status, error), (0, ""))
                    self.assertIn(f"Usage: ci/{name}", out)

    def test_usage(self):
        self.assertEqual(self.run_script("verify", "x", "--report")[0], 2)
        self.assertEqual(self.run_script("setup", "--nonsense")[0], 2)
        self.assertEqual(self.run_script("lint", "--nonsense")[0], 2)
        self.assertEqual(self.run_script("gate")[0], 2)
        self.assertEqual(self.run_script("gate", "--base")[0], 2)
        self.assertEqual(self.run_script("gate", "--verb", "nonsense", "x")[0], 2)
        self.assertEqual(self.run_script("gpu.sh", "--nonsense")[0], 2)

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

    def test_gpu_is_required(self):
        """Without a device nothing is built: the tools that would tell of one are not on the path."""
        tools = self.folder / "few"
        tools.mkdir()
        for name in ("bash", "dirname", "mkdir", "sed", "head", "nproc", "awk", "cat"):
            (tools / name).symlink_to(f"/usr/bin/{name}")
        done = subprocess.run([tools / "bash", CI / "gpu.sh", "--require-gpu"], cwd=self.folder, env={"PATH": str(tools)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("no GPU answers nvidia-smi", done.stderr)

    def run_gpu(self, ctest_status, bench_status, *words):
        """gpu.sh with a build, a ctest and a benchmark that are small programs, and a device that is one."""
        build, tools = self.folder / "build", self.fakes([])
        (build / "bin").mkdir(parents=True, exist_ok=True)
        (build / "build.ninja").write_text("")
        (build / "CMakeCache.txt").write_text("")
        junit = """<testsuite><testcase name="A.Passes"/><testcase name="A.IsSkipped"><skipped/><system-out>a_test.cpp:3: Skipped
no CUDA device answers

</system-out></testcase>FAILED</testsuite>""".replace("FAILED", '<testcase name="A.Fails"><failure/></testcase>' if ctest_status else "")
        programs = {
            tools / "nvidia-smi": 'echo "Some GPU, 580.1, 100 MiB"',
            tools / "nvcc": 'echo "release 13.0, V13.0.88"',
            tools / "cmake": 'echo "cmake $*" >> "$CALLS"',
            tools / "ctest": f"""echo "ctest $*" >> "$CALLS"
while [ $# -gt 0 ]; do if [ "$1" = --output-junit ]; then cat > "$2" <<'X'
{junit}
X
fi; shift; done; exit {ctest_status}""",
            build / "bin/device_bench": f"echo 12 GB/s; exit {bench_status}",
        }
        for path, body in programs.items():
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        status, out, error = self.run_script("gpu.sh", "--require-gpu", "--report", "out", *words, missing=[], WEIGHTPROOF_BUILD_DIR=str(build))
        summary = self.folder / "out/summary.md"
        return status, summary.read_text() if summary.exists() else out + error

    def test_gpu_reports(self):
        status, summary = self.run_gpu(0, 0)
        self.assertEqual(status, 0, summary)
        for text in ("Device: Some GPU, 580.1, 100 MiB. CUDA toolkit: 13.0.", "1 passed, 0 failed, 1 skipped.",
                     "skipped, no CUDA device answers: 1 (`A.IsSkipped`)", "== device_bench", "12 GB/s"):  # fmt: skip
            self.assertIn(text, summary)
        self.assertTrue(any("-L cuda" in call for call in self.called()), self.called())

    def test_gpu_failures_are_told(self):
        status, summary = self.run_gpu(8, 0, "--no-bench")
        self.assertEqual(status, 1, summary)
        self.assertIn("- failed: `A.Fails`", summary)
        self.assertIn("none were run", summary)
        status, summary = self.run_gpu(0, 3)
        self.assertEqual(status, 1, summary)
        self.assertIn("(ended with status 3)", summary)

    def fake_tool(self, verify, compare=0):
        """A weightproof that writes down how it was called, writes a report and ends as it is told."""
        tool = self.folder / "weightproof"
        tool.write_text(f"""#!/bin/bash
echo "$*" >> "$CALLS"
out=""; previous=""
for word in "$@"; do
  if [[ "$previous" == --report || "$previous" == --out ]]; then out="$word"; fi
  previous="$word"
done
mkdir -p "$out"
for file in report.json annotations.txt summary.md; do echo "$1 $file" > "$out/$file"; done
if [[ "$1" == report ]]; then exit {compare}; fi
exit {verify}
""")
        tool.chmod(0o755)
        return str(tool)

    def test_gate_without_a_base(self):
        for status in (0, 1, 3):
            with self.subTest(status=status):
                tool = self.fake_tool(status)
                found, _, error = self.run_script("gate", "--tool", tool, "--report", "out", "--commit", "c", "model", "--strict")
                self.assertEqual(found, status, error)
        self.assertEqual(self.called()[0], "verify --report out --format github,gitlab,openmetrics,badge,summary --commit c model --strict")
        self.assertEqual(len(self.called()), 3)

    def test_gate_against_a_base(self):
        (self.folder / "base.json").write_text("{}")
        for verify, compare, wanted in ((1, 0, 0), (0, 1, 1), (1, 1, 1), (3, 0, 3)):
            with self.subTest(verify=verify, compare=compare):
                self.calls.unlink(missing_ok=True)
                tool = self.fake_tool(verify, compare)
                found, _, error = self.run_script("gate", "--tool", tool, "--report", "out", "--base", "base.json", "model", "--strict", GITHUB_SHA="abc")
                self.assertEqual(found, wanted, error)
                calls = self.called()
                self.assertEqual(calls[0], "verify --report out --commit abc model --strict")
                if verify == 3:
                    self.assertEqual(len(calls), 1)
                else:
                    self.assertTrue(calls[1].startswith("report compare base.json out/report.json --out out --format github"), calls)
        found, _, error = self.run_script("gate", "--tool", self.fake_tool(1), "--report", "out", "--base", "absent.json", "model")
        self.assertEqual(found, 1)
        self.assertIn("no report of the base", error)

    def test_gate_shows_nothing_of_another_run(self):
        """What lies in the folder after an error was written by an earlier run."""
        (self.folder / "out").mkdir()
        (self.folder / "out/annotations.txt").write_text("stale")
        (self.folder / "out/summary.md").write_text("stale")
        tool = self.folder / "weightproof"
        tool.write_text("#!/bin/sh\nexit 3\n")
        tool.chmod(0o755)
        summary, output = self.folder / "summary", self.folder / "output"
        status, out, error = self.run_script("gate", "--tool", tool, "--report", "out", "model",
                                             GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary), GITHUB_OUTPUT=str(output))  # fmt: skip
        self.assertEqual((status, out), (3, ""))
        self.assertIn("gate: verify ended with status 3, so there is no report of it", error)
        self.assertFalse(summary.exists())
        self.assertEqual(output.read_text(), "report=\nstatus=3\n")

    def run_verify(self, tool_status, *words):
        """ci/verify with a build that is there and a weightproof that ends as it is told and writes nothing."""
        build = self.folder / "build"
        (build / "bin").mkdir(parents=True, exist_ok=True)
        (build / "build.ninja").write_text("")
        (build / "CMakeCache.txt").write_text("")
        tool = build / "bin/weightproof"
        tool.write_text(f"#!/bin/sh\nexit {tool_status}\n")
        tool.chmod(0o755)
        tools = self.fakes([])
        (tools / "cmake").write_text("#!/bin/sh\n")
        (tools / "cmake").chmod(0o755)
        return self.run_script("verify", *words, missing=[], WEIGHTPROOF_BUILD_DIR=str(build))

    def test_verify_names_no_report_of_another_run(self):
        report = self.folder / ("a folder with a long name " * 9 + "and its end")
        report.mkdir()
        (report / "report.html").write_text("stale")
        for status in (2, 3, 130):
            with self.subTest(status=status):
                found, _, error = self.run_verify(status, "/nonexistent", "--report", str(report))
                self.assertEqual(found, status, error)
                self.assertIn(f"verify: it ended with status {status}, so there is no report of it", error)
                self.assertNotIn("The report is in", error)
        for status in (0, 1):
            found, _, error = self.run_verify(status, "model", "--report", str(report))
            self.assertEqual(found, status, error)
            self.assertIn(f"The report is in {report} (for people: report.html", error)

    def test_gate_judges(self):
        """Options of the verb come before its own "--"; the renderings are made from the report."""
        tool = self.fake_tool(1)
        found, _, error = self.run_script("gate", "--tool", tool, "--report", "out", "--verb", "judge", "--case", "llama/*", "--", "python3", "loader.py")
        self.assertEqual(found, 1, error)
        calls = self.called()
        self.assertEqual(calls[0], "judge --report out --case llama/* -- python3 loader.py")
        self.assertTrue(calls[1].startswith("report out/report.json --out out --format github"), calls)

    def test_gate_tells_the_pipeline(self):
        summary, output = self.folder / "summary", self.folder / "output"
        status, out, error = self.run_script("gate", "--tool", self.fake_tool(1), "--report", "out", "model",
                                             GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary), GITHUB_OUTPUT=str(output))  # fmt: skip
        self.assertEqual(status, 1, error)
        self.assertEqual(out, "verify annotations.txt\n")
        self.assertEqual(summary.read_text(), "verify summary.md\n")
        self.assertEqual(output.read_text(), "report=out\nstatus=1\n")


if __name__ == "__main__":
    unittest.main()
