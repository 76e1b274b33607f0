#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: names keep the prefix of a compiled module."""
from common import run_with


def fault(tensors):
    for name in list(tensors):
        tensors[f"_orig_mod.{name}"] = tensors.pop(name)


run_with(fault)
