"""What goes wrong, as exceptions. Each has the library's sentence, and its status as `code`.

Where Python has a word for it, the exception is that, too: a file that is missing is a FileNotFoundError.
"""
from __future__ import annotations

import enum
from typing import Dict, Type


class Code(enum.IntEnum):
    """Why something failed; pumice_status of the C interface."""

    INVALID_ARGUMENT = 1
    NOT_FOUND = 2
    INVALID_FILE = 3
    UNSUPPORTED = 4
    OUT_OF_MEMORY = 5
    DEVICE_LOST = 6
    CANCELLED = 7
    IO = 8
    INTERNAL = 9
    NOT_READY = 10
    CONTEXT_FULL = 11


class Error(Exception):
    """Anything that Pumice cannot do."""

    code: Code = Code.INTERNAL

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message


class InvalidArgument(Error, ValueError):
    """Something was asked for that makes no sense; the sentence names it."""

    code = Code.INVALID_ARGUMENT


class NotFound(Error, FileNotFoundError):
    """A file, a device or a name does not exist."""

    code = Code.NOT_FOUND


class InvalidFile(Error, ValueError):
    """A file is damaged or malformed."""

    code = Code.INVALID_FILE


class Unsupported(Error, NotImplementedError):
    """Well formed, but this build, this model or this device cannot do it."""

    code = Code.UNSUPPORTED


class OutOfMemory(Error, MemoryError):
    """The host's memory, the device's, or a limit that was set."""

    code = Code.OUT_OF_MEMORY


class DeviceLost(Error, RuntimeError):
    """The driver has given the device up: make a new Device, load the model again, then Session.resume()."""

    code = Code.DEVICE_LOST


class Cancelled(Error):
    """cancel() was called, by this thread or another one."""

    code = Code.CANCELLED


class IOFailure(Error, OSError):
    """The operating system refused a read or a write."""

    code = Code.IO


class InternalError(Error, RuntimeError):
    """A defect in Pumice or in a driver."""

    code = Code.INTERNAL


class NotReady(Error, RuntimeError):
    """Something must happen first: the sentence says what."""

    code = Code.NOT_READY


class ContextFull(Error, ValueError):
    """There are more tokens than the context has room for."""

    code = Code.CONTEXT_FULL


_KINDS: Dict[int, Type[Error]] = {kind.code: kind for kind in (InvalidArgument, NotFound, InvalidFile, Unsupported, OutOfMemory, DeviceLost, Cancelled,
                                       IOFailure, InternalError, NotReady, ContextFull)}


def of_status(status: int, message: str) -> Error:
    """The exception for a status; one that a newer library has is an InternalError."""
    return _KINDS.get(status, InternalError)(message)
