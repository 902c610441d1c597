"""Texts that are being generated, piece by piece."""
from __future__ import annotations

import asyncio
import collections
import threading
from typing import Any, Callable, Generator, Generic, Iterable, List, NamedTuple, Optional, Tuple, TypeVar

from ._interrupt import cancel_until
from ._library import call, lib
from ._structures import decoded
from .errors import Cancelled

_TYPES = {1: "token", 2: "end", 3: "part"}
_PARTS = {0: "", 1: "content", 2: "thinking", 3: "tool_call"}
_REASONS = {0: "", 1: "stop", 2: "length", 3: "context", 4: "cancelled"}


class TokenProbability(NamedTuple):
    """A token that might have come, and the natural logarithm of its probability."""

    token: int
    log_probability: float


class Event(NamedTuple):
    """What happened: a token, a part of a chat's answer, or the end. pumice_event in pumice.h says more of each member."""

    type: str
    """"token", "part" or "end"."""
    text: str
    """What comes next in the text or in the part."""
    token: int
    position: int
    finish_reason: str
    """Of the end: "stop", "length", "context" or "cancelled"."""
    log_probability: float
    top: Tuple[TokenProbability, ...]
    """With the option log_probabilities: the most probable tokens."""
    text_id: int
    reused: int
    """Tokens of the prompt that were known from before."""
    part: str
    """Of a chat's answer: "content", "thinking" or "tool_call"."""
    name: str
    """Of a tool's call."""
    id: str


def event_of(event: Any) -> Event:
    """A copy of what the library shows during a call."""
    top = tuple(TokenProbability(each.token, each.log_probability) for each in event.top[:event.top_count]) if event.top_count else ()
    return Event(_TYPES.get(event.type, ""), decoded(event.text), event.token, event.position,
                 _REASONS.get(event.finish_reason, ""), event.log_probability, top, event.text_id, event.reused,
                 _PARTS.get(event.part, ""), decoded(event.name), decoded(event.id))


class Text(str):
    """A text that was generated: a str that also knows how it ended."""

    finish_reason: str
    """"stop": by itself; "length": max_tokens; "context": no more room; "cancelled"."""
    tokens: int
    """Tokens that were generated."""
    reused: int
    """Tokens of the prompt that were not computed again."""

    @staticmethod
    def of(events: Iterable[Event]) -> "Text":
        every = list(events)
        text = Text("".join(event.text for event in every))
        text._end(every)
        return text

    def _end(self, events: List[Event]) -> None:
        last = events[-1] if events else None
        self.finish_reason = last.finish_reason if last else ""
        self.tokens = sum(event.type == "token" for event in events)
        self.reused = last.reused if last else 0


class Run:
    """A request that a session answers on a thread of its own, a few events ahead of who takes them. Until it has ended, the session
    and the chat are in use."""

    AHEAD = 4

    def __init__(self, session: Any, chat: Any, request: Any) -> None:
        self._session, self._chat = session, chat
        self._changed = threading.Condition()
        self._events: collections.deque = collections.deque()
        self._done = threading.Event()
        self._stopped = self._released = False
        self._error: Optional[BaseException] = None
        self._uses = []
        try:
            for handle in filter(None, (session, chat)):
                use = handle._use()
                use.__enter__()
                self._uses.append((handle, use))
                handle._take_turn()
                handle._text = self
            call(lib.pumice_session_generate, session._pointer, request)
        except BaseException:
            self._done.set()
            self._release()
            raise
        session._sink.take = self._put
        threading.Thread(target=self._work, name="pumice", daemon=True).start()

    def _work(self) -> None:
        try:
            call(lib.pumice_session_run, self._session._pointer)
        except BaseException as error:
            self._error = error
        with self._changed:
            self._done.set()
            self._changed.notify_all()

    def _put(self, event: Event) -> None:
        with self._changed:
            while len(self._events) >= self.AHEAD and not self._stopped:
                self._changed.wait()
            self._events.append(event)
            self._changed.notify_all()

    def take(self) -> Optional[Event]:
        """The next event; None: that was all."""
        with self._changed:
            while not self._done.is_set() and (self._stopped or not self._events):
                self._changed.wait()
            if self._events and not self._stopped:
                event = self._events.popleft()
                self._changed.notify_all()
                return event
        self._release()
        if self._error and not (self._stopped and isinstance(self._error, Cancelled)):
            raise self._error
        return None

    def cancel(self) -> None:
        """Ends it soon, from any thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._session._cancel()

    def stop(self) -> None:
        """Ends it, and waits for that."""
        self.cancel()
        cancel_until(self._done, self._session._cancel)
        self._release()

    def _release(self) -> None:
        with self._changed:
            if self._released:
                return
            self._released = True
        for handle, use in reversed(self._uses):
            if handle._text is self:
                handle._text = None
                handle._end_turn()
            use.__exit__(None, None, None)


class Underway:
    """The run that a stream takes its events from at the moment."""

    run: Optional[Run] = None
    loop: Optional[asyncio.AbstractEventLoop] = None
    """Where the stream is awaited, if it is."""

    def cancel(self) -> None:
        if self.run is not None:
            self.run.cancel()


T = TypeVar("T")


class Stream(Generic[T]):
    """Pieces, as they come: for `for`, and for `async for`.

    It begins with the first piece. close(), or leaving a with statement or the loop's scope, ends the text where it is. After the
    end, `text` is all of it, and knows its finish_reason.
    """

    def __init__(self, begin: Callable[["Underway"], Generator[Event, None, None]], piece: Callable[[Event], Optional[T]],
                 whole: Callable[[List[Event]], Any] = Text.of) -> None:
        self._underway = Underway()
        self._events = begin(self._underway)
        self._piece, self._whole = piece, whole
        self._seen: List[Event] = []
        self._ended = False

    def __iter__(self) -> "Stream[T]":
        return self

    def __next__(self) -> T:
        for event in self._events:
            self._seen.append(event)
            piece = self._piece(event)
            if piece:
                return piece
        self._ended = True
        raise StopIteration

    @property
    def text(self) -> Any:
        """What came so far."""
        return self._whole(self._seen)

    @property
    def finish_reason(self) -> str:
        """Why it ended; "" before that."""
        last = self._seen[-1].finish_reason if self._seen else ""
        return last or ("cancelled" if self._ended else "")

    def close(self) -> None:
        """Ends the text where it is."""
        self._ended = True
        self._events.close()

    def __enter__(self) -> "Stream[T]":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __aiter__(self) -> "Stream[T]":
        return self

    async def __anext__(self) -> T:
        end: Any = object()
        self._underway.loop = asyncio.get_running_loop()
        try:
            piece = await self._underway.loop.run_in_executor(None, next, self, end)
        except asyncio.CancelledError:
            self._underway.cancel()
            raise
        if piece is end:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """close() for what is asynchronous."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)
