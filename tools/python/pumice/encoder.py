"""A tensor of an encoder, whatever the model's files say of it."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Sequence, Union

from . import _bindings
from ._library import lib
from ._structures import structure
from .arrays import Result, Rows, floats
from .model import Model
from .pictures import pixels_of
from .tasks import Task

Input = Any
"""A text, a list of tokens, a picture, or values: an array of one dimension."""


class Encoder(Task):
    """Runs an encoder, and gives one of its results.

    output: "last_hidden_state", "hidden_states.N", "sentence_embedding_mean", "sentence_embedding_cls", "pooler_output", "logits",
        "text_embeds" or "image_embeds".
    tokens, inputs: most of one step.
    pictures: loads the encoder of a model's pictures.
    """

    _kind = "encoder"
    _HAS_WORK = True

    def __init__(self, model: Union[Model, str, os.PathLike], output: Optional[str] = None, *, tokens: Optional[int] = None,
                 inputs: Optional[int] = None, pictures: bool = False, **load: Any) -> None:
        if not isinstance(model, Model):
            load = {"pictures": pictures, **load}
        self._inputs = inputs or 1
        self._create(model, load, output=output, tokens=tokens, inputs=inputs)

    @property
    def columns(self) -> int:
        """The numbers of a row."""
        with self._use() as pointer:
            return lib.pumice_encoder_columns(pointer)

    def encode(self, inputs: Sequence[Input]) -> Rows:
        """The rows of all inputs, one after another; at most `inputs` of them."""
        items = [_input(each) for each in inputs]
        array = (_bindings.pumice_input * len(items))(*items)
        count = ctypes.c_size_t()
        with self._turn() as pointer:
            self._run(pointer, lib.pumice_encoder_encode, array, len(items), None, 0, ctypes.byref(count))
            columns = lib.pumice_encoder_columns(pointer)
            result = Result(count.value // columns, columns)
            self._run(pointer, lib.pumice_encoder_read, result.pointer, count.value, ctypes.byref(count))
        return result.rows


def _input(what: Input) -> Any:
    if isinstance(what, str):
        return structure(_bindings.pumice_input, text=what)
    if isinstance(what, (list, tuple)) and all(isinstance(each, int) for each in what):
        return structure(_bindings.pumice_input, tokens=what)
    if getattr(what, "ndim", 0) == 1 or isinstance(what, (list, tuple)):
        result = structure(_bindings.pumice_input)
        result.values, _ = floats(what, "values")
        return result
    pixels, width, height = pixels_of(what)
    result = structure(_bindings.pumice_input, width=width, height=height)
    result.pixels = (ctypes.c_uint8 * len(pixels)).from_buffer_copy(pixels)
    return result
