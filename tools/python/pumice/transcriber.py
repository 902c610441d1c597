"""Speech to text."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _bindings
from ._library import lib
from ._structures import decoded
from .arrays import Sound, samples_of
from .model import Model
from .options import form_structure
from .tasks import Task


class Word(NamedTuple):
    """A word with the space before it; times are seconds."""

    start: float
    end: float
    text: str
    probability: float


class Segment(NamedTuple):
    """What was said in a part of a sound; times are seconds."""

    start: float
    end: float
    text: str
    words: List[Word]
    """With words=True."""
    tokens: List[int]
    log_probability: float
    no_speech: float
    temperature: float
    compression_ratio: float


class Transcript(NamedTuple):
    """What was said in a sound."""

    text: str
    segments: List[Segment]
    language: str
    """Its code, "en"; "" if it is not known."""
    language_probability: float


class Transcriber(Task):
    """Writes down speech, by Whisper or wav2vec 2.0, as `pumice transcribe` does.

        transcriber = pumice.Transcriber("ggml-base.bin")
        print(transcriber.transcribe(samples, rate=44100).text)

    language: its code, "en"; None: detected. translate: into English. words: when each word was spoken. prompt: names, the topic.
    The others are as of pumice_transcriber_options; choices, regex, json_schema and grammar: the form of each window's text.
    """

    _kind = "transcriber"
    _HAS_WORK = True

    def __init__(self, model: Union[Model, str, os.PathLike], *, language: Optional[str] = None, translate: bool = False,
                 timestamps: bool = False, beams: Optional[int] = None, max_tokens: Optional[int] = None, windows: Optional[int] = None,
                 prompt: Optional[str] = None, words: bool = False, no_previous_text: bool = False, no_fallback: bool = False,
                 keep_silence: bool = False, choices: Optional[Sequence[str]] = None, regex: Optional[str] = None,
                 json_schema: Any = None, grammar: Optional[str] = None, **load: Any) -> None:
        form = form_structure({"choices": choices, "regex": regex, "json_schema": json_schema, "grammar": grammar})
        self._create(model, load, language=language, translate=translate, timestamps=timestamps, beams=beams, max_tokens=max_tokens,
                     windows=windows, prompt=prompt, words=words, no_previous_text=no_previous_text, no_fallback=no_fallback,
                     keep_silence=keep_silence, form=form)

    def transcribe(self, sound: Sound, rate: int = 0, on_segment: Optional[Callable[[Segment], Any]] = None) -> Transcript:
        """Writes down a sound of any length.

        sound: samples as an array of numpy's or a list, or the path of a WAV file.
        rate: samples a second; 0: the model's own, 16,000.
        on_segment: called with each segment as soon as it is written down.
        """
        samples, count, rate = samples_of(sound, rate)
        segments: List[Segment] = []
        failed: List[BaseException] = []

        def take(_user: Any, segment: Any) -> None:
            segments.append(_segment_of(segment.contents))
            if on_segment and not failed:
                try:
                    on_segment(segments[-1])
                except BaseException as error:
                    failed.append(error)
                    self._cancel()

        function = _bindings.pumice_segment_function(take)
        with self._turn() as pointer:
            try:
                self._run(pointer, lib.pumice_transcriber_transcribe, samples, count, rate, function, None)
            except Exception:
                if not failed:
                    raise
            if failed:
                raise failed[0]
            language, probability = self._language(pointer)
        return Transcript("".join(segment.text for segment in segments).strip(), segments, language, probability)

    def detect(self, sound: Sound, rate: int = 0) -> Tuple[str, float]:
        """The code of the language that is spoken, "" if nobody speaks, and how probable it is."""
        samples, count, rate = samples_of(sound, rate)
        with self._turn() as pointer:
            self._run(pointer, lib.pumice_transcriber_detect, samples, count, rate)
            return self._language(pointer)

    @staticmethod
    def _language(pointer: Any) -> Tuple[str, float]:
        probability = ctypes.c_float()
        code = decoded(lib.pumice_transcriber_language(pointer, ctypes.byref(probability)))
        return code, probability.value


def _segment_of(each: Any) -> Segment:
    words = [Word(word.start_us / 1e6, word.end_us / 1e6, decoded(word.text), word.probability)
             for word in each.words[:each.word_count]] if each.word_count else []
    return Segment(each.start_us / 1e6, each.end_us / 1e6, decoded(each.text), words,
                   each.tokens[:each.token_count] if each.token_count else [], each.log_probability, each.no_speech, each.temperature,
                   each.compression_ratio)
