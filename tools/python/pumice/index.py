"""Searching the texts of a folder."""
from __future__ import annotations

import ctypes
import os
from typing import Any, List, NamedTuple, Optional, Union

from . import _bindings
from ._interrupt import Progress
from ._library import call, lib
from ._structures import decoded, encoded
from .model import Model
from .progress import Bar, ShowProgress, shown
from .tasks import Task


class Passage(NamedTuple):
    """A passage that was found."""

    score: float
    file: str
    """In the folder, with / between names."""
    line: int
    """Its first in the file, from 1."""
    text: str


class TextIndex(Task):
    """The passages of the text files in a folder, and their vectors, which are kept in a folder of the index. `pumice search` reads what
    this writes, and the other way round.

        index = pumice.TextIndex("all-MiniLM-L6-v2", "notes")
        index.update()
        for passage in index.search("how do I reset the router?", top=3):
            print(passage.file, passage.line, passage.text)

    model: a path, or a Model that was loaded with purpose="vectors" (of sparse vectors "scores").
    folder: of the texts. index: where the vectors are kept; by default beside it, with ".index" at its end.
    rebuild: makes the index again with the next update.
    """

    _kind = "index"

    def __init__(self, model: Union[Model, str, os.PathLike], folder: Union[str, os.PathLike], *,
                 index: Union[str, os.PathLike, None] = None, pooling: Optional[str] = None, dimensions: Optional[int] = None,
                 max_tokens: Optional[int] = None, batch_tokens: Optional[int] = None, rebuild: bool = False,
                 query_prefix: Optional[str] = None, text_prefix: Optional[str] = None, sparse: bool = False, **load: Any) -> None:
        if not isinstance(model, Model):
            load = {"purpose": "scores" if sparse else "vectors", **load}
        self._create(model, load, folder=folder, index=index, pooling=pooling, dimensions=dimensions, max_tokens=max_tokens,
                     batch_tokens=batch_tokens, rebuild=rebuild, query_prefix=query_prefix, text_prefix=text_prefix, sparse=int(sparse))

    def update(self, progress: ShowProgress = True) -> None:
        """Brings the index up to date with the folder: only files that have changed are read."""
        bar = shown(progress, "reading passages")
        report = Progress(lib.pumice_index_update.argtypes[1], bar)
        try:
            with self._turn() as pointer:
                report.run(lambda: call(lib.pumice_index_update, pointer, report.function, None), self._cancel, self._holders)
        finally:
            if isinstance(bar, Bar):
                bar.end()

    def search(self, query: str, top: int = 10) -> List[Passage]:
        """The best passages for a query, best first."""
        passages = ctypes.POINTER(_bindings.pumice_passage)()
        count = ctypes.c_size_t()
        with self._turn() as pointer:
            self._run(pointer, lib.pumice_index_search, encoded(query, "query"), top, ctypes.byref(passages), ctypes.byref(count))
            return [Passage(each.score, decoded(each.file), each.line, decoded(each.text)) for each in passages[:count.value]]
