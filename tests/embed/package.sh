#!/usr/bin/env bash
# Makes the packages, unpacks them elsewhere, and starts the command from there.
#   package.sh BUILD     with CPACK in the environment
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

version=$("$build/pumice" --version | sed -n '1s/^pumice //p')
generators=TGZ
command -v dpkg-deb >/dev/null && generators="DEB;TGZ"
"$CPACK" --config "$build/CPackConfig.cmake" -G "$generators" -B "$folder/packages" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "cpack"; }

check() {  # PREFIX
  local file libraries
  [ "$("$1/bin/pumice" --version | sed -n '1s/^pumice //p')" = "$version" ] || fail "$1/bin/pumice is of another version than $version"
  libraries=$(dirname "$(find "$1" -name libpumice.so.1)")
  for file in libpumice.so libpumice.so.1 libpumice.a cmake/pumice/pumice-config.cmake pkgconfig/pumice.pc \
    ../include/pumice/pumice.h ../include/pumice/pumice.hpp ../share/doc/pumice/{LICENSE,THIRD-PARTY-LICENSES}; do
    [ -s "$libraries/$file" ] || fail "$1 lacks $file"
  done
  # Manual pages and completion, of each command that the command has.
  grep -q '^\.SH NAME' "$1/share/man/man1/pumice-run.1" || fail "$1/share/man/man1/pumice-run.1 is no manual page"
  for file in man/man1/pumice.1 man/man1/pumice-bench-compare.1 bash-completion/completions/pumice \
    zsh/site-functions/_pumice fish/vendor_completions.d/pumice.fish; do
    [ -s "$1/share/$file" ] || fail "$1 lacks share/$file"
  done
  (. "$1/share/bash-completion/completions/pumice" && complete -p pumice) >/dev/null ||
    fail "the completion for bash cannot be read"
}

mkdir "$folder/tarball" "$folder/debian"
tar -xzf "$folder"/packages/*.tar.gz -C "$folder/tarball"
check "$folder/tarball"/pumice-*
if [ "$generators" != TGZ ]; then
  package=$(echo "$folder"/packages/pumice_*.deb)
  dpkg-deb -x "$package" "$folder/debian"
  check "$folder/debian/usr"
  [ "$(dpkg-deb -f "$package" Version)" = "$version" ] || fail "$package is of another version than $version"
  if command -v dpkg-shlibdeps file >/dev/null; then
    needed=$(dpkg-deb -f "$package" Depends)
    [[ $needed == *"libc6 (>="* ]] || fail "$package does not depend on the C library"
    [[ $needed != *mpi* ]] || fail "$package depends on $needed: the plug-in for MPI is a package of its own"
  fi
  if [ -e "$build/libpumice_mpi.so" ]; then
    dpkg-deb -c "$folder"/packages/pumice-mpi_*.deb | grep -q 'lib/pumice/libpumice_mpi[.]so' || fail "pumice-mpi_*.deb has no plug-in"
    dpkg-deb -f "$folder"/packages/pumice-mpi_*.deb Depends | grep -qF "pumice (= $version)" || fail "pumice-mpi_*.deb does without pumice"
  fi
fi
(cd "$folder/packages" && ls -s --block-size=k ./*.tar.gz ./*.deb 2>/dev/null) || true
