#!/usr/bin/env bash
# Tries what make.sh has made where nothing of Pumice has ever been (root, Debian only). What is missing is made first.
#   tools/packages/try.sh [linux] [windows] [--suite SUITE]...     linux alone where none is named
# linux: with use.sh in a new root of each SUITE of Debian's: 12 (bookworm), and older ones that the mirror has. windows: with wine,
# in a folder of its own; where Xvfb is there, which wine's Vulkan needs, the command and the C tutorial's program generate too.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
cd "${script%/*}/../.."
. tools/debian_root.sh
name=packages made=$PWD/build/packages suites=() kinds=() arguments=("$@")
while [ $# -gt 0 ]; do
  case $1 in
  --suite) suites+=("$2"); shift ;;
  *) kinds+=("$1") ;;
  esac
  shift
done
if [ ${#kinds[@]} = 0 ]; then kinds=(linux); fi
if [ ${#suites[@]} = 0 ]; then suites=(bookworm bullseye buster); fi
with_own_mounts "$script" "${arguments[@]}"
# All of wine's processes have the screen of the first one.
if [[ " ${kinds[*]} " == *" windows "* && -z ${DISPLAY:-} ]] && command -v xvfb-run >/dev/null; then
  exec xvfb-run -a bash "$script" "${arguments[@]}"
fi

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
  local suite
  (cd "$made" && sha256sum --quiet --ignore-missing -c SHA256SUMS) || fail "SHA256SUMS"
  [ "$(dpkg-deb -f "$made"/pumice_*.deb Depends)" = "libc6 (>= 2.28)" ] || fail "pumice_*.deb depends on $(dpkg-deb -f "$made"/pumice_*.deb Depends)"
  check_list "$made"/pumice-*-Linux-*.spdx.json fmt nlohmann-json pcre2 utf8proc libpng zlib libjpeg-turbo flac libvorbis cli11 boost gcc fonts-dejavu

  for suite in "${suites[@]}"; do try_in "$suite"; done
}

try_in() {  # SUITE
  local try uri
  dir=$made/roots/$1 try=$dir/srv/try uri=$(debian_mirror)
  if ! curl -sfo "$work/answer" "${uri%/}/dists/$1/InRelease"; then
    [ "$1" != bookworm ] || fail "the mirror has no $1"
    echo "$name: the mirror has no $1"
    return
  fi
  make_root "$1" xz-utils,gcc,g++,make,cmake,pkg-config,python3,libvulkan1,mesa-vulkan-drivers
  mount_system
  echo "$name: in Debian's $1: $(in_root ldd --version | head -n 1)"
  rm -rf "$try"
  mkdir -p "$try"
  cp -r "$made"/pumice-*-Linux-*.tar.xz "$made"/*.deb "$made"/*.whl "$models/stories-2m.gguf" tests/embed/consumers tools/packages/use.sh "$try"
  in_root /srv/try/use.sh || fail "in Debian's $1"
  check_needs "$try/moved/bin/pumice" "$try/moved/lib/libpumice.so.1"
  for licence in PCRE2 fmt; do
    grep -q "$licence" "$try/moved/share/doc/pumice/THIRD-PARTY-LICENSES" || fail "no licence of $licence"
  done
  [ -s "$try/moved/share/doc/pumice/licences/flac.txt" ] || fail "no licence of FLAC"

  rm -rf "$try"
  umount "$dir/dev/pts" "$dir/dev" "$dir/sys" "$dir/proc"
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
  trap 'wineserver -k || true; rm -rf "$work"' EXIT  # it stays for a while, and writes there
  wine "$pumice/bin/pumice.exe" --version | grep -q '^pumice [0-9]' || fail "pumice.exe --version"
  wine "$pumice/bin/pumice.exe" tokenize "$models/stories-2m.gguf" Once | grep -q '[0-9]' || fail "pumice.exe tokenize"
  if [ -z "${DISPLAY:-}" ]; then
    # It loads the DLL, and the DLL says what is missing.
    if wine "$pumice/bin/chat.exe" "$models/chat-2m.gguf" </dev/null >"$work/log" 2>&1; then fail "chat.exe works without an X server"; fi
    grep -q Vulkan "$work/log" || { cat "$work/log"; fail "chat.exe"; }
    echo "$name: wine's Vulkan needs an X server: without Xvfb the programs do not generate"
    return
  fi
  wine "$pumice/bin/pumice.exe" run "$models/stories-2m.gguf" "Once upon a time" -n 8 >"$work/log" || fail "pumice.exe run"
  echo "$name: pumice.exe: $(cat "$work/log")"
  wine "$pumice/bin/chat.exe" "$models/chat-2m.gguf" <<<"Hello, my name is Anna." >"$work/log" || fail "chat.exe"
  grep -q '^> .*[A-Za-z]' "$work/log" || fail "chat.exe printed: $(cat "$work/log")"
  echo "$name: chat.exe: $(cat "$work/log")"
}

for kind in "${kinds[@]}"; do
  case $kind in
  linux | windows) try_$kind ;;
  *) fail "'$kind' is neither linux nor windows" ;;
  esac
done
