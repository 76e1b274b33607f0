#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=ci/setup
source "$(dirname -- "${BASH_SOURCE[0]}")/setup"

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  cat <<'TEXT'
Usage: ci/gpu.sh [--require-gpu] [--report DIR] [--no-bench]

Builds weightproof with CUDA, runs the tests that need a device (label cuda) and the benchmarks, and writes one report: summary.md with
the device, what ran, what was skipped and why, what failed and the benchmarks' lines; junit.xml; the logs.

Without a GPU or a toolkit the tests are skipped, visibly, and the status is 0; with --require-gpu it is 3 instead, before anything is
built. WEIGHTPROOF_PRESET chooses the build preset (cuda). The report goes to build/gpu-report unless --report says otherwise.

Exit status: 0 nothing failed, 1 something did, 2 usage, 3 it could not be done.
TEXT
  exit 0
fi

require=0
bench=1
report="$weightproof_root/build/gpu-report"
while (($# > 0)); do
  case "$1" in
    --require-gpu) require=1 ;;
    --no-bench) bench=0 ;;
    --report)
      if (($# < 2)); then
        say "gpu.sh: --report wants a folder"
        exit 2
      fi
      report="$2"
      shift
      ;;
    *)
      say "gpu.sh: unknown argument '$1'; see ci/gpu.sh --help"
      exit 2
      ;;
  esac
  shift
done

device=""
if command -v nvidia-smi >/dev/null; then
  device="$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1 || true)"
fi
toolkit=""
for nvcc in "${CUDACXX:-}" nvcc /usr/local/cuda/bin/nvcc; do
  if [[ -n "$nvcc" ]] && command -v "$nvcc" >/dev/null; then
    toolkit="$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
    break
  fi
done
if ((require)) && [[ -z "$device" || -z "$toolkit" ]]; then
  if [[ -z "$device" ]]; then say "gpu.sh: no GPU answers nvidia-smi"; fi
  if [[ -z "$toolkit" ]]; then say "gpu.sh: no CUDA toolkit is installed"; fi
  say "gpu.sh: run this where both are, or leave out --require-gpu"
  exit 3
fi

# A build without a toolkit still tells which tests are skipped.
if [[ -z "${WEIGHTPROOF_PRESET:-}" ]]; then
  weightproof_preset=release
  if [[ -n "$toolkit" ]]; then weightproof_preset=cuda; fi
fi
mkdir -p -- "$report"
status=0
weightproof_setup || status=$?
if ((status != 0)); then exit "$status"; fi
if ! weightproof_build all; then
  say "gpu.sh: the build failed"
  exit 3
fi
build="$(weightproof_build_dir)"
rm -f -- "$report/junit.xml"
run ctest --test-dir "$build" -L cuda --output-on-failure --no-tests=error --test-output-size-passed 65536 \
  --output-junit "$(cd -- "$report" && pwd)/junit.xml" </dev/null | tee "$report/tests.log" || status=1

: >"$report/benchmarks.log"
if ((bench)); then
  while read -r program; do
    say "gpu.sh: $(basename -- "$program")"
    {
      echo "== $(basename -- "$program")"
      "$program" 2>&1 || {
        echo "(ended with status $?)"
        status=1
      }
    } >>"$report/benchmarks.log"
  done < <(find "$build" -type f -perm -u+x -name '*_bench' | sort)
fi

python3 - "$report" "${device:-none answers nvidia-smi}" "${toolkit:-none}" <<'TEXT'
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

report, device, toolkit = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
root = ElementTree.parse(report / "junit.xml").getroot()
failed, skipped, passed = [], {}, 0
for case in root.iter("testcase"):
    if case.find("failure") is not None:
        failed.append(case.get("name"))
    elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
        lines = [line.strip() for line in (case.findtext("system-out") or "").splitlines()]
        at = next((i for i, line in enumerate(lines) if line.endswith(": Skipped")), None)
        reason = lines[at + 1] if at is not None and at + 1 < len(lines) else "no reason given"
        skipped.setdefault(reason, []).append(case.get("name"))
    else:
        passed += 1
text = [f"# Tests on a GPU\n", f"Device: {device}. CUDA toolkit: {toolkit}.\n",
        f"{passed} passed, {len(failed)} failed, {sum(map(len, skipped.values()))} skipped.\n"]
text += [f"- failed: `{name}`" for name in failed]
text += [f"- skipped, {reason}: {len(names)} ({', '.join(f'`{n}`' for n in names[:5])}{', ...' if len(names) > 5 else ''})"
         for reason, names in sorted(skipped.items())]
bench = (report / "benchmarks.log").read_text()
text += ["", "## Benchmarks\n", "```text", bench.rstrip() or "none were run", "```", ""]
(report / "summary.md").write_text("\n".join(text))
print("\n".join(text))
TEXT
say "gpu.sh: the report is in $report"
exit "$status"
