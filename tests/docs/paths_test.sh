#!/usr/bin/env bash
# Holds every path that a page names against the tree: a guide that points to a room that moved is worse than none.
#   paths_test.sh FOLDER      the project
# A path is what stands between backticks and has a slash, or is a source's name. It is looked for from the project, from the page's
# folder, and from the folders that code includes from; a source's bare name may be anywhere. Names with capitals
# (FAMILY/KERNEL.comp) are for the reader to fill in.
set -euo pipefail
cd "$1"
foreign='^convert_hf_to_gguf.py$|^[.][.]/shared/' # of llama.cpp; beside the checkout, where it is
pages=$(find . \( -path ./build -o -path ./.deps -o -path ./.git -o -name fixtures \) -prune -o -name '*.md' ! -name CHANGELOG.md -print)
failed=0
for page in $pages; do
  names=$(grep -oE '`[^` ]+`' "$page" | tr -d '`' |
    grep -E '^[a-zA-Z_.*][A-Za-z0-9_.*-]*(/[A-Za-z0-9_.*-]+)+/?$|^[a-z0-9_]+[.](h|hpp|cpp|comp|glsl|def|cmake|sh|py)$' |
    grep -vE "(^|/)(build|PREFIX)(/|\$)|[A-Z]{3,}|^[a-z]+/[a-z]+\$|$foreign" | sort -u || true)
  for name in $names; do
    for root in . "${page%/*}" runtime shaders tests models tools tools/pumice; do
      if compgen -G "$root/${name%/}" >/dev/null; then continue 2; fi
    done
    if [[ $name != */* && -n $(find runtime shaders tests models tools -name "$name" -print -quit) ]]; then continue; fi
    printf '%s names %s, which is not there\n' "$page" "$name"
    failed=1
  done
done
exit $failed
