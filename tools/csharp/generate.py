#!/usr/bin/env python3
"""Writes what pumice.h declares, for C#: P/Invoke, in which each structure lies in memory as in C.

    tools/csharp/generate.py runtime/api/pumice.h > Bindings.cs
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from generate import print_bindings  # noqa: E402
from header import Array, Function  # noqa: E402

NUMBERS = {"int": "int", "int32_t": "int", "int64_t": "long", "uint8_t": "byte", "uint32_t": "uint", "uint64_t": "ulong",
           "size_t": "UIntPtr", "float": "float", "bool": "byte", "char": "byte", "void": "void"}
WIDE_HANDLES = ("VkBuffer", "VkDeviceMemory", "VkSemaphore")
KEYWORDS = ("event", "params", "ref", "out", "in", "object", "string", "base", "lock", "fixed", "checked", "operator", "is", "as")


def identifier(name):
    return f"@{name}" if name in KEYWORDS else name


def expression(what, header):
    """What stands for a type in C#. A function is a pointer: Marshal.GetFunctionPointerForDelegate, of one of the delegates."""
    if isinstance(what, Function) or what.name in header.callbacks:
        return "IntPtr"
    if what.name.startswith("Vk"):
        text = "ulong" if what.name in WIDE_HANDLES else "IntPtr"  # 64 bits
    elif what.name in header.opaque:
        text, what = "IntPtr", what.__class__(what.name, what.constant[1:])
    else:
        text = NUMBERS.get(what.name, what.name)
    return text + "*" * what.pointers


def parameters(function, header):
    return ", ".join(f"{expression(type, header)} {identifier(name)}" for name, type in function.parameters)


def bindings(header, sizes):
    yield "// Everything that pumice.h declares. Written by tools/csharp/generate.py."
    yield "using System;\nusing System.Runtime.InteropServices;\n\nnamespace Pumice.Native\n{"
    for name, constants in header.enums.items():
        yield f"  public enum {name}\n  {{"
        yield from (f"    {constant} = {value}," for constant, value in constants.items())
        yield "  }"
    convention = "[UnmanagedFunctionPointer(CallingConvention.Cdecl)]"
    for name, function in header.callbacks.items():
        yield f"  {convention}\n  public unsafe delegate {expression(function.result, header)} {name}({parameters(function, header)});"
    for name, members in header.structures.items():
        for member, type in members.items():  # functions without a name of their own
            if isinstance(type, Function):
                yield (f"  {convention}\n  public unsafe delegate {expression(type.result, header)} {name}_{member}"
                       f"({parameters(type, header)});")
        yield f"  [StructLayout(LayoutKind.Sequential)]\n  public unsafe struct {name}\n  {{"
        yield f"    public const int Size = {sizes[name]};  // as ctypes has it, which a test holds against a C compiler"
        for member, type in members.items():
            if isinstance(type, Array):
                yield f"    public fixed {expression(type.type, header)} {identifier(member)}[{type.count}];"
            else:
                yield f"    public {expression(type, header)} {identifier(member)};"
        yield "  }"
    yield "  public static unsafe class Functions\n  {\n    const string Library = \"pumice\";"
    for name, function in header.functions.items():
        yield "    [DllImport(Library, CallingConvention = CallingConvention.Cdecl)]"
        yield f"    public static extern {expression(function.result, header)} {name}({parameters(function, header)});"
    yield "\n    // Each structure's size here, and in C.\n    public static Tuple<string, int, int>[] Sizes()\n    {"
    yield "      return new Tuple<string, int, int>[] {"
    yield from (f'        Tuple.Create("{name}", sizeof({name}), {name}.Size),' for name in header.structures)
    yield "      };\n    }\n  }\n}"


if __name__ == "__main__":
    print_bindings(bindings, __doc__)
