#!/usr/bin/env bash
# Measures and checks Pumice on a machine with a GPU, where nothing is installed but the GPU's driver.
#   tools/gpu_report.sh pack FILE.tar.gz [--peer BUNDLE.tar.xz] [MODEL.gguf...]
#       In a checkout: builds what is needed, and packs it with these models. BUNDLE holds peer/llama-bench, which is then measured too.
#   ./gpu_report.sh [--device DEVICE] [--minutes N]
#       In the folder that was unpacked: writes report/report.html and report/report.json. N minutes (60) is the most that one test
#       program or measurement takes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail() { echo "gpu_report: $*" >&2; exit 1; }

pack() {
  local file=$1 bundle=pumice-gpu-report peer='' models=() folder program
  shift
  while [ $# -gt 0 ]; do
    case $1 in
    --peer) peer=$(realpath "${2:?--peer needs a file}"); shift 2 ;;
    *) [ -e "$1" ] || fail "$1: no such model"; models+=("$(realpath "$1")"); shift ;;
    esac
  done
  file=$(realpath -m "$file")
  cd "$here/.."
  ./tools/setup.sh --tests
  ./tools/build.sh build/gpu-report all -DPUMICE_STATIC=ON -DPUMICE_TESTS=ON
  folder=$(mktemp -d)
  trap "rm -rf '$folder'" EXIT  # now: it is gone when the script ends
  mkdir -p "$folder/$bundle"/{models,tests,measured}
  cp tools/gpu_report.sh "$folder/$bundle/"
  for program in pumice npc_demo test_unit test_gpu test_kernel test_graph test_model test_embed; do
    if [ -x "build/gpu-report/$program" ]; then cp "build/gpu-report/$program" "$folder/$bundle/"; fi
  done
  cp -r models/pretrained "$folder/$bundle/models/"
  cp -r tests/fixtures "$folder/$bundle/tests/"
  ln -s ../models/pretrained/stories-2m.gguf "$folder/$bundle/measured/"
  [ ${#models[@]} = 0 ] || cp -rL "${models[@]}" "$folder/$bundle/measured/"
  [ -z "$peer" ] || tar -C "$folder/$bundle" -xf "$peer"
  tar -C "$folder" -czf "$file" "$bundle"
  echo "gpu_report: wrote $file. On the machine with the GPU: tar xf ${file##*/} && ./$bundle/gpu_report.sh"
}

if [ "${1:-}" = pack ]; then
  shift
  [ $# -gt 0 ] || fail "pack needs a file to write: tools/gpu_report.sh pack FILE.tar.gz [MODEL.gguf...]"
  pack "$@"
  exit
fi

device=() minutes=60
while [ $# -gt 0 ]; do
  case $1 in
  --device) device=(--device "${2:?--device needs a device}"); shift 2 ;;
  --minutes) minutes=${2:?--minutes needs a number}; shift 2 ;;
  *) fail "unknown option $1; the head of this file says how to use it" ;;
  esac
done
cd "$here"
[ -x ./pumice ] || fail "no ./pumice here: 'tools/gpu_report.sh pack FILE.tar.gz' in a checkout makes the folder to run this in"
out=$here/report parts=$here/report/parts
mkdir -p "$parts"
number=0 failures=0
: >"$parts/list"

# Runs a part and keeps what it printed; the report has a section for it.
part() {  # NAME KIND COMMAND...: KIND is text, json or html, of what it writes to standard output
  local name=$1 kind=$2 start=$SECONDS status=0 file
  shift 2
  number=$((number + 1))
  file=$parts/$(printf %02d $number).$kind
  printf '%s ... ' "$name" >&2
  timeout -k 10 "${minutes}m" "$@" >"$file" 2>"$file.err" </dev/null || status=$?
  [ $status = 0 ] || failures=$((failures + 1))
  printf '%s\t%s\t%s\t%s\t%s\n' "$file" "$status" "$((SECONDS - start))" "$name" "$*" >>"$parts/list"
  if [ $status = 0 ]; then echo "$((SECONDS - start)) s" >&2; else echo "FAILED with status $status after $((SECONDS - start)) s" >&2; fi
}

part "devices" text ./pumice devices
if ./pumice doctor --help >/dev/null 2>&1; then part "doctor" json ./pumice doctor "${device[@]}" --json; fi
export PUMICE_TEST_NO_VALIDATION=1 PUMICE_TEST_FOLDER=$here
for program in test_unit test_gpu test_kernel test_graph test_model test_embed; do
  if [ -x ./$program ]; then part "$program" text ./$program --test-suite-exclude=long; fi
done
part "operations" json ./pumice bench --ops "${device[@]}" -o json
part "operations, drawn" html ./pumice bench --ops "${device[@]}" -o html
for model in measured/*; do
  name=${model##*/}
  sizes=(-p 128,512 -n 128 -d 0,1024)
  if [ "$name" = stories-2m.gguf ]; then sizes=(-p 64,256 -n 64 -d 0,128); fi  # it was made for 512 tokens
  part "$name" json ./pumice bench "$model" "${device[@]}" "${sizes[@]}" -b 1,4,16 -o json
  part "$name, by kernel" text ./pumice bench "$model" "${device[@]}" -p 128 -n 32 --profile
  if [ -x peer/llama-bench ] && [ -f "$model" ]; then
    part "$name, llama.cpp" json peer/llama-bench -m "$model" "${sizes[@]}" -ngl 99 -fa 1 -o json
  fi
done
if [ -x ./npc_demo ] && ./npc_demo --help >/dev/null 2>&1; then
  part "frames of a game" text ./npc_demo --headless --frames 300 --budgets 500,1000,2000 --control
fi

escaped() { sed 's/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g' "$1"; }
quoted() { printf '"%s"' "$(printf %s "$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | tr -d '\000-\037')"; }
{
  printf '{"version": %s, "parts": [' "$(quoted "$(./pumice --version 2>/dev/null | head -n 1)")"
  comma=''
  while IFS=$'\t' read -r file status seconds name command; do
    printf '%s\n {"name": %s, "command": %s, "status": %s, "seconds": %s' "$comma" "$(quoted "$name")" "$(quoted "$command")" "$status" "$seconds"
    # What a failed command left may be no JSON.
    if [ "${file##*.}" = json ] && [ "$status" = 0 ]; then printf ', "result": '; cat "$file"; fi
    if [ "${file##*.}" = text ]; then printf ', "last_line": %s' "$(quoted "$(tail -n 1 "$file")")"; fi
    printf '}'
    comma=,
  done <"$parts/list"
  printf '\n]}\n'
} >"$out/report.json"
{
  echo '<!doctype html><meta charset="utf-8"><title>Pumice on this GPU</title>'
  echo '<style>body{font:16px sans-serif;max-width:75em;margin:2em auto;padding:0 1em}pre{overflow:auto;background:#f4f4f4;padding:1em;max-height:30em}iframe{width:100%;height:60em;border:1px solid #ccc}.bad{color:#b00}</style>'
  echo '<h1>Pumice on this GPU</h1><table>'
  while IFS=$'\t' read -r file status seconds name command; do
    printf '<tr><td><a href="#%s">%s</a><td>%s<td>%s s</tr>\n' "$(basename "$file")" "$name" \
      "$([ "$status" = 0 ] && echo ok || echo "<b class=bad>status $status</b>")" "$seconds"
  done <"$parts/list"
  echo '</table>'
  while IFS=$'\t' read -r file status seconds name command; do
    printf '<h2 id="%s">%s</h2><p><code>%s</code></p>\n' "$(basename "$file")" "$name" "$command"
    if [ "${file##*.}" = html ]; then
      printf '<iframe src="data:text/html;charset=utf-8;base64,%s"></iframe>\n' "$(base64 -w 0 "$file")"
    else
      echo '<pre>'; escaped "$file"; echo '</pre>'
    fi
    if [ -s "$file.err" ]; then echo '<pre>'; tail -n 40 "$file.err" >"$parts/err"; escaped "$parts/err"; echo '</pre>'; fi
  done <"$parts/list"
} >"$out/report.html"
echo "gpu_report: $number parts, $failures failed; wrote $out/report.html and $out/report.json" >&2
[ $failures = 0 ]
