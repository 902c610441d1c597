"""What is generated of pumice.h is all of it, with the sizes and the places that a compiler gives it."""
import ctypes
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

from pumice import _bindings, errors

HEADER = ROOT / "runtime" / "api" / "pumice.h"


def header_text():
    return re.sub(r"/\*.*?\*/", " ", HEADER.read_text(), flags=re.DOTALL)


def structures():
    return {name: kind for name, kind in vars(_bindings).items()
            if isinstance(kind, type) and issubclass(kind, ctypes.Structure) and getattr(kind, "_fields_", None)}


def test_every_function_is_there():
    declared = set(re.findall(r"\b(pumice_\w+)\(", " ".join(re.findall(r"^PUMICE_API[^;]*?\(", header_text(), flags=re.MULTILINE))))
    assert len(declared) > 100
    assert set(_bindings.FUNCTIONS) == declared
    assert set(re.findall(r"^ *(pumice_\w+);", (ROOT / "runtime/api/pumice.map").read_text(), flags=re.MULTILINE)) == declared


def test_every_function_has_as_many_parameters():
    text = header_text()
    for name, (_, parameters) in _bindings.FUNCTIONS.items():
        begin = re.search(rf"\b{name}\(", text).end()
        depth, commas, at = 1, 0, begin
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            commas += text[at] == "," and depth == 1
            at += 1
        inside = text[begin:at - 1].strip()
        assert len(parameters) == (0 if inside in ("", "void") else commas + 1), name


def test_every_enumerator_is_there():
    declared = {name: int(value) for name, value in re.findall(r"\b(PUMICE_[A-Z0-9_]+)\s+=\s+(-?\d+)", header_text())}
    found = {}
    for kind in vars(_bindings).values():
        found.update({name: int(each) for name, each in getattr(kind, "__members__", {}).items()})
    assert found == declared


def test_sizes_and_offsets(tmp_path):
    """A program of C says where each member is. A member that it does not know is an error of the compiler's, and one that is missing
    here leaves a hole, or the size wrong."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("there is no C compiler")
    expected, lines = {}, []
    for name, kind in structures().items():
        expected[name] = ctypes.sizeof(kind)
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        for member, _ in kind._fields_:
            expected[f"{name}.{member}"] = getattr(kind, member).offset
            lines.append(f'printf("{name}.{member} %zu\\n", offsetof(struct {name}, {member}));')
            expected[f"{name}.{member} bytes"] = getattr(kind, member).size
            lines.append(f'printf("{name}.{member} bytes %zu\\n", sizeof(((struct {name}*)0)->{member}));')
    source = tmp_path / "offsets.c"
    source.write_text(f'#include "{HEADER}"\n#include <stdio.h>\nint main(void) {{\n' + "\n".join(lines) + "\n}\n")
    subprocess.run([compiler, "-std=c11", "-o", str(tmp_path / "offsets"), str(source)], check=True)
    printed = subprocess.run([str(tmp_path / "offsets")], check=True, capture_output=True, text=True).stdout
    found = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in printed.splitlines()}
    assert found == expected


def test_every_member_is_there():
    """Each name before a semicolon or a comma of a structure's text, which another reader than the generator's finds."""
    for name, body in re.findall(r"struct (pumice_\w+) \{(.*?)\n\}", header_text(), flags=re.DOTALL):
        members = set()
        for statement in body.split(";"):
            statement = " ".join(statement.split())
            function = re.match(r".*?\(\*(\w+)\)\(", statement)
            members.update([function[1]] if function else re.findall(r"(\w+)(?:\[\d+\])?(?=,|$)", statement))
        assert {member for member, _ in getattr(_bindings, name)._fields_} == members, name


def test_a_size_is_set():
    from pumice._structures import structure
    for kind in structures().values():
        if kind._fields_[0][0] == "struct_size":
            assert structure(kind).struct_size == ctypes.sizeof(kind)


def test_every_status_is_an_exception():
    for status in _bindings.pumice_status:
        if status.value:
            error = errors.of_status(status.value, "why")
            assert error.code == status.value and str(error) == "why"
            assert type(error) is not errors.InternalError or status.name == "PUMICE_INTERNAL"


def test_what_the_reader_does_not_know_is_an_error():
    from conftest import SOURCES
    import sys
    sys.path.insert(0, str(SOURCES))
    try:
        from header import Header
    finally:
        sys.path.remove(str(SOURCES))
    for text in ("union pumice_u { int a; };", "PUMICE_API unsigned int pumice_f(void);", "typedef enum pumice_e { A } pumice_e;"):
        with pytest.raises(ValueError, match="cannot read"):
            Header(text)
