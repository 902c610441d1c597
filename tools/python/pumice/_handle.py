"""What the library hands out: closed once, whoever asks, and from any thread."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import threading
import weakref
from typing import Any, Callable, Iterator

from . import _bindings
from ._library import lib
from .errors import InvalidArgument, NotReady

_living: "weakref.WeakValueDictionary[int, Handle]" = weakref.WeakValueDictionary()
_numbers = itertools.count()


class Handle:
    """Something of the library's. It is closed by close(), at the end of a with statement, or when nothing refers to it any more;
    closing it again does nothing. What uses it at that moment is cancelled, and the last user frees it."""

    _kind = ""  # "session": pumice_session_destroy

    def _own(self, pointer: Any) -> None:
        """Takes what a *_create function made."""
        self._pointer = pointer
        self._guard = threading.Lock()
        self._users = 0
        self._closing = False
        _living[next(_numbers)] = self

    def _make(self, create: Callable[[Any], None]) -> None:
        """Owns what `create` writes to the pointer that it gets, or nothing, if that is interrupted."""
        pointer = ctypes.POINTER(getattr(_bindings, f"pumice_{self._kind}"))()
        try:
            create(ctypes.byref(pointer))
        except BaseException:
            getattr(lib, f"pumice_{self._kind}_destroy")(pointer)
            raise
        self._own(pointer)

    @contextlib.contextmanager
    def _use(self) -> Iterator[Any]:
        """The handle for C functions, which stays until the end of the with statement."""
        with self._guard:
            if self._closing:
                raise InvalidArgument(f"the {self._kind} is closed")
            self._users += 1
        try:
            yield self._pointer
        finally:
            with self._guard:
                self._users -= 1
                last = self._closing and self._users == 0
            if last:
                self._destroy()

    def _cancel(self) -> None:
        """Ends what another thread does with it, soon."""

    def _destroy(self) -> None:
        getattr(lib, f"pumice_{self._kind}_destroy")(self._pointer)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closing

    def close(self) -> None:
        """Frees it. Doing so twice is harmless."""
        if not hasattr(self, "_users"):  # it was never made
            return
        with self._guard:
            if self._closing:
                return
            self._closing = True
            used = self._users > 0
        if used:
            self._cancel()
        else:
            self._destroy()

    def __enter__(self):
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class OneAtATime(Handle):
    """What one thread at a time may use: the others wait for their turn."""

    def _own(self, pointer: Any) -> None:
        super()._own(pointer)
        self._turns = threading.Lock()
        self._holders: set = set()  # threads of the turn
        self._text: Any = None      # a text that is being streamed, see stream.py

    def _take_turn(self) -> None:
        if threading.get_ident() in self._holders:
            raise NotReady(f"the {self._kind} runs: its own callback cannot use it")
        text = self._text
        if text is not None:
            text.stop()
        self._turns.acquire()

    def _end_turn(self) -> None:
        self._turns.release()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[Any]:
        with self._use() as pointer:
            self._take_turn()
            self._holders.add(threading.get_ident())
            try:
                yield pointer
            finally:
                self._holders.clear()
                self._end_turn()

    def close(self) -> None:
        text = getattr(self, "_text", None)
        if text is not None:
            text.stop()
        super().close()


@atexit.register
def _close_all() -> None:
    """The youngest first, while callbacks can still be called."""
    for _, handle in sorted(_living.items(), reverse=True):
        handle.close()
