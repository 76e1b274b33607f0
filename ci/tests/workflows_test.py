# SPDX-License-Identifier: Apache-2.0
"""Pipelines that others copy: they are YAML, run files that exist, use nothing but the listed actions, ask for no more than to read, and
never put a value into the text of a script."""
import re
import sys
import unittest
from pathlib import Path

try:
    import yaml
except ImportError:
    print("skip: PyYAML is not installed")
    sys.exit(77)

CI = Path(__file__).resolve().parent.parent
ROOT = CI.parent
WORKFLOWS = sorted((CI / "workflows").glob("*.yml"))
ACTION = CI / "action/action.yml"
ALLOWED = {"actions/checkout", "actions/cache", "actions/cache/restore", "actions/cache/save", "actions/upload-artifact"}


def load(path):
    return yaml.safe_load(path.read_text())


def steps_of(document):
    if "runs" in document:
        yield from document["runs"]["steps"]
    for job in document.get("jobs", {}).values():
        yield from job["steps"]


def faults(document, where):
    """What is wrong with a GitHub workflow or a composite action."""
    found = []
    for step in steps_of(document):
        name = step.get("name") or step.get("uses") or step.get("run", "")[:40]
        if "uses" in step:
            action, _, revision = step["uses"].partition("@")
            if not revision:
                found.append(f"{where}: {name}: no revision")
            if action not in ALLOWED and not action.startswith("OWNER/weightproof/"):
                found.append(f"{where}: {name}: {action} is not on the list")
        elif "run" not in step:
            found.append(f"{where}: {name}: neither run nor uses")
        if "runs" in document and "run" in step and step.get("shell") != "bash":
            found.append(f"{where}: {name}: a composite step names its shell")
        for value in re.findall(r"\$\{\{(.*?)\}\}", step.get("run", "")):
            if not re.fullmatch(r"\s*matrix\.\w+\s*", value):
                found.append(f"{where}: {name}: {value.strip()} is pasted into a script")
    if "jobs" in document:
        if document.get("permissions") != {}:
            found.append(f"{where}: the workflow asks for permissions as a whole")
        for name, job in document["jobs"].items():
            if job.get("permissions") != {"contents": "read"}:
                found.append(f"{where}: job {name} asks for more than to read")
            if "timeout-minutes" not in job:
                found.append(f"{where}: job {name} may run for ever")
    return found


class Workflows(unittest.TestCase):
    def test_there_are_some(self):
        self.assertGreaterEqual(len(WORKFLOWS), 5)
        self.assertTrue(ACTION.is_file())

    def test_github(self):
        for path in [*WORKFLOWS, ACTION]:
            if path.name.startswith("gitlab"):
                continue
            with self.subTest(path=path.name):
                self.assertEqual(faults(load(path), path.name), [])

    def test_faults_are_found(self):
        planted = {
            "jobs": {
                "a": {"permissions": {"contents": "write"}, "steps": [{"uses": "somebody/else@v1"}, {"run": "echo ${{ github.head_ref }}"}, {"name": "empty"}]}
            },
            "permissions": "write-all",
        }
        self.assertEqual(len(faults(planted, "planted")), 6)
        self.assertEqual(len(faults({"runs": {"steps": [{"run": "x"}]}}, "planted")), 1)

    def test_inputs_of_the_action(self):
        action = load(ACTION)
        text = ACTION.read_text()
        for name in re.findall(r"inputs\.(\w+)", text):
            self.assertIn(name, action["inputs"])
        for name, row in action["inputs"].items():
            self.assertRegex(text, rf"inputs\.{name}\b")
            self.assertTrue(row["description"])
        for path in re.findall(r"\$GITHUB_ACTION_PATH/([./\w]+)", text):
            self.assertTrue((ACTION.parent / path).exists(), path)
        for path in WORKFLOWS:
            for step in steps_of(load(path)) if path.name.startswith("github") else ():
                if step.get("uses", "").startswith("OWNER/weightproof/ci/action@"):
                    self.assertLessEqual(set(step["with"]), set(action["inputs"]), path.name)
                    self.assertIn("arguments", step["with"], path.name)

    def test_gitlab(self):
        for path in WORKFLOWS:
            if not path.name.startswith("gitlab"):
                continue
            document = load(path)
            jobs = {name: job for name, job in document.items() if isinstance(job, dict)}
            self.assertTrue(jobs, path.name)
            for name, job in jobs.items():
                parent = jobs.get(job.get("extends"), {})
                self.assertTrue("script" in job or "script" in parent or name.startswith("."), f"{path.name}: {name}")
                for line in job.get("script", []):
                    self.assertIsInstance(line, str, f"{path.name}: {name}: {line}")

    def test_scripts_exist(self):
        for path in [*WORKFLOWS, ACTION]:
            for script in re.findall(r"(?<![\w/.-])(?:weightproof-source/)?((?:\.ci|ci)/[\w.]+)", path.read_text()):
                self.assertTrue((ROOT / script).exists(), f"{path.name}: {script}")

    def test_no_registry_is_named(self):
        for path in [*WORKFLOWS, ACTION, CI / "gate", CI / "gpu.sh"]:
            self.assertNotRegex(path.read_text(), r"(?i)https?://|pypi|npmjs|crates\.io|ghcr|docker\.io", path.name)


if __name__ == "__main__":
    unittest.main()
