#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong on purpose: decoded weights are exported under a config that still says they are quantized."""
import common

common.reader.plain_config = lambda config: config
common.run_with(lambda tensors: None)
