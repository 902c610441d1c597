#!/usr/bin/env bash
# Holds the code of runtime/ against the order of folders that runtime/README.md promises: a folder includes, and declares ahead,
# only what is in it or above it. And no two headers define a type of one name: to the linker their functions would be the same.
#   floors_test.sh SOURCES
set -u
cd "$1/runtime" || exit 1

# Declared ahead against the order on purpose, as FILE:TYPE. The graph knows no kernel, but an operation is lowered to some.
exceptions=" graph/graph.h:Lowering "

order=$(sed -n '/^| Folder/,/^$/s/^| \[\{0,1\}`\([a-z]*\)\/`.*/\1/p' README.md)
for folder in */; do
  [[ $'\n'$order$'\n' == *$'\n'${folder%/}$'\n'* ]] || { echo "runtime/README.md: its list lacks $folder"; exit 1; }
done

files=$(find . -name '*.h' -o -name '*.cpp' | sed 's|^\./||' | sort)
# Two passes: where each type is defined, and then what the files name.
awk -v order="$order" -v exceptions="$exceptions" '
  BEGIN {
    count = split(order, folders, "\n")
    for (i = 1; i <= count; ++i) floor[folders[i]] = i
  }
  FNR == 1 { split(FILENAME, parts, "/"); own = parts[1]; space = "" }
  /^namespace [a-z:]+ \{/ { space = $2 }
  pass == 1 && /^(class|struct|union) [A-Za-z_]+ *(final *)?[:{]/ {
    name = $2
    sub(/[:{].*/, "", name)
    whole = space "::" name
    if ($2 ~ /::/) next
    if (FILENAME ~ /[.]h$/ && whole in header && header[whole] != FILENAME) wrong("defines " whole ", as " header[whole] " does")
    if (FILENAME ~ /[.]h$/) header[whole] = FILENAME
    if (!(name in defined) || floor[own] < floor[defined[name]]) defined[name] = own
  }
  pass == 1 { next }
  /^#include "/ {
    split($2, parts, /["\/]/)
    if (floor[parts[2]] > floor[own]) wrong("includes " $2 ", which is below it")
  }
  /^(class|struct|union) [A-Za-z_]+;/ {
    name = $2
    sub(/;.*/, "", name)
    if (name in defined && floor[defined[name]] > floor[own] && !index(exceptions, " " FILENAME ":" name " "))
      wrong("declares " name " of " defined[name] "/, which is below it")
  }
  function wrong(what) {
    print "runtime/" FILENAME ":" FNR ": " own "/ " what
    failed = 1
  }
  END { exit failed }
' pass=1 $files pass=2 $files && echo "every folder keeps to its floor: $(wc -l <<<"$files") files in $(wc -l <<<"$order") folders"
