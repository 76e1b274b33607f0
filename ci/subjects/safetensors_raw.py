#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `safetensors` package's own parser and writer, nothing else: bytes go through as they are.

A cast or a decoded value is "not supported": the package has none without a framework beside it.
"""
import ctypes
import json
import shutil
import sys
from pathlib import Path

import safetensors

sys.path.insert(0, str(Path(__file__).parent))
from subject import Unsupported, run  # noqa: E402

# Words in names that only quantized checkpoints have.
QUANTIZED = ("_scale", ".scale", "_blocks", ".qweight", ".absmax", "_packed", ".SCB", "_qdata", ".biases")
# safetensors.deserialize says the container's names, safetensors.serialize takes the framework's.
FRAMEWORK_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16", "I32": "int32",
    "U32": "uint32", "F32": "float32", "C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip


def files_of(checkpoint):
    index = checkpoint / "model.safetensors.index.json"
    if not index.exists():
        return [checkpoint / "model.safetensors"]
    return [checkpoint / name for name in sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))]


def serialize(tensors):
    """One file's bytes. Releases since 0.8 take addresses, earlier ones the bytes themselves."""
    if not hasattr(safetensors, "TensorSpec"):
        return safetensors.serialize(tensors, {"format": "pt"})
    held, specs = [], {}
    for name, entry in tensors.items():
        size = len(entry["data"])
        held.append(ctypes.create_string_buffer(entry["data"], max(size, 1)))
        specs[name] = safetensors.TensorSpec(dtype=entry["dtype"], shape=entry["shape"], data_ptr=ctypes.addressof(held[-1]), data_len=size)
    return safetensors.serialize(specs, {"format": "pt"})


def answer(request):
    if request.names != "stored" or request.dtype != "stored":
        raise Unsupported("bytes go through as they are: stored names and dtypes alone")
    tensors = {}
    for file in files_of(request.checkpoint):
        for name, entry in safetensors.deserialize(file.read_bytes()):
            if any(word in name for word in QUANTIZED):
                raise Unsupported(f"decoding: {name}")
            if entry["dtype"] not in FRAMEWORK_NAMES:
                raise Unsupported(f"dtype {entry['dtype']}")
            tensors[name] = {"dtype": FRAMEWORK_NAMES[entry["dtype"]], "shape": entry["shape"], "data": bytes(entry["data"])}
    data = serialize(tensors)
    if request.wanted == "state":
        request.output.write_bytes(data)
        return
    request.output.mkdir()
    (request.output / "model.safetensors").write_bytes(data)
    if (request.checkpoint / "config.json").exists():
        shutil.copy(request.checkpoint / "config.json", request.output)


if __name__ == "__main__":
    run(answer)
