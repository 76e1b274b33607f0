#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weightproof itself as a subject: load --emit for a state, export for a checkpoint. WEIGHTPROOF names the program.
set -eu
tool="${WEIGHTPROOF:-weightproof}"
if [ "$JUDGE_WANTED" = export ]; then
  exec "$tool" export "$JUDGE_CHECKPOINT" --out "$JUDGE_OUTPUT" --dtype "$JUDGE_DTYPE" --quiet
fi
if [ -n "${JUDGE_TOPOLOGY:-}" ]; then
  set -- --topology "$JUDGE_TOPOLOGY" --rank "$JUDGE_RANK"
else
  set --
fi
layout=hf
if [ "$JUDGE_NAMES" = native ]; then layout=native; fi
exec "$tool" load "$JUDGE_CHECKPOINT" --layout "$layout" --dtype "$JUDGE_DTYPE" "$@" --emit "$JUDGE_OUTPUT" --quiet
