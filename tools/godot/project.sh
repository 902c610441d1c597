#!/usr/bin/env bash
# Builds the extension and puts the village together with it and its models.   project.sh BUILD FOLDER
# BUILD is Pumice's build folder. The extension is built in BUILD/godot, or taken from there where nothing can be compiled.
set -euo pipefail
build=$(realpath "$1") folder=$2
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
if command -v c++ >/dev/null; then
  cmake -S "$here" -B "$build/godot" -DPUMICE_BUILD="$build" ${PUMICE_GODOT_INTERFACE:+-DPUMICE_GODOT_INTERFACE="$PUMICE_GODOT_INTERFACE"} >"$build/godot.log" 2>&1 &&
    cmake --build "$build/godot" --parallel "$(nproc)" >>"$build/godot.log" 2>&1 || { cat "$build/godot.log" >&2; exit 1; }
fi
mkdir -p "$folder"
cp -r "$here/village/." "$folder"
cp "$build/godot/libpumice_godot.so" "$folder/addons/pumice"
cp "$here/../../models/pretrained/chat-2m.gguf" "$folder/models"
mkdir -p "$folder/.godot"
echo "res://addons/pumice/pumice.gdextension" >"$folder/.godot/extension_list.cfg"  # as the editor writes it when it scans
