"""What Vulkan needs where the machine does not have it in its places."""

import ctypes
import json
import os
import re
import shutil

from jobs import HERE, WORK


def missing_libraries():
    """A folder with those of the pack's libraries that this machine lacks: drivers need the machine's own of the others."""
    folder = os.path.join(WORK, "lib")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name in sorted(os.listdir(os.path.join(HERE, "lib"))):
        try:
            library = ctypes.CDLL(name)
            # A function that came with the C++ library of GCC 12, which the programs are linked with.
            if name != "libstdc++.so.6" or hasattr(library, "_ZSt21__glibcxx_assert_failPKciS0_S0_"):
                continue
        except OSError:
            pass
        os.symlink(os.path.join(HERE, "lib", name), os.path.join(folder, name))
    return folder


def manifests():
    """Manifests of Vulkan drivers that the loader does not look for: beside the libraries' folders, or made for a driver's library."""
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    folders += ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    libraries = []
    for folder in folders:
        for share in (os.path.join(folder, "..", "share"), os.path.join(folder, "..", "..", "share")):
            icd = os.path.join(share, "vulkan", "icd.d")
            for name in sorted(os.listdir(icd)) if os.path.isdir(icd) else []:
                yield os.path.realpath(os.path.join(icd, name))
        for name in sorted(os.listdir(folder), reverse=True) if os.path.isdir(folder) else []:
            if re.fullmatch(r"lib(GLX_nvidia\.so\.0|EGL_nvidia\.so\.0|vulkan_\w+\.so)", name):
                libraries.append(os.path.join(folder, name))
    for number, library in enumerate(libraries):
        path = os.path.join(WORK, f"driver-{number}.json")
        with open(path, "w") as file:
            json.dump({"file_format_version": "1.0.0", "ICD": {"library_path": library, "api_version": "1.3.0"}}, file)
        yield path
