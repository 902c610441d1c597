"""Finds and loads libpumice, and calls its functions."""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from . import _bindings, errors

MAJOR = _bindings.VERSION[0]
FILE = {"win32": "pumice.dll", "darwin": f"libpumice.{MAJOR}.dylib"}.get(sys.platform, f"libpumice.so.{MAJOR}")


def _path() -> str:
    """The library that PUMICE_LIBRARY names, else the one in the package, else the system's."""
    named = os.environ.get("PUMICE_LIBRARY")
    if named:
        return named
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), FILE)
    return own if os.path.exists(own) else FILE


def _load() -> Any:
    path = _path()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        why = str(error) if path in str(error) else f"{path}: {error}"
        raise ImportError(f"{why}. Set PUMICE_LIBRARY to the path of Pumice's library") from None
    missing = [name for name in _bindings.FUNCTIONS if not hasattr(library, name)]
    if missing:
        raise ImportError(f"{path} lacks {missing[0]}" + (f" and {len(missing) - 1} more functions" if missing[1:] else "") +
                          ": it is older than this package")
    for name, (result, parameters) in _bindings.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
    found = version_of(library)
    if found[0] != MAJOR or found < _bindings.VERSION:
        raise ImportError(f"{path} is version {'.'.join(map(str, found))}: this package needs "
                          f"{'.'.join(map(str, _bindings.VERSION))}, or a newer one of the same major version")
    return library


def version_of(library: Any) -> tuple:
    parts = [ctypes.c_int() for _ in range(3)]
    library.pumice_version(*map(ctypes.byref, parts))
    return tuple(part.value for part in parts)


lib = _load()


def call(function: Any, *arguments: Any) -> None:
    """Calls a function whose last parameter is an error, and raises it."""
    error = _bindings.pumice_error()
    status = function(*arguments, ctypes.byref(error))
    if status:
        raise errors.of_status(status, error.message.decode("utf-8", "replace"))


def text_of(function: Any, *arguments: Any, room: int = 1024) -> str:
    """The text that a function writes whose parameters end with a text, its capacity and the count of its bytes."""
    count = ctypes.c_size_t()
    while True:
        text = ctypes.create_string_buffer(room)
        call(function, *arguments, text, room, ctypes.byref(count))
        if count.value < room:
            return text.raw[:count.value].decode("utf-8", "replace")
        room = count.value + 1


def tokens_of(function: Any, *arguments: Any, room: int = 64) -> list:
    """The tokens that a function writes whose parameters end with tokens, their capacity and their count."""
    count = ctypes.c_size_t()
    while True:
        tokens = (ctypes.c_uint32 * room)()
        call(function, *arguments, tokens, room, ctypes.byref(count))
        if count.value <= room:
            return tokens[:count.value]
        room = count.value
