# Debian roots beside the system, in which other versions of its packages run. Sourced by scripts that set `name`, which their
# messages begin with, and `dir`, where their root is.
# Only root on Debian can make one; elsewhere the script says that it skipped, and succeeds. A root is kept for the next run.

skip() { echo "$name: SKIPPED: $*"; exit 0; }
fail() { echo "$name: FAILED: $*" >&2; exit 1; }

# Starts the script again in a mount namespace of its own: its mounts go away with it, however it ends.
with_own_mounts() {  # SCRIPT ARGUMENTS...
  [ "$(id -u)" = 0 ] || skip "only root can make a system root"
  grep -qx 'ID=debian' /etc/os-release 2>/dev/null || skip "only on Debian is there a mirror of Debian to make it from"
  if [ "${PUMICE_MOUNTS:-}" = own ]; then return; fi
  unshare --mount --propagation private true 2>/dev/null || skip "this machine does not let root mount anything"
  PUMICE_MOUNTS=own exec unshare --mount --propagation private bash "$@"
}

find_debootstrap() {
  if command -v debootstrap >/dev/null; then return; fi
  apt-get -q update >/dev/null 2>&1 || true
  DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends debootstrap \
    >/dev/null 2>&1 </dev/null || skip "debootstrap is missing and could not be installed"
}

debian_mirror() {
  local list=(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' 'Origin: Debian' 'Component: main') uri
  uri=$("${list[@]}" | head -n 1)
  if [ -z "$uri" ]; then  # no package lists yet, as in a fresh container
    apt-get -q update >/dev/null 2>&1 || true
    uri=$("${list[@]}" | head -n 1)
  fi
  echo "$uri"
}

# Makes the root unless it is there: of this Debian suite, with these packages, a list with commas.
make_root() {  # SUITE PACKAGES
  local suite=$1 packages=$2 uri plain made=yes
  if [ -e "$dir/.pumice-complete" ]; then return; fi
  if [ -e "$dir" ] && [ ! -e "$dir/.pumice" ] && [ -n "$(ls -A "$dir")" ]; then fail "$dir holds something else"; fi
  find_debootstrap
  uri=$(debian_mirror)
  [ -n "$uri" ] || fail "no Debian mirror in this machine's package sources"
  echo "$name: making a root of Debian $suite in $dir" >&2
  rm -rf "$dir"
  mkdir -p "$dir"
  touch "$dir/.pumice"
  # An older debootstrap does not know the suite's name, but its script for unstable fits. It cannot do with a space in the path.
  plain=$(mktemp -d)
  mount --bind "$dir" "$plain"
  debootstrap --variant=minbase --include="$packages" "$suite" "$plain" "$uri" /usr/share/debootstrap/scripts/sid \
    >"$dir.log" 2>&1 </dev/null || made=no
  umount -R "$plain" && rmdir "$plain"
  if [ $made = no ]; then tail -n 10 "$dir.log" >&2; fail "debootstrap; all it said is in $dir.log"; fi
  touch "$dir/.pumice-complete"
}

mount_system() {
  local folder
  # /dev/pts: some tests start the command at a terminal.
  for folder in proc sys dev dev/pts; do mount --bind "/$folder" "$dir/$folder"; done
  cp /etc/resolv.conf "$dir/etc/resolv.conf"
}

mount_read_only() {  # FOLDER, which is found in the root under its own path
  mkdir -p "$dir$1"
  mount --bind "$1" "$dir$1"
  mount -o remount,bind,ro "$dir$1"
}

# Of the variables only those that mean something there: others name this system's drivers and folders.
in_root() {  # COMMAND...
  chroot "$dir" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    TERM="${TERM:-dumb}" ${PUMICE_FIXTURES:+"PUMICE_FIXTURES=$PUMICE_FIXTURES"} "$@"
}

# A newer C library serves older programs. Other libraries that the root lacks are taken along.
take_libraries() {  # PROGRAM...
  local have library path
  mkdir -p "$dir/usr/local/lib"
  have=$(in_root ldconfig -p)
  { ldd "$@" 2>/dev/null || true; } | awk '/=> \// { print $1, $3 }' | sort -u | while read -r library path; do
    grep -qF "	$library " <<<"$have" || cp -L "$path" "$dir/usr/local/lib/"
  done
  in_root ldconfig
}
