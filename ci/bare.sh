#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck source=ci/setup
source "$(dirname -- "${BASH_SOURCE[0]}")/setup"

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  cat <<'TEXT'
Usage: ci/bare.sh [--keep] [--suite bookworm] [--cache DIR]

Shows that the two commands of the README work for someone new: makes a bare Debian root with debootstrap in a temporary folder,
copies a fresh clone of HEAD into it, and runs ci/verify, ci/verify again, ci/test and the gate .ci/run there. Needs root, git and debootstrap; takes the
apt configuration of this machine along. --keep leaves the root for a look. --cache shares a folder of ccache with the root: the builds
are then quick where the same sources were compiled before, and ccache is the one package that was there already.
TEXT
  exit 0
fi

keep=0
suite=bookworm
cache=
while (($# > 0)); do
  case "$1" in
    --keep) keep=1 ;;
    --suite)
      suite="${2:?bare.sh: --suite wants a name}"
      shift
      ;;
    --cache)
      cache="${2:?bare.sh: --cache wants a folder}"
      shift
      ;;
    *)
      say "bare.sh: unknown argument '$1'; see ci/bare.sh --help"
      exit 2
      ;;
  esac
  shift
done
if [[ "$(id -u)" != 0 ]] || ! command -v debootstrap >/dev/null || ! command -v git >/dev/null; then
  say "bare.sh: needs root, git and debootstrap (apt-get install -y --no-install-recommends git debootstrap)"
  exit 3
fi

base="$(mktemp -d "${TMPDIR:-/var/tmp}/weightproof-bare.XXXXXX")"
bare="$base/root"
finish() {
  local place
  for place in proc dev/pts dev sys srv/cache; do umount -l "$bare/$place" 2>/dev/null || true; done
  if ((keep)); then say "bare.sh: the root is left at $bare"; else rm -rf --one-file-system -- "$base"; fi
}
trap finish EXIT

mirror="$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^[a-z]+:/) { print $i; exit } }' \
  /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list 2>/dev/null || true)"
run debootstrap --variant=minbase "$suite" "$bare" ${mirror:+"$mirror"} >&2

# The machine's way to packages: sources, keys, proxies and certificates, but only Debian's own sources.
rm -f -- "$bare/etc/apt/sources.list"
for place in etc/apt/apt.conf etc/apt/apt.conf.d etc/apt/auth.conf etc/apt/auth.conf.d etc/apt/preferences.d etc/apt/sources.list etc/apt/sources.list.d/debian.sources \
  etc/resolv.conf etc/hosts etc/ssl/certs usr/local/share/ca-certificates usr/share/ca-certificates; do
  if [[ -e "/$place" ]]; then
    mkdir -p -- "$bare/$(dirname -- "$place")"
    cp -rL -- "/$place" "$bare/$(dirname -- "$place")/"
  fi
done
mount -t proc proc "$bare/proc"
mount --rbind /dev "$bare/dev"
mount --make-rslave "$bare/dev"

run git clone -q --no-hardlinks "$weightproof_root" "$bare/srv/weightproof"

through_cache=()
if [[ -n "$cache" ]]; then
  mkdir -p -- "$bare/srv/cache"
  mount --bind "$cache" "$bare/srv/cache"
  through_cache=(CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=/srv/cache CCACHE_BASEDIR=/srv CCACHE_NOHASHDIR=1)
fi

inside() {
  local started=$SECONDS status=0
  say ""
  say "bare.sh: $*"
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/srv TERM="${TERM:-dumb}" LANG=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    "${through_cache[@]}" chroot "$bare" "$@" </dev/null || status=$?
  say "bare.sh: status $status after $((SECONDS - started)) s: $*"
  return "$status"
}

inside sh -c '! command -v cmake && ! command -v c++ && ! command -v python3' || {
  say "bare.sh: the root is not bare"
  exit 1
}
if [[ -n "$cache" ]]; then inside sh -c 'apt-get -qq update && apt-get -qq install -y --no-install-recommends ccache >/dev/null'; fi
inside /srv/weightproof/ci/verify
inside /srv/weightproof/ci/verify
inside /srv/weightproof/ci/test
# The gate again, for the reasons of skips: neither real data nor CUDA, no browser and no shellcheck are here.
inside /srv/weightproof/.ci/run
say "bare.sh: all commands worked in a bare $suite"
