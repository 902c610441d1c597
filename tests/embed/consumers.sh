#!/usr/bin/env bash
# Installs a build, moves what was installed, and builds and runs programs with it as its users would.
#   consumers.sh BUILD     with CMAKE, CMAKE_GENERATOR, CC, CXX and VULKAN_HEADERS in the environment
set -euo pipefail
build=$1
sources=$(realpath "$(dirname "${BASH_SOURCE[0]}")/consumers")
root=$(realpath "$sources/../../..")
models=$root/models/pretrained
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
quietly() { "$@" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; fail "$*"; }; }

quietly "$CMAKE" --install "$build" --prefix "$folder/installed"
prefix="$folder/moved here"
mv "$folder/installed" "$prefix"
pc=$(find "$prefix" -name pumice.pc)
libraries=$(dirname "$pc")/..
if grep -rlF -e "$folder" -e "$root" -e "$build" "$libraries/cmake" "$libraries/pkgconfig"; then
  fail "these files name a folder of this machine"
fi

# The header, alone and with Vulkan's on either side of it, in each language that it is for.
for compiler in "$CC -x c -std=c99" "$CC -x c -std=c11" "$CXX -x c++ -std=c++17" "$CXX -x c++ -std=c++20"; do
  for includes in "pumice/pumice.h" "pumice/pumice.h vulkan/vulkan.h" "vulkan/vulkan.h pumice/pumice.h"; do
    printf '#include <%s>\n' $includes >"$folder/header.c"
    echo 'VkSemaphore semaphore; pumice_sync sync;' >>"$folder/header.c"
    quietly $compiler -Wall -Wextra -Wshadow -Wpedantic -Werror -fsyntax-only "-I$prefix/include" -isystem "$VULKAN_HEADERS" "$folder/header.c"
  done
done

expected=
run() {  # PROGRAM ARGUMENTS...
  local text
  text=$(LD_LIBRARY_PATH=$libraries "$1" "$models/stories-2m.gguf" "$folder/cache" "${@:2}") || fail "$1"
  echo "${1##*/}: $text"
  [ -n "${text// /}" ] || fail "$1 printed nothing"
  [ "$text" = "${expected:=$text}" ] || fail "$1 printed something else than the first program did: $expected"
}

# In C through pkg-config, which quotes what its shell has to unquote.
export PKG_CONFIG_PATH=$libraries/pkgconfig
flags=$(pkg-config --cflags --libs 'pumice >= 1.0')
eval "quietly '$CC' -std=c11 -Wall -Wextra -Wpedantic -Werror '$sources/generate.c' -o '$folder/pkg_config' $flags"
run "$folder/pkg_config"
pkg-config --exists 'pumice >= 99' && fail "pkg-config: this version is not 99"

# Through find_package; a C project has no C++ compiler to link a static library with.
consumer() {  # FOLDER OPTIONS...
  local into=$folder/$1; shift
  quietly "$CMAKE" -S "$sources" -B "$into" "-DCMAKE_PREFIX_PATH=$prefix" -DCMAKE_BUILD_TYPE=Release "$@"
  quietly "$CMAKE" --build "$into"
}
consumer cxx
consumer c -DLANGUAGES=C
for program in cxx/shared cxx/static cxx/bare c/c_shared c/c_static; do run "$folder/$program"; done
run "$folder/cxx/classes" "$models/dates" "$models/chat-2m.gguf"

"$CMAKE" -S "$sources" -B "$folder/new" "-DCMAKE_PREFIX_PATH=$prefix" -DWANTED=99 >"$folder/log" 2>&1 && fail "find_package: this version is not 99"
grep -q 'requested version "99"' "$folder/log" || { cat "$folder/log"; fail "find_package(pumice 99) failed for another reason"; }

# As a folder of another project: configured alone, since it is compiled already. It asks for nothing that the library does not need.
quietly "$CMAKE" -S "$sources" -B "$folder/sources" "-DPUMICE_SOURCE=$root" "-DPUMICE_VULKAN_INCLUDE=$VULKAN_HEADERS" \
  -DCMAKE_DISABLE_FIND_PACKAGE_{CLI11,Freetype,doctest}=ON
