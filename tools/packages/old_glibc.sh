# Sourced by scripts that link for systems with glibc 2.28 or newer (Debian 10, RHEL 8), whatever system they run on.
#   old_glibc FOLDER     sets `old_linker_options`, a list with semicolons
# The compiler is this system's. Only the last step, linking, sees an older C library, which old_glibc.py makes of this system's. The C++
# library has to be linked in; newer_functions.c has what it needs and the older C library lacks.
old_glibc() {  # FOLDER
  local here
  here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
  [ "$(uname -s)" = Linux ] || { echo "an old C library: only for Linux" >&2; return 1; }
  python3 "$here/old_glibc.py" "$1" 2.28
  "${CC:-cc}" -O2 -fPIC -ffunction-sections -c "$here/newer_functions.c" -o "$1/newer_functions.o"
  old_linker_options="-L$1;$1/newer_functions.o;-Wl,--no-as-needed"
}
