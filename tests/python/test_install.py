"""pip installs the package from a checkout, without a network."""
import importlib.util
import os
import subprocess
import sys
import sysconfig
import zipfile

import pytest
from conftest import BUILD, SOURCES, STORIES

import pumice

sys.path.insert(0, str(SOURCES))
import backend  # noqa: E402

sys.path.remove(str(SOURCES))


def test_wheel(tmp_path):
    name = backend.build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as wheel:
        names = set(wheel.namelist())
        information = f"pumice-{pumice.__version__}.dist-info"
        assert {"pumice/__init__.py", "pumice/py.typed", "pumice/_bindings.py", f"{information}/METADATA", f"{information}/WHEEL",
                f"{information}/licenses/THIRD-PARTY-LICENSES"} <= names
        recorded = {line.split(",")[0] for line in wheel.read(f"{information}/RECORD").decode().splitlines()}
        assert recorded == names
        for each in sorted((SOURCES / "pumice").glob("*.py")):
            assert f"pumice/{each.name}" in names
        assert wheel.read("pumice/libpumice.so.1")[:4] == b"\x7fELF"


def test_tags(tmp_path):
    library = tmp_path / "library"
    plain = sysconfig.get_platform().replace("-", "_")
    for content, tag in ((b"\0GLIBC_2.17\0GLIBC_2.28\0", plain.replace("linux", "manylinux_2_28")),
                         (b"\0GLIBC_2.34\0libstdc++.so.6\0", plain), (b"", plain)):
        library.write_bytes(content)
        assert backend.platform_tag(library) == tag


def test_pip(tmp_path):
    if importlib.util.find_spec("pip") is None:
        pytest.skip("this Python has no pip: python3-pip")
    environment = {**os.environ, "PUMICE_LIBRARY": str(BUILD / "libpumice.so.1"), "PIP_NO_INDEX": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    target = tmp_path / "installed"
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", target, str(SOURCES)], env=environment,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    del environment["PUMICE_LIBRARY"]
    code = f"""
import pumice
print(pumice.__file__)
print(pumice.Model({str(STORIES)!r}, device=pumice.Device(cache=None), tune_seconds=-1).generate("Once", max_tokens=2))
"""
    done = subprocess.run([sys.executable, "-c", code], env={**environment, "PYTHONPATH": str(target)}, cwd=tmp_path, capture_output=True,
                          text=True)
    assert done.returncode == 0 and done.stdout.startswith(str(target)) and len(done.stdout.splitlines()) == 2, done.stderr
