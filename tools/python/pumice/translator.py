"""Texts to texts."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from . import _bindings
from ._library import call, lib
from ._structures import decoded
from .model import Model
from .tasks import Task, is_text, one_or_all, text_array
from .writing import Written, writing_structure, written_of


class Sentence(NamedTuple):
    """Of one sentence, with sentences=True."""

    source: str
    texts: List[Written]


class Translation(NamedTuple):
    """What a text became."""

    texts: List[Written]
    """Best first."""
    sentences: List[Sentence]
    truncated: bool
    """The text was too long, and its end was left out."""
    lacks_a_term: bool

    @property
    def text(self) -> str:
        """The best."""
        return self.texts[0].text


class Translator(Task):
    """Translates texts, by an encoder with a decoder (Marian, NLLB-200, T5 ...), as `pumice translate` does.

        translator = pumice.Translator("nllb-200-distilled-600M", source="English", target="German")
        print(translator.translate("Good morning."))

    source, target: languages by their names in English or their codes. task: that the model's settings define. prefix: put before each
    text. glossary: fixed terms, a dict. sentences: each by itself. alignment: links words. The others say how it writes, as
    pumice_writing_options does: beams, n_best, together (texts that run together) ...
    """

    _kind = "translator"
    _HAS_WORK = True

    def __init__(self, model: Union[Model, str, os.PathLike], *, source: Optional[str] = None, target: Optional[str] = None,
                 task: Optional[str] = None, prefix: Optional[str] = None, glossary: Optional[Dict[str, str]] = None,
                 input_tokens: Optional[int] = None, sentences: bool = False, alignment: bool = False, beams: Optional[int] = None,
                 n_best: Optional[int] = None, length_penalty: Optional[float] = None, early_stopping: Optional[str] = None,
                 no_repeat_ngram: Optional[int] = None, max_tokens: Optional[int] = None, together: Optional[int] = None,
                 scores: bool = False, sampling: Optional[Dict[str, Any]] = None, **load: Any) -> None:
        terms = None if glossary is None else "".join(f"{term}\t{meaning}\n" for term, meaning in glossary.items())
        writing = writing_structure(beams, n_best, length_penalty, early_stopping, no_repeat_ngram, max_tokens, together, scores, sampling)
        self._create(model, load, source_language=source, target_language=target, task=task, prefix=prefix, glossary=terms,
                     input_tokens=input_tokens, sentences=sentences, alignment=alignment, writing=writing)

    def translate(self, texts: Union[str, Sequence[str]]) -> Any:
        """The translation of a text; of a list, the list of them."""
        items, single = one_or_all(texts, is_text)
        results = [each.text for each in self.translations(items)]
        return results[0] if single else results

    def translations(self, texts: Sequence[str]) -> List[Translation]:
        """The same with tokens, scores, rivals and sentences."""
        array = text_array(texts)
        results: List[Translation] = []
        if not len(array):
            return results
        with self._turn() as pointer:
            self._run(pointer, lib.pumice_translator_translate, array, len(array))
            for index in range(len(array)):
                found = ctypes.POINTER(_bindings.pumice_translation)()
                call(lib.pumice_translator_result, pointer, index, ctypes.byref(found))
                each = found.contents
                sentences = [Sentence(decoded(one.source), [written_of(text) for text in one.texts[:one.text_count]])
                             for one in each.sentences[:each.sentence_count]] if each.sentence_count else []
                results.append(Translation([written_of(text) for text in each.texts[:each.text_count]], sentences, each.truncated,
                                           each.lacks_a_term))
        return results
