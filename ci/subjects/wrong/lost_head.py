#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: the head of a model that is not tied is left out as if it were."""
from common import run_with

run_with(lambda tensors: tensors.pop("lm_head.weight"))
