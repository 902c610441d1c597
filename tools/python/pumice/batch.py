"""Several texts that are generated in the same steps."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Dict, Generator, List, Optional, Sequence, Tuple, Union

from . import _bindings
from ._handle import OneAtATime
from ._interrupt import Progress
from ._library import call, lib
from ._structures import choice, members, structure
from .options import prompt_members, request
from .session import processors
from .stream import Event, Text, event_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .model import Model
    from .options import Options


class Batch(OneAtATime):
    """Texts that are generated together: each step reads the weights once for all of them, and each gets the text as alone.

    texts: most of them at a time; further ones wait. cache_tokens: keys and values of all together, of so many tokens (0: of all that
    they can have). The other settings are as of a Session.
    """

    _kind = "batch"

    def __init__(self, model: "Model", texts: int = 8, *, context: Optional[int] = None, chunk: Optional[int] = None,
                 cache: str = "f16", drafts: int = 0, draft_model: Optional["Model"] = None, adapters: int = 0, warm_up: bool = False,
                 threads: Optional[int] = None, cache_tokens: int = 0) -> None:
        self._device, self._draft_model = model._device, draft_model
        progress = Progress(members(_bindings.pumice_batch_options)["progress"], None)
        options = structure(_bindings.pumice_batch_options, texts=texts, context=context, chunk=chunk,
                            cache=choice(cache, _bindings.pumice_cache_type, "PUMICE_CACHE_", "cache"), drafts=drafts,
                            draft_model=draft_model._pointer if draft_model else None, adapters=adapters, warm_up=warm_up,
                            threads=threads or processors(), progress=progress.function, cache_tokens=cache_tokens)
        with model._use() as of_model:
            self._make(lambda made: progress.run(lambda: call(lib.pumice_batch_create, of_model, options, made)))

    def _cancel(self) -> None:
        lib.pumice_work_cancel(lib.pumice_batch_work(self._pointer))

    def add(self, prompt: Union[str, Sequence[int]], **options: "Unpack[Options]") -> int:
        """Adds a text, also while others are being generated, and returns its number: Event.text_id."""
        of_request = request(options, **prompt_members(prompt))
        number = ctypes.c_uint32()
        with self._turn() as pointer:
            call(lib.pumice_batch_add, pointer, of_request, ctypes.byref(number))
        return number.value

    def drop(self, number: int) -> None:
        """Ends a text."""
        with self._turn() as pointer:
            call(lib.pumice_batch_drop, pointer, number)

    def step(self) -> Tuple[List[Event], bool]:
        """Runs one step: what happened in it, and whether there is more to do."""
        active = ctypes.c_bool()
        events: List[Event] = []
        with self._turn() as pointer:
            call(lib.pumice_batch_step, pointer, ctypes.byref(active))
            while True:
                event = lib.pumice_batch_poll(pointer)
                if not event:
                    return events, active.value
                events.append(event_of(event.contents))

    def events(self) -> Generator[Event, None, None]:
        """All that happens until all texts have ended."""
        active = True
        while active:
            events, active = self.step()
            yield from events

    def run(self) -> Dict[int, Text]:
        """Generates all texts to their ends: by their numbers."""
        by_text: Dict[int, List[Event]] = {}
        for event in self.events():
            by_text.setdefault(event.text_id, []).append(event)
        return {number: Text.of(events) for number, events in by_text.items()}
