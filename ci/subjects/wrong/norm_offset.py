#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: norm weights are given as 1 + w."""
import common
import numpy as np


def fault(tensors):
    for name, tensor in tensors.items():
        if name.endswith("norm.weight"):
            tensors[name] = common.reader.from_f32(common.reader.to_f32(tensor) + np.float32(1), tensor.dtype)


common.run_with(fault)
