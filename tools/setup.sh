#!/usr/bin/env bash
# Installs what building and running Pumice needs, from the distribution's packages: Debian 12 and 13, Ubuntu 24.04 and later.
#   tools/setup.sh [--tests]     --tests adds what only the tests need (clang's fuzzer, validation layers, packaging, SDL2, shells, Jinja2, MPI, pytest, Mono)
#   tools/setup.sh --mpi         adds what the plug-in for several processes needs (STAGES.md)
#   tools/setup.sh --windows     adds what tools/windows.sh needs
# Safe to run again, and quick when nothing is missing: then it asks dpkg only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  say "not Debian or Ubuntu; the README lists what to install. Going on with what is there."
  exit 0
fi

packages=(g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libcli11-dev libboost-dev libpcre2-dev libutf8proc-dev libsentencepiece-dev
  doctest-dev libpng-dev libjpeg-dev libflac-dev libvorbis-dev libopusfile-dev libogg-dev zlib1g-dev libfreetype-dev fonts-dejavu-core libedit-dev
  libvulkan-dev libvulkan1 mesa-vulkan-drivers glslang-tools glslang-dev spirv-tools)
if [ "${1:-}" = --tests ]; then packages+=(clang vulkan-validationlayers pkgconf dpkg-dev file libsdl2-dev libopenmpi-dev openmpi-bin zsh fish python3-jinja2
  python3-pytest python3-numpy python3-pil python3-pip); fi
if [ "${1:-}" = --mpi ]; then packages+=(libopenmpi-dev openmpi-bin); fi
if [ "${1:-}" = --windows ]; then packages+=(g++-mingw-w64-x86-64-posix libz-mingw-w64-dev wine wine64 dpkg-dev doctest-dev); fi

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else say "not root and no sudo: cannot run '$*'"; return 1; fi
}

install_missing() {  # PACKAGE...
  local missing=() package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then return; fi
  say "installing ${missing[*]}"
  local log; log=$(mktemp)
  # A failed update is not the end: the lists may be there already. A fresh machine may be updating itself: its lock is waited for.
  as_root apt-get -q update >"$log" 2>&1 || tail -n 3 "$log" >&2
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}" >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2; rm -f "$log"
    say "could not install ${missing[*]}"
    exit 1
  fi
  rm -f "$log"
}

# Debian 12's shader compiler and Vulkan headers lack cooperative matrices and integer dot products. Debian 13's are fetched
# through lists of our own and unpacked into .deps/, which CMake looks into first; the machine's own packages stay as they are.
fetch_newer_compiler() {
  local new="$PWD/.deps.new" file tool
  rm -rf "$new"
  mkdir -p "$new/apt/lists/partial" "$new/apt/cache/archives/partial" "$new/debs" "$new/bin"
  mirror() { apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Codename: bookworm' | head -n 1; }
  local uri; uri=$(mirror)
  if [ -z "$uri" ]; then  # no package lists yet, as in a fresh container
    as_root apt-get -q update >/dev/null 2>&1 || true
    uri=$(mirror)
  fi
  [ -n "$uri" ] || return 1
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri trixie main" >"$new/apt/sources.list"
  local options=(-q -o "Dir::Etc::sourcelist=$new/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$new/apt/lists" -o "Dir::Cache=$new/apt/cache" -o APT::Sandbox::User= -o Acquire::Retries=1
    -o Acquire::http::Timeout=20 -o Acquire::Languages=none)
  apt-get "${options[@]}" update >"$new/log" 2>&1 &&
    (cd "$new/debs" && apt-get "${options[@]}" download glslang-tools glslang-dev spirv-tools libc6 libstdc++6 libgcc-s1 libvulkan-dev) >>"$new/log" 2>&1 ||
    { tail -n 3 "$new/log" >&2; return 1; }
  for file in "$new"/debs/*.deb; do dpkg -x "$file" "$new/root" || return 1; done
  for tool in glslangValidator spirv-val spirv-opt; do
    # Their C library is newer than the machine's, so they are started through the loader that came with it.
    cat >"$new/bin/$tool" <<'WRAPPER'
#!/bin/sh
root=${0%/*}/../root/usr
for loader in "$root"/lib/*/ld-linux-*.so.*; do
  exec "$loader" --library-path "${loader%/*}" "$root/bin/${0##*/}" "$@"
done
WRAPPER
    chmod +x "$new/bin/$tool"
    "$new/bin/$tool" --version >/dev/null || return 1
  done
  rm -rf "$new/apt" "$new/debs" "$new/log" "$PWD/.deps"
  mv "$new" "$PWD/.deps"
}

install_missing "${packages[@]}"
if [ "${1:-}" = --tests ]; then  # the fuzzer's library is named after clang's version
  install_missing "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
  if apt-cache show mono-mcs mono-runtime >/dev/null 2>&1; then install_missing mono-mcs mono-runtime; fi  # newer systems have none
fi

. /etc/os-release
if [ "$ID:${VERSION_ID:-}" = debian:12 ] && [ -z "${VULKAN_SDK:-}" ] && [ ! -e .deps/root/usr/include/glslang ]; then
  say "fetching Debian 13's shader compiler into .deps/"
  if ! fetch_newer_compiler; then
    rm -rf .deps.new
    say "that failed; going on with Debian 12's, which leaves the newer kernels out"
  fi
fi
