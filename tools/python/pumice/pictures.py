"""Pictures, from whatever Python has them in."""
from __future__ import annotations

import ctypes
import os
from typing import Any, List, Tuple, Union

from . import _bindings
from ._structures import structure

Picture = Union["PIL.Image.Image", "numpy.ndarray", bytes, str, os.PathLike]  # type: ignore[name-defined]  # noqa: F821
"""An image of PIL's; an array of shape (height, width, 3), of grey (height, width), or with an opacity (height, width, 4), with numbers
of 0 to 255, or of 0 to 1 where they are no integers; a PNG or a JPEG as bytes; or the path of one."""


def pixels_of(picture: Picture) -> Tuple[bytes, int, int]:
    """Red, green and blue of each pixel, the width and the height."""
    if hasattr(picture, "convert") and hasattr(picture, "tobytes"):  # an image of PIL's
        image = picture.convert("RGB")
        return image.tobytes(), image.width, image.height
    if hasattr(picture, "__array_interface__") or hasattr(picture, "__array__"):
        return _array_pixels(picture)
    if isinstance(picture, (bytes, bytearray)):
        return _file_pixels(picture, "bytes")
    if isinstance(picture, (str, os.PathLike)):
        with open(picture, "rb") as file:
            return _file_pixels(file.read(), os.fspath(picture))
    raise TypeError(f"a picture is a {type(picture).__name__}: expected an image of PIL's, an array, bytes or a path")


def _array_pixels(picture: Any) -> Tuple[bytes, int, int]:
    import numpy

    array = numpy.asarray(picture)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise ValueError(f"a picture has the shape {array.shape}: expected (height, width, 3), (height, width) or (height, width, 4)")
    array = array[:, :, :3].repeat(3 if array.shape[2] == 1 else 1, axis=2)
    if array.dtype != numpy.uint8:
        if array.dtype.kind == "f":
            array = array * 255
        if not numpy.isfinite(array).all() or array.size and (array.min() < 0 or array.max() > 255):
            raise ValueError("a picture has numbers that are out of range: expected 0 to 255, or 0 to 1 of floats")
        array = numpy.rint(array).astype(numpy.uint8)
    return numpy.ascontiguousarray(array).tobytes(), array.shape[1], array.shape[0]


def _file_pixels(data: Any, name: str) -> Tuple[bytes, int, int]:
    try:
        import PIL.Image
    except ImportError:
        raise ImportError(f"{name}: pictures in files need Pillow (pip install pillow), or hand in an array of their pixels") from None
    import io

    try:
        return pixels_of(PIL.Image.open(io.BytesIO(data)))
    except (OSError, SyntaxError) as error:
        from .errors import InvalidFile

        raise InvalidFile(f"{name}: {error}") from None


def _filled(kind: Any, picture: Picture) -> Any:
    pixels, width, height = pixels_of(picture)
    room = (ctypes.c_uint8 * max(len(pixels), 1)).from_buffer_copy(pixels or b"\0")
    result = structure(kind, width=width, height=height)
    result.pixels = room
    return result


def structures(pictures: Any, kind: Any = _bindings.pumice_picture) -> Any:
    """An array of pumice_picture, or of pumice_input."""
    items: List[Any] = [_filled(kind, picture) for picture in pictures]
    array = (kind * len(items))(*items)
    array.kept = items
    return array

