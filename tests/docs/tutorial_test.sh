#!/usr/bin/env bash
# Compiles the programs of runtime/api/README.md with the library of a build, and runs them with the models that ship.
#   tutorial_test.sh BUILD CHECKOUT     with CC and CXX in the environment
set -euo pipefail
build=$(realpath "$1") root=$(realpath "$2") page=$(realpath "$2")/runtime/api/README.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

# A block of C or C++ begins with a comment that names its file.
awk -v folder="$folder" '
  /^```/ { if (file) close(file); file = ""; first = /^```(c|cpp)$/; next }
  first { if (match($0, /[a-z_]+\.(c|cpp):/)) file = folder "/" substr($0, RSTART, RLENGTH - 1); first = 0 }
  file { print > file }' "$page"

compile() {  # PROGRAM COMPILER FILE STANDARD
  [ -e "$folder/$3" ] || fail "the page has no program $3"
  "$2" "-std=$4" -Wall -Wextra -Wpedantic -Werror -I"$build/include" "$folder/$3" -o "$folder/$1" "-L$build" "-Wl,-rpath,$build" -lpumice
}
compile chat "$CC" chat.c c11
compile frames "$CC" frames.c c11
compile chat_classes "$CXX" chat.cpp c++17
compile dates "$CXX" dates.cpp c++17

stories=$root/models/pretrained/stories-2m.gguf
lines=$'Once upon a time\nThen a fox came.\n'
answers=$("$folder/chat" "$stories" <<<"$lines")
echo "$answers"
[ "$(grep -c '^> ' <<<"$answers")" -ge 2 ] && [ ${#answers} -gt 100 ] || fail "chat.c printed: $answers"
[ "$("$folder/chat_classes" "$stories" <<<"$lines")" = "$answers" ] || fail "chat.cpp answered something else than chat.c did"
told=$("$folder/frames" "$stories")
echo "$told"
[[ $told == *"which fits"* ]] && [ ${#told} -gt 100 ] || fail "frames.c printed: $told"
date=$("$folder/dates" "$root/models/pretrained/dates" "3. März 2021")
[ "$date" = 2021-03-03 ] || fail "dates.cpp printed: $date"
