#!/usr/bin/env bash
# Makes of each kernel that multiplies cooperative matrices what it is for every size of matrix that devices have, and validates it: no
# one driver has them all.
#   matrix_sizes.sh SPIRV_OPT SPIRV_VAL FOLDER     FOLDER: where matmul/matmul.cm.*.spv and attention/attention.cm.*.spv are
set -euo pipefail
opt=$1 val=$2 folder=$3
made=$(mktemp)
trap 'rm -f "$made"' EXIT

specialise() {  # KERNEL "ID:VALUE ID:VALUE ..."
  "$opt" --set-spec-const-default-value "$2" --freeze-spec-const --fold-spec-const-op-composite -o "$made" "$1"
}

shopt -s nullglob
count=0
# Checks the kernels in each shape that comes in, a line each.
check_all() {  # "ID ID ..." KERNEL...
  local ids kernel shape value at constants
  read -ra ids <<<"$1"
  shift
  [ $# -gt 0 ] || { echo "kernels are missing in $folder"; exit 1; }
  while read -ra shape; do
    constants=
    at=0
    for value in "${shape[@]}"; do
      constants+="${ids[at]}:$value "
      at=$((at + 1))
    done
    for kernel in "$@"; do
      specialise "$kernel" "$constants"
      "$val" --target-env vulkan1.2 "$made" || { echo "$kernel as ${shape[*]}"; exit 1; }
      count=$((count + 1))
    done
  done
}

# Workgroup, rows, tiles, group, row parts, M, N, K, scope, as in shaders/matmul/matmul.params.h and runtime/kernel/matmul/matmul_cm.cpp.
products=("$folder"/matmul/matmul.cm.*.spv)
check_all "0 1 2 12 13 8 9 10 11" "${products[@]}" <<'SHAPES'
32 32 8 8 1 8 8 8 3
32 64 8 8 2 8 8 8 3
128 64 8 16 4 8 16 16 3
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

# Workgroup, head's dimensions, heads, tokens, rows, group, M, N, K, as in shaders/attention/attention.params.h and
# runtime/kernel/attention/attention_cm.cpp.
attentions=("$folder"/attention/attention.cm.*.spv)
check_all "0 1 6 7 23 24 25 26 27" "${attentions[@]}" <<'SHAPES'
64 64 3 21 64 8 8 8 8
256 64 4 16 64 16 8 16 16
256 128 4 8 32 8 8 8 16
128 80 4 16 64 32 16 16 16
128 128 7 4 32 32 16 16 16
256 20 1 32 32 64 16 16 16
128 256 8 2 16 32 16 8 16
128 64 1 64 64 32 16 8 16
256 64 1 64 64 64 32 8 16
128 128 4 8 32 32 32 8 16
64 72 2 32 64 8 8 16 16
SHAPES

# The sizes must have reached the code: one that does not fit in makes an array of nothing.
for broken in "${products[0]} 0:128 1:64 2:8 12:32 13:2 8:128 9:16 10:16" "${attentions[0]} 0:128 6:1 7:32 23:32 24:32 25:64 26:16 27:16"; do
  specialise "${broken%% *}" "${broken#* }"
  if "$val" --target-env vulkan1.2 "$made" >/dev/null 2>&1; then echo "a matrix larger than its part of the product is valid"; exit 1; fi
done
echo "$count kernels are valid"
