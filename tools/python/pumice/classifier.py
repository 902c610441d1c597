"""Labels for texts and pictures."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, Optional, Sequence, Union

from ._library import lib
from ._structures import decoded
from .arrays import Result, Rows
from .model import Model
from .pictures import Picture, structures
from .tasks import Task, is_text, one_or_all, text_array


class Classifier(Task):
    """Finds how probable each label is for a text or a picture, as `pumice classify` does.

    model: a path, or a Model; with `labels`, one that was loaded with vision=True.
    labels: of a model of texts and pictures in one space, such as CLIP: any of your own. Others have theirs.
    sentence: that stands for a label, with {} in its place: "This is a photo of {}."
    """

    _kind = "classifier"

    def __init__(self, model: Union[Model, str, os.PathLike], *, labels: Optional[Sequence[str]] = None, sentence: Optional[str] = None,
                 batch_tokens: Optional[int] = None, **load: Any) -> None:
        if not isinstance(model, Model):
            load = {"vision": labels is not None, **load}
        self._create(model, load, labels=labels, sentence=sentence, batch_tokens=batch_tokens)
        self.labels: List[str] = [decoded(lib.pumice_classifier_label(self._pointer, index))
                                  for index in range(lib.pumice_classifier_label_count(self._pointer))]
        self.cut = 0
        """How many of the last texts were too long, and cut."""

    def classify(self, what: Union[str, Picture, Sequence[Union[str, Picture]]]) -> Union[Dict[str, float], List[Dict[str, float]]]:
        """The probability of each label, the most probable first; of a list, such a dict for each. A str is a text; a picture is an
        image of PIL's, an array, bytes, or a pathlib.Path."""
        items, single = one_or_all(what, lambda value: not isinstance(value, (list, tuple)))
        results = []
        for row in self.probabilities(items):
            order = sorted(range(len(self.labels)), key=lambda index: -row[index])
            results.append({self.labels[index]: float(row[index]) for index in order})
        return results[0] if single else results

    def probabilities(self, items: Sequence[Union[str, Picture]]) -> Rows:
        """A row for each text or picture, with a column for each of `labels`."""
        items = list(items)
        result = Result(len(items), len(self.labels))
        cut = ctypes.c_size_t()
        if items and all(map(is_text, items)):
            with self._turn() as pointer:
                self._run(pointer, lib.pumice_classifier_classify, text_array(items), len(items), result.pointer, ctypes.byref(cut))
        elif items:
            if any(map(is_text, items)):
                raise TypeError("texts and pictures are classified apart; the path of a picture is a pathlib.Path")
            array = structures(items)
            with self._turn() as pointer:
                self._run(pointer, lib.pumice_classifier_classify_pictures, array, len(items), result.pointer)
        self.cut = cut.value
        return result.rows
