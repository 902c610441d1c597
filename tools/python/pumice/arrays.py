"""Rows of numbers: arrays of numpy where it is installed, lists otherwise."""
from __future__ import annotations

import array
import ctypes
import wave
from typing import Any, Tuple, Union

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

Rows = Any
"""A numpy array of float32, or a list of lists of float where numpy is not installed."""

FLOATS = ctypes.POINTER(ctypes.c_float)


class Result:
    """Room for floats that the library writes, with as many in each row as there are columns."""

    def __init__(self, rows: int, columns: int) -> None:
        self._columns = columns
        if numpy is not None:
            self._values = numpy.zeros((rows, columns), numpy.float32)
            self.pointer = self._values.ctypes.data_as(FLOATS)
        else:
            self._values = (ctypes.c_float * (rows * columns))()
            self.pointer = self._values

    @property
    def rows(self) -> Rows:
        if numpy is not None:
            return self._values
        values = list(self._values)
        return [values[first:first + self._columns] for first in range(0, len(values), self._columns)] if self._columns else []


def floats(values: Any, name: str) -> Tuple[Any, int]:
    """Floats for the library, and their number: of an array, of array.array("f"), or of a list."""
    if numpy is not None and not isinstance(values, array.array):
        try:
            whole = numpy.ascontiguousarray(values, numpy.float32)
        except (TypeError, ValueError):
            raise TypeError(f"{name} is a {type(values).__name__}: expected numbers") from None
        if whole.ndim != 1:
            raise ValueError(f"{name} has the shape {whole.shape}: expected one dimension")
        return (ctypes.c_float * whole.size).from_buffer_copy(whole) if whole.size else (ctypes.c_float * 0)(), whole.size
    return (ctypes.c_float * len(values))(*values), len(values)


Sound = Any
"""Samples: an array of floats of -1 to 1 or of integers of 16 or 32 bits, of shape (samples,), (samples, channels) or
(channels, samples); a list of floats; or the path of a WAV file."""


def samples_of(sound: Union[Sound, str], rate: int) -> Tuple[Any, int, int]:
    """Samples of one channel for the library, their number and their rate."""
    if isinstance(sound, (str, bytes)) or hasattr(sound, "__fspath__"):
        return _wave_samples(sound)
    if numpy is not None and hasattr(sound, "__array__"):
        whole = numpy.asarray(sound)
        if whole.dtype.kind == "i":
            whole = whole.astype(numpy.float32) / float(-numpy.iinfo(whole.dtype).min)
        elif whole.dtype.kind != "f":
            raise TypeError(f"sound has numbers of the type {whole.dtype}: expected floats of -1 to 1, or integers with a sign")
        if whole.ndim == 2:  # libraries have both orders; there are more samples than channels
            whole = whole.mean(axis=0 if whole.shape[0] < whole.shape[1] else 1)
        return (*floats(whole, "sound"), rate)
    return (*floats(sound, "sound"), rate)


def _wave_samples(path: Any) -> Tuple[Any, int, int]:
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        from .errors import InvalidFile

        raise InvalidFile(f"{path}: {error}: expected a WAV file of PCM, or hand in the samples") from None
    if width not in (2, 4):
        from .errors import Unsupported

        raise Unsupported(f"{path} has samples of {8 * width} bits: expected 16 or 32, or hand in the samples")
    items = array.array("h" if width == 2 else "i", data)
    scale = 1.0 / (1 << 8 * width - 1)
    mono = [sum(items[first:first + channels]) * scale / channels for first in range(0, len(items), channels)]
    return (*floats(mono, "sound"), rate)
