#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: the two norms of a layer are exchanged by a row of a table of names."""
from common import run_with


def fault(tensors):
    one, other = "model.layers.0.input_layernorm.weight", "model.layers.0.post_attention_layernorm.weight"
    tensors[one], tensors[other] = tensors[other], tensors[one]


run_with(fault)
