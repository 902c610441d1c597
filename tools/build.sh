#!/usr/bin/env bash
# Configures and builds one folder, with one progress line at a terminal, one every half minute
# elsewhere, and the log if it fails.
#   tools/build.sh FOLDER TARGET [CMake options...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$1 target=$2; shift 2

generator=()
# A folder keeps the generator it was made with.
if [ ! -e "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi

mkdir -p "$folder"
log=$folder/build.log
if [ ! -e "$folder/CMakeCache.txt" ]; then echo "build: configuring $folder; what is printed goes to $log" >&2; fi
if ! cmake -S . -B "$folder" "${generator[@]}" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
grep '^-- leaving out' "$log" >&2 || true

every=${PUMICE_BUILD_LINE_SECONDS:-30}  # between two lines, where nobody watches

progress() {
  local line part shown=0
  while IFS= read -r line; do
    # Ninja counts steps, "[12/345] ", and make says "[  3%] ".
    if [[ $line =~ ^\[\ *([0-9]+)/([0-9]+)\] ]]; then
      part="${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}"
    elif [[ $line =~ ^\[\ *([0-9]+)%\] ]]; then
      part="${BASH_REMATCH[1]} %"
    else
      continue
    fi
    part=$(printf 'build: %s: %s, %d:%02d minutes' "$target" "$part" $((SECONDS / 60)) $((SECONDS % 60)))
    if [ -t 2 ]; then
      printf '\r\033[K%.78s' "$part: ${line#*] }" >&2
    elif [ $((SECONDS - shown)) -ge $every ]; then
      printf '%s\n' "$part" >&2
      shown=$SECONDS
    fi
  done
  if [ -t 2 ]; then printf '\r\033[K' >&2; fi
}
if ! cmake --build "$folder" --target "$target" --parallel "$(nproc)" 2>&1 | tee "$log" | progress; then
  tail -n 60 "$log" >&2
  printf 'build: %s failed; all of it is in %s\n' "$target" "$log" >&2
  exit 1
fi
