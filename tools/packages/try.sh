#!/usr/bin/env bash
# Tries what make.sh has made where nothing of Pumice has ever been (root, Debian only). What is missing is made first.
#   tools/packages/try.sh [linux] [windows] [--suite SUITE]     linux alone where none is named
# linux: in a new root of Debian's SUITE (bookworm), with use.sh, and in one that has glibc 2.27 and nothing else. windows: with wine,
# in a folder of its own; where Xvfb is there, which wine's Vulkan needs, the command and the C tutorial's program generate too.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
cd "${script%/*}/../.."
. tools/debian_root.sh
name=packages made=$PWD/build/packages suite=bookworm kinds=() arguments=("$@")
while [ $# -gt 0 ]; do
  case $1 in
  --suite) suite=$2; shift ;;
  *) kinds+=("$1") ;;
  esac
  shift
done
if [ ${#kinds[@]} = 0 ]; then kinds=(linux); fi
dir=$made/roots/$suite
with_own_mounts "$script" "${arguments[@]}"

made_already() { compgen -G "$made/pumice-*-$1-*" >/dev/null; }
models=$PWD/models/pretrained
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Which symbols of which versions they need, and which other libraries.
check_needs() {  # FILE...
  local file newest needs
  for file in "$@"; do
    newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
    needs=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux-x86-64)[.]so[.]' || true)
    echo "$name: ${file##*/}: $newest${needs:+ $needs}"
    [ "$(printf '%s\n' "$newest" GLIBC_2.28 | sort -V | tail -n 1)" = GLIBC_2.28 ] || fail "$file needs $newest"
    [ -z "$needs" ] || fail "$file needs $needs"
  done
}

check_list() {  # LIST SOURCES...: an SPDX list that has these in it
  python3 - "$@" <<'END' || fail "$1"
import json, sys
document = json.load(open(sys.argv[1]))
licences = {each["name"]: each["licenseDeclared"] for each in document["packages"]}
print("packages:", sys.argv[1].rsplit("/", 1)[-1], licences)
ids = {each["SPDXID"] for each in document["packages"]} | {"SPDXRef-DOCUMENT"}
assert document["spdxVersion"] == "SPDX-2.3" and len(ids) == len(licences) + 1, "identifiers are not unique"
assert all(each[end] in ids for each in document["relationships"] for end in ("spdxElementId", "relatedSpdxElement"))
missing = [name for name in sys.argv[2:] if not any(known.startswith(name) for known in licences)]
assert not missing, missing
END
}

try_linux() {
  made_already Linux || tools/packages/make.sh linux
  local try=$dir/srv/try bare=$work/bare
  (cd "$made" && sha256sum --quiet --ignore-missing -c SHA256SUMS) || fail "SHA256SUMS"
  check_list "$made"/pumice-*-Linux-*.spdx.json fmt nlohmann-json pcre2 utf8proc libpng zlib libjpeg-turbo flac libvorbis cli11 boost gcc fonts-dejavu

  make_root "$suite" gcc,g++,make,cmake,pkg-config,python3,libvulkan1,mesa-vulkan-drivers
  mount_system
  rm -rf "$try"
  mkdir -p "$try"
  cp -r "$made"/pumice-*-Linux-*.tar.xz "$made"/*.deb "$made"/*.whl "$models/stories-2m.gguf" tests/embed/consumers tools/packages/use.sh "$try"
  in_root /srv/try/use.sh || fail "in Debian's $suite"
  check_needs "$try/moved/bin/pumice" "$try/moved/lib/libpumice.so.1"
  for licence in PCRE2 fmt; do
    grep -q "$licence" "$try/moved/share/doc/pumice/THIRD-PARTY-LICENSES" || fail "no licence of $licence"
  done
  [ -s "$try/moved/share/doc/pumice/licences/flac.txt" ] || fail "no licence of FLAC"

  # Where there is nothing but the old C library.
  mkdir "$bare"
  dpkg -x build-wheel/glibc-2.27/libc6_*.deb "$bare"
  cp -r "$try/moved" "$models/stories-2m.gguf" "$bare"
  local text
  for text in "--version" "tokenize /stories-2m.gguf Once" "inspect /stories-2m.gguf"; do
    # shellcheck disable=SC2086
    chroot "$bare" /moved/bin/pumice $text >"$work/log" 2>&1 || { cat "$work/log"; fail "with glibc 2.27: pumice $text"; }
  done
  if chroot "$bare" /moved/bin/pumice devices >"$work/log" 2>&1; then fail "with glibc 2.27 there is a device"; fi
  grep -q Vulkan "$work/log" || fail "with glibc 2.27: $(cat "$work/log")"
  echo "$name: with glibc 2.27 and nothing else: $(head -n 1 "$work/log")"
  rm -rf "$try"
}

try_windows() {
  command -v wine >/dev/null || skip "wine is missing: tools/setup.sh --windows"
  made_already Windows || tools/packages/make.sh windows
  (cd "$made" && sha256sum --quiet --ignore-missing -c SHA256SUMS) || fail "SHA256SUMS"
  check_list "$made"/pumice-*-Windows-*.spdx.json fmt nlohmann-json pcre2 utf8proc libpng libjpeg-turbo flac libvorbis cli11 gcc mingw-w64
  python3 -m zipfile -e "$made"/pumice-*-Windows-*.zip "$work"
  local pumice needs
  pumice=$(echo "$work"/pumice-*)
  needs=$(objdump -p "$pumice/bin/pumice.exe" "$pumice/bin/pumice.dll" | sed -n 's/.*DLL Name: //p' | sort -u | paste -sd ' ')
  echo "$name: Windows' libraries that are needed: $needs"
  if grep -iE 'lib(gcc|stdc|winpthread)' <<<"$needs"; then fail "these come with no Windows"; fi

  # A program as somebody would compile it: with the import library, beside the DLL.
  bash tests/docs/tutorial_programs.sh runtime/api/README.md "$work" chat.c
  x86_64-w64-mingw32-gcc -std=c11 -I"$pumice/include" "$work/chat.c" -L"$pumice/lib" -lpumice -o "$pumice/bin/chat.exe" || fail "chat.c"
  export WINEPREFIX=$work/wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml=' HOME=$work
  wine "$pumice/bin/pumice.exe" --version | grep -q '^pumice [0-9]' || fail "pumice.exe --version"
  wine "$pumice/bin/pumice.exe" tokenize "$models/stories-2m.gguf" Once | grep -q '[0-9]' || fail "pumice.exe tokenize"
  if ! command -v xvfb-run >/dev/null; then
    # It loads the DLL, and the DLL says what is missing.
    if wine "$pumice/bin/chat.exe" "$models/chat-2m.gguf" </dev/null >"$work/log" 2>&1; then fail "chat.exe works without an X server"; fi
    grep -q Vulkan "$work/log" || { cat "$work/log"; fail "chat.exe"; }
    echo "$name: wine's Vulkan needs an X server: without Xvfb the programs do not generate"
    return
  fi
  xvfb-run -a wine "$pumice/bin/pumice.exe" run "$models/stories-2m.gguf" "Once upon a time" -n 8 >"$work/log" || fail "pumice.exe run"
  echo "$name: pumice.exe: $(cat "$work/log")"
  xvfb-run -a wine "$pumice/bin/chat.exe" "$models/chat-2m.gguf" <<<"Hello, my name is Anna." >"$work/log" || fail "chat.exe"
  grep -q '^> .*[A-Za-z]' "$work/log" || fail "chat.exe printed: $(cat "$work/log")"
  echo "$name: chat.exe: $(cat "$work/log")"
}

for kind in "${kinds[@]}"; do
  case $kind in
  linux | windows) try_$kind ;;
  *) fail "'$kind' is neither linux nor windows" ;;
  esac
done
