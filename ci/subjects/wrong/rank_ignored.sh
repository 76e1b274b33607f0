#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Wrong on purpose: runs another subject that reads JUDGE_ variables and does not tell it of ranks, so that each answers the whole state.
JUDGE_TOPOLOGY='' JUDGE_RANK='' exec "$@"
