#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: a copy loop ends one row early and leaves zeros."""
from common import changed, run_with


def fault(tensors):
    name = "model.layers.1.mlp.down_proj.weight"
    raw = tensors[name].raw.copy()
    raw[-1] = 0
    tensors[name] = changed(tensors[name], raw)


run_with(fault)
