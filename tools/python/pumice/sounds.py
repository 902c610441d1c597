"""Sounds of chats."""
from __future__ import annotations

from typing import Any, Iterable, List, Tuple, Union

from . import _bindings
from ._structures import structure
from .arrays import Sound, samples_of

ChatSound = Union[Sound, Tuple[Sound, int]]
"""A sound as Transcriber.transcribe() takes it; or a pair of one and its rate, without which samples have the model's own, 16,000."""


def sound_structures(sounds: Iterable[ChatSound]) -> Any:
    """An array of pumice_sound."""
    items: List[Any] = []
    for each in sounds:
        sound, rate = each if isinstance(each, tuple) else (each, 0)
        samples, count, rate = samples_of(sound, rate)
        item = structure(_bindings.pumice_sound, count=count, rate=rate)
        item.samples = samples
        items.append(item)
    array = (_bindings.pumice_sound * len(items))(*items)
    array.kept = items
    return array
