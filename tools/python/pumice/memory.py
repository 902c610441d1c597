"""How much memory a model and a conversation take, before any of it is allocated."""
from __future__ import annotations

import ctypes
import os
from typing import NamedTuple, Optional, Union

from . import _bindings
from ._library import call, lib
from ._structures import choice, encoded, structure
from .device import Device, shared


class Estimate(NamedTuple):
    """Bytes of the device's memory; pumice_memory_estimate in pumice.h says more of each member."""

    weights: int
    cache: int
    scratch: int
    loading: int
    peak: int
    """The most at a time."""
    fits: bool
    longest_context: int
    host: int
    context: int
    chunk: int


def estimate(model: Union[str, os.PathLike], *, device: Union[Device, str, int, None] = None, context: Optional[int] = None,
             chunk: Optional[int] = None, cache: str = "f16", quantize: Optional[str] = None, fit: bool = False) -> Estimate:
    """What Model(model, quantize=...) and a Session with these settings would take. Only the model's header is read."""
    source = structure(_bindings.pumice_source, path=encoded(model, "model"))
    load = structure(_bindings.pumice_load_options, quantize=quantize)
    session = structure(_bindings.pumice_session_options, context=context, chunk=chunk, fit=int(fit),
                        cache=choice(cache, _bindings.pumice_cache_type, "PUMICE_CACHE_", "cache"))
    found = structure(_bindings.pumice_memory_estimate)
    with shared(device)._use() as on_device:
        call(lib.pumice_session_estimate_memory, on_device, source, load, session, ctypes.byref(found))
    return Estimate(*(getattr(found, name) for name in Estimate._fields))
