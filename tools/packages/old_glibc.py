#!/usr/bin/env python3
"""Writes libraries to link with in place of this system's C library: they have its symbols, in the versions of an older one.

    old_glibc.py FOLDER VERSION      VERSION: the newest that may be asked for, 2.28

A program that is linked with them runs with that version and with newer ones: the linker finds no symbol that is newer, and takes the
older of two versions of a function. A C library has all versions of a function that it ever had, so nothing but itself is needed to
tell them. They have no code: only what a linker reads.
"""
import platform
import re
import subprocess
import sys
from pathlib import Path

# What the older C library had in libraries of its own. A newer one has all of it in libc.so.6, beside empty ones of these names.
SEPARATE = ("libpthread.so.0", "libdl.so.2", "librt.so.1")
LOADER = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}.get(platform.machine(), "none")


def number(version):
    return tuple(int(part) for part in version.split("."))


def symbols(library, newest):
    """{name: (version, type, size)} of a library, of each the newest version that is old enough."""
    found = {}
    text = subprocess.run(["readelf", "--dyn-syms", "-W", library], stdout=subprocess.PIPE, text=True, check=True).stdout
    for size, kind, name, version in re.findall(
            r"^ *\d+: [0-9a-f]+ +(\w+) (\w+) +(?:GLOBAL|WEAK) +\w+ +(?!UND)\S+ (\w+)@+GLIBC_([\d.]+)", text, re.M):
        if kind in ("FUNC", "OBJECT", "IFUNC", "NOTYPE") and number(version) <= number(newest):
            if name not in found or number(version) > number(found[name][0]):
                found[name] = (version, "object" if kind == "OBJECT" else "function", int(size, 0))
    return found


def write_library(folder, name, found):
    source, script = folder / f"{name}.s", folder / f"{name}.map"
    lines = []
    for kind, section in (("function", ".text"), ("object", ".data")):
        lines.append(section)
        for symbol, (version, of_kind, size) in sorted(found.items()):
            if of_kind != kind:
                continue
            own = f"own_{symbol}"
            lines += [f".globl {own}", f".type {own}, @{kind}", f".size {own}, {size}", ".balign 32", f"{own}:", f".skip {max(size, 1)}",
                      f".symver {own}, {symbol}@@GLIBC_{version}, remove"]
    lines.append('.section .note.GNU-stack, "", @progbits')
    source.write_text("\n".join(lines) + "\n")
    versions = sorted({version for version, _, _ in found.values()}, key=number)
    script.write_text("".join(f"GLIBC_{version} {{ }};\n" for version in versions))
    made = folder / name
    subprocess.run(["cc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", *([f"-Wl,--version-script={script}"] if versions else []),
                    str(source), "-o", str(made)], check=True)
    return made


def path_of(name):
    return subprocess.run(["cc", f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def main(folder, newest):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("libc.so.6", "libm.so.6"):
        found = symbols(path_of(name), newest)
        if not found:
            sys.exit(f"old_glibc.py: {path_of(name)} has no symbols of glibc {newest} or older")
        write_library(folder, name, found)
    for name in SEPARATE:
        write_library(folder, name, {})
    # What the linker looks for when it is told -lc and -lm. Some functions are never in the shared library, and one is the loader's.
    first = " ".join(str(folder / name) for name in SEPARATE)
    loader = f"AS_NEEDED ( {path_of(LOADER)} )" if path_of(LOADER) != LOADER else ""
    (folder / "libc.so").write_text(f"GROUP ( {first} {folder}/libc.so.6 {path_of('libc_nonshared.a')} {loader} )\n")
    (folder / "libm.so").write_text(f"GROUP ( {folder}/libm.so.6 )\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
