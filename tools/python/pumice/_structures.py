"""Fills the structures of the C interface from Python's values."""
from __future__ import annotations

import ctypes
import operator
import os
from typing import Any, Dict, Iterable

_INTEGERS = (ctypes.c_int, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t)


def encoded(text: Any, name: str) -> bytes:
    """UTF-8 for C: a text with a zero in it would be cut there in silence."""
    if isinstance(text, os.PathLike):
        text = os.fsencode(text)
    if isinstance(text, str):
        text = text.encode()
    if not isinstance(text, bytes):
        raise TypeError(f"{name} is {text!r}: expected a text")
    if b"\0" in text:
        raise ValueError(f"{name} has the character NUL at byte {text.index(0)}, which texts of the library cannot hold")
    return text


def texts(values: Iterable[str], name: str) -> Any:
    """An array of texts."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} is one text: expected a list of texts")
    items = [encoded(value, f"{name}[{index}]") for index, value in enumerate(values)]
    return (ctypes.c_char_p * len(items))(*items)


def numbers(values: Iterable[int], name: str, kind: Any = ctypes.c_uint32) -> Any:
    """An array of integers."""
    items = [_integer(value, kind, f"{name}[{index}]") for index, value in enumerate(values)]
    return (kind * len(items))(*items)


def _integer(value: Any, kind: Any, name: str) -> int:
    """ctypes would cut off the bits that do not fit."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}: expected an integer") from None
    if kind(number).value != number:
        bits = 8 * ctypes.sizeof(kind)
        least = 0 if kind(-1).value > 0 else -2 ** (bits - 1)
        raise ValueError(f"{name} is {number}: expected {least} to {least + 2 ** bits - 1}")
    return number


def _array(value: Any, item: Any, name: str) -> Any:
    if item is ctypes.c_char_p:
        return texts(value, name)
    if item in _INTEGERS:
        return numbers(value, name, item)
    items = list(value)
    array = (item * len(items))(*items)
    array.kept = items  # with what they point to
    return array


def _count_member(kind: Any, name: str) -> str:
    """stops has its length in stop_count, logit_biases in logit_bias_count."""
    for ending in (1, 2):
        count = name[:-ending] + "_count"
        if hasattr(kind, count):
            return count
    return ""


def members(kind: Any) -> Dict[str, Any]:
    """The types of a structure's members."""
    return {field[0]: field[1] for field in kind._fields_}


def structure(kind: Any, **values: Any) -> Any:
    """A structure with its size and these members; None leaves one zero, which is its default. It keeps what it points to."""
    result = kind()
    types = members(kind)
    if "struct_size" in types:
        result.struct_size = ctypes.sizeof(kind)
    for name, value in values.items():
        if name not in types:
            raise TypeError(f"there is no option {name!r}: expected one of {', '.join(sorted(types))}")
        if value is None:
            continue
        type = types[name]
        if type is ctypes.c_char_p:
            value = encoded(value, name)
        elif type is ctypes.c_bool:
            value = bool(value)
        elif type is ctypes.c_float:
            try:
                value = float(value)
            except (TypeError, ValueError):
                raise TypeError(f"{name} is {value!r}: expected a number") from None
        elif type in _INTEGERS:
            value = _integer(value, type, name)
        elif isinstance(value, ctypes.Structure) and not issubclass(type, ctypes.Structure):
            value = ctypes.pointer(value)
        elif hasattr(type, "contents") and _count_member(kind, name):
            value = _array(value, type._type_, name)
            setattr(result, _count_member(kind, name), len(value))
        setattr(result, name, value)
    return result


def choice(value: Any, enumeration: Any, prefix: str, name: str) -> int:
    """An enumerator by the end of its name in lower case: "q8_0" for PUMICE_CACHE_Q8_0."""
    choices = {each.name[len(prefix):].lower(): each.value for each in enumeration}
    if value in choices:
        return choices[value]
    raise ValueError(f"{name} is {value!r}: expected {', '.join(map(repr, choices))}")


def decoded(text: bytes) -> str:
    return (text or b"").decode("utf-8", "replace")
