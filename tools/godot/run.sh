#!/usr/bin/env bash
# Runs the village.   tools/godot/run.sh [--headless] [Godot's options] [-- the village's options]
# Needs godot 4.4 or newer (Debian's packages godot and, without a screen, xvfb), and Pumice in build/: tools/run.sh builds it.
# Without a screen it draws on one that only exists in memory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
godot=$(command -v godot || command -v godot4) || { echo "run.sh: install Godot 4.4 or newer (Debian: apt-get install godot)" >&2; exit 1; }
tools/godot/project.sh build build/godot/village
godot_with=("$godot")
sound=()
if [[ " $* " != *" --headless "* && -z ${DISPLAY:-} && -z ${WAYLAND_DISPLAY:-} ]]; then
  godot_with=(xvfb-run -a -s "-screen 0 960x540x24" "$godot")
  sound=(--audio-driver Dummy)
fi
[ -e build/godot/village/.godot/imported ] || "$godot" --headless --path build/godot/village --import >/dev/null 2>&1 || true
exec "${godot_with[@]}" --path build/godot/village "${sound[@]}" "$@"
