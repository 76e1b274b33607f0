#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: a square matrix is transposed, so that its shape tells nothing."""
from common import changed, run_with


def fault(tensors):
    name = "model.layers.0.self_attn.o_proj.weight"
    tensors[name] = changed(tensors[name], tensors[name].raw.T)


run_with(fault)
