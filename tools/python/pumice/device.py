"""Vulkan devices."""
from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from . import _bindings
from ._handle import Handle
from ._interrupt import interruptible
from ._library import call, lib
from ._structures import choice, decoded, structure

Log = Callable[[str, str], Any]
_log = logging.getLogger("pumice")


class Memory(NamedTuple):
    """Bytes of a device's memory."""

    allocated: int
    """By Pumice, now."""
    peak: int
    """The most so far."""
    limit: int
    """What Pumice may allocate; 0: all."""
    heap: int
    available: int


def cache_folder() -> Optional[str]:
    """Where the command keeps compiled kernels and measurements, and this package too."""
    for variable, below in (("XDG_CACHE_HOME", ()), ("LOCALAPPDATA" if sys.platform == "win32" else "HOME",
                                                     () if sys.platform == "win32" else (".cache",))):
        if os.environ.get(variable):
            return os.path.join(os.environ[variable], *below, "pumice")
    return None


def _logged(level: str, message: str) -> None:
    _log.log(logging.WARNING if level == "warning" else logging.INFO, "%s", message)


class Device(Handle):
    """A Vulkan device, which models are loaded on. Any number of threads may use it.

    name: its index, a part of its name, or its UUID; None: the best one. `pumice devices` lists them.
    memory_limit: most bytes that are allocated at a time; more is an OutOfMemory.
    cache: the folder of compiled kernels and measurements; None: nothing is kept. By default the one that the command uses.
    tuning: results of `pumice tune --export`, as bytes or the path of a file.
    log: called with "info" or "warning" and a sentence, from any thread. By default they go to logging.getLogger("pumice").
    """

    _kind = "device"

    def __init__(self, name: Union[str, int, None] = None, *, memory_limit: Optional[int] = None,
                 cache: Union[str, os.PathLike, None, bool] = True, tuning: Union[bytes, str, os.PathLike, None] = None,
                 priority: str = "default", validate: bool = False, log: Optional[Log] = None) -> None:
        # The library calls it until the last of the device's models is freed: they refer to the device.
        self._log = _bindings.pumice_log_function(self._logger(log or _logged))
        options = structure(_bindings.pumice_device_options, device=None if name is None else str(name), memory_limit=memory_limit,
                            cache_folder=cache_folder() if cache is True else cache or None,
                            tuning_file=tuning if not isinstance(tuning, (bytes, bytearray)) else None,
                            global_priority=choice(priority, _bindings.pumice_priority, "PUMICE_PRIORITY_", "priority"),
                            validate=validate, log=self._log)
        if isinstance(tuning, (bytes, bytearray)):
            results = ctypes.create_string_buffer(bytes(tuning), len(tuning))
            options.tuning, options.tuning_bytes = ctypes.addressof(results), len(tuning)
        self._make(lambda made: interruptible(lambda: call(lib.pumice_device_create, options, made), lambda: None))

    @staticmethod
    def _logger(log: Log) -> Callable[[Any, int, bytes], None]:
        def write(_user: Any, level: int, message: bytes) -> None:
            try:
                log("warning" if level == 1 else "info", decoded(message))
            except Exception:  # there is nobody to tell
                pass
        return write

    @property
    def name(self) -> str:
        """"llvmpipe (LLVM 15.0.6, 256 bits)"."""
        with self._use() as pointer:
            return decoded(lib.pumice_device_name(pointer))

    @property
    def memory(self) -> Memory:
        """What is allocated now."""
        report = structure(_bindings.pumice_memory_report)
        with self._use() as pointer:
            call(lib.pumice_device_memory, pointer, ctypes.byref(report))
        return Memory(*(getattr(report, name) for name in Memory._fields))

    def save_tuning(self, path: Union[str, os.PathLike]) -> None:
        """Writes what was measured of it to a file, for `tuning` of other runs."""
        with self._use() as pointer:
            call(lib.pumice_device_save_tuning, pointer, os.fsencode(path))

    def tuning(self) -> bytes:
        """The same as bytes."""
        with self._use() as pointer:
            return written(lib.pumice_device_write_tuning, pointer)

    def __repr__(self) -> str:
        return f"<pumice.Device {'closed' if self.closed else self.name}>"


def written(function: Any, pointer: Any) -> bytes:
    """The bytes that a function hands to a pumice_write_function."""
    parts = []

    def write(_user: Any, data: Optional[int], count: int) -> bool:
        parts.append(ctypes.string_at(data, count) if data else b"")
        return True

    call(function, pointer, _bindings.pumice_write_function(write), None)
    return b"".join(parts)


_shared: Dict[Union[str, int, None], Device] = {}
_sharing = threading.Lock()


def shared(device: Union[Device, str, int, None]) -> Device:
    """The device itself, or the one of this name that all models share."""
    if isinstance(device, Device):
        return device
    with _sharing:
        if device not in _shared or _shared[device].closed:
            _shared[device] = Device(device)
        return _shared[device]
