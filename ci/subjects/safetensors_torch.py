#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`safetensors` with torch: load_file, torch's own casts, save_file. Quantized checkpoints are "not supported"."""
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent))
from subject import Unsupported, run  # noqa: E402

QUANTIZED = ("_scale", ".scale", "_blocks", ".qweight", ".absmax", "_packed", ".SCB", "_qdata", ".biases")
ASKED = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def load_plain(checkpoint):
    """{name: tensor} of every file of a checkpoint that is not quantized."""
    index = checkpoint / "model.safetensors.index.json"
    names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())) if index.exists() else ["model.safetensors"]
    tensors = {}
    for name in names:
        tensors.update(load_file(checkpoint / name))
    for name in tensors:
        if any(word in name for word in QUANTIZED):
            raise Unsupported(f"decoding: {name}")
    return tensors


def cast(tensors, dtype):
    floats = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if dtype in ("bf16", "f16") and len(floats) > 1:
        raise Unsupported("tensors of several floating dtypes in one: which of them stay F32 is the model's business")
    if dtype == "stored":
        return tensors
    return {name: tensor.to(ASKED[dtype]) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def plain_config(config):
    """The config without a word of a quantization that is gone."""
    out = {name: value for name, value in config.items() if name != "quantization_config"}
    return {name: plain_config(value) if isinstance(value, dict) else value for name, value in out.items()}


def write(request, tensors, is_decoded=False):
    """Tensors that share memory are written apart. Beside decoded ones the config says nothing of their quantization."""
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    if request.wanted == "state":
        save_file(tensors, request.output)
        return
    request.output.mkdir()
    save_file(tensors, request.output / "model.safetensors", metadata={"format": "pt"})
    if is_decoded:
        (request.output / "config.json").write_text(json.dumps(plain_config(request.config()), indent=2), encoding="utf-8")
    elif (request.checkpoint / "config.json").exists():
        shutil.copy(request.checkpoint / "config.json", request.output)


def answer(request):
    if request.names != "stored":
        raise Unsupported("names of the running model")
    write(request, cast(load_plain(request.checkpoint), request.dtype))


if __name__ == "__main__":
    run(answer)
