#!/usr/bin/env bash
# Runs the README's two commands on Debian 13, in a root beside the system, as in a fresh clone with nothing beside it.
#   tools/debian_13.sh [--root DIR] [--prepare]
# DIR: where the root is (build/debian-13; 2.5 GB). --prepare only makes it and installs what building needs.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
cd "${script%/*}/.."
. tools/debian_root.sh
name="Debian 13" dir=build/debian-13 arguments=("$@")
if [ "${1:-}" = --root ]; then dir=$2; shift 2; fi
dir=$(realpath -m "$dir")
with_own_mounts "$script" "${arguments[@]}"

make_root trixie ca-certificates
mount_system
# A copy, of which the build is kept. Files keep their times, so that only what has changed is built again.
mkdir -p "$dir/srv/checkout"
find "$dir/srv/checkout" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
tar -c --exclude=./.git --exclude=./.deps --exclude='./build*' . | tar -x -C "$dir/srv/checkout"
unset PUMICE_FIXTURES
if [ "${1:-}" = --prepare ]; then
  in_root /srv/checkout/tools/setup.sh --tests
  exit
fi

text=$(in_root /srv/checkout/tools/run.sh) || fail "tools/run.sh"
[ -n "${text// /}" ] || fail "tools/run.sh printed nothing"
echo "$name: tools/run.sh: $text"
in_root /srv/checkout/tools/test.sh
