#!/usr/bin/env bash
# Compiles the page, the example and the test with Mono, and runs them.   test.sh BUILD
# Exits with 77, as a test that is skipped, where there is no Mono.
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
if ! command -v mcs >/dev/null || ! command -v mono >/dev/null; then
  echo "skipped: mono-mcs and mono-runtime are not installed"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -B generate.py ../../runtime/api/pumice.h >"$folder/Bindings.cs"
model=$PWD/../../models/pretrained/stories-2m.gguf
export LD_LIBRARY_PATH=$build
for program in Test Story; do
  mcs -unsafe -nowarn:0649,0414 -out:"$folder/$program.exe" "$folder/Bindings.cs" Pumice.cs "$program.cs"
  mono "$folder/$program.exe" "$model" >"$folder/$program.txt" || { cat "$folder/$program.txt"; exit 1; }
done
grep -q "^Once upon a time.*[a-z]" "$folder/Story.txt" || { cat "$folder/Story.txt"; echo "FAILED: the example"; exit 1; }
