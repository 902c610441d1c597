"""What the classes of the tasks share: each has a model, and one thread at a time uses it."""
from __future__ import annotations

from typing import Any, Callable, List, Sequence, Tuple

from . import _bindings
from ._handle import OneAtATime
from ._interrupt import interruptible
from ._library import call, lib
from ._structures import structure, texts
from .model import opened


class Task(OneAtATime):
    """Something that is made of a model and of options. Of a path, it loads the model itself, and closes it at its own end."""

    _HAS_WORK = False  # pumice_KIND_work with pumice_work_cancel, in place of pumice_KIND_cancel

    def _create(self, model: Any, load: Any, **options: Any) -> None:
        self._model, self._loaded = opened(model, **{key: value for key, value in load.items() if value is not None})
        self._device = self._model._device
        of_options = structure(getattr(_bindings, f"pumice_{self._kind}_options"), **options)
        try:
            with self._model._use() as of_model:
                create = getattr(lib, f"pumice_{self._kind}_create")
                self._make(lambda made: call(create, of_model, of_options, made))
        except BaseException:
            if self._loaded:
                self._model.close()
            raise

    def _destroy(self) -> None:
        super()._destroy()
        if self._loaded:
            self._model.close()

    def _cancel(self) -> None:
        if self._HAS_WORK:
            lib.pumice_work_cancel(getattr(lib, f"pumice_{self._kind}_work")(self._pointer))
        else:
            getattr(lib, f"pumice_{self._kind}_cancel")(self._pointer)

    def cancel(self) -> None:
        """Ends what is running, from any thread: it raises Cancelled."""
        with self._use():
            self._cancel()

    def _run(self, pointer: Any, function: Any, *arguments: Any) -> None:
        """Calls a function that takes a while."""
        interruptible(lambda: call(function, pointer, *arguments), self._cancel, self._holders)


def one_or_all(values: Any, is_one: Callable[[Any], bool]) -> Tuple[List[Any], bool]:
    """A list, and whether it stands for a single value."""
    return ([values], True) if is_one(values) else (list(values), False)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def text_array(items: Sequence[Any]) -> Any:
    return texts(items, "texts")
