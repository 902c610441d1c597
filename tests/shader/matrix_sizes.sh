#!/usr/bin/env bash
# Makes of each kernel that multiplies cooperative matrices what it is for every size of matrix that devices have, and validates it: no
# one driver has them all.
#   matrix_sizes.sh SPIRV_OPT SPIRV_VAL FOLDER     FOLDER: where matmul.cm.*.spv are
set -euo pipefail
opt=$1 val=$2 folder=$3
made=$(mktemp)
trap 'rm -f "$made"' EXIT

# Workgroup, rows, tiles, group, row parts, M, N, K, scope, as in shaders/matmul/matmul.params.h and runtime/kernel/matmul_cm.cpp.
specialise() {  # KERNEL
  "$opt" --set-spec-const-default-value "0:$2 1:$3 2:$4 3:$5 7:$6 8:$7 9:$8 10:$9 11:${10}" \
    --freeze-spec-const --fold-spec-const-op-composite -o "$made" "$1"
}

shopt -s nullglob
kernels=("$folder"/matmul.cm.*.spv)
[ ${#kernels[@]} -gt 0 ] || { echo "no kernels in $folder"; exit 1; }
count=0
for kernel in "${kernels[@]}"; do
  while read -r shape; do
    # shellcheck disable=SC2086
    specialise "$kernel" $shape
    "$val" --target-env vulkan1.2 "$made" || { echo "$kernel as $shape"; exit 1; }
    count=$((count + 1))
  done <<'SHAPES'
32 32 8 8 1 8 8 8 3
32 64 8 8 2 8 8 8 3
128 32 8 32 1 16 16 16 3
128 64 8 32 2 16 16 16 3
128 32 8 32 1 16 8 16 3
256 64 8 64 2 16 8 16 3
128 32 8 32 1 32 8 16 3
128 32 8 32 1 32 16 16 3
128 64 8 32 2 16 32 16 3
128 32 8 128 1 32 64 16 2
128 64 8 128 1 32 64 16 2
SHAPES
done
# The sizes must have reached the code: one that does not fit in makes an array of nothing.
specialise "${kernels[0]}" 128 64 8 32 2 128 16 16 3
if "$val" --target-env vulkan1.2 "$made" >/dev/null 2>&1; then echo "a matrix larger than its part of the product is valid"; exit 1; fi
echo "$count kernels are valid"
