# Sourced by scripts that link for systems with glibc 2.27 or newer (Ubuntu 18.04, Debian 10), whatever system they run on.
#   old_glibc FOLDER     sets `old_linker_options`, a list with semicolons, and `old_libraries`
# The compiler is this system's. Only the last step, linking, sees the C library of Ubuntu 18.04, from two packages that are fetched
# once. The C++ library has to be linked in; newer_functions.c has what it needs and an old C library lacks. Then no symbol of a newer
# one can come in: the linker would not find it.
old_glibc() {  # FOLDER
  local old=$1 here mirror=http://archive.ubuntu.com/ubuntu/pool/main/g/glibc sum name link
  here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
  [ "$(uname -sm)" = "Linux x86_64" ] || { echo "an old C library: only for Linux on x86-64" >&2; return 1; }
  if [ ! -e "$old/complete" ]; then
    rm -rf "$old"
    mkdir -p "$old/root"
    while read -r sum name; do
      curl -sSf -o "$old/$name" "$mirror/$name" || { echo "$mirror/$name cannot be fetched" >&2; return 1; }
      echo "$sum  $old/$name" | sha256sum --quiet -c - || { echo "$mirror/$name is not the file that it was" >&2; return 1; }
      dpkg -x "$old/$name" "$old/root"
    done <<'END'
5b813d4512491cd8fb30b2eb9192349ee75ffe3c9f21ae136cc7b2429f70c3b2 libc6_2.27-3ubuntu1.6_amd64.deb
96ae7d2cf38f0547ca3cccb3344c8802fdf5bcd71c4b6d9aed09558ac8cc87db libc6-dev_2.27-3ubuntu1.6_amd64.deb
END
    # Absolute links would lead to this system's libraries.
    find "$old/root" -type l -lname '/*' | while read -r link; do ln -sfn "$old/root$(readlink "$link")" "$link"; done
    touch "$old/complete"
  fi
  "${CC:-cc}" -O2 -fPIC -ffunction-sections -c "$here/newer_functions.c" -o "$old/newer_functions.o"
  old_linker_options="--sysroot=$old/root;-L$old/root/usr/lib/x86_64-linux-gnu;-L$old/root/lib/x86_64-linux-gnu;$old/newer_functions.o"
  old_libraries=-lpthread  # which newer C libraries have in them
}
