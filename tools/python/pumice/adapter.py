"""Adapters: one model, many characters."""
from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Optional, Sequence, Union

from . import _bindings
from ._handle import Handle
from ._library import call, lib
from ._structures import encoded

if TYPE_CHECKING:
    from .model import Model


class Adapter(Handle):
    """A low-rank adapter (LoRA) of a model: a folder of Hugging Face's PEFT, or a GGUF file of llama.cpp. A session or a batch that was
    made with `adapters` uses it for the texts that ask for it: session.generate(..., adapter=adapter, adapter_scale=0.5)."""

    _kind = "adapter"

    def __init__(self, model: "Model", path: Union[str, os.PathLike]) -> None:
        self._device = model._device
        with model._use() as of_model:
            self._make(lambda made: call(lib.pumice_adapter_load, of_model, encoded(path, "path"), made))

    @staticmethod
    def combine(adapters: "Sequence[Adapter]", scales: Optional[Sequence[float]] = None) -> "Adapter":
        """One that adds what these add, each times its scale."""
        if not adapters:
            raise ValueError("there are no adapters to combine")
        if scales is not None and len(scales) != len(adapters):
            raise ValueError(f"there are {len(scales)} scales for {len(adapters)} adapters")
        count = len(adapters)
        all_of_them = (ctypes.POINTER(_bindings.pumice_adapter) * count)(*(each._pointer for each in adapters))
        factors = (ctypes.c_float * count)(*scales) if scales is not None else None
        combined = Adapter.__new__(Adapter)
        combined._device = adapters[0]._device
        combined._make(lambda made: call(lib.pumice_adapter_combine, all_of_them, factors, count, made))
        return combined
