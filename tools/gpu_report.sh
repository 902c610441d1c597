#!/usr/bin/env bash
# Packs what checks and measures Pumice on a machine with a GPU, which needs a driver, Python and glibc 2.36 (2.34 with GCC 12's C++ library).
#   tools/gpu_report.sh FILE.tar.xz [--peer BUNDLE.tar.xz]
#       Builds, and packs commands, tests, libraries and models. BUNDLE holds peer/ with llama.cpp's llama-bench.bin, lib/ and backends/.
# There:
#   python3 -m tarfile -e FILE.tar.xz && python3 pumice-gpu/report.py --minutes 4 --out report      (--resume goes on; --help has the rest)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fail() { echo "gpu_report: $*" >&2; exit 1; }

[ $# -gt 0 ] || fail "expected a file to write: tools/gpu_report.sh FILE.tar.xz [--peer BUNDLE.tar.xz]"
file=$(realpath -m "$1") peer=''
shift
if [ "${1:-}" = --peer ]; then peer=$(realpath "${2:?--peer needs a file}"); shift 2; fi
[ $# = 0 ] || fail "unknown argument $1"

./tools/setup.sh --tests
./tools/build.sh build all -DPUMICE_TESTS=ON -DPUMICE_TEST_ALL=ON
folder=$(mktemp -d)
trap "rm -rf '$folder'" EXIT  # now: it is gone when the script ends
pack=$folder/pumice-gpu
mkdir -p "$pack"/{lib,models,tests,tools}
programs=(pumice test_gpu test_kernel test_model test_command test_embed)
cp "${programs[@]/#/build/}" build/tests/libcrashing_vulkan.so tools/gpu_report/*.py "$pack/"
(cd "$pack" && strip "${programs[@]}")
cp -r models/pretrained "$pack/models/"
cp -r tests/fixtures "$pack/tests/"
cp tools/Commit.cmake "$pack/tools/"
[ -z "$peer" ] || tar -C "$pack" -xf "$peer"

# What is linked and no part of the C library, and what NVIDIA's driver asks for: a machine that only computes may have neither.
loaded=(libvulkan.so.1 libEGL.so.1 libGL.so.1 libGLX.so.0 libGLESv2.so.2 libOpenGL.so.0 libXext.so.6)
for library in "${loaded[@]}"; do
  path=$(ldconfig -p | awk -v name="$library" '$1 == name && /x86-64/ { print $NF; exit }')
  if [ -n "$path" ]; then cp -L "$path" "$pack/lib/"; else echo "gpu_report: without $library, which this machine lacks" >&2; fi
done
ldd "${programs[@]/#/$pack/}" "$pack"/lib/* | awk '/=> \// { print $3 }' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libutil)\.so' | xargs -I{} cp -nL {} "$pack/lib/"

# One dictionary for all: the programs have most of their code in common.
tar -C "$folder" --sort=name --owner=0 --group=0 -cf - pumice-gpu | xz -T1 --lzma2=preset=9,dict=128MiB >"$file"
size=$(stat -c %s "$file")
[ "$size" -le $((40 << 20)) ] || fail "$file is above 40 MiB: $size bytes"
echo "gpu_report: wrote $file, $((size >> 20)) MiB: python3 -m tarfile -e ${file##*/} && python3 pumice-gpu/report.py --minutes 4 --out report"
