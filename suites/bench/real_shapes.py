#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""real_shapes.py TOOL [--layers N] [--threads N] [--dir DIR]: loads quantized checkpoints of real shapes and holds what they take against what
`plan`, as another process, predicted. Devstral Small (FP8, one scale a tensor) and gpt-oss-20b (MXFP4 blocks); files are sparse, matrices, experts
and vocabulary are the real ones, and as many layers are loaded as the memory that is free holds (or as --layers says). For each, in bytes:

  layers         loaded, of those that the model has; predictions for all of them are made too, by `plan` alone
  final          decoded tensors in BF16
  temporaries    staging + scale windows, predicted for the process that loads, without metadata
  counted        peak of the loader's accounting allocator; must be the predicted peak to the byte
  read           bytes that came from the files; must be the planned ones to the byte
  grew           growth of the resident set; at most the prediction and 8 MiB
  least budget   smallest --budget that is taken; a byte less must be refused, and the load under it must keep to it

Exit status 1 where one of these does not hold. Not part of the tests: it takes as much memory as there is; RealMatrices.* load a layer."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MIB = 1 << 20
STAGING_MAX = 64 * MIB
COMPANION_MAX = 16 * MIB
ALLOWANCE = 8 * MIB
MEMORY_SHARE = 0.6

# Name, family and preset of the fixtures, where the config has its layers, layers of the model.
MODELS = [
    ("Devstral Small, FP8", "mistral3_fp8_vlm", "text_config", 40),
    ("gpt-oss-20b, MXFP4", "gpt_oss", None, 24),
]


def available():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 4 << 30


def run(words, status=0):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != status:
        raise SystemExit(f"{' '.join(words)}: status {done.returncode}\n{done.stderr.decode()}")
    return done.stdout.decode() or done.stderr.decode()


def make(tool, directory, family, section, layers):
    """The `full` preset with that many layers: made by way of its config, since files are what a fixture's config says."""
    shutil.rmtree(directory, ignore_errors=True)
    words = [tool, "fixture", family, "--preset", "full", "--sparse", "4096", "--set", f"{section + '/' if section else ''}num_hidden_layers={layers}"]
    run(words + ["--out", str(directory), "--quiet"])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("tool")
    arguments.add_argument("--layers", type=int, help="layers that are loaded (default: as many as memory holds)")
    arguments.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--dir", help="where the sparse files are made (default: the system's temporary folder)")
    given = arguments.parse_args()
    faults = []

    def require(holds, text):
        print(f"    {'holds' if holds else 'FAILS'}  {text}")
        if not holds:
            faults.append(text)

    threads = ["--threads", str(given.threads)]
    with tempfile.TemporaryDirectory(prefix="weightproof-real-shapes-", dir=given.dir) as root:
        path = pathlib.Path(root) / "model"
        for name, family, section, all_layers in MODELS:
            plans = {}
            for layers in (1, 2, all_layers):
                make(given.tool, path, family, section, layers)
                plans[layers] = json.loads(run([given.tool, "plan", str(path), "--json"] + threads))["predicted_peak"]
            each = plans[2]["final"] - plans[1]["final"]
            fitting = int((available() * MEMORY_SHARE - plans[1]["peak"]) / each) + 1
            layers = max(1, min(all_layers, given.layers or fitting))
            print(f"{name}, {layers} of {all_layers} layers loaded, {given.threads} threads")
            make(given.tool, path, family, section, layers)
            plan = json.loads(run([given.tool, "plan", str(path), "--json"] + threads))
            load = json.loads(run([given.tool, "load", str(path), "--json", "--no-digest"] + threads))
            peak, figures = plan["predicted_peak"], load["memory"]["figures"]
            temporaries = peak["staging"] + peak["companion"] + peak["whole"]
            for label, value in [("final", peak["final"]), ("temporaries", temporaries), ("metadata", peak["metadata"]),
                                 ("all layers: final", plans[all_layers]["final"]),
                                 ("all layers: temporaries", sum(plans[all_layers][k] for k in ("staging", "companion", "whole"))),
                                 ("all layers: metadata", plans[all_layers]["metadata"])]:
                print(f"    {value:>16,}  {label}")
            require(peak["staging"] <= STAGING_MAX and peak["companion"] <= COMPANION_MAX and peak["whole"] == 0,
                    "temporaries are staging and scale windows within their bounds, and nothing is held whole")
            require(figures["allocator_peak"]["bytes"] == peak["peak"],
                    f"counted {figures['allocator_peak']['bytes']:,}, predicted by another process {peak['peak']:,}")
            require(load["measured"]["bytes_read"] == load["planned"]["bytes"],
                    f"read {load['measured']['bytes_read']:,}, planned {load['planned']['bytes']:,}")
            grew = figures["growth"]["bytes"]
            require(grew is not None and grew <= peak["peak"] + ALLOWANCE, f"the resident set grew by {grew or 0:,}")
            refused = json.loads(run([given.tool, "plan", str(path), "--budget", "1", "--json"], status=3))
            least = int(refused["expected"].split()[0])
            print(f"    {least:>16,}  least budget")
            bounded = json.loads(run([given.tool, "load", str(path), "--budget", str(least), "--json", "--no-digest"] + threads))
            took = bounded["memory"]["figures"]["allocator_peak"]["bytes"] - bounded["memory"]["figures"]["final_storage"]["bytes"]
            require(took <= least, f"a load under the least budget took {took:,} beyond the tensors")
            run([given.tool, "load", str(path), "--budget", str(least - 1), "--json"], status=3)
            require(True, "a byte less is refused")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
