"""Makes the wheel: the package, what generate.py writes of pumice.h, and libpumice. It implements what pip asks a build backend for
(PEP 517 and 660), with Python's own library alone.

PUMICE_LIBRARY   a libpumice that is built already, in place of building it with CMake in build-wheel/
PUMICE_CMAKE     more options for CMake, "-G Ninja -DCMAKE_CXX_COMPILER=clang++"

The library is linked with the C++ library in it. The wheel's tag says which glibc it needs: pip then refuses it on older systems.
"""
import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from generate import bindings_text
from header import Header

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
INTERFACE = ROOT / "runtime" / "api" / "pumice.h"
LIBRARY = {"win32": "pumice.dll", "darwin": "libpumice.{}.dylib"}.get(sys.platform, "libpumice.so.{}")

METADATA = """Metadata-Version: 2.1
Name: pumice
Version: {version}
Summary: Transformer models on any Vulkan 1.2 device
License: MIT
Requires-Python: >=3.8
Provides-Extra: all
Requires-Dist: numpy; extra == "all"
Requires-Dist: pillow; extra == "all"
Description-Content-Type: text/markdown

{readme}"""


def fail(message):
    sys.exit(f"pumice: {message}")


def header():
    if not INTERFACE.exists():
        fail(f"there is no {INTERFACE}: install it from a checkout, with pip 21.3 or newer, which builds it in its place")
    return Header.read(INTERFACE)


def run(*command):
    try:
        status = subprocess.run(command, stdin=subprocess.DEVNULL).returncode
    except OSError as error:
        fail(f"{shlex.join(command)}: {error.strerror}: {ROOT / 'tools' / 'setup.sh'} installs what is needed")
    if status:
        fail(f"'{shlex.join(command)}' failed; {ROOT / 'tools' / 'setup.sh'} installs what building needs")


def built_library(name):
    """The path of the library that goes into the package."""
    named = os.environ.get("PUMICE_LIBRARY")
    if named:
        if not os.path.isfile(named):
            fail(f"PUMICE_LIBRARY is {named}: expected the file of a libpumice")
        return Path(named).resolve()
    build = ROOT / "build-wheel"
    generator = ["-G", "Ninja"] if shutil.which("ninja") and not (build / "CMakeCache.txt").exists() else []
    run("cmake", "-S", str(ROOT), "-B", str(build), *generator, "-DPUMICE_TESTS=OFF", "-DPUMICE_COMMAND=OFF", "-DPUMICE_STATIC_CXX=ON",
        *shlex.split(os.environ.get("PUMICE_CMAKE", "")))
    run("cmake", "--build", str(build), "--target", "pumice_shared", "--parallel")
    found = sorted(build.glob(f"**/{name}"))
    if not found:
        fail(f"the build made no {name} in {build}")
    return found[0].resolve()


def platform_tag(library):
    """linux_x86_64; or, where the C library is all that the library needs, the oldest one that it runs with."""
    platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
    if not platform.startswith("linux_"):
        return platform
    content = library.read_bytes()
    versions = [int(minor) for minor in re.findall(rb"\0GLIBC_2\.(\d+)", content)]
    if b"libstdc++.so" in content or not versions:
        return platform
    return f"manylinux_2_{max(max(versions), 5)}_{platform[len('linux_'):]}"


class Wheel:
    """A wheel that is being written: a zip file that ends with the checksums of what is in it."""

    def __init__(self, folder, version, tag):
        self.name = f"pumice-{version}-py3-none-{tag}.whl"
        self.information = f"pumice-{version}.dist-info"
        self._file = zipfile.ZipFile(Path(folder) / self.name, "w", zipfile.ZIP_DEFLATED)
        self._record = []
        self.add(f"{self.information}/METADATA", metadata_text(version))
        self.add(f"{self.information}/WHEEL", f"Wheel-Version: 1.0\nGenerator: pumice\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n")
        for name, path in (("LICENSE", ROOT / "LICENSE"), ("THIRD-PARTY-LICENSES", INTERFACE.parent / "THIRD-PARTY-LICENSES")):
            self.add(f"{self.information}/licenses/{name}", path.read_text(encoding="utf-8"))

    def add(self, name, content, executable=False):
        if isinstance(content, str):
            content = content.encode()
        entry = zipfile.ZipInfo(name)  # of 1980: the same content makes the same file
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        self._file.writestr(entry, content)
        checksum = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self._record.append(f"{name},sha256={checksum},{len(content)}")

    def close(self):
        record = f"{self.information}/RECORD"
        self._file.writestr(zipfile.ZipInfo(record), "\n".join([*self._record, f"{record},,", ""]))
        self._file.close()


def version_text():
    return ".".join(map(str, header().version))


def metadata_text(version):
    return METADATA.format(version=version, readme=(FOLDER / "README.md").read_text(encoding="utf-8"))


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    information = f"pumice-{version_text()}.dist-info"
    (Path(metadata_directory) / information).mkdir()
    (Path(metadata_directory) / information / "METADATA").write_text(metadata_text(version_text()), encoding="utf-8")
    return information


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version = version_text()
    name = LIBRARY.format(header().version[0])
    library = built_library(name)
    wheel = Wheel(wheel_directory, version, platform_tag(library))
    for path in sorted((FOLDER / "pumice").glob("*")):
        if path.name == "py.typed" or path.suffix == ".py" and path.name != "_bindings.py":
            wheel.add(f"pumice/{path.name}", path.read_bytes())
    wheel.add("pumice/_bindings.py", bindings_text(INTERFACE))
    wheel.add(f"pumice/{name}", library.read_bytes(), executable=True)
    wheel.close()
    return wheel.name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The checkout itself, with what is made put beside it."""
    name = LIBRARY.format(header().version[0])
    library = built_library(name)
    (FOLDER / "pumice" / "_bindings.py").write_text(bindings_text(INTERFACE), encoding="utf-8")
    shutil.copyfile(library, FOLDER / "pumice" / name)
    wheel = Wheel(wheel_directory, version_text(), platform_tag(library))
    wheel.add("pumice.pth", f"{FOLDER}\n")
    wheel.close()
    return wheel.name


def build_sdist(sdist_directory, config_settings=None):
    fail("the package is built from a checkout of Pumice: its library is not a part of an archive of sources of its own")
