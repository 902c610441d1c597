"""Pictures to texts."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _bindings
from ._library import call, lib
from .model import Model
from .options import form_structure
from .pictures import Picture, structures
from .tasks import Task, one_or_all
from .writing import Written, writing_structure, written_of


class Captioner(Task):
    """Describes pictures, or reads the text in them, as `pumice caption` does.

    model: a path, or a Model. vision: of a decoder that reads pictures in its prompt (LLaVA, SmolVLM, Gemma 3, Qwen 2.5-VL).
    prompt: what such a decoder continues; "<image>" is the picture.
    choices, regex, json_schema, grammar: the form of the texts, see Form. The others are as of a Translator.
    """

    _kind = "captioner"
    _HAS_WORK = True

    def __init__(self, model: Union[Model, str, os.PathLike], *, vision: bool = False, prompt: Optional[str] = None,
                 beams: Optional[int] = None, n_best: Optional[int] = None, length_penalty: Optional[float] = None,
                 early_stopping: Optional[str] = None, no_repeat_ngram: Optional[int] = None, max_tokens: Optional[int] = None,
                 together: Optional[int] = None, scores: bool = False, sampling: Optional[Dict[str, Any]] = None,
                 choices: Optional[Sequence[str]] = None, regex: Optional[str] = None, json_schema: Any = None,
                 grammar: Optional[str] = None, **load: Any) -> None:
        if not isinstance(model, Model):
            load = {"vision": vision, **load}
        form = form_structure({"choices": choices, "regex": regex, "json_schema": json_schema, "grammar": grammar})
        writing = writing_structure(beams, n_best, length_penalty, early_stopping, no_repeat_ngram, max_tokens, together, scores, sampling)
        self._create(model, load, prompt=prompt, writing=writing, form=form)

    def caption(self, pictures: Union[Picture, Sequence[Picture]]) -> Any:
        """What is written about a picture (an image of PIL's, an array, bytes or a path); of a list, the list of them."""
        items, single = one_or_all(pictures, lambda value: not isinstance(value, (list, tuple)))
        results = [texts[0].text for texts in self.captions(items)]
        return results[0] if single else results

    def captions(self, pictures: Sequence[Picture]) -> List[List[Written]]:
        """The same with tokens, scores and rivals, best first."""
        array = structures(pictures, _bindings.pumice_input)
        results: List[List[Written]] = []
        if not len(array):
            return results
        with self._turn() as pointer:
            self._run(pointer, lib.pumice_captioner_caption, array, len(array))
            for index in range(len(array)):
                texts = ctypes.POINTER(_bindings.pumice_written)()
                count = ctypes.c_size_t()
                call(lib.pumice_captioner_result, pointer, index, ctypes.byref(texts), ctypes.byref(count))
                results.append([written_of(text) for text in texts[:count.value]])
        return results
