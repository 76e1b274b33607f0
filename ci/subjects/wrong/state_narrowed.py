#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: F32 state of the family is rounded to BF16 with everything else."""
import common


def fault(tensors):
    for name, tensor in tensors.items():
        if tensor.dtype == "F32":
            tensors[name] = common.reader.from_f32(common.reader.to_f32(tensor), "BF16")


common.run_with(fault)
