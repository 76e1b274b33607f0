#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Screenshots of a report page: screenshots.sh [REPORT.html] OUTPUT_DIR. Light, dark, narrow, without script, forced colours, print,
# the drawer, and a printed PDF, made by headless Chromium offline; to be looked at in review. Without a report it makes the sample's
# (build/dev must hold reports_write_sample).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
case $# in
  2) page=$1 out=$2 ;;
  1)
    out=$1
    sample=$(mktemp -d)
    trap 'rm -rf "$sample"' EXIT
    "$here/../build/dev/reports/reports_write_sample" "$sample" >/dev/null
    page=$sample/full/report.html
    ;;
  *)
    echo "usage: $0 [REPORT.html] OUTPUT_DIR" >&2
    exit 2
    ;;
esac
python3 "$here/tests/browser.py" shots "$page" "$out"
