#!/usr/bin/env bash
# Uses the packages beside it as somebody would who has just fetched them. try.sh starts it in a root that has nothing else of Pumice.
#   use.sh       beside it: packages, stories-2m.gguf, and the folder consumers (tests/embed/consumers)
# A system without a driver of Vulkan 1.2 gets as far as the sentence that says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
fail() { echo "FAILED: $*" >&2; exit 1; }
quietly() { "$@" >log 2>&1 || { cat log >&2; fail "$*"; }; }
export HOME=$PWD XDG_CACHE_HOME=$PWD/cache
prompt="Once upon a time"

has_device=yes
check_command() {  # PUMICE
  "$1" --version | grep -q '^pumice [0-9]' || fail "$1 --version"
  "$1" tokenize stories-2m.gguf "$prompt" | grep -q '[0-9]' || fail "$1 tokenize"
  "$1" inspect stories-2m.gguf | grep -q . || fail "$1 inspect"
  if "$1" devices >devices 2>&1; then
    told=$("$1" run stories-2m.gguf "$prompt" -n 8 --temp 0) || fail "$1 run"
    echo "$1: $told"
  else
    has_device=
    grep -q Vulkan devices || fail "$1 devices prints: $(cat devices)"
    echo "$1: no device here: $(head -n 1 devices)"
  fi
}
expected=
check_program() {  # PROGRAM COMMAND...: what it prints is what the first one printed
  local text
  if [ -z "$has_device" ]; then
    if "${@:2}" stories-2m.gguf cache >log 2>&1; then fail "$1 works without a device"; fi
    grep -q Vulkan log || { cat log; fail "$1 does not say what is missing"; }
    echo "$1: $(head -n 1 log)"
    return
  fi
  text=$("${@:2}" stories-2m.gguf cache) || fail "$1"
  echo "$1: $text"
  [ "$text" = "${expected:=$text}" ] && [[ $told == *"${text# }"* ]] || fail "$1 printed something else than the others"
}

# The tarball, moved to another place.
tar -xf pumice-*-Linux-*.tar.xz
mv pumice-*/ moved
check_command moved/bin/pumice
PKG_CONFIG_PATH=moved/lib/pkgconfig
export PKG_CONFIG_PATH
quietly cc -std=c11 consumers/generate.c -o by_pkg_config $(pkg-config --cflags --libs pumice)
check_program by_pkg_config env LD_LIBRARY_PATH=moved/lib ./by_pkg_config
unset PKG_CONFIG_PATH
if dpkg --compare-versions "$(cmake --version | sed -n '1s/.* //p')" ge 3.16; then
  quietly cmake -S consumers -B by_cmake -DLANGUAGES=C "-DCMAKE_PREFIX_PATH=$PWD/moved" -DCMAKE_BUILD_TYPE=Release
  # The static library is of GCC 12's C++ library, or a newer one.
  programs=(c_shared)
  if [ "$(c++ -dumpversion | cut -d. -f1)" -ge 12 ]; then programs+=(c_static); fi
  for program in "${programs[@]}"; do
    quietly cmake --build by_cmake --target $program
    check_program $program by_cmake/$program
  done
fi

# The package of Debian, which leaves nothing behind.
files() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path "$PWD" -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log \) \
    -prune -o -print | sort
}
files >before
quietly dpkg -i pumice_*.deb
check_command pumice
[ -s /usr/share/man/man1/pumice.1 ] || [ -e /etc/dpkg/dpkg.cfg.d/excludes ] || fail "pumice_*.deb has no manual page"
quietly cc -std=c11 consumers/generate.c -o by_deb $(pkg-config --cflags --libs pumice)
check_program by_deb ./by_deb
quietly dpkg -P pumice
[ ! -e /usr/bin/pumice ] || fail "pumice is there after dpkg -P"
files | diff before - || fail "dpkg -P leaves these"

# The wheel, without pip.
python3 -m zipfile -e pumice-*.whl wheel
cat >in_python.py <<'END'
import sys
import pumice
print(pumice.Model(sys.argv[1], device=pumice.Device(cache=sys.argv[2])).generate("Once upon a time", max_tokens=8))
END
check_program in_python.py env PYTHONPATH=wheel python3 in_python.py
