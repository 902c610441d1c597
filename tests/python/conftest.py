"""Puts the package beside the library of a build, and makes what tests share."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("PUMICE_BUILD", ROOT / "build"))
SOURCES = ROOT / "tools" / "python"
STORIES = ROOT / "models" / "pretrained" / "stories-2m.gguf"
CHAT = ROOT / "models" / "pretrained" / "chat-2m.gguf"
DATES = ROOT / "models" / "pretrained" / "dates"

# The package as it is installed: with what is generated, and nothing written into the checkout.
_folder = tempfile.TemporaryDirectory(prefix="pumice-python-")
PACKAGE = Path(_folder.name)
shutil.copytree(SOURCES / "pumice", PACKAGE / "pumice", ignore=shutil.ignore_patterns("_bindings.py", "libpumice*", "__pycache__"))
sys.path.insert(0, str(SOURCES))
from generate import bindings_text  # noqa: E402

(PACKAGE / "pumice" / "_bindings.py").write_text(bindings_text(ROOT / "runtime" / "api" / "pumice.h"))
sys.path[0] = str(PACKAGE)
os.environ["PUMICE_LIBRARY"] = str(BUILD / "libpumice.so.1")

import pumice  # noqa: E402

import fixtures  # noqa: E402


def pytest_sessionfinish():
    _folder.cleanup()


@pytest.fixture(scope="session")
def device():
    return pumice.Device(cache=None)


@pytest.fixture(scope="session")
def load(device):
    """What models of tests are loaded with: the safe kernels, as the command has them with --no-tune."""
    return {"device": device, "tune_seconds": -1, "progress": False}


@pytest.fixture(scope="session")
def stories(load):
    return pumice.Model(STORIES, **load)


@pytest.fixture(scope="session")
def chats(load):
    return pumice.Model(CHAT, **load)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """made("bert"): the folder of a fixture's model, with words for tokens."""
    def folder(name, writer=fixtures.write_words, **changed):
        path = tmp_path_factory.mktemp(name)
        writer(fixtures.write_model(path, name, **changed))
        return path
    return folder


@pytest.fixture(scope="session")
def command():
    """The command's answer: a JSON value for each line, or what it printed."""
    program = BUILD / "pumice"
    if not program.exists():
        pytest.skip("the build has no pumice command")

    def run(*arguments, text=False):
        done = subprocess.run([str(program), *map(str, arguments), *([] if text else ["--json"])], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout if text else [json.loads(line) for line in done.stdout.splitlines()]
    return run
