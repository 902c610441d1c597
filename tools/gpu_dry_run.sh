#!/usr/bin/env bash
# Packs the report of a GPU and runs it in a bare Debian 13 root: Mesa's driver for processors in a folder that only LD_LIBRARY_PATH names,
# Python, and neither Vulkan's loader, a network, a compiler, nor root. One of its programs hangs, and the first of two calls is ended.
#   tools/gpu_dry_run.sh [--root DIR] [--prepare] [--peer BUNDLE.tar.xz]
# DIR: where the root is (build/gpu-root; 0.5 GB). --prepare only makes it.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
cd "${script%/*}/.."
. tools/debian_root.sh
name="GPU report" dir=build/gpu-root arguments=("$@")
if [ "${1:-}" = --root ]; then dir=$2; shift 2; fi
dir=$(realpath -m "$dir")
with_own_mounts "$script" "${arguments[@]}"

make_root trixie mesa-vulkan-drivers,python3
if [ "${1:-}" = --prepare ]; then exit; fi
mkdir -p "$dir/opt/driver"
find "$dir/usr/lib" -name 'libvulkan_lvp.so' -exec mv {} "$dir/opt/driver/" \;
find "$dir/usr" \( -name 'libvulkan*.so*' -o -name '*_icd*.json' \) -delete

./tools/gpu_report.sh build/gpu-report.tar.xz "$@"
rm -rf "$dir/srv/report"
mkdir -p "$dir/srv/report"
cp build/gpu-report.tar.xz "$dir/srv/report/"
chown -R 65534:65534 "$dir/srv/report"
mount_system
there() {  # COMMAND...
  unshare --net chroot --userspec=65534:65534 "$dir" env -i PATH=/usr/bin:/bin HOME=/nowhere LD_LIBRARY_PATH=/opt/driver \
    sh -c 'cd /srv/report && exec "$@"' sh "$@"
}
there python3 -m tarfile -e gpu-report.tar.xz
program=$dir/srv/report/pumice-gpu/pumice
mv "$program" "$program.real"
printf '#!/bin/sh\nif [ "$1" = doctor ]; then trap "" TERM; while :; do sleep 1; done; fi\nexec "$0.real" "$@"\n' >"$program"
chmod +x "$program"
peer=$dir/srv/report/pumice-gpu/peer
if [ ! -e "$peer" ]; then  # one that knows its figures; it is run by its own loader
  mkdir -p "$peer"/{lib,backends}
  line='{"backends": "Vulkan", "gpu_info": "llvmpipe", "n_prompt": 64, "n_gen": 0, "n_depth": 0, "samples_ts": [1, 1, 1, 4, 5, 6]}'
  printf "#!/bin/sh\necho '%s'\n" "$line" >"$peer/lib/ld-linux-x86-64.so.2"
  chmod +x "$peer/lib/ld-linux-x86-64.so.2"
fi

# No report is there yet, and the first call begins one.
there timeout -s TERM 30 python3 pumice-gpu/report.py --minutes 10 --out out --resume && fail "was not ended"
grep -q '"stopped": "SIGTERM"' "$dir/srv/report/out/report.json" && grep -q '<h2' "$dir/srv/report/out/report.html" ||
  fail "nothing was left by a report that was ended"
began=$SECONDS
there python3 pumice-gpu/report.py --minutes 3 --out out --resume
[ $((SECONDS - began)) -le 180 ] || fail "three minutes took $((SECONDS - began)) s"
[ "$(ls "$dir/srv/report/out" | wc -l)" -le 8 ] || fail "left more than eight files"
python3 - "$dir/srv/report/out/report.json" <<'END' || fail "a part is missing"
import json, sys
parts = json.load(open(sys.argv[1]))["parts"]
assert all(parts[name]["state"] == "ok" for name in ("devices", "story", "speed tiny", "plan tiny")), parts.keys()
assert parts["llama.cpp tiny"]["speeds"] and not any("unread" in part for part in parts.values()), parts["llama.cpp tiny"]
assert parts["doctor"]["state"] in ("unfinished", "hung") and parts["kernels"]["jobs"] and parts["models"]["jobs"]
assert all(each["state"] in ("ok", "skipped") for each in (parts["kernels"]["jobs"] | parts["models"]["jobs"]).values())
END
echo "$name: passed"
