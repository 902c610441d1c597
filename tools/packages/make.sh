#!/usr/bin/env bash
# Makes what people install, into build/packages/: on Debian 12.
#   tools/packages/make.sh [linux] [windows]     both where none is named
# linux: a .tar.xz that may lie anywhere, a .deb and a Python wheel, for systems with glibc 2.28 or newer; windows: a .zip, made with
# mingw-w64. Beside each a list of what of others is in it (SPDX), and SHA256SUMS. try.sh tries them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$PWD/build/packages
kinds=("$@")
if [ ${#kinds[@]} = 0 ]; then kinds=(linux windows); fi
say() { printf 'packages: %s\n' "$*" >&2; }
mkdir -p "$out"

# Released: nothing for tests, optimised as a whole, and the linker says what it took.
configure_and_build() {  # FOLDER OPTIONS...
  local folder=$1 shaders=() option options=(-DPUMICE_TESTS=OFF -DPUMICE_STATIC=ON -DPUMICE_STATIC_CXX=ON); shift
  if [ -e build/generated/kernel_binaries.cpp ]; then shaders=("-DPUMICE_SHADERS_FROM=$PWD/build"); fi
  ./tools/build.sh "$folder" installable "${options[@]}" "${shaders[@]}" "$@"
}
link_map='-Wl,-Map=$<TARGET_PROPERTY:NAME>.map'

pack() {  # BUILD GENERATORS NAME
  rm -rf "$1/packages" "$1/licences"
  python3 tools/packages/software.py "$1" "$3" "$out/$3.spdx.json" "$1/licences"
  # What Debian's tool would find out is of this system's C library.
  cpack --config "$1/CPackConfig.cmake" -G "$2" -B "$1/packages" -D CPACK_DEBIAN_PACKAGE_SHLIBDEPS=OFF \
    -D "CPACK_DEBIAN_PACKAGE_DEPENDS=libc6 (>= 2.28)" >"$1/cpack.log" 2>&1 || { cat "$1/cpack.log" >&2; exit 1; }
  find "$1/packages" -maxdepth 1 -type f -exec mv -f -t "$out" {} +
}

make_linux() {
  say "for Linux"
  ./tools/setup.sh
  . tools/packages/old_glibc.sh
  old_glibc "$PWD/build-wheel/glibc"
  rm -f "$out"/*Linux* "$out"/*.deb "$out"/*.whl
  configure_and_build "$out/linux" "-DPUMICE_LINK_OPTIONS=$old_linker_options;$link_map"
  pack "$out/linux" "TXZ;DEB" "pumice-$version-Linux-x86_64"
  PUMICE_LIBRARY=$(realpath "$out/linux/libpumice.so") python3 -c \
    'import sys; sys.path.insert(0, "tools/python"); import backend; backend.build_wheel(sys.argv[1])' "$out"
}

make_windows() {
  say "for Windows"
  ./tools/windows.sh --libraries
  rm -f "$out"/*Windows*
  configure_and_build "$out/windows" -DCMAKE_TOOLCHAIN_FILE="$PWD/tools/windows/mingw.cmake" "-DPUMICE_LINK_OPTIONS=$link_map" \
    -DPUMICE_FONT=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
  pack "$out/windows" ZIP "pumice-$version-Windows-x86_64"
}

version=$(sed -n 's/^#define PUMICE_VERSION_[A-Z]* //p' runtime/api/pumice.h | paste -sd .)
for kind in "${kinds[@]}"; do
  case $kind in
  linux | windows) make_$kind ;;
  *) say "'$kind' is neither linux nor windows"; exit 2 ;;
  esac
done
cd "$out"
find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum >SHA256SUMS
ls -l --block-size=k | awk 'NF > 8 && !/^d/ { print $5, $9 }'
