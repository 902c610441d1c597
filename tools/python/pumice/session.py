"""Conversations with a decoder."""
from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Generator, List, NamedTuple, Optional, Sequence, Union

from . import _bindings
from ._handle import OneAtATime
from ._interrupt import Progress, interruptible
from ._library import call, lib, tokens_of
from ._structures import choice, encoded, members, numbers, structure
from .device import written
from .options import request
from .stream import Event, Run, Stream, Text, Underway, event_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .model import Model
    from .options import Options

Path = Union[str, os.PathLike]


class Score(NamedTuple):
    """How probable a continuation is."""

    log_probability: float
    """The sum over its tokens. Divided by `tokens`, long continuations compare with short ones."""
    tokens: int


def processors() -> int:
    return min(os.cpu_count() or 1, 16)


class Sink:
    """Where a session's events go. Apart from the session, so that its callback does not refer to it."""

    take: Any = None


class Session(OneAtATime):
    """A conversation: what a decoder has read and written, with its keys and values in the device's memory.

    context: most tokens of it; by default the model's own, at most 4,096.
    chunk: most tokens of a prompt that are computed in one step.
    cache: how keys and values are kept: "f16", "f32", "q8_0" or "q4_0".
    fit: chooses chunk, cache and context for the memory that is free.
    drafts: steps guess at so many tokens where that is faster; draft_model guesses too.
    pictures: most pictures that are looked at in one step, of a model that sees.
    adapters: most adapters that have a place on the device at a time.

    One thread at a time uses it; others wait. A stream that has not ended is ended by the next call.
    """

    _kind = "session"

    def __init__(self, model: "Model", *, context: Optional[int] = None, chunk: Optional[int] = None, cache: str = "f16",
                 fit: bool = False, drafts: int = 0, draft_model: Optional["Model"] = None, pictures: int = 0, adapters: int = 0,
                 warm_up: bool = False, threads: Optional[int] = None) -> None:
        self._settings = dict(context=context, chunk=chunk,
                              cache=choice(cache, _bindings.pumice_cache_type, "PUMICE_CACHE_", "cache"), fit=int(fit), drafts=drafts,
                              pictures=pictures, adapters=adapters, warm_up=warm_up, threads=threads or processors())
        with model._use() as pointer:
            self._begin(lib.pumice_session_create, pointer, model, draft_model)

    def _begin(self, create: Any, of: Any, model: Any, draft_model: Any) -> None:
        self._model: Any = model
        self._device, self._draft_model = model._device, draft_model
        sink = self._sink = Sink()

        def on_event(_user: Any, event: Any) -> None:
            if sink.take is not None:
                sink.take(event_of(event.contents))

        # Lives as long as the session: the library calls it while it runs, saves or suspends one.
        self._on_event = _bindings.pumice_event_function(on_event)
        progress = Progress(members(_bindings.pumice_session_options)["progress"], None)
        options = structure(_bindings.pumice_session_options, on_event=self._on_event, progress=progress.function,
                            draft_model=draft_model._pointer if draft_model else None, **self._settings)
        self._make(lambda made: progress.run(lambda: call(create, of, options, made)))

    def _cancel(self) -> None:
        lib.pumice_work_cancel(lib.pumice_session_work(self._pointer))

    # What runs a request: to the end, or as its events are taken.

    def _all_events(self, of_request: Any, chat: Any = None) -> List[Event]:
        events: List[Event] = []
        with self._turn() as pointer, contextlib.nullcontext() if chat is None else chat._turn():
            call(lib.pumice_session_generate, pointer, of_request)
            self._sink.take = events.append
            try:
                interruptible(lambda: call(lib.pumice_session_run, pointer), self._cancel, self._holders)
            finally:
                self._sink.take = None
        return events

    def _events(self, underway: Underway, of_request: Any, chat: Any = None) -> Generator[Event, None, None]:
        run = underway.run = Run(self, chat, of_request)
        try:
            while True:
                event = run.take()
                if event is None:
                    return
                yield event
        finally:
            run.stop()

    def _request(self, text: Optional[str], tokens: Optional[Sequence[int]], new_conversation: bool, before: Optional[str],
                 after: Optional[str], options: Any) -> Any:
        return request(options, text=text, tokens=tokens, before=before, after=after, new_conversation=new_conversation)

    def generate(self, text: Optional[str] = None, *, tokens: Optional[Sequence[int]] = None, new_conversation: bool = False,
                 before: Optional[str] = None, after: Optional[str] = None, **options: "Unpack[Options]") -> Text:
        """Adds a text to the conversation, and goes on with it.

        text: is text: special tokens that it spells stay text. None: goes on with what is there.
        before, after: your own text around it: the special tokens that they spell become those tokens.
        tokens: added after them.
        new_conversation: in place of the conversation; a common beginning is not computed again.
        options: see Options: max_tokens, stop, temperature, seed, choices, regex, json_schema, grammar ...
        """
        return Text.of(self._all_events(self._request(text, tokens, new_conversation, before, after, options)))

    def stream(self, text: Optional[str] = None, *, tokens: Optional[Sequence[int]] = None, new_conversation: bool = False,
               before: Optional[str] = None, after: Optional[str] = None, **options: "Unpack[Options]") -> Stream[str]:
        """The same in pieces, as they come."""
        of_request = self._request(text, tokens, new_conversation, before, after, options)
        return Stream(lambda underway: self._events(underway, of_request), lambda event: event.text)

    def events(self, text: Optional[str] = None, *, tokens: Optional[Sequence[int]] = None, new_conversation: bool = False,
               before: Optional[str] = None, after: Optional[str] = None, **options: "Unpack[Options]") -> Stream[Event]:
        """The same as events, with tokens and, if asked for, log-probabilities."""
        of_request = self._request(text, tokens, new_conversation, before, after, options)
        return Stream(lambda underway: self._events(underway, of_request), lambda event: event)

    def cancel(self) -> None:
        """Ends what is being generated, from any thread: who waits for it gets a Cancelled. The conversation keeps its tokens so far."""
        with self._use():
            self._cancel()

    @property
    def tokens(self) -> List[int]:
        """The conversation so far."""
        with self._turn() as pointer:
            return tokens_of(lib.pumice_session_tokens, pointer, room=1024)

    def score(self, continuations: Sequence[Union[str, Sequence[int]]]) -> List[Score]:
        """How probable each of several continuations of the conversation is, which stays as it is."""
        items = []
        for index, each in enumerate(continuations):
            if isinstance(each, str):
                items.append(structure(_bindings.pumice_continuation, text=each))
            else:
                items.append(structure(_bindings.pumice_continuation, tokens=numbers(each, f"continuations[{index}]")))
        array = (_bindings.pumice_continuation * len(items))(*items)
        scores = (_bindings.pumice_continuation_score * len(items))()
        with self._turn() as pointer:
            interruptible(lambda: call(lib.pumice_session_score, pointer, array, len(items), scores), self._cancel, self._holders)
        return [Score(each.log_probability, each.tokens) for each in scores]

    def fork(self) -> "Session":
        """Another session with the same conversation, whose keys and values are copied."""
        fork = Session.__new__(Session)
        fork._settings = self._settings
        with self._turn() as pointer:
            fork._begin(lib.pumice_session_fork, pointer, self._model, self._draft_model)
        return fork

    def save(self, path: Path) -> None:
        """Saves the conversation with its keys and values to a file."""
        with self._turn() as pointer:
            call(lib.pumice_session_save, pointer, encoded(path, "path"))

    def restore(self, path: Path) -> None:
        """Restores what save() wrote, into a session of the same model and cache type."""
        with self._turn() as pointer:
            call(lib.pumice_session_restore, pointer, encoded(path, "path"))

    def to_bytes(self) -> bytes:
        """What save() would write."""
        with self._turn() as pointer:
            return written(lib.pumice_session_write, pointer)

    def from_bytes(self, data: bytes) -> None:
        """Restores what to_bytes() gave."""
        with self._turn() as pointer:
            call(lib.pumice_session_read, pointer, data, len(data))

    def suspend(self) -> None:
        """Moves it to the host's memory, until resume()."""
        with self._turn() as pointer:
            call(lib.pumice_session_suspend, pointer)

    def resume(self, model: Optional["Model"] = None) -> None:
        """Takes the device's memory again; after a DeviceLost, with the model loaded on a new device."""
        with self._turn() as pointer, (model or self._model)._use() as of_model:
            call(lib.pumice_session_resume, pointer, of_model)
            self._model = model or self._model
