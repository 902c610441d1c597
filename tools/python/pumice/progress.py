"""A bar for what takes a while, at a terminal only."""
from __future__ import annotations

import sys
from typing import Any, Callable, Optional, Union

ShowProgress = Union[bool, None, Callable[[int, int], Any]]


class Bar:
    """loading stories-2m.gguf [#########           ] 45 %"""

    WIDTH = 20

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        percent = 100 * done // total if total else 0
        if percent != self._shown:
            self._shown = percent
            bar = "#" * (percent * self.WIDTH // 100)
            print(f"\r\033[K{self._what} [{bar:<{self.WIDTH}}] {percent} %", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown >= 0:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def shown(progress: ShowProgress, what: str) -> Optional[Callable[[int, int], Any]]:
    """What shows progress: the caller's function, or a bar where a person watches."""
    if callable(progress):
        return progress
    return Bar(what) if progress and sys.stderr is not None and sys.stderr.isatty() else None
