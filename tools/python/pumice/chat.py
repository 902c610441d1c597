"""Chats: messages, and models that answer them."""
from __future__ import annotations

import ctypes
import json
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, Iterable, List, Mapping, Optional, Sequence, Union

from . import _bindings
from ._handle import OneAtATime
from ._library import call, lib, text_of
from ._structures import choice, encoded, structure
from .errors import Unsupported
from .model import Model, opened
from .options import request, usual_sampling
from .pictures import Picture, structures
from .sounds import ChatSound, sound_structures
from .session import Session
from .stream import Event, Stream, Text, Underway
from .tools import Call, Toolbox

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options


class Answer(Text):
    """What a model answered: a str that also knows what it thought, which tools it called, and how it ended."""

    thinking: str
    calls: List[Call]


class Chat(OneAtATime):
    """A conversation of messages with a chat model.

        chat = pumice.Chat("model.gguf", system="You are a pirate.")
        print(chat.ask("Who are you?"))
        for piece in chat.stream("Tell me more."):
            print(piece, end="", flush=True)

    model: a Model, or the path of one, for which `vision` and others of Model's settings can be given as `load`.
    system: the first message, which says who answers and how.
    tools: Python functions that the model may call (see Tool), or schemas of tools that the program calls itself.
    thinking: True or False, where the template can switch it; None: as it has it.
    session: a Session of the model that answers; several chats may share one. By default one of its own, made with `context`.
    sampling: how tokens are chosen unless a question says so; by default what `pumice chat` takes, usual_sampling(); {}: the most
        probable token each time.
    forget: forgets the oldest turns where the context is full.
    keep_pictures: to_json() has the pictures in it; of a library that was built with PUMICE_PICTURE_FILES.
    template, template_text, variables, thinking_marks: as in pumice_chat_options.
    """

    _kind = "chat"

    def __init__(self, model: Union[Model, str, os.PathLike, bytes], *, system: Optional[str] = None, tools: Sequence[Any] = (),
                 thinking: Optional[bool] = None, session: Optional[Session] = None, context: Optional[int] = None,
                 sampling: Optional[Dict[str, Any]] = None, forget: bool = True, template: Optional[str] = None,
                 template_text: Optional[str] = None, variables: Optional[Dict[str, Any]] = None,
                 thinking_marks: Optional[str] = None, local_time: Optional[int] = None, keep_pictures: bool = False,
                 load: Optional[Dict[str, Any]] = None) -> None:
        self._model, self._loaded = opened(model, **(load or {}))
        self._device = self._model._device
        self._session, self._context = session, context
        self._own_session = session is None
        self._tools = Toolbox(tools)
        self._sampling = dict(usual_sampling() if sampling is None else sampling)
        self._forget = forget
        if local_time is None:
            local_time = int(time.time()) + time.localtime().tm_gmtoff
        names = {None: "default", True: "on", False: "off"}
        options = structure(_bindings.pumice_chat_options, template_name=template, template_text=template_text, tools=self._tools.json,
                            variables=None if variables is None else json.dumps(variables), thinking_marks=thinking_marks,
                            thinking=choice(names.get(thinking, thinking), _bindings.pumice_thinking, "PUMICE_THINKING_", "thinking"),
                            local_time=local_time, keep_pictures=int(keep_pictures))
        with self._model._use() as of_model:
            self._make(lambda made: call(lib.pumice_chat_create, of_model, options, made))
        if system is not None:
            self.add("system", system)

    def _destroy(self) -> None:
        super()._destroy()
        if self._own_session and self._session is not None:
            self._session.close()
        if self._loaded:
            self._model.close()

    def _cancel(self) -> None:
        if self._session is not None and not self._session.closed:
            self._session._cancel()

    # ---- messages ----

    def add(self, role: str, content: str = "", *, pictures: Sequence[Picture] = (), sounds: Sequence[ChatSound] = (),
            thinking: Optional[str] = None, tool_calls: Optional[List[Dict[str, Any]]] = None, **members: Any) -> None:
        """Adds a message: its role is "system", "user", "assistant", "tool", or another one that the template knows. `members` is all
        else that the template reads of it."""
        message = structure(_bindings.pumice_message, role=role, content=content, thinking=thinking,
                            tool_calls=None if tool_calls is None else json.dumps(tool_calls),
                            members=json.dumps(members) if members else None)
        if pictures:
            array = structures(pictures)
            message.pictures, message.picture_count = array, len(array)
        if sounds:
            heard = sound_structures(sounds)
            message.sounds, message.sound_count = heard, len(heard)
        with self._turn() as pointer:
            call(lib.pumice_chat_add, pointer, message)

    @property
    def messages(self) -> List[Dict[str, Any]]:
        """All messages, as a template reads them."""
        return json.loads(self.to_json())["messages"]

    def __len__(self) -> int:
        with self._turn() as pointer:
            return lib.pumice_chat_count(pointer)

    def __bool__(self) -> bool:
        return True

    def remove(self, first: int, count: int = 1) -> None:
        """Removes messages. To have a question answered again, remove the answer: chat.remove(-1)."""
        if first < 0:
            first += len(self)
        with self._turn() as pointer:
            call(lib.pumice_chat_remove, pointer, first, count)

    def forget_oldest(self) -> int:
        """Forgets the oldest turn, for a context that is full. Returns the number of its messages."""
        removed = ctypes.c_size_t()
        with self._turn() as pointer:
            call(lib.pumice_chat_forget, pointer, ctypes.byref(removed))
        return removed.value

    def to_json(self) -> str:
        """The conversation as JSON, which from_json(), `/load` of `pumice chat` and `pumice template --messages` read."""
        with self._turn() as pointer:
            return text_of(lib.pumice_chat_write, pointer)

    def from_json(self, text: str, pictures: Iterable[Picture] = (), sounds: Iterable[ChatSound] = ()) -> None:
        """Takes a conversation in place of what there is. Pictures and sounds that it names by their checksums: hand them in again."""
        with self._turn() as pointer:
            for picture in structures(pictures):
                call(lib.pumice_chat_add_picture, pointer, picture)
            for sound in sound_structures(sounds):
                call(lib.pumice_chat_add_sound, pointer, sound)
            call(lib.pumice_chat_read, pointer, encoded(text, "text"))

    @property
    def prompt(self) -> str:
        """What the template makes of the messages."""
        with self._turn() as pointer:
            return text_of(lib.pumice_chat_prompt, pointer)

    @property
    def unchecked_calls(self) -> Optional[str]:
        """Why calls of this model may be other than the tools allow; None: they cannot be."""
        try:
            with self._turn() as pointer:
                call(lib.pumice_chat_check_calls, pointer)
        except Unsupported as error:
            return str(error)
        return None

    # ---- answers ----

    ROUNDS = 8
    """How many times an answer may call tools before it is taken as it is."""

    @property
    def session(self) -> Session:
        """What answers; made with the first question."""
        if self._session is None or self._session.closed:
            self._session = Session(self._model, context=self._context, pictures=int(self._model._vision))
            self._own_session = True
        return self._session

    def ask(self, question: Optional[str] = None, *, pictures: Sequence[Picture] = (), sounds: Sequence[ChatSound] = (),
            tool_choice: Optional[str] = None, prefill: Optional[str] = None, **options: "Unpack[Options]") -> Answer:
        """Adds a question, and has the chat answered. Tools that are called run, and the model goes on with their results.

        question: None: answers what is there.
        pictures: what the question shows: images of PIL's, arrays, bytes or paths.
        sounds: what a model that hears hears with it: (samples, rate), or the paths of WAV files.
        tool_choice: "auto", "none", "required", or the name of the only tool to call.
        prefill: what the answer begins with.
        options: see Options: max_tokens, temperature, choices, json_schema ...
        """
        events = self._answer(lambda of_request: self.session._all_events(of_request, self), Underway(), question, pictures, sounds,
                              tool_choice, prefill, options)
        return self._whole(list(events))

    def stream(self, question: Optional[str] = None, *, pictures: Sequence[Picture] = (), sounds: Sequence[ChatSound] = (),
               tool_choice: Optional[str] = None, prefill: Optional[str] = None, **options: "Unpack[Options]") -> Stream[str]:
        """The same in pieces, as they come: the answer without its thoughts. `text` of the stream is the Answer so far."""
        return self._stream(lambda event: event.text if event.part == "content" else None, question, pictures, sounds, tool_choice,
                            prefill, options)

    def events(self, question: Optional[str] = None, *, pictures: Sequence[Picture] = (), sounds: Sequence[ChatSound] = (),
               tool_choice: Optional[str] = None, prefill: Optional[str] = None, **options: "Unpack[Options]") -> Stream[Event]:
        """The same as events: content, thinking and calls of tools by their Event.part."""
        return self._stream(lambda event: event, question, pictures, sounds, tool_choice, prefill, options)

    def _stream(self, piece: Callable[[Event], Any], *answer: Any) -> Stream:
        def begin(underway: Underway) -> Generator[Event, None, None]:
            return self._answer(lambda of_request: self.session._events(underway, of_request, self), underway, *answer)

        return Stream(begin, piece, self._whole)

    def _answer(self, run: Callable[[Any], Iterable[Event]], underway: Underway, question: Optional[str],
                pictures: Sequence[Picture], sounds: Sequence[ChatSound], tool_choice: Optional[str], prefill: Optional[str],
                options: Mapping[str, Any]) -> Generator[Event, None, None]:
        self._calls: List[Call] = []
        if question is not None:
            self.add("user", question, pictures=pictures, sounds=sounds)
        for _ in range(self.ROUNDS):
            with self._use() as pointer:
                of_request = request({**self._sampling, **options}, chat=pointer, forget=self._forget, tool_choice=tool_choice,
                                     prefill=prefill)
                calls = []
                for event in run(of_request):
                    if event.part == "tool_call":
                        calls.append(event)
                    yield event
            if not calls or any(event.name not in self._tools for event in calls):
                return
            for event in calls:
                made, text = self._tools.call(event.name, event.text, event.id, underway.loop)
                self._calls.append(made)
                members: Dict[str, Any] = {"name": event.name, **({"tool_call_id": event.id} if event.id else {})}
                self.add("tool", text, **members)
            tool_choice, prefill = None if tool_choice != "none" else "none", None  # what was demanded was done

    def _whole(self, events: List[Event]) -> Answer:
        answer = Answer("".join(event.text for event in events if event.part == "content"))
        answer._end(events)
        answer.thinking = "".join(event.text for event in events if event.part == "thinking")
        done = list(self._calls) if hasattr(self, "_calls") else []
        asked = [event for event in events if event.part == "tool_call"]
        # Those that the program is to make itself have no result yet.
        answer.calls = done + [Call(event.name, json.loads(event.text), event.id, None, None) for event in asked[len(done):]]
        return answer
