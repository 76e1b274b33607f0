#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: the high half of a byte is taken for the first code."""
import common
import numpy as np

right = common.reader.mxfp4_values


def swapped(packed, exponents):
    return right(((packed >> 4) | (packed << 4)).astype(np.uint8), exponents)


common.reader.mxfp4_values = swapped
common.run_with(lambda tensors: None)
