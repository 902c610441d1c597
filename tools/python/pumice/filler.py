"""Words for gaps."""
from __future__ import annotations

import ctypes
import os
from typing import Any, List, NamedTuple, Optional, Sequence, Union

from . import _bindings
from ._library import lib
from ._structures import decoded
from .model import Model
from .tasks import Task, is_text, one_or_all, text_array


class Fill(NamedTuple):
    """A word that may stand in a gap."""

    word: str
    probability: float
    token: int


class Filler(Task):
    """Finds the most probable words for the gaps of texts, by a masked language model such as BERT, as `pumice fill` does.

    model: a path, or a Model that was loaded with purpose="scores".
    top: words for each gap.
    """

    _kind = "filler"

    def __init__(self, model: Union[Model, str, os.PathLike], *, top: int = 5, max_tokens: Optional[int] = None,
                 batch_tokens: Optional[int] = None, **load: Any) -> None:
        if not isinstance(model, Model):
            load = {"purpose": "scores", **load}
        self._create(model, load, top=top, max_tokens=max_tokens, batch_tokens=batch_tokens)

    def fill(self, texts: Union[str, Sequence[str]]) -> List[Any]:
        """For each gap of a text, written as "[MASK]" or "<mask>", its words, best first; of a list, such a list for each text."""
        items, single = one_or_all(texts, is_text)
        results: List[List[List[Fill]]] = [[] for _ in items]
        if items:
            fills = ctypes.POINTER(_bindings.pumice_fill)()
            count = ctypes.c_size_t()
            with self._turn() as pointer:
                self._run(pointer, lib.pumice_filler_fill, text_array(items), len(items), ctypes.byref(fills), ctypes.byref(count), None)
                for each in fills[:count.value]:
                    gaps = results[each.text]
                    if each.gap == len(gaps):
                        gaps.append([])
                    gaps[each.gap].append(Fill(decoded(each.word), each.probability, each.token))
        return results[0] if single else results
