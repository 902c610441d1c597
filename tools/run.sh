#!/usr/bin/env bash
# Sets up what is missing, builds what `cmake --install build` installs, and generates text.
#   tools/run.sh                              the shipped model, with a prompt of its own
#   tools/run.sh [options] [PROMPT]           the shipped model
#   tools/run.sh MODEL [options] [PROMPT]     a GGUF file or a Hugging Face folder
# Everything goes through to 'pumice run'; a first argument that is an existing file or folder is the model.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/tools/setup.sh"
"$root/tools/build.sh" build installable

if [ $# -gt 0 ] && [ -e "$1" ]; then
  model=$1; shift
else
  shipped=("$root"/models/pretrained/*.gguf)
  model=${shipped[0]}
  if [ ! -e "$model" ]; then
    echo "run: no model in models/pretrained; give the path of one" >&2
    exit 1
  fi
  if [ $# = 0 ]; then set -- "Once upon a time"; fi
fi
exec "$root/build/pumice" run "$model" "$@"
