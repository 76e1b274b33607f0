#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gate.py TOOL CI_GATE [--rounds N]: ci/gate on a small checkpoint (verify, every rendering, comparison with a base report) against
`weightproof verify` of it alone, whole processes, in turns. The gate is asked of the fastest run of each, which a busy machine disturbs
least: exit status 1 above 3."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

GOAL = 3.0


def timed(command):
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - begin


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("tool")
    arguments.add_argument("gate")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--no-gate", action="store_true", help="print the ratio, never fail for it: for runners that others share")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        model, base, report = (os.path.join(directory, name) for name in ("model", "base", "report"))
        timed([given.tool, "fixture", "llama", "--preset", "small", "--out", model])
        timed([given.tool, "verify", model, "--report", base])
        alone = [given.tool, "verify", model]
        gated = [given.gate, "--tool", given.tool, "--base", os.path.join(base, "report.json"), "--report", report, model]
        times = []
        for turn in range(given.rounds):
            times.append([timed(gated), timed(alone)] if turn % 2 == 0 else [timed(alone), timed(gated)][::-1])
        ratios = [a / b for a, b in times]
    fastest = min(t[0] for t in times) / min(t[1] for t in times)
    print(f"gate {statistics.median(t[0] for t in times) * 1000:.1f} ms, verify alone {statistics.median(t[1] for t in times) * 1000:.1f} ms, {given.rounds} rounds")
    print(f"ratio of the fastest {fastest:.2f}, median {statistics.median(ratios):.2f}, range {min(ratios):.2f} to {max(ratios):.2f}; goal {GOAL}")
    return 0 if fastest <= GOAL or given.no_gate else 1


if __name__ == "__main__":
    sys.exit(main())
