#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Screenshots of a report page: screenshots.sh REPORT.html OUTPUT_DIR. Light, dark, narrow, without script, forced colours, a drawer and
# a printed PDF, made with headless Chromium offline; to be looked at in review.
set -eu
if [ $# -ne 2 ]; then
  echo "usage: $0 REPORT.html OUTPUT_DIR" >&2
  exit 2
fi
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
  echo "no Chromium found; Debian: apt-get install chromium" >&2
  exit 3
fi
page=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
mkdir -p "$2"
out=$(cd "$2" && pwd)
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
shoot() { # name width height address extra...
  name=$1 size=$2,$3 address=$4
  shift 4
  timeout 90 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" \
    --host-resolver-rules='MAP * ~NOTFOUND' --window-size="$size" --screenshot="$out/$name.png" "$@" "$address" >/dev/null 2>&1
  echo "$out/$name.png"
}
# A page of one's own holds the report in a frame of the wanted width: windows are never narrower than 500 px.
frame() { # width height
  printf '<!DOCTYPE html><style>body{margin:0;overflow:hidden}iframe{border:0;width:%spx;height:%spx}</style><iframe src="file://%s"></iframe>' \
    "$1" "$2" "$page" >"$profile/frame.html"
}
fault=$(grep -o 'id="f-[0-9a-f]*"' "$page" | head -n 1 | cut -d'"' -f2)
tensor=$(grep -o '"fingerprint":"[0-9a-f]*"' "$page" | tail -n 1 | cut -c16-27 || true)
shoot light 1280 900 "file://$page"
shoot light-whole 1280 6200 "file://$page"
shoot dark 1280 900 "file://$page" --force-dark-mode --blink-settings=preferredColorScheme=0
shoot dark-whole 1280 6200 "file://$page" --blink-settings=preferredColorScheme=0
frame 390 844
shoot narrow 390 844 "file://$profile/frame.html" --allow-file-access-from-files
frame 390 9000
shoot narrow-whole 390 9000 "file://$profile/frame.html" --allow-file-access-from-files
shoot no-script 1280 2400 "file://$page" --blink-settings=scriptEnabled=false
shoot forced-colors 1280 2400 "file://$page" --force-high-contrast
[ -z "$fault" ] || shoot finding 1280 900 "file://$page#$fault"
[ -z "$tensor" ] || shoot drawer 1280 900 "file://$page#t-$tensor"
timeout 90 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$profile" --no-pdf-header-footer \
  --blink-settings=scriptEnabled=false --print-to-pdf="$out/print.pdf" "file://$page" >/dev/null 2>&1
echo "$out/print.pdf"
