#!/usr/bin/env bash
# Makes a wheel that runs on systems with glibc 2.28 or newer (Debian 10, RHEL 8), whatever system it is made on.
#   tools/python/wheel.sh [FOLDER]     FOLDER, build-wheel/ if none is named, gets the wheel
# PUMICE_CMAKE: more options for CMake.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tools/packages/old_glibc.sh
out=$(realpath -m "${1:-build-wheel}")
old_glibc "$PWD/build-wheel/glibc"
mkdir -p "$out"
PUMICE_CMAKE="'-DPUMICE_LINK_OPTIONS=$old_linker_options' ${PUMICE_CMAKE:-}" \
  python3 -c 'import sys; sys.path.insert(0, "tools/python"); import backend; print(backend.build_wheel(sys.argv[1]))' "$out"
