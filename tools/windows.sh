#!/usr/bin/env bash
# Builds Pumice for Windows with mingw-w64 into build/windows/pumice, and runs test_unit there with wine. On Debian 12 and later.
#   tools/windows.sh [ARGUMENTS OF test_unit...]
#   tools/windows.sh --libraries     only compiles the libraries, for packages/make.sh
# The libraries are Debian's sources, compiled statically into build/windows/libraries, once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
./tools/setup.sh --windows

folder=$PWD/build/windows
libraries=$folder/libraries sources=$folder/sources
mkdir -p "$sources" "$folder/logs"
export WINEPREFIX=$folder/wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml=' # no .NET, no browser, no questions

say() { printf 'windows: %s\n' "$*" >&2; }

logged() {  # NAME COMMAND...
  local log=$folder/logs/$1.log; shift
  "$@" >>"$log" 2>&1 </dev/null || { tail -n 40 "$log" >&2; say "failed; all of it is in $log"; exit 1; }
}

# The sources of this machine's packages, through lists of our own: few machines have such lists.
fetch_sources() {  # PACKAGE...
  local apt=$folder/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  apt-get indextargets --format 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(RELEASE) main' \
    'Identifier: Packages' 'Origin: Debian' | grep -v -- -updates | sort -u >"$apt/sources.list"
  local options=(-q -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User= -o Acquire::Languages=none)
  logged sources apt-get "${options[@]}" update
  # A mirror may list a security update whose source it no longer has, or not yet: then the release's own.
  local release package
  release=$(awk '$4 !~ /-/ { print $4; exit }' "$apt/sources.list")
  for package in "$@"; do
    (cd "$sources" && apt-get "${options[@]}" source "$package" >>"$folder/logs/sources.log" 2>&1 </dev/null) ||
      (cd "$sources" && logged sources apt-get "${options[@]}" source "$package/$release")
  done
}

library() {  # SOURCE PACKAGE, CMake options...
  local name=$1 done=$folder/logs/$1.done; shift
  if [ -e "$done" ]; then return; fi
  say "compiling $name"
  local source=("$sources/$name"-*/)
  logged "$name" cmake -S "${source[0]}" -B "$folder/$name" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/tools/windows/mingw.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$libraries" -DCMAKE_INSTALL_LIBDIR:STRING=lib -DBUILD_SHARED_LIBS=OFF \
    -DBUILD_TESTING=OFF "$@"
  if [ "$name" = sentencepiece ]; then  # what else it installs are programs
    logged "$name" cmake --build "$folder/$name" --target sentencepiece-static --parallel "$(nproc)"
    cp "$folder/$name/src/libsentencepiece.a" "$libraries/lib/"
    cp "${source[0]}src/sentencepiece_processor.h" "$libraries/include/"
  else
    logged "$name" cmake --build "$folder/$name" --target install --parallel "$(nproc)"
  fi
  touch "$done"
}

# Libraries that are headers alone are the machine's own packages.
copy_headers() {
  local vulkan=/usr/include file
  mkdir -p "$libraries/include"
  if [ -d .deps/root/usr/include/vulkan ]; then vulkan=.deps/root/usr/include; fi
  cp -r "$vulkan/vulkan" "$vulkan/vk_video" "$libraries/include/"
  dpkg -L nlohmann-json3-dev libcli11-dev doctest-dev | while IFS= read -r file; do
    case $file in
    /usr/share/doc/*) ;;
    /usr/include/*.h* | *.cmake) install -D -m 644 "$file" "$libraries/${file#/usr/}" ;;
    esac
  done
  sed -i "s|_IMPORT_PREFIX \"/usr\"|_IMPORT_PREFIX \"$libraries\"|" "$libraries/lib/cmake/doctest/doctestTargets.cmake"
  touch "$folder/logs/headers.done"
}

if [ ! -e "$folder/logs/sources.done" ]; then
  say "fetching the libraries' sources"
  fetch_sources fmtlib pcre2 utf8proc sentencepiece libpng1.6 libjpeg-turbo libogg libvorbis flac freetype
  (cd "$sources"/sentencepiece-*/ && logged sources patch -R -p1 -i debian/patches/disable-static-library.patch)
  touch "$folder/logs/sources.done"
fi
if [ ! -e "$folder/logs/headers.done" ]; then copy_headers; fi
library fmtlib -DFMT_TEST=OFF -DFMT_DOC=OFF
library pcre2 -DPCRE2_SUPPORT_JIT=ON -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF
library utf8proc -DUTF8PROC_ENABLE_TESTING=OFF
library sentencepiece -DSPM_ENABLE_SHARED=OFF
library libpng1.6 -DPNG_SHARED=OFF -DPNG_TESTS=OFF
library libjpeg-turbo -DENABLE_SHARED=OFF -DWITH_SIMD=OFF -DWITH_TURBOJPEG=OFF
library libogg -DINSTALL_DOCS=OFF
library libvorbis
library flac -DBUILD_PROGRAMS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOCS=OFF -DBUILD_CXXLIBS=OFF -DINSTALL_MANPAGES=OFF \
  -DWITH_STACK_PROTECTOR=OFF
library freetype -DFT_DISABLE_ZLIB=ON -DFT_DISABLE_HARFBUZZ=ON -DFT_DISABLE_BZIP2=ON -DFT_DISABLE_BROTLI=ON -DFT_DISABLE_PNG=ON

if [ "${1:-}" = --libraries ]; then exit; fi
shaders=()
if [ -e build/generated/kernel_binaries.cpp ]; then shaders=("-DPUMICE_SHADERS_FROM=$PWD/build"); fi
for target in test_unit pumice; do
  ./tools/build.sh build/windows/pumice $target -DCMAKE_TOOLCHAIN_FILE="$PWD/tools/windows/mingw.cmake" -DPUMICE_STATIC=ON \
    -DPUMICE_FONT=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf "${shaders[@]}"
done
say "running test_unit with wine"
wine build/windows/pumice/test_unit.exe "$@"
