#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hugging Face transformers: from_pretrained, then the state dictionary or save_pretrained.

Only exports are asked of it by default: what a model of transformers holds in memory has names of its own, and save_pretrained turns
them back. A state is answered where the names are those of the checkpoint.
"""
import sys
from pathlib import Path

import torch
import transformers

sys.path.insert(0, str(Path(__file__).parent))
from safetensors_torch import ASKED, write  # noqa: E402
from subject import Unsupported, run  # noqa: E402


# What a model of these holds in memory is named as no published checkpoint names it.
RUNNING_NAMES = {"nemotron_v3": "experts stacked under names of the running model"}


def settled_config(checkpoint):
    """The config; a default padding token outside a tiny vocabulary is no padding token."""
    try:
        config = transformers.AutoConfig.from_pretrained(checkpoint, local_files_only=True)
    except ValueError as refusal:  # fixtures are smaller than what some config classes accept
        raise Unsupported(f"the config class of transformers refuses it: {str(refusal).strip().splitlines()[-1].strip()}") from refusal
    for part in (config, getattr(config, "text_config", None)):
        pad, size = getattr(part, "pad_token_id", None), getattr(part, "vocab_size", None)
        if pad is not None and size is not None and pad >= size:
            part.pad_token_id = None
    return config


def load(request):
    config = request.config()
    if not config.get("architectures"):
        raise Unsupported("no architecture in config.json")
    name = config["architectures"][0]
    if not hasattr(transformers, name):
        raise Unsupported(f"transformers {transformers.__version__} has no {name}")
    options = {"dtype": ASKED.get(request.dtype, "auto"), "local_files_only": True}
    method = (config.get("quantization_config") or {}).get("quant_method")
    if method == "mxfp4":
        options["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    elif method == "fp8":
        options["quantization_config"] = transformers.FineGrainedFP8Config(dequantize=True)
    elif method:
        raise Unsupported(f"decoding {method} without its package")
    options["config"] = settled_config(request.checkpoint)
    model, told = getattr(transformers, name).from_pretrained(request.checkpoint, output_loading_info=True, **options)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if told.get(kind):
            print(f"{kind}: {sorted(told[kind])[:20]}", file=sys.stderr)
    return model


def answer(request):
    if request.names != "stored":
        raise Unsupported("names of the running model")
    if request.wanted == "state" and request.family in RUNNING_NAMES:
        raise Unsupported(RUNNING_NAMES[request.family])
    torch.set_num_threads(1)
    model = load(request)
    if request.wanted == "export":
        model.save_pretrained(request.output)
    else:
        write(request, model.state_dict())


if __name__ == "__main__":
    run(answer)
