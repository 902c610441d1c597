"""Chats: as the command answers, with tools that are Python functions, and pictures."""
import asyncio
import dataclasses
import enum
import json
import typing

import fixtures
import pytest
from conftest import CHAT

import pumice

# Of a model that knows none: calls as Hermes' and Qwen's write them.
CALLS = ("{%- for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{%- for c in m.tool_calls %}"
         "{{ '<tool_call>\n' + (c.function | tojson) + '\n</tool_call>' }}{%- endfor %}{{ '<|end|>' }}{%- endfor %}"
         "{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}")


def test_as_the_command(chats, command):
    question = "What does a cow say?"
    printed = command("chat", CHAT, question, "-n", "24", "--seed", "7", "--no-tune", text=True)
    with pumice.Chat(chats) as chat:
        answer = chat.ask(question, max_tokens=24, seed=7)
        assert answer + "\n" == printed
        assert answer.finish_reason == "stop" and answer.calls == [] and answer.thinking == ""
        assert [message["role"] for message in chat.messages] == ["user", "assistant"]
        chat.remove(-1)
        stream = chat.stream(max_tokens=24, seed=7)
        assert len(list(stream)) > 1 and stream.text == answer
        assert len(chat) == 2


def test_conversation(chats):
    with pumice.Chat(chats, system="Be kind.", sampling={}) as chat:
        chat.ask("Hello, my name is Anna.", max_tokens=20)
        saved = chat.to_json()
        assert "Anna" in chat.ask("What is my name?", max_tokens=20)
        other = pumice.Chat(chats, session=chat.session, sampling={})  # which has its messages, and answers from the same session
        other.from_json(saved)
        assert other.messages == chat.messages[:3]
        assert "Anna" in other.ask("What is my name?", max_tokens=20)
        assert other.forget_oldest() == 2 and other.messages[0]["role"] == "system"
        assert other.prompt.startswith(chats.token_name(chats.role_tokens("begin")[0]))
        other.close()
        assert not chat.session.closed
        for _ in chat.stream("What does a cow say?"):
            break
        assert chat.messages[-2]["content"] == "What does a cow say?"
        assert chat.ask("Yes or no?", choices=["yes", "no"]) in ("yes", "no")
        assert chat.ask("Say it.", prefill="Moo", max_tokens=3).startswith("Moo")


def gate(way: typing.Literal["north", "south"], wide: bool = False) -> dict:
    """Opens a gate
    of the town.

    way: which one
    """
    opened.append((way, wide))
    return {"open": way}


opened = []


def test_tools(chats):
    opened.clear()
    with pumice.Chat(chats, tools=[gate], template_text=CALLS, sampling={}) as chat:
        assert chat.unchecked_calls is None
        answer = chat.ask("Open it.", tool_choice="required", max_tokens=200)
        call = answer.calls[0]
        assert (call.name, call.error) == ("gate", None) and opened[0] == (call.arguments["way"], call.arguments.get("wide", False))
        assert call.result == {"open": call.arguments["way"]}
        roles = [message["role"] for message in chat.messages]
        assert roles[:3] == ["user", "assistant", "tool"] and len(roles) > 3
        assert json.loads(chat.messages[2]["content"]) == call.result and chat.messages[2]["name"] == "gate"
    with pumice.Chat(chats, tools=[gate], template_text=CALLS, sampling={}) as chat:
        stream = chat.stream("Open it.", tool_choice="gate", max_tokens=200)
        list(stream)
        assert stream.text.calls == answer.calls

    # Of an asynchronous one: on the loop that awaits the answer, and on one of its own where nobody does.
    loops = []

    async def later(way: str) -> str:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return "open"

    async def awaited(chat):
        async for _ in chat.stream("Open it.", tool_choice="required", max_tokens=200):
            pass
        here = chat.ask("Again.", tool_choice="required", max_tokens=200)
        return asyncio.get_running_loop(), here

    with pumice.Chat(chats, tools=[later], template_text=CALLS, sampling={}) as chat:
        loop, answer = asyncio.run(awaited(chat))
        assert loops[0] is loop and loops[-1] is not loop and answer.calls[0].result == "open"

    def fails() -> str:
        raise LookupError("no key")

    with pumice.Chat(chats, tools=[fails], template_text=CALLS, sampling={}) as chat:
        call = chat.ask("Open it.", tool_choice="required", max_tokens=200).calls[0]
        assert isinstance(call.error, LookupError) and chat.messages[2]["content"] == "LookupError: no key"
    # One that the program calls itself.
    with pumice.Chat(chats, tools=[pumice.Tool(gate).schema], template_text=CALLS, sampling={}) as chat:
        call = chat.ask("Open it.", tool_choice="required", max_tokens=200).calls[0]
        assert call.name == "gate" and call.result is None and [m["role"] for m in chat.messages] == ["user", "assistant"]


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclasses.dataclass
class Place:
    city: str
    days: int = 1


def test_schemas():
    function = pumice.Tool(gate).schema["function"]
    assert function["description"] == "Opens a gate of the town."
    assert function["parameters"] == {
        "type": "object", "required": ["way"], "additionalProperties": False,
        "properties": {"way": {"enum": ["north", "south"], "description": "which one"}, "wide": {"type": "boolean"}}}

    def order(size: Size, places: typing.List[Place], note: typing.Optional[str] = None, weight: float = 1):
        """:param size: how large"""
        return size, places, note, weight

    tool = pumice.Tool(order)
    properties = tool.schema["function"]["parameters"]["properties"]
    assert properties["size"] == {"enum": ["s", "l"], "description": "how large"}
    assert properties["places"]["items"]["required"] == ["city"]
    assert properties["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    made = tool({"size": "l", "places": [{"city": "Bonn"}], "weight": 2})
    assert made == (Size.LARGE, [Place("Bonn")], None, 2.0) and isinstance(made[3], float)

    def wrong(*names):
        pass

    with pytest.raises(TypeError, match="names"):
        pumice.Tool(wrong)
    def strange(x: memoryview):
        pass

    with pytest.raises(TypeError, match="no JSON schema"):
        pumice.Tool(strange)


def test_pictures(made, load):
    numpy = pytest.importorskip("numpy")
    template = ("{% for m in messages %}{{ 'w4 ' if m.role == 'user' else 'w6 ' }}"
                "{% for p in m.content | selectattr('type', 'equalto', 'image') %}<image> {% endfor %}"
                "{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text + ' ' }}{% endfor %}"
                "{% endfor %}{% if add_generation_prompt %}w6{% endif %}")
    folder = made("llava", lambda path: fixtures.write_words(path, changed={319: "<image>"}))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    picture = (numpy.arange(32 * 32 * 3) ** 2 * 31 % 256).astype("uint8").reshape(32, 32, 3)
    with pumice.Chat(folder, sampling={}, load={**load, "vision": True}) as chat:
        answer = chat.ask("w9", pictures=[picture], max_tokens=4)
        assert answer
        saved = chat.to_json()
        for other, same in ((picture.astype("float32") / 255, True), (255 - picture, False)):
            with pumice.Chat(chat._model, session=chat.session, sampling={}) as again:
                again.ask("w9", pictures=[other], max_tokens=4)
                assert (again.to_json() == saved) == same
        with pumice.Chat(chat._model, session=chat.session, sampling={}) as again:
            again.from_json(saved, pictures=[picture])
            again.remove(-1)
            assert again.ask(max_tokens=4) == answer
        with pytest.raises(ValueError, match="shape"):
            chat.add("user", "w5", pictures=[picture[0, 0]])
        try:
            keeping = pumice.Chat(chat._model, session=chat.session, sampling={}, keep_pictures=True)
        except pumice.Unsupported:  # the library was built without files of pictures
            return
        with keeping, pumice.Chat(chat._model, session=chat.session, sampling={}) as again:
            keeping.add("user", "w9", pictures=[picture])
            again.from_json(keeping.to_json())
            assert again.ask(max_tokens=4) == answer


def test_sounds(made, load):
    template = ("{% for m in messages %}{% for p in m.content | selectattr('type', 'equalto', 'audio') %}[BEGIN_AUDIO][AUDIO] {% endfor %}"
                "{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text + ' ' }}{% endfor %}{% endfor %}w6")
    folder = made("voxtral", lambda path: fixtures.write_words(path, changed={318: "[BEGIN_AUDIO]", 319: "[AUDIO]"}))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    sound = [((i * i * 31) % 256 - 128) / 256 for i in range(20000)]
    with pumice.Chat(folder, sampling={}, load={**load, "vision": True}) as chat:
        answer = chat.ask("w9", sounds=[(sound, 16000)], max_tokens=4)
        assert answer
        saved = chat.to_json()
        with pumice.Chat(chat._model, session=chat.session, sampling={}) as again:
            again.from_json(saved, sounds=[sound])
            again.remove(-1)
            assert again.ask(max_tokens=4) == answer
        with pytest.raises(ValueError, match="rate"):
            chat.add("user", "w5", sounds=[(sound, 10**6)])
