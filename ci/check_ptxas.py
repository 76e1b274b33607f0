#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a CUDA source to device code and reads what ptxas says: registers, stack and spills of every kernel.

Fails when a kernel spills. With --expect-spill it fails when none does: the proof that this check can fail.
Usage: check_ptxas.py --nvcc NVCC --include DIR [--arch sm_90 ...] [--maxrregcount N] [--expect-spill] SOURCE
"""
import argparse
import re
import subprocess
import sys
import tempfile

KERNEL = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")


def kernels_of(text):
    """Rows (arch, kernel, registers, stack, stores, loads) in the order in which ptxas names them."""
    rows, current = [], None
    for line in text.splitlines():
        if found := KERNEL.search(line):
            current = {"kernel": found[1], "arch": found[2], "registers": 0, "stack": 0, "stores": 0, "loads": 0}
            rows.append(current)
        elif current and (found := SPILL.search(line)):
            current["stack"], current["stores"], current["loads"] = (int(found[i]) for i in (1, 2, 3))
        elif current and (found := REGISTERS.search(line)):
            current["registers"] = int(found[1])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--arch", nargs="+", default=["sm_80", "sm_90", "sm_100", "sm_120"])
    parser.add_argument("--maxrregcount", type=int)
    parser.add_argument("--expect-spill", action="store_true")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for arch in options.arch:
            command = [options.nvcc, "-std=c++20", "--fmad=false", "-O3", f"-arch={arch}", "-Xptxas", "-v", "-I", options.include,
                       "-cubin", "-o", f"{folder}/{arch}.cubin", options.source]
            if options.maxrregcount:
                command.insert(1, f"-maxrregcount={options.maxrregcount}")
            result = subprocess.run(command, capture_output=True, text=True)
            if result.returncode != 0:
                sys.exit(f"{' '.join(command)}\n{result.stderr}")
            rows += kernels_of(result.stderr + result.stdout)
    if not rows:
        sys.exit("ptxas named no kernel: nothing was checked")
    print(f"{'arch':8} {'registers':>9} {'stack':>6} {'spill stores':>12} {'spill loads':>11}  kernel")
    for row in rows:
        print(f"{row['arch']:8} {row['registers']:9} {row['stack']:6} {row['stores']:12} {row['loads']:11}  {row['kernel']}")
    spilling = [row for row in rows if row["stores"] or row["loads"]]
    if options.expect_spill:
        sys.exit(0 if spilling else "the planted kernel does not spill: this check proves nothing")
    if spilling:
        sys.exit("spills in " + ", ".join(f"{row['kernel']} ({row['arch']})" for row in spilling))
    print(f"{len(rows)} kernels, no spills")


if __name__ == "__main__":
    main()
