"""Calls that take long, such that Ctrl-C ends them promptly.

Python sees Ctrl-C between two of its own instructions in the main thread, and a function of C is one. So there a thread of its own
calls the function, while the main thread waits for it.
"""
from __future__ import annotations

import threading
from typing import Any, Callable, Optional, TypeVar

T = TypeVar("T")


def cancel_until(done: threading.Event, cancel: Callable[[], None]) -> None:
    """Cancels until it has ended: what the library is not doing yet cannot be cancelled."""
    while not done.is_set():
        try:
            cancel()
            done.wait(0.02)
        except KeyboardInterrupt:
            pass  # that is what is happening


def interruptible(work: Callable[[], T], cancel: Callable[[], None], holders: Optional[set] = None) -> T:
    """What `work` returns. If the wait is interrupted, calls `cancel`, waits for the end, and raises the interruption.
    `holders`: gets the thread that works."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    done = threading.Event()
    result: list = []

    def run() -> None:
        if holders is not None:
            holders.add(threading.get_ident())
        try:
            result.append((work(), None))
        except BaseException as error:
            result.append((None, error))
        finally:
            done.set()

    thread = threading.Thread(target=run, name="pumice", daemon=True)
    try:
        thread.start()
        done.wait()
    except BaseException:
        if thread.ident is not None:
            cancel_until(done, cancel)
        raise
    value, error = result[0]
    if error is not None:
        raise error
    return value


class Progress:
    """A callback for the library's `progress`, which hands an exception of Python's on, and can be cancelled."""

    def __init__(self, kind: Any, show: Optional[Callable[[int, int], Any]]) -> None:
        self._show = show
        self._cancelled = False
        self._error: Optional[BaseException] = None
        self.function = kind(self._called)

    def _called(self, _user: Any, done: int, total: int) -> bool:
        if self._show and not self._cancelled:
            try:
                if self._show(done, total) is False:
                    self._cancelled = True
            except BaseException as error:
                self._error = error
                self._cancelled = True
        return not self._cancelled

    def cancel(self) -> None:
        self._cancelled = True

    def run(self, work: Callable[[], T], cancel: Optional[Callable[[], None]] = None, holders: Optional[set] = None) -> T:
        """As interruptible(). An exception of the callback's is raised in place of the library's error."""
        def both() -> None:
            self.cancel()
            if cancel:
                cancel()

        try:
            return interruptible(work, both, holders)
        except Exception:
            if self._error:
                raise self._error from None
            raise
