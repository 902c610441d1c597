#!/usr/bin/env bash
# Runs the tests on a second driver: lavapipe of the current Mesa, in a Debian testing root beside the system.
#   tools/second_driver.sh [DIR] [CTest options...]     DIR: where the root is (build/second-driver)
# Needs root on Debian, and debootstrap, which it installs; elsewhere it says that it skipped. The root takes 0.7 GB and is kept
# for the next run: remove DIR to have a newer Mesa.
set -euo pipefail
script=$(realpath "${BASH_SOURCE[0]}")
dir=${script%/*}/../build/second-driver
if [ $# -gt 0 ] && [[ $1 != -* ]]; then dir=$1; shift; fi
dir=$(realpath -m "$dir")
cd "${script%/*}/.."

skip() { echo "second driver: SKIPPED: $*"; exit 0; }
fail() { echo "second driver: FAILED: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || skip "only root can make a system root"
grep -qx 'ID=debian' /etc/os-release 2>/dev/null || skip "only on Debian is there a mirror of Debian testing to make it from"
# All mounts are made in a namespace of this script's own, so that they go away with it, however it ends.
if [ "${PUMICE_MOUNTS:-}" != own ]; then
  unshare --mount --propagation private true 2>/dev/null || skip "this machine does not let root mount anything"
  PUMICE_MOUNTS=own exec unshare --mount --propagation private bash "$script" "$dir" "$@"
fi

./tools/setup.sh --tests
if ! command -v debootstrap >/dev/null; then
  apt-get -q update >/dev/null 2>&1 || true
  DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends debootstrap >/dev/null 2>&1 </dev/null ||
    skip "debootstrap is missing and could not be installed"
fi

# 1. The root, once.
if [ ! -e "$dir/.pumice-complete" ]; then
  if [ -e "$dir" ] && [ ! -e "$dir/.pumice" ] && [ -n "$(ls -A "$dir")" ]; then fail "$dir holds something else"; fi
  mirror() { apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Component: main' | head -n 1; }
  uri=$(mirror)
  if [ -z "$uri" ]; then  # no package lists yet, as in a fresh container
    apt-get -q update >/dev/null 2>&1 || true
    uri=$(mirror)
  fi
  [ -n "$uri" ] || fail "no Debian mirror in this machine's package sources"
  echo "second driver: making a Debian testing root in $dir" >&2
  rm -rf "$dir"
  mkdir -p "$dir"
  touch "$dir/.pumice"
  # An older debootstrap does not know the suite's name, but its script for unstable fits. It cannot do with a space in the path.
  plain=$(mktemp -d)
  mount --bind "$dir" "$plain"
  made=yes
  debootstrap --variant=minbase --include=mesa-vulkan-drivers,libvulkan1,vulkan-validationlayers forky "$plain" "$uri" \
    /usr/share/debootstrap/scripts/sid >"$dir.log" 2>&1 </dev/null || made=no
  umount -R "$plain" && rmdir "$plain"
  if [ $made = no ]; then tail -n 10 "$dir.log" >&2; fail "debootstrap; all it said is in $dir.log"; fi
  touch "$dir/.pumice-complete"
fi

# 2. The tests, linked so that nothing of this system but the C and C++ libraries is needed there. CTest stays outside and
# starts each test in the root, where the checkout and the fixtures are found under their own paths.
./tools/build.sh build pumice_runtime  # for its shaders
./tools/build.sh build/static all -DPUMICE_TESTS=ON -DPUMICE_STATIC=ON "-DPUMICE_SHADERS_FROM=$PWD/build" "-DPUMICE_TEST_LAUNCHER=chroot;$dir"
for mount in proc sys dev; do mount --bind "/$mount" "$dir/$mount"; done
bind() {  # FOLDER, to be read only
  mkdir -p "$dir$1"
  mount --bind "$1" "$dir$1"
  mount -o remount,bind,ro "$dir$1"
}
bind "$PWD"
mount --bind "$PWD/build/static" "$dir$PWD/build/static"
fixtures=$(realpath -m "${PUMICE_FIXTURES:-../shared/fixtures}")
if [ -d "$fixtures" ]; then
  bind "$fixtures"
  export PUMICE_FIXTURES=$fixtures
fi

# 3. What names this system's drivers and folders means nothing there.
unset VK_ICD_FILENAMES VK_DRIVER_FILES VK_ADD_DRIVER_FILES VK_LAYER_PATH VK_ADD_LAYER_PATH LD_LIBRARY_PATH XDG_CACHE_HOME XDG_RUNTIME_DIR TMPDIR
export HOME=/root
chroot "$dir" dpkg-query -W -f='second driver: ${Package} ${Version}\n' mesa-vulkan-drivers
chroot "$dir" "$PWD/build/static/pumice" devices || fail "no Vulkan device there"
ctest --test-dir build/static -j2 --output-on-failure --no-label-summary --no-tests=error "$@"
