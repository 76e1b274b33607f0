#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: every expert of a layer has the weights of its neighbour."""
import re

from common import run_with


def fault(tensors):
    rows = {}
    for name in tensors:
        match = re.fullmatch(r"(model\.layers\.\d+\.mlp\.experts\.)(\d+)(\..*)", name)
        if match:
            rows.setdefault((match[1], match[3]), []).append(int(match[2]))
    for (before, after), numbers in rows.items():
        count = max(numbers) + 1
        shifted = {i: tensors[f"{before}{(i + 1) % count}{after}"] for i in numbers}
        for i, tensor in shifted.items():
            tensors[f"{before}{i}{after}"] = tensor


run_with(fault)
