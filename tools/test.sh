#!/usr/bin/env bash
# Sets up what is missing, builds, and runs every test through CTest; arguments go through to it (-R kernel, -LE fuzz).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
./tools/setup.sh --tests

# The fuzz targets and the sanitized tests are a second build, with clang and its libFuzzer.
mkdir -p build
sanitized=
if echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  clang++ -x c++ -fsanitize=fuzzer,address,undefined - -o build/fuzzer-probe 2>/dev/null; then
  sanitized=$PWD/build/fuzz
else
  echo "test: no clang with libFuzzer: the fuzz targets and the sanitized tests are left out" >&2
fi
rm -f build/fuzzer-probe

# The tests of threads are a third build, with ThreadSanitizer: of a compiler whose programs run here, which not every
# kernel lets them.
watched= watching=
for compilers in "clang clang++" "gcc g++"; do
  if echo 'int main() {}' | ${compilers#* } -x c++ -fsanitize=thread - -o build/thread-probe 2>/dev/null &&
    ./build/thread-probe 2>/dev/null; then
    watched=$PWD/build/tsan watching=$compilers
    break
  fi
done
[ -n "$watched" ] || echo "test: no compiler with ThreadSanitizer: what it watches is left out" >&2
rm -f build/thread-probe

./tools/build.sh build all -DPUMICE_TESTS=ON "-DPUMICE_FUZZ_BUILD=$sanitized" "-DPUMICE_TSAN_BUILD=$watched"
if [ -n "$sanitized" ]; then
  ./tools/build.sh build/fuzz sanitized -DPUMICE_FUZZ=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
    "-DPUMICE_SHADERS_FROM=$PWD/build"
fi
if [ -n "$watched" ]; then
  ./tools/build.sh build/tsan test_embed -DPUMICE_THREAD_SANITIZER=ON "-DCMAKE_C_COMPILER=${watching% *}" \
    "-DCMAKE_CXX_COMPILER=${watching#* }" "-DPUMICE_SHADERS_FROM=$PWD/build"
fi
# Two at a time: software drivers use every core themselves.
exec ctest --test-dir build -j2 --output-on-failure --no-label-summary --no-tests=error "$@"
