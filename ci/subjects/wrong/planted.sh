#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Wrong on purpose: runs another subject and turns one bit of the last byte that it answered.
"$@" || exit $?
file="$JUDGE_OUTPUT"
if [ -d "$file" ]; then
  for found in "$JUDGE_OUTPUT"/*.safetensors; do file="$found"; done
fi
byte=$(tail -c 1 "$file" | od -An -tu1 | tr -d ' ')
last=$(($(stat -c %s "$file") - 1))
printf '%b' "\\0$(printf '%03o' $((byte ^ 1)))" | dd of="$file" bs=1 seek="$last" conv=notrunc 2>/dev/null
