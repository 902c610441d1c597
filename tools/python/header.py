"""Reads runtime/api/pumice.h, for the bindings that are generated from it.

The header is ours and regular: enumerations, structures, types of functions, opaque types and functions, each in one form. What this
reader does not understand is an error with the text, so that nothing of the header is left out in silence.
"""
import re


class Type:
    """A type of C: its name, how many pointers lead to it, and for each of them whether what it points to is constant."""

    def __init__(self, name, constant=()):
        self.name = name
        self.pointers = len(constant)
        self.constant = constant


class Function:
    """A function, a type of functions, or a member that is one. Its parameters are pairs of a name and a type."""

    def __init__(self, result, parameters):
        self.result = result
        self.parameters = parameters


class Array:
    """A member that is an array."""

    def __init__(self, type, count):
        self.type = type
        self.count = count


class Header:
    """What a header declares, in its order.

    constants    name to number, of PUMICE_VERSION_*
    enums        name to {constant: number}
    opaque       names of structures whose members nobody sees
    structures   name to {member: Type, Function or Array}
    callbacks    name to Function: types of functions
    functions    name to Function: those that the library exports
    """

    def __init__(self, text):
        self.constants, self.enums, self.structures, self.callbacks, self.functions = {}, {}, {}, {}, {}
        self.opaque = []
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
        for name, value in re.findall(r"^#define (PUMICE_VERSION_\w+) (\d+)$", text, flags=re.MULTILINE):
            self.constants[name] = int(value)
        text = re.sub(r"^#.*$", " ", text, flags=re.MULTILINE).replace('extern "C" {', " ")
        for statement in self._statements(text):
            self._read(statement)
        self.opaque = [name for name in self.opaque if name not in self.structures]

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as file:
            return Header(file.read())

    @property
    def version(self):
        return tuple(self.constants["PUMICE_VERSION_" + part] for part in ("MAJOR", "MINOR", "PATCH"))

    def embedded_first(self):
        """Structures, each after those that are a part of it."""
        done = []

        def add(name):
            for type in self.structures[name].values():
                if isinstance(type, Type) and type.pointers == 0 and type.name in self.structures:
                    add(type.name)
            if name not in done:
                done.append(name)

        for name in self.structures:
            add(name)
        return done

    @staticmethod
    def _statements(text):
        """What ends with a semicolon outside of braces."""
        depth, begin = 0, 0
        for position, character in enumerate(text):
            depth += {"{": 1, "}": -1}.get(character, 0)
            if depth < 0:  # of extern "C", at the end
                return
            if character == ";" and depth == 0:
                yield " ".join(text[begin:position].split())
                begin = position + 1

    def _read(self, text):
        if re.fullmatch(r"typedef .*\bVk\w+", text):
            return  # handles of Vulkan's, which <vulkan/vulkan.h> declares
        if match := re.fullmatch(r"typedef enum (\w+) \{(.*)\} \1", text):
            self.enums[match[1]] = self._enum(match[2])
        elif match := re.fullmatch(r"(?:typedef )?struct (\w+) \{(.*)\}(?: \1)?", text):
            self.structures[match[1]] = self._members(match[2])
        elif match := re.fullmatch(r"typedef struct (\w+) \1", text):
            self.opaque.append(match[1])
        elif match := re.fullmatch(r"typedef (.*?)\(\*(\w+)\)\((.*)\)", text):
            self.callbacks[match[2]] = Function(self._type(match[1]), self._parameters(match[3]))
        elif match := re.fullmatch(r"PUMICE_API (.*?)(\w+)\((.*)\)", text):
            self.functions[match[2]] = Function(self._type(match[1]), self._parameters(match[3]))
        else:
            raise ValueError(f"pumice.h has a declaration that tools/python/header.py cannot read: {text!r}")

    @staticmethod
    def _enum(text):
        constants = {}
        for constant in filter(None, (part.strip() for part in text.split(","))):
            match = re.fullmatch(r"(\w+) = (-?\d+)", constant)
            if not match:
                raise ValueError(f"pumice.h has an enumerator that tools/python/header.py cannot read: {constant!r}")
            constants[match[1]] = int(match[2])
        return constants

    def _members(self, text):
        members = {}
        for member in filter(None, (part.strip() for part in text.split(";"))):
            if match := re.fullmatch(r"(.*?)(\w+)\[(\d+)\]", member):
                members[match[2]] = Array(self._type(match[1]), int(match[3]))
            elif "(" in member:
                name, function = self._parameter(member)
                members[name] = function
            else:
                first, *others = (name.strip() for name in member.split(","))
                name, type = self._parameter(first)
                members.update({each: type for each in (name, *others)})
        return members

    def _parameters(self, text):
        if text in ("", "void"):
            return []
        parameters, depth, begin = [], 0, 0
        for position, character in enumerate(text + ","):
            depth += {"(": 1, ")": -1}.get(character, 0)
            if character == "," and depth == 0:
                parameters.append(self._parameter(text[begin:position].strip()))
                begin = position + 1
        return parameters

    def _parameter(self, text):
        if match := re.fullmatch(r"(.*?)\(\*(\w+)\)\((.*)\)", text):
            return match[2], Function(self._type(match[1]), self._parameters(match[3]))
        match = re.fullmatch(r"(.*?)(\w+)", text)
        return match[2], self._type(match[1])

    @staticmethod
    def _type(text):
        name = re.sub(r"\bconst\b|\*", " ", text).split()
        if len(name) != 1:
            raise ValueError(f"pumice.h has a type that tools/python/header.py cannot read: {text!r}")
        parts = text.split("*")  # "const char", " const", "": of what the pointers point to
        return Type(name[0], tuple("const" in part.split() for part in parts[:-1]))
