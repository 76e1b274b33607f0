#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: rows of q are put in the order of another rotary convention and left there."""
import numpy as np
from common import changed, run_with


def fault(tensors):
    name = "model.layers.0.self_attn.q_proj.weight"
    raw = tensors[name].raw
    order = np.concatenate([np.arange(0, len(raw), 2), np.arange(1, len(raw), 2)])
    tensors[name] = changed(tensors[name], raw[order])


run_with(fault)
