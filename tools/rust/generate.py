#!/usr/bin/env python3
"""Writes what pumice.h declares, for Rust. build.rs calls it.

    tools/rust/generate.py runtime/api/pumice.h > bindings.rs
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
from generate import print_bindings  # noqa: E402
from header import Array, Function  # noqa: E402

NUMBERS = {"int": "c_int", "int32_t": "i32", "int64_t": "i64", "uint8_t": "u8", "uint32_t": "u32", "uint64_t": "u64",
           "size_t": "usize", "float": "f32", "bool": "bool", "char": "c_char", "void": "c_void"}
WIDE_HANDLES = ("VkBuffer", "VkDeviceMemory", "VkSemaphore")
KEYWORDS = ("type", "ref", "move", "match", "box", "use", "in", "fn", "loop", "where", "as", "impl", "mod", "self", "priv", "final")


def identifier(name):
    return f"r#{name}" if name in KEYWORDS else name


def expression(what, header):
    """What stands for a type in Rust."""
    if isinstance(what, Function):
        types = ", ".join(expression(type, header) for _, type in what.parameters)
        return f'Option<unsafe extern "C" fn({types}){result(what, header)}>'
    if isinstance(what, Array):
        return f"[{expression(what.type, header)}; {what.count}]"
    if what.name.startswith("Vk"):
        text = "u64" if what.name in WIDE_HANDLES else "*mut c_void"  # 64 bits
    else:
        text = NUMBERS.get(what.name, what.name)
    for constant in what.constant:
        text = ("*const " if constant else "*mut ") + text
    return text


def result(function, header):
    type = function.result
    return "" if type.name == "void" and not type.pointers else f" -> {expression(type, header)}"


def bindings(header, sizes):
    yield "use std::os::raw::{c_char, c_int, c_void};"
    for name, constants in header.enums.items():
        yield f"pub type {name} = c_int;"
        yield from (f"pub const {constant}: {name} = {value};" for constant, value in constants.items())
    for name in header.opaque:
        yield f"#[repr(C)]\npub struct {name} {{\n    private: [u8; 0],\n}}"
    for name, function in header.callbacks.items():
        yield f"pub type {name} = {expression(function, header)};"
    for name, members in header.structures.items():
        yield f"#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {name} {{"
        yield from (f"    pub {identifier(member)}: {expression(type, header)}," for member, type in members.items())
        yield "}"
        # Zero, which is each member's default, and its size where it has one.
        size = "made.struct_size = std::mem::size_of::<Self>();" if "struct_size" in members else ""
        yield f"impl Default for {name} {{\n    fn default() -> Self {{\n        #[allow(unused_mut)]"
        yield f"        let mut made: Self = unsafe {{ std::mem::zeroed() }};\n        {size}\n        made\n    }}\n}}"
        # As ctypes has it, which a test holds against a C compiler.
        yield f"const _: () = assert!(std::mem::size_of::<{name}>() == {sizes[name]});"
    yield 'extern "C" {'
    for name, function in header.functions.items():
        parameters = ", ".join(f"{identifier(each)}: {expression(type, header)}" for each, type in function.parameters)
        yield f"    pub fn {name}({parameters}){result(function, header)};"
    yield "}"


if __name__ == "__main__":
    print_bindings(bindings, __doc__)
