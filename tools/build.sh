#!/usr/bin/env bash
# Configures and builds one folder, quietly: one progress line where a person watches, and the log if it fails.
#   tools/build.sh FOLDER TARGET [CMake options...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$1 target=$2; shift 2

generator=()
# A folder keeps the generator it was made with.
if [ ! -e "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi

mkdir -p "$folder"
log=$folder/build.log
if ! cmake -S . -B "$folder" "${generator[@]}" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
grep '^-- leaving out' "$log" >&2 || true

progress() {
  if [ -t 2 ]; then
    while IFS= read -r line; do
      case $line in "["*) printf '\r\033[K%.78s' "$line" >&2 ;; esac
    done
    printf '\r\033[K' >&2
  else
    cat >/dev/null
  fi
}
if ! cmake --build "$folder" --target "$target" --parallel "$(nproc)" 2>&1 | tee "$log" | progress; then
  tail -n 60 "$log" >&2
  printf 'build: %s failed; all of it is in %s\n' "$target" "$log" >&2
  exit 1
fi
