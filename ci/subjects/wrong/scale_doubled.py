#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: runs another subject on a copy of the checkpoint in which every scale is twice as large.

scale_doubled.py SUBJECT... REQUEST. The copy lies in a temporary directory; JUDGE_CHECKPOINT and the request name it.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from planted import WIDTH, doubled  # noqa: E402

SCALES = ("scale", "absmax", ".SCB", ".qscales")


def is_scale(name):
    return any(word in name for word in SCALES) and not name.endswith(("input_scale", "output_scale"))


def more(entry, data):
    """Floating scales times two; exponent bytes, which are powers of two, plus one."""
    if entry["dtype"] in WIDTH:
        return doubled(entry, data)
    return bytes(code + 1 if 0 < code < 254 else code for code in data) if entry["dtype"] in ("U8", "F8_E8M0") else data


def spoil(path):
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    for name, entry in header.items():
        if name != "__metadata__" and is_scale(name):
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            data[begin:end] = more(entry, bytes(data[begin:end]))
    path.write_bytes(data)


def main():
    request = json.loads(Path(sys.argv[-1]).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "checkpoint"
        shutil.copytree(request["checkpoint"], copy)
        for path in copy.glob("*.safetensors"):
            spoil(path)
        asked = Path(directory) / "request.json"
        asked.write_text(json.dumps({**request, "checkpoint": str(copy)}), encoding="utf-8")
        environment = {**os.environ, "JUDGE_CHECKPOINT": str(copy), "JUDGE_REQUEST": str(asked)}
        sys.exit(subprocess.run([*sys.argv[1:-1], str(asked)], env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
