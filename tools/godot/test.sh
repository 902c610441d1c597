#!/usr/bin/env bash
# Godot's answers are those of the command: with the same seed, with choices and schemas, and with the model in a package. Nothing is
# left of scenes that came and went, and the library can be unloaded.   test.sh BUILD
# Exits with 77, as a test that is skipped, where there is no Godot.
set -euo pipefail
build=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
godot=$(command -v godot || command -v godot4) || { echo "skipped: Godot is not installed"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME=$folder/home XDG_CACHE_HOME=$folder/home XDG_DATA_HOME=$folder/home
mkdir -p "$HOME"
"$here/project.sh" "$build" "$folder/village"
cp "$here"/tests/*.gd "$folder/village"
model=$here/../../models/pretrained/chat-2m.gguf
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
run() { timeout 200 "$godot" --headless --path "$folder/village" --script "res://$1.gd" -- "${@:2}" 2>&1; }
# In a window, where all is computed in slices of frames.
run_in_frames() {
  timeout 200 xvfb-run -a -s "-screen 0 320x240x24" "$godot" --audio-driver Dummy --path "$folder/village" --script "res://$1.gd" \
    -- "${@:2}" 2>&1
}

# What the model says, line by line: a line of answers.gd for each question, "answer: ..."
questions=("What does a cow say?" "Tell me a short story about a dog.")
# Neither measures kernels: those that are the fastest may round differently.
command_says() { "$build/pumice" chat "$model" "$1" "${@:2}" -n 60 --no-tune 2>/dev/null | tr '\n' ' ' | sed 's/ *$//'; }
said=$(run answers "${questions[@]}") || fail "answers.gd ends with $?: $said"
for question in "${questions[@]}"; do
  for seed in 0 7; do
    if [ $seed = 0 ]; then drawn=(--temp 0); else drawn=(--seed $seed); fi
    expected=$(command_says "$question" "${drawn[@]}")
    grep -qFx "answer $seed: $expected" <<<"$said" ||
      fail "\"$question\" with seed $seed: expected \"$expected\" in: $said"
  done
done
grep -qxE 'choice: (wave|jump|dance)' <<<"$said" || fail "no choice: $said"
grep -qxE 'schema: \{"action": ?"(wave|jump)", ?"times": ?[1-3]\}' <<<"$said" || fail "no answer of the schema: $said"
grep -qxE 'tool: open_gate (north|south)' <<<"$said" || fail "no call of the tool: $said"
grep -qx 'roles: user assistant tool assistant' <<<"$said" || fail "not the messages of a call: $said"
grep -qx 'recalled: \["My name is Anna."\]' <<<"$said" || fail "not the memory that fits: $said"
grep -qx 'failed: there is no file res://none.gguf' <<<"$said" || fail "no error of a missing model: $said"

for part in scenes unload; do
  said=$(run $part) || fail "$part.gd: $said"
  grep -qx "$part: good" <<<"$said" || fail "$part.gd: $said"
done

ways=(run)
if command -v xvfb-run >/dev/null; then ways+=(run_in_frames); else echo "not tried: slices of frames, because there is no xvfb"; fi
for way in "${ways[@]}"; do
  said=$($way tasks "$(realpath "$here/../../models/pretrained/dates")") || fail "$way tasks.gd: $said"
  grep -qx "tasks: good" <<<"$said" || fail "$way tasks.gd: $said"
  grep -qx "translated: 2021-03-03" <<<"$said" && grep -qx "with beams: 1999-05-04" <<<"$said" || fail "$way: no dates: $said"
done

# In the editor, whose project is another one: it has a plug-in that reloads the extension.
cp -r "$folder/village" "$folder/editor"
cp -r "$here/tests/reload" "$folder/editor/addons"
printf '\n[editor_plugins]\n\nenabled=PackedStringArray("res://addons/reload/plugin.cfg")\n' >>"$folder/editor/project.godot"
said=$(timeout 200 "$godot" --headless --editor --path "$folder/editor" --quit-after 3000 2>&1) || fail "in the editor: $said"
grep -qx "reload: good" <<<"$said" || fail "in the editor: $said"

# The exported game, with the model in its package: the village itself.
if [ -x /usr/bin/godot-template-release ]; then
  mkdir "$folder/game"
  timeout 200 "$godot" --headless --path "$folder/village" --export-release Linux "$folder/game/village" >"$folder/export.log" 2>&1 ||
    { fail "the export:"; cat "$folder/export.log"; }
  rm -r "$folder/village"
  said=$(timeout 200 "$folder/game/village" --headless -- --rounds=1 2>&1) || fail "the exported game: $said"
  expected=$(command_says "Hello, my name is Anna." --temp 0)
  grep -qFx "Mira says: $expected" <<<"$said" || fail "the exported game: expected \"$expected\" in: $said"
  grep -qx "Mira says: .*Anna.*" <<<"$(grep -A1 "What is my name" <<<"$said")" || fail "Mira has forgotten the name: $said"
else
  echo "not tried: an exported game, because there is no package godot-template-release"
fi
[ $failures = 0 ]
