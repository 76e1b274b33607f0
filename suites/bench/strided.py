#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""strided.py BENCH [--no-gate]: the transposed load of experts at the shapes of a large hybrid model against the identity load of the
same bytes, in turns of one run (the benchmark exec_load_bench). Exit status 1 where the fastest of its runs has less than half the speed."""
import argparse
import json
import subprocess
import sys

GOAL = 0.5


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("bench")
    arguments.add_argument("--no-gate", action="store_true", help="print the ratio, never fail for it: for runners that others share")
    given = arguments.parse_args()
    command = [given.bench, "--benchmark_filter=^transposed_experts/1/", "--benchmark_format=json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    rows = json.loads(done.stdout)["benchmarks"]
    assert rows, "the benchmark has another name"
    ratios = [row["max"] for row in rows]
    print("strided load, speed of the identity load of the same bytes:", ", ".join(f"{ratio:.2f}" for ratio in ratios), f"goal {GOAL}")
    return 0 if max(ratios) >= GOAL or given.no_gate else 1


if __name__ == "__main__":
    sys.exit(main())
