"""Texts and pictures as vectors."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Sequence, Union

from ._library import lib
from .arrays import Result, Rows
from .model import Model
from .pictures import Picture, structures
from .tasks import Task, is_text, one_or_all, text_array


class Embedder(Task):
    """Turns texts into vectors, or pictures, as `pumice embed` does.

        embedder = pumice.Embedder("all-MiniLM-L6-v2")
        vectors = embedder.embed(["a cat", "a dog"])       # numpy, float32 (2, 384)

    model: a path, or a Model that was loaded with purpose="vectors" (of sparse vectors "scores").
    vision: of a model of texts and pictures in one space, such as CLIP: loads both.
    pooling: "mean", "cls" or "last"; normalize: vectors of length 1; dimensions: only the first so many numbers. By default as the
        model's settings say.
    prompt: the name of the model's prompt that comes before each text, "query"; prefix: a text in its place.
    sparse: a weight for each token of the vocabulary (SPLADE).
    load: other settings of Model.
    """

    _kind = "embedder"

    def __init__(self, model: Union[Model, str, os.PathLike], *, pooling: Optional[str] = None, normalize: Optional[bool] = None,
                 dimensions: Optional[int] = None, prompt: Optional[str] = None, prefix: Optional[str] = None,
                 max_tokens: Optional[int] = None, batch_tokens: Optional[int] = None, sparse: bool = False, vision: bool = False,
                 **load: Any) -> None:
        if not isinstance(model, Model):
            load = {"purpose": "scores" if sparse else "vectors", "vision": vision, **load}
        self._create(model, load, pooling=pooling, normalize={None: 0, True: 1, False: -1}[normalize], dimensions=dimensions,
                     prompt=prompt, prefix=prefix, max_tokens=max_tokens, batch_tokens=batch_tokens, sparse=int(sparse))
        self.cut = 0
        """How many of the last texts were too long, and cut."""

    @property
    def dimensions(self) -> int:
        """The numbers of a vector."""
        with self._use() as pointer:
            return lib.pumice_embedder_columns(pointer)

    def embed(self, texts: Union[str, Sequence[str]]) -> Rows:
        """A vector for each text; of a single text, its vector."""
        items, single = one_or_all(texts, is_text)
        result = Result(len(items), self.dimensions)
        cut = ctypes.c_size_t()
        if items:
            with self._turn() as pointer:
                self._run(pointer, lib.pumice_embedder_embed, text_array(items), len(items), result.pointer, ctypes.byref(cut))
        self.cut = cut.value
        return result.rows[0] if single else result.rows

    def embed_pictures(self, pictures: Union[Picture, Sequence[Picture]]) -> Rows:
        """A vector for each picture; of a single picture, its vector."""
        items, single = one_or_all(pictures, lambda value: not isinstance(value, (list, tuple)))
        result = Result(len(items), self.dimensions)
        if items:
            array = structures(items)
            with self._turn() as pointer:
                self._run(pointer, lib.pumice_embedder_embed_pictures, array, len(items), result.pointer)
        return result.rows[0] if single else result.rows
