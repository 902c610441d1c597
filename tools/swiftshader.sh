#!/usr/bin/env bash
# Runs the tests that use a device on SwiftShader, Google's driver for processors. It is the poorest device that is tested: subgroups
# of 4, no storage of 16 or 8 bits, no 16-bit arithmetic.
#   tools/swiftshader.sh [CTest options...]
# The driver is in Debian's package chromium-common, which is unpacked into build/swiftshader and not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
skip() { echo "SwiftShader: SKIPPED: $*"; exit 0; }

driver=$PWD/build/swiftshader/usr/lib/chromium/vk_swiftshader_icd.json
if [ ! -e "$driver" ]; then
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "only Debian has the package to take it from"
  fetched=$(mktemp -d)
  trap 'rm -rf "$fetched"' EXIT
  (cd "$fetched" && apt-get -q -o APT::Sandbox::User= download chromium-common) >/dev/null 2>&1 ||
    skip "the package chromium-common cannot be had"
  rm -rf build/swiftshader
  dpkg -x "$fetched"/chromium-common*.deb "$fetched/root"
  mkdir -p build && mv "$fetched/root" build/swiftshader
  [ -e "$driver" ] || skip "the package chromium-common has no SwiftShader"
fi

./tools/setup.sh --tests
./tools/build.sh build all -DPUMICE_TESTS=ON -DPUMICE_TEST_ALL=ON
export VK_DRIVER_FILES=$driver VK_ICD_FILENAMES=$driver  # the second name is what older loaders read
./build/pumice devices
# Calls that are made to fail do not reach the driver: once for all drivers is enough. Crashes and faults are planted in kernels that
# this driver has none of, or that it ends with another crash; and with one variant of each kernel there is nothing to tune.
ctest --test-dir build -j2 -L '^(gpu|kernel|graph|model|embed)$' -LE '^(long|watched|built|matrices|widths)$' -E 'faults|[.](command_(crash|doctor|tune)|short_check|tuning)' \
  --output-on-failure --no-label-summary --no-tests=error "$@"
