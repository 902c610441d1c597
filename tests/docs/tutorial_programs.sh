#!/usr/bin/env bash
# Writes the programs of a page into a folder. A block of C or C++ begins with a comment that names its file.
#   tutorial_programs.sh PAGE FOLDER FILES...     fails where the page lacks one of the files
set -euo pipefail
page=$1 folder=$2; shift 2
mkdir -p "$folder"
awk -v folder="$folder" '
  /^```/ { if (file) close(file); file = ""; first = /^```(c|cpp)$/; next }
  first { if (match($0, /[a-z_]+\.(c|cpp):/)) file = folder "/" substr($0, RSTART, RLENGTH - 1); first = 0 }
  file { print > file }' "$page"
for file in "$@"; do
  [ -e "$folder/$file" ] || { echo "$page has no program $file" >&2; exit 1; }
done
