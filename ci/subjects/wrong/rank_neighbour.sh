#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Wrong on purpose: runs another subject that reads JUDGE_ variables and tells it the neighbour's rank: 0 for 1, 1 for 0, 2 for 3.
if [ -n "${JUDGE_RANK:-}" ]; then export JUDGE_RANK=$((JUDGE_RANK ^ 1)); fi
exec "$@"
