#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: one layer comes from an earlier save of the same model."""
import re

from common import changed, run_with


def fault(tensors):
    for name, tensor in tensors.items():
        if re.search(r"layers\.1\.", name):
            tensors[name] = changed(tensor, tensor.raw ^ tensor.raw.dtype.type(1))


run_with(fault)
