"""How well texts answer a query."""
from __future__ import annotations

import ctypes
import os
from typing import Any, List, NamedTuple, Optional, Sequence, Union

from ._library import lib
from ._structures import encoded
from .arrays import Result, Rows
from .model import Model
from .tasks import Task, text_array


class Ranked(NamedTuple):
    """A text, where it was among all, and its score."""

    position: int
    score: float
    text: str


class Reranker(Task):
    """Scores how well texts answer a query, as `pumice rerank` does.

    model: a path, or a Model that was loaded with purpose="scores".
    instruction: of a decoder: what a text has to do for the query.
    raw: the model's logit in place of a probability.
    """

    _kind = "reranker"

    def __init__(self, model: Union[Model, str, os.PathLike], *, instruction: Optional[str] = None, raw: bool = False,
                 max_tokens: Optional[int] = None, batch_tokens: Optional[int] = None, **load: Any) -> None:
        if not isinstance(model, Model):
            load = {"purpose": "scores", **load}
        self._create(model, load, instruction=instruction, raw=raw, max_tokens=max_tokens, batch_tokens=batch_tokens)
        self.cut = 0
        """How many of the last texts were too long, and cut."""

    def score(self, query: str, texts: Sequence[str]) -> Rows:
        """The score of each text."""
        array = text_array(texts)
        result = Result(1, len(array))
        cut = ctypes.c_size_t()
        if len(array):
            with self._turn() as pointer:
                self._run(pointer, lib.pumice_reranker_score, encoded(query, "query"), array, len(array), result.pointer,
                          ctypes.byref(cut))
        self.cut = cut.value
        return result.rows[0] if len(array) else []

    def rank(self, query: str, texts: Sequence[str], top: Optional[int] = None) -> List[Ranked]:
        """The texts with their scores, the best first."""
        texts = list(texts)
        ranked = [Ranked(index, float(score), texts[index]) for index, score in enumerate(self.score(query, texts))]
        return sorted(ranked, key=lambda each: -each.score)[:top]
