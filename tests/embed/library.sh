#!/usr/bin/env bash
# What libpumice brings into a program, and what it asks for: names, versions, other libraries, size.
#   library.sh BUILD     with CC and BUILD_TYPE in the environment
set -euo pipefail
build=$1
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
shared=$build/libpumice.so static=$build/libpumice.a
fail() { echo "FAILED: $*" >&2; exit 1; }
same() {  # WHAT EXPECTED FOUND
  diff <(sort <<<"$2") <(sort <<<"$3") || fail "$1: expected (<) and found (>) differ"
}

declared=$("$CC" -E -P "$root/runtime/api/pumice.h" | tr '\n' ' ' | grep -oE 'visibility\("default"\)[^;]*' | grep -oE 'pumice_[a-z0-9_]+\(' | tr -d '(')
[ "$(wc -w <<<"$declared")" -ge 40 ] || fail "pumice.h declares few functions: $declared"
versioned=$(awk '/[{]/ { version = $1 } /^ *pumice_.*;$/ { sub(";", ""); print $1 "@@" version }' "$root/runtime/api/pumice.map")
same "pumice.map" "$declared" "$(sed 's/@@.*//' <<<"$versioned")"

# Exported: these functions, and the versions themselves.
exported=$(nm -D --defined-only --with-symbol-versions "$shared" | awk '$2 != "A" { print $2, $3 }')
same "$shared exports" "$(sed 's/^/T /' <<<"$versioned")" "$exported"

needed=$(ldd "$shared" | awk '{ print $1 }')
for library in $needed; do
  case ${library##*/} in
  linux-vdso.so.* | libc.so.* | libm.so.* | libstdc++.so.* | libgcc_s.so.* | ld-linux*.so.*) ;;
  *) fail "$shared needs $library" ;;
  esac
done
dynamic=$(readelf -dW "$shared")
grep -qE 'SONAME.*\[libpumice\.so\.1\]' <<<"$dynamic" || fail "$shared is not libpumice.so.1"
grep -q TEXTREL <<<"$dynamic" && fail "$shared has relocations in its code"
# Nothing that prints or ends the process.
if nm -uD "$shared" | grep -wE '(f|v|vf|d)?printf|f?puts|f?putc|putchar|perror|stdout|stderr|_ZSt4(cout|cerr|clog)|abort|_?exit|_Exit|quick_exit|raise|kill|__assert_fail' &&
  [ "$BUILD_TYPE" = Release ]; then
  fail "$shared uses these"
fi
size=$(stat -Lc %s "$shared")
# A newer compiler makes 8 % more of it: 10.3 MB with GCC 14.
[ "$size" -le 10500000 ] || [ "$BUILD_TYPE" != Release ] || fail "$shared has $size bytes: more than 10.5 MB"
echo "$(wc -w <<<"$declared") functions, $size bytes"

# The static one: a single object that defines nothing else, and has the libraries in it that programs may lack.
same "$static defines" "$(sed 's/^/T /' <<<"$declared")" "$(nm -g --defined-only "$static" | awk 'NF == 3 { print $2, $3 }')"
if nm -u "$static" | grep -E ' (pcre2_|utf8proc_|_ZN3fmt|_ZNK3fmt|_ZN6pumice|_ZNK6pumice|_ZN13sentencepiece|png_)'; then
  fail "$static leaves these to be found elsewhere"
fi
