#!/usr/bin/env bash
# Compiles the kernels with Mesa's compilers for real GPUs, without a GPU: Mesa's drm-shims stand in for the kernel's devices.
# Nothing runs. Prints what the compilers say of each kernel, and fails where one cannot be compiled, spills more registers
# than tools/compilers.txt allows, or where the order of variants that follows (tests/compilers/variant_cost.h) is another than
# runtime/kernel/variant_order.def has.
#   tools/compilers.sh [--root DIR] [--prepare] [--types "F16 Q4_0"] [--write-order] [CHIP...]
# DIR: a Debian testing root with the drivers and the shims (build/compilers; 1.5 GB). --prepare only makes it: ten minutes.
# CHIP: intel:tgl, amd:navi31, nvidia:0x172, qcom:740 and others that the shims know; by default two or three of each vendor.
# --write-order puts the order into variant_order.def instead of comparing it.
# build/compilers-CHIP.tsv keeps all statistics of each pipeline, build/compilers-CHIP.tsv.costs what the variants cost.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
cd "${script%/*}/.."
. tools/debian_root.sh
name="compilers" dir=build/compilers arguments=("$@") prepare= write=
families="delta_rule selective_scan"  # that llamas do not have
types="F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 NVFP4 IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S TQ1_0 TQ2_0 Q1_0 Q2_0"
chips=(intel:tgl intel:dg2 intel:bmg amd:vega10 amd:navi21 amd:navi31 nvidia:0x140 nvidia:0x172 qcom:630 qcom:740)
while [[ ${1:-} == --* ]]; do
  case $1 in
  --root) dir=$2; shift ;;
  --types) types=$2; shift ;;
  --prepare) prepare=yes ;;
  --write-order) write=yes ;;
  *) fail "there is no option $1" ;;
  esac
  shift
done
if [ $# -gt 0 ]; then chips=("$@"); fi
dir=$(realpath -m "$dir")
with_own_mounts "$script" "${arguments[@]}"

make_root forky mesa-vulkan-drivers,libvulkan1,dpkg-dev,meson,ninja-build,gcc,g++,pkgconf,bison,flex,python3-mako,python3-yaml,python3-packaging,libdrm-dev,libelf-dev,libexpat1-dev,libzstd-dev,zlib1g-dev
mount_system

# Debian's drivers come without the shims. Those of Debian stable's source package work with newer drivers, after three changes:
# Mesa 26 asks for a newer interface of amdgpu, and for an ioctl of msm that may do nothing (DRM_MSM_VM_BIND); and the C library has
# two names of its own that are also Mesa's.
make_shims() {
  echo "deb-src $(debian_mirror) trixie main" >"$dir/etc/apt/sources.list.d/source.list"
  in_root bash -euc '
    mkdir -p /shims/build && cd /shims/build
    apt-get -q update -o Acquire::Check-Valid-Until=false
    apt-get -q source mesa
    cd mesa-*/
    sed -i "s/\(version_minor = \)[0-9]*;/\161;/" src/amd/drm-shim/amdgpu_noop_drm_shim.c
    sed -i "s/\[DRM_MSM_SUBMITQUEUE_QUERY\] = msm_ioctl_noop,/&\n   [0x0d] = msm_ioctl_noop,/" src/freedreno/drm-shim/freedreno_noop.c
    grep -rlwE "once_flag|call_once" src | xargs sed -i -E "s/\b(once_flag|call_once)\b/mesa_\1/g"
    meson setup out --wrap-mode=nofallback --buildtype=release -Dtools=drm-shim,intel -Dgallium-drivers=crocus,nouveau,r300,freedreno -Dvulkan-drivers= \
      -Dplatforms= -Dopengl=false -Dgles1=disabled -Dgles2=disabled -Degl=disabled -Dgbm=disabled -Dglx=disabled -Dllvm=disabled \
      -Dvideo-codecs= -Dvalgrind=disabled -Dlibunwind=disabled -Dlmsensors=disabled -Dshader-cache=disabled
    made=(src/intel/tools/libintel_noop_drm_shim.so src/amd/drm-shim/libamdgpu_noop_drm_shim.so
      src/nouveau/drm-shim/libnouveau_noop_drm_shim.so src/freedreno/drm-shim/libfreedreno_noop_drm_shim.so)
    ninja -C out "${made[@]}"
    cd out && cp "${made[@]}" /shims
    rm -rf /shims/build' >"$dir-shims.log" 2>&1 </dev/null || { tail -n 20 "$dir-shims.log" >&2; fail "building the shims; $dir-shims.log has all of it"; }
}
[ -e "$dir/shims/libfreedreno_noop_drm_shim.so" ] || make_shims
if [ -n "$prepare" ]; then exit; fi

./tools/setup.sh --tests
./tools/build.sh build kernel_statistics -DPUMICE_TESTS=ON
take_libraries build/kernel_statistics
mount_read_only "$PWD"
in_root dpkg-query -W -f='compilers: ${Package} ${Version}\n' mesa-vulkan-drivers

# Each kernel once, whatever the type of its weights or cache: the worst of its pipelines, and where its spills are. In flight:
# the bytes of memory that an invocation waits for at one time in its loop (tests/compilers/bytes_in_flight.h).
table() {  # CHIP FILE
  awk -F'\t' -v chip="$1" '
    function value(name) { return name in has ? has[name] : 0 }
    function raise(of, by) { if (by > most[kernel, of]) most[kernel, of] = by }
    FNR == NR { if ($1 !~ /^#/ && split($1, word, " ") == 3 && word[1] == chip) allowed[word[2]] = word[3]; next }
    {
      kernel = $1; sub(/\.(b?f(16|32).*|[it]?q[0-9].*|f8_e4m3|(mx|nv)fp4|nf4|u?int[48])$/, "", kernel)
      if ($3 ~ /^FAILED/ || NF < 4) { printf "compilers: FAILED: %s: %s (%s) %s\n", chip, $1, $2, $3; bad = 1; next }
      if (!(kernel in count)) order[++kernels] = kernel
      ++count[kernel]
      delete has
      for (i = 4; i <= NF; ++i) { at = index($i, "="); has[tolower(substr($i, 1, at - 1))] = substr($i, at + 1) + 0 }
      spills = value("spills") + value("spilled vgprs") + value("spills to memory") + value("stp count")
      if (spills > 0) { ++spilling[kernel]; if (spills > most[kernel, "spills"]) worst[kernel] = $1 " (" $2 ")" }
      raise("spills", spills)
      raise("registers", value("vgprs") + value("number of gprs") + value("max live registers") + value("registers used"))
      raise("instructions", value("instruction count") + value("instructions"))
      raise("cycles", value("cycles") + value("inverse throughput") + value("static cycle count"))
      raise("shared", value("lds size") + value("workgroup memory size"))
      waves = value("subgroups per simd") + value("max warps/sm") + value("max waves per core")
      if (!((kernel, "waves") in most) || waves < most[kernel, "waves"]) most[kernel, "waves"] = waves
      if (("bytes in flight" in has) && (!((kernel, "loads") in most) || value("bytes in flight") < most[kernel, "loads"]))
        most[kernel, "loads"] = value("bytes in flight")
      raise("seconds", $3)
    }
    END {
      form = "%-22s %9s %9s %8s %6s %5s %9s %7s %12s %9s %7s\n"
      printf "\n" form, chip, "pipelines", "registers", "spilling", "spills", "waves", "in flight", "shared", "instructions", "cycles", "seconds"
      for (i = 1; i <= kernels; ++i) {
        k = order[i]
        printf form, k, count[k], most[k, "registers"] + 0, spilling[k] + 0, most[k, "spills"] + 0, most[k, "waves"],
          ((k, "loads") in most) ? most[k, "loads"] : "", most[k, "shared"] + 0, most[k, "instructions"] + 0, most[k, "cycles"] + 0, sprintf("%.2f", most[k, "seconds"])
      }
      for (i = 1; i <= kernels; ++i) {
        k = order[i]
        if (most[k, "spills"] <= allowed[k] + 0) continue
        printf "compilers: FAILED: %s: %s spills %d registers, and tools/compilers.txt allows %d: %s\n", chip, k, most[k, "spills"], allowed[k], worst[k]
        bad = 1
      }
      exit bad
    }' tools/compilers.txt "$2"
}

# The chip's generation has these lines in variant_order.def, of the families of which there were all sources: with fewer types than
# by default, products and attention have none.
orders() {  # CHIP FILE
  local table=runtime/kernel/variant_order.def lines
  [ -s "$2" ] || return 0
  lines=$(sed -E 's/^(VARIANT_ORDER[(][a-z0-9_]*, [a-z0-9_]*,).*/^\1/' "$2" | sort -u)
  if [ -n "$write" ]; then
    grep -v "$lines" "$table" >"$table.new" || true
    cat "$2" >>"$table.new"
    mv "$table.new" "$table"
  elif ! diff <(grep "$lines" "$table" | sort) <(sort "$2"); then
    echo "compilers: FAILED: $1: the order of variants differs from $table: --write-order puts the new one there"
    return 1
  fi
}

status=0
for chip in "${chips[@]}"; do
  model=${chip#*:}
  case $chip in
  intel:*) driver=intel shim=intel choice=INTEL_STUB_GPU_PLATFORM=$model ;;
  amd:*) driver=radeon shim=amdgpu choice=AMDGPU_GPU_ID=$model ;;
  nvidia:*) driver=nouveau shim=nouveau choice=NOUVEAU_CHIPSET=$model ;;
  qcom:*) driver=freedreno shim=freedreno choice=FD_GPU_ID=$model ;;
  *) fail "$chip: a chip is intel:, amd:, nvidia: or qcom: and its name" ;;
  esac
  file=compilers-${chip/:/-}.tsv
  rm -f "$dir/shims/$file"{,.order,.costs}
  # shellcheck disable=SC2086  # one type, one argument
  in_root env LD_PRELOAD="/shims/lib${shim}_noop_drm_shim.so" "$choice" VK_DRIVER_FILES="/usr/share/vulkan/icd.d/${driver}_icd.json" \
    MESA_SHADER_CACHE_DISABLE=true timeout 3600 "$PWD/build/kernel_statistics" "/shims/$file" $types $families "$PWD"/tests/fixtures/models/* \
    2>"$dir/shims/$file.log" </dev/null || { status=1; echo "compilers: FAILED: $chip: the last kernel: $(tail -n 1 "$dir/shims/$file")"; }
  echo "compilers: $chip: $(tail -n 1 "$dir/shims/$file.log")"
  cp "$dir/shims/$file"* build/
  table "$chip" "build/$file" || status=1
  orders "$chip" "$dir/shims/$file.order" || status=1
done
exit $status
