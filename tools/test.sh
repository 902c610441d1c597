#!/usr/bin/env bash
# Sets up what is missing, builds, and runs the tests. Other arguments go through to CTest (-R kernel, -LE model).
#   tools/test.sh           what a change is tried with, in ten minutes
#   tools/test.sh --rest    what that leaves out: the rest of the tests, long ones, sanitizers, fuzzing, other drivers, GPUs' compilers, Debian 13
#   tools/test.sh --all     both
# Says which phase it is in; build/logs/ has what each printed.
# PUMICE_TEST_MINUTES, if set: other drivers and systems whose tests could not begin within so many minutes are left out, and named.
# PUMICE_TEST_WITHOUT="compilers debian-13" leaves phases out: sanitizers (with fuzzing: fourteen minutes), threads (ThreadSanitizer:
# eight), long (tests that take minutes each, or half of one and have their parts in other tests, and on the
# second driver what commands and the C interface do: half an hour), swiftshader,
# compilers, debian-13 (each as long as the first ones again), gpu-report (five).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
short=yes rest= count=3
case ${1:-} in
--all) rest=yes count=11; shift ;;
--rest) short= rest=yes count=10; shift ;;
esac
mkdir -p build/logs

number=0
phase() {  # WHAT
  number=$((number + 1))
  printf '\ntest: %d of %d, after %d:%02d minutes: %s\n' $number $count $((SECONDS / 60)) $((SECONDS % 60)) "$1"
}

# A choice of tests may leave some phases with none.
none=error
if [ -n "$rest" ] && { [ $# -gt 0 ] || [[ " ${PUMICE_TEST_WITHOUT:-} " == *" sanitizers "* ]]; }; then none=ignore; fi

status=0
wanted() { [[ " ${PUMICE_TEST_WITHOUT:-} " != *" $1 "* ]]; }
failed() { status=1; printf 'test: FAILED: %s\n' "$1" >&2; }

run_ctest() {  # LOG OPTIONS...: a terminal has one line for where it is, else there is one for each test
  local log=build/logs/$1.log; shift
  # Small launches wake lavapipe's threads for nothing: one each, and two tests at a time, take a third of the processors' time less.
  # On the second driver its threads work side by side.
  local command=(env LP_NUM_THREADS=1 ctest --test-dir build -j2 --output-on-failure --no-label-summary "--no-tests=$none" --output-log "$log" "$@")
  if [ -t 1 ]; then "${command[@]}" --progress; else "${command[@]}" | sed -u '/^ *Start /d'; fi
}

phase "setting up"
./tools/setup.sh --tests

# The fuzz targets and the sanitized tests are a build with clang and its libFuzzer; the tests of threads are one with
# ThreadSanitizer, of a compiler whose programs run here, which not every kernel lets them.
sanitized= watched= watching=
find_sanitizers() {
  if ! wanted sanitizers; then
    echo "test: LEFT OUT: PUMICE_TEST_WITHOUT names sanitizers"
  elif echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer,address,undefined - -o build/fuzzer-probe 2>/dev/null; then
    sanitized=$PWD/build/fuzz
  else
    echo "test: no clang with libFuzzer: the fuzz targets and the sanitized tests are left out" >&2
  fi
  if wanted threads; then find_thread_sanitizer; fi
  rm -f build/fuzzer-probe build/thread-probe
}
find_thread_sanitizer() {
  local compilers
  for compilers in "clang clang++" "gcc g++"; do
    if echo 'int main() {}' | ${compilers#* } -x c++ -fsanitize=thread - -o build/thread-probe 2>/dev/null &&
      ./build/thread-probe 2>/dev/null; then
      watched=$PWD/build/tsan watching=$compilers
      break
    fi
  done
  [ -n "$watched" ] || echo "test: no compiler with ThreadSanitizer: what it watches is left out" >&2
}

options=(-DPUMICE_TESTS=ON)
if [ ! -e build/CMakeCache.txt ]; then options+=(-DPUMICE_TEST_ALL=OFF); fi
if [ -n "$rest" ] || [ $# -gt 0 ]; then options+=(-DPUMICE_TEST_ALL=ON); fi
if [ -n "$rest" ]; then
  find_sanitizers
  options+=("-DPUMICE_FUZZ_BUILD=$sanitized" "-DPUMICE_TSAN_BUILD=$watched")
fi
phase "building"
./tools/build.sh build all "${options[@]}"

if [ -n "$short" ]; then
  phase "the tests"
  # What is asked for by name runs, whatever it takes.
  without='long|watched'
  if [ $# -eq 0 ]; then without+='|rest'; fi
  # A device without cooperative matrices, such as Debian 12's, cannot run their tests; the second driver does.
  ./build/pumice devices 2>/dev/null | grep -q '^ *supports .*cooperative_matrix' || without+='|matrices'
  # Most of the time goes into what lavapipe compiles. Its compiler leaves out half of its work here and wherever it is not what is
  # tested: long tests and the second driver's have all of it.
  GALLIVM_PERF=nopt run_ctest tests -LE "^($without)\$" "$@" || status=1
fi
# What to look at first when this takes too long. Ninja's log has the last time of each file, CTest's those of this run.
ten_slowest() {
  if [ -e build/.ninja_log ]; then
    printf '\ntest: the ten slowest compilations, in seconds\n'
    awk -F'\t' '/^[0-9]/ { took[$4] = ($2 - $1) / 1000 } END { for (file in took) printf "%8.1f  %s\n", took[file], file }' build/.ninja_log |
      grep '[.]o$' | sort -rn | head -n 10 || true
  fi
  printf '\ntest: the ten slowest tests, in seconds\n'
  sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) .* ([0-9.]+) sec.*/\2 \1/p' build/logs/tests.log | sort -rn | head -n 10 |
    awk '{ printf "%8.1f  %s\n", $1, $2 }' || true
}
if [ -n "$short" ]; then ten_slowest; fi
if [ -z "$rest" ]; then exit $status; fi

in_time() {  # [PHASE]
  [ $# -eq 0 ] || wanted "$1" || { echo "test: LEFT OUT: PUMICE_TEST_WITHOUT names $1"; return 1; }
  [ -z "${PUMICE_TEST_MINUTES:-}" ] || [ $((SECONDS / 60)) -lt "$PUMICE_TEST_MINUTES" ] ||
    { echo "test: LEFT OUT: more than $PUMICE_TEST_MINUTES minutes have passed"; return 1; }
}

# Making the roots is mostly waiting for a mirror: it goes on beside the building.
{
  if in_time; then ./tools/second_driver.sh --prepare; fi
  if wanted compilers; then ./tools/compilers.sh --prepare; fi
  if wanted debian-13; then ./tools/debian_13.sh --prepare; fi
  if wanted gpu-report; then ./tools/gpu_dry_run.sh --prepare; fi
} >build/logs/roots.log 2>&1 </dev/null &
roots=$!

phase "building with sanitizers"
if [ -n "$sanitized" ]; then
  ./tools/build.sh build/fuzz sanitized -DPUMICE_FUZZ=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
    "-DPUMICE_SHADERS_FROM=$PWD/build" "-DPUMICE_TEST_ALL=$(wanted long && echo ON || echo OFF)" || failed "the sanitized build"
fi
phase "building with ThreadSanitizer"
if [ -n "$watched" ]; then
  ./tools/build.sh build/tsan test_embed -DPUMICE_THREAD_SANITIZER=ON "-DCMAKE_C_COMPILER=${watching% *}" \
    "-DCMAKE_CXX_COMPILER=${watching#* }" "-DPUMICE_SHADERS_FROM=$PWD/build" || failed "the build with ThreadSanitizer"
fi

phase "the rest of the tests, long tests, sanitized tests and fuzzing"
wait $roots || cat build/logs/roots.log >&2
# A newer driver has every kernel variant that this one has, and most of that test's time is the driver's compiler's.
newer=()
if [ -e build/second-driver/.pumice-complete ]; then newer=(-E '^model[.]forced_variants[.]long$'); fi
if wanted long; then
  if [ $# -eq 0 ]; then GALLIVM_PERF=nopt run_ctest rest -L '^rest$' || status=1; fi
  run_ctest long -L '^(long|watched)$' "${newer[@]}" "$@" || status=1
else
  # What kernels and models compute is the second driver's, whose compiler is faster; the C interface's tests have sanitizers. What
  # takes long and has its parts in other tests waits for the long ones.
  labels='rest|watched' elsewhere='kernel|model|widths'
  if [ $# -gt 0 ]; then labels=watched; fi
  slow='consumers|external_device|models|package'  # with sanitizers
  waiting='command[.](aliases|bench|bench_statistics|crash|doctor|eval|interrupt|perplexity|progress|resume|stages|tune)|gpu[.](memory_types|profiles)'
  waiting+='|(sanitized[.])?embed[.](.*faults|batches|budgets|chat_picture_models|stages|stage_.*|translation_slices|tune)'
  waiting+='|sanitized[.]embed[.](chat_pictures|forks)'  # CTest knows nine pairs of parentheses
  if [ -n "$sanitized" ]; then elsewhere+='|embed'; fi
  GALLIVM_PERF=nopt run_ctest rest -L "^($labels)\$" -E "^($elsewhere)[.]|^($waiting|sanitized[.]embed[.]($slow))$" "$@" || status=1
  if [ -n "$sanitized" ]; then
    GALLIVM_PERF=nopt run_ctest embed -L "^($labels)\$" -R "^embed[.]($slow)$" "$@" || status=1
  fi
fi

phase "the tests on a second driver"
if in_time; then ./tools/second_driver.sh "$@" || status=1; fi
phase "the tests on SwiftShader"
if in_time swiftshader; then ./tools/swiftshader.sh "$@" || status=1; fi
phase "the kernels on GPUs' compilers"
if [ $# -eq 0 ] && in_time compilers; then
  ./tools/compilers.sh --types "F16 Q4_K Q6_K" intel:bmg amd:navi31 nvidia:0x172 qcom:740 >build/logs/compilers.log 2>&1 ||
    { status=1; grep FAILED build/logs/compilers.log >&2; }
fi
phase "the report of a GPU, without one"
if [ $# -eq 0 ] && in_time gpu-report; then ./tools/gpu_dry_run.sh || status=1; fi
phase "the README's commands on Debian 13"
if in_time debian-13; then ./tools/debian_13.sh || status=1; fi
exit $status
