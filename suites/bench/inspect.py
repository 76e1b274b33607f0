#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""inspect.py TOOL [--tensors N] [--rounds N]: `weightproof inspect` of one header against python3 that reads and parses the same header,
whole processes, in turns. The gate is asked of the fastest run of each, which a busy machine disturbs least: exit status 1 above the goal
of 0.2. Medians and the range are printed beside it."""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

GOAL = 0.2

PARSE = """import json, sys
with open(sys.argv[1], 'rb') as f:
    n = int.from_bytes(f.read(8), 'little')
    print(len(json.loads(f.read(n))))"""


def write_file(path, tensors):
    """Names and shapes as in a mixture-of-experts checkpoint; the data is a hole."""
    kinds = ("gate_proj", "up_proj", "down_proj", "input_scale")
    entries, end = {}, 0
    for i in range(tensors):
        name = f"model.layers.{i // 1024}.mlp.experts.{i // 4 % 256}.{kinds[i % 4]}.weight"
        entries[name] = {"dtype": "BF16", "shape": [64, 32], "data_offsets": [end, end + 4096]}
        end += 4096
    header = json.dumps(entries, separators=(",", ":")).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + end)
    return len(header)


def timed(command):
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - begin, done.stdout.decode()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("tool")
    arguments.add_argument("--tensors", type=int, default=100_000)
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--no-gate", action="store_true", help="print the ratio, never fail for it: for runners that others share")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.safetensors")
        header = write_file(path, given.tensors)
        ours = [given.tool, "inspect", path]
        theirs = [sys.executable, "-c", PARSE, path]
        # Both must have seen all tensors before a time means anything.
        assert f"{given.tensors:,} tensors" in timed(ours)[1]
        assert timed(theirs)[1].strip() == str(given.tensors)
        ratios, times = [], []
        for turn in range(given.rounds):
            pair = [timed(ours)[0], timed(theirs)[0]] if turn % 2 == 0 else [timed(theirs)[0], timed(ours)[0]][::-1]
            times.append(pair)
            ratios.append(pair[0] / pair[1])
    median = statistics.median(ratios)
    print(f"header {header:,} bytes, {given.tensors:,} tensors, {given.rounds} rounds, page cache warm")
    print(f"inspect {statistics.median(t[0] for t in times) * 1000:.1f} ms, python3 json.loads {statistics.median(t[1] for t in times) * 1000:.1f} ms")
    fastest = min(t[0] for t in times) / min(t[1] for t in times)
    print(f"ratio of the fastest {fastest:.3f}, median {median:.3f}, range {min(ratios):.3f} to {max(ratios):.3f}; goal {GOAL}")
    return 0 if fastest <= GOAL or given.no_gate else 1


if __name__ == "__main__":
    sys.exit(main())
