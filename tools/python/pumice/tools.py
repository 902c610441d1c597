"""Python functions that a model may call."""
from __future__ import annotations

import asyncio
import concurrent.futures
import enum
import inspect
import json
import re
import sys
import typing
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union


class Call(NamedTuple):
    """A call of a tool that an answer made."""

    name: str
    arguments: Dict[str, Any]
    id: str
    result: Any
    error: Optional[Exception]
    """What the tool raised. The model is told of it."""


class Tool:
    """A function with the schema that a model reads: of its signature and its docstring.

        def weather(city: str, days: int = 1) -> str:
            '''Tells the weather.

            city: where
            days: how many, from today on
            '''

    Annotations become types: str, int, float, bool, list, dict, Optional, Literal, Enum, dataclasses and TypedDicts. The first paragraph
    of the docstring says what the tool is for, and a line "city: ..." (or ":param city: ...") what a parameter is. `async def` works too:
    it runs on the loop that awaits the answer, or else on one of its own.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        text = inspect.getdoc(function) or ""
        hints = _hints(function)
        properties, required = {}, []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(f"{self.name}: {parameter} cannot be a parameter of a tool: each has a name")
            properties[name] = schema_of(hints.get(name, Any))
            described = _parameter_text(text, name)
            if described:
                properties[name] = {**properties[name], "description": described}
            if parameter.default is parameter.empty:
                required.append(name)
        self.schema = {"type": "function", "function": {
            "name": self.name, "description": " ".join(text.split("\n\n")[0].split()),
            "parameters": {"type": "object", "properties": properties, "required": required, "additionalProperties": False}}}
        self._hints = hints

    def __call__(self, arguments: Dict[str, Any]) -> Any:
        return self.function(**{name: _made(value, self._hints.get(name, Any)) for name, value in arguments.items()})


def _hints(function: Any) -> Dict[str, Any]:
    """Annotations as types, also where they are texts."""
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        raise TypeError(f"{getattr(function, '__name__', function)}: an annotation cannot be read: {error}") from None


def _parameter_text(text: str, name: str) -> str:
    match = re.search(rf"^[ \t]*(?::param\s+)?`*{re.escape(name)}`*\s*(?:\([^)\n]*\))?\s*:[ \t]*(.+)$", text, flags=re.MULTILINE)
    return match[1].strip() if match else ""


_SIMPLE = {str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
           type(None): {"type": "null"}, list: {"type": "array"}, dict: {"type": "object"}, tuple: {"type": "array"}, Any: {},
           inspect.Parameter.empty: {}}
_NONE = type(None)


def _is_union(origin: Any) -> bool:
    return origin is Union or getattr(origin, "__name__", "") in ("Union", "UnionType")


def schema_of(kind: Any) -> Dict[str, Any]:
    """The JSON schema of a type."""
    try:
        if kind in _SIMPLE:
            return dict(_SIMPLE[kind])
    except TypeError:  # it has no hash
        pass
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if _is_union(origin):
        parts = [schema_of(each) for each in arguments]
        return {"anyOf": parts} if len(parts) > 1 else parts[0]
    if origin in (list, tuple, set, typing.get_origin(typing.Sequence[int])):
        items = [each for each in arguments if each is not Ellipsis]
        return {"type": "array", "items": schema_of(items[0])} if items else {"type": "array"}
    if origin in (dict, typing.get_origin(typing.Mapping[str, int])):
        return {"type": "object", "additionalProperties": schema_of(arguments[1])} if len(arguments) == 2 else {"type": "object"}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [each.value for each in kind]}
    if hasattr(kind, "model_json_schema"):
        return kind.model_json_schema()
    if hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__total__"):
        hints = _hints(kind)
        if hasattr(kind, "__total__"):
            required = sorted(kind.__required_keys__) if sys.version_info >= (3, 9) else list(hints) if kind.__total__ else []
        else:
            parameters = inspect.signature(kind).parameters
            required = [name for name in hints if name in parameters and parameters[name].default is inspect.Parameter.empty]
        return {"type": "object", "properties": {name: schema_of(hint) for name, hint in hints.items()}, "required": required,
                "additionalProperties": False}
    raise TypeError(f"{kind} has no JSON schema that is known: annotate with str, int, float, bool, list, dict, Optional, Literal, an "
                    "Enum, a dataclass or a TypedDict")


def _made(value: Any, kind: Any) -> Any:
    """A value of JSON as the type that the function asks for: an Enum's member, a dataclass, a float."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if kind is float and isinstance(value, int):
        return float(value)
    if hasattr(kind, "__dataclass_fields__") and isinstance(value, dict):
        hints = _hints(kind)
        return kind(**{name: _made(each, hints.get(name, Any)) for name, each in value.items()})
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if _is_union(origin) and len(arguments) == 2 and _NONE in arguments:
        return None if value is None else _made(value, next(each for each in arguments if each is not _NONE))
    if origin is list and arguments and isinstance(value, list):
        return [_made(each, arguments[0]) for each in value]
    return value


def _awaited(made: typing.Awaitable[Any], loop: Optional[asyncio.AbstractEventLoop]) -> Any:
    async def whole() -> Any:
        return await made

    if loop is not None:
        return asyncio.run_coroutine_threadsafe(whole(), loop).result()
    with concurrent.futures.ThreadPoolExecutor(1) as other:  # this thread may have a loop that runs
        return other.submit(asyncio.run, whole()).result()


class Toolbox:
    """The tools of a chat."""

    def __init__(self, tools: typing.Sequence[Any]) -> None:
        self._tools: Dict[str, Tool] = {}
        self._schemas: List[Dict[str, Any]] = []
        for tool in tools:
            if isinstance(tool, dict):  # a schema: its calls are the program's to make
                self._schemas.append(tool)
                continue
            if not isinstance(tool, Tool):
                tool = Tool(tool)
            if tool.name in self._tools:
                raise ValueError(f"two tools have the name {tool.name!r}")
            self._tools[tool.name] = tool
            self._schemas.append(tool.schema)

    @property
    def json(self) -> Optional[str]:
        return json.dumps(self._schemas) if self._schemas else None

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def call(self, name: str, arguments: str, id: str, loop: Optional[asyncio.AbstractEventLoop]) -> Tuple[Call, str]:
        """Calls one, and returns the call and the text that the model reads of it. `loop` is of another thread."""
        values: Dict[str, Any] = {}
        try:
            values = json.loads(arguments)
            if name not in self._tools:
                raise LookupError(f"there is no tool {name!r}")
            result = self._tools[name](values)
            if inspect.isawaitable(result):
                result = _awaited(result, loop)
        except Exception as error:
            return Call(name, values, id, None, error), f"{type(error).__name__}: {error}"
        return Call(name, values, id, result, None), result if isinstance(result, str) else json.dumps(result, default=str)
