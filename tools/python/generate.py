#!/usr/bin/env python3
"""Writes the lowest layer of the package: everything that pumice.h declares, for ctypes.

    tools/python/generate.py runtime/api/pumice.h > tools/python/pumice/_bindings.py
"""
import ctypes
import sys

from header import Array, Function, Header

NUMBERS = {"int": "c_int", "int32_t": "c_int32", "int64_t": "c_int64", "uint8_t": "c_uint8", "uint32_t": "c_uint32",
           "uint64_t": "c_uint64", "size_t": "c_size_t", "float": "c_float", "bool": "c_bool", "char": "c_char"}
WIDE_HANDLES = ("VkBuffer", "VkDeviceMemory", "VkSemaphore")  # pointers where pointers have 64 bits, else numbers that have


def pointer(name, count):
    return "c.POINTER(" * count + name + ")" * count


def expression(what, header):
    """What stands for a type in Python."""
    if isinstance(what, Function):
        types = [what.result] + [type for _, type in what.parameters]
        return f"c.CFUNCTYPE({', '.join(expression(type, header) for type in types)})"
    if isinstance(what, Array):
        return f"{expression(what.type, header)} * {what.count}"
    name, pointers = what.name, what.pointers
    if name == "void":
        return pointer("c.c_void_p", pointers - 1) if pointers else "None"
    if name == "char" and pointers:
        return pointer("c.c_char_p", pointers - 1)
    if name.startswith("Vk"):
        return pointer("WideHandle" if name in WIDE_HANDLES else "c.c_void_p", pointers)
    if name in header.enums:
        return pointer("c.c_int", pointers)
    if name in NUMBERS:
        return pointer("c." + NUMBERS[name], pointers)
    if name in header.callbacks or name in header.structures or name in header.opaque:
        return pointer(name, pointers)
    raise ValueError(f"pumice.h uses a type that it does not declare: {name}")


def bindings(header):
    """The lines of _bindings.py."""
    yield '"""Everything that pumice.h declares, for ctypes. Written by tools/python/generate.py."""'
    yield from ["import ctypes as c", "import enum", ""]
    yield f"VERSION = {header.version}"
    yield "WideHandle = c.c_void_p if c.sizeof(c.c_void_p) > 4 else c.c_uint64"
    for name, constants in header.enums.items():
        yield from ["", "", f"class {name}(enum.IntEnum):"]
        yield from (f"    {constant} = {value}" for constant, value in constants.items())
    for name in header.opaque + list(header.structures):
        yield from ["", "", f"class {name}(c.Structure):", "    pass"]
    yield from ["", ""]
    for name, function in header.callbacks.items():
        yield f"{name} = {expression(function, header)}"
    for name in header.embedded_first():
        yield f"{name}._fields_ = ["
        yield from (f'    ("{member}", {expression(type, header)}),' for member, type in header.structures[name].items())
        yield "]"
    yield from ["", "# What each function returns and takes.", "FUNCTIONS = {"]
    for name, function in header.functions.items():
        parameters = ", ".join(expression(type, header) for _, type in function.parameters)
        yield f'    "{name}": ({expression(function.result, header)}, [{parameters}]),'
    yield "}"


def bindings_text(path):
    return "\n".join(bindings(Header.read(path))) + "\n"


def print_bindings(bindings_of, usage):
    """Prints another language's bindings of the header that the command names: of it, and of its structures' sizes."""
    if len(sys.argv) != 2:
        sys.exit(usage)
    made = {}
    exec(bindings_text(sys.argv[1]), made)
    header = Header.read(sys.argv[1])
    print("\n".join(bindings_of(header, {name: ctypes.sizeof(made[name]) for name in header.structures})))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(bindings_text(sys.argv[1]), end="")
