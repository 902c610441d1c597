#!/usr/bin/env bash
# Makes a wheel that runs on systems with glibc 2.27 or newer (Ubuntu 18.04, Debian 10), whatever system it is made on.
#   tools/python/wheel.sh [FOLDER]     FOLDER, build-wheel/ if none is named, gets the wheel
# The compiler is this system's. Only the last step, linking, sees the C library of Ubuntu 18.04, from two packages that are fetched
# once; the C++ library is linked in, and newer_functions.c has what it needs and an old C library lacks. Then no symbol of a newer
# one can come in: the linker would not find it.
# PUMICE_CMAKE: more options for CMake.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$(realpath -m "${1:-build-wheel}")
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "wheel: only for Linux on x86-64" >&2; exit 1; }

old=$PWD/build-wheel/glibc-2.27
mirror=http://archive.ubuntu.com/ubuntu/pool/main/g/glibc
if [ ! -e "$old/complete" ]; then
  rm -rf "$old"
  mkdir -p "$old/root"
  while read -r sum name; do
    curl -sSf -o "$old/$name" "$mirror/$name" || { echo "wheel: $mirror/$name cannot be fetched" >&2; exit 1; }
    echo "$sum  $old/$name" | sha256sum --quiet -c - || { echo "wheel: $mirror/$name is not the file that it was" >&2; exit 1; }
    dpkg -x "$old/$name" "$old/root"
  done <<'END'
5b813d4512491cd8fb30b2eb9192349ee75ffe3c9f21ae136cc7b2429f70c3b2 libc6_2.27-3ubuntu1.6_amd64.deb
96ae7d2cf38f0547ca3cccb3344c8802fdf5bcd71c4b6d9aed09558ac8cc87db libc6-dev_2.27-3ubuntu1.6_amd64.deb
END
  # Absolute links would lead to this system's libraries.
  find "$old/root" -type l -lname '/*' | while read -r link; do ln -sfn "$old/root$(readlink "$link")" "$link"; done
  touch "$old/complete"
fi

mkdir -p "$out"
"${CC:-cc}" -O2 -fPIC -c tools/python/newer_functions.c -o "$old/newer_functions.o"
libraries=$old/root/usr/lib/x86_64-linux-gnu
PUMICE_CMAKE="-DCMAKE_SHARED_LINKER_FLAGS='--sysroot=$old/root -L$libraries -L$old/root/lib/x86_64-linux-gnu $old/newer_functions.o' \
-DCMAKE_CXX_STANDARD_LIBRARIES=-lpthread ${PUMICE_CMAKE:-}" \
  python3 -c 'import sys; sys.path.insert(0, "tools/python"); import backend; print(backend.build_wheel(sys.argv[1]))' "$out"
