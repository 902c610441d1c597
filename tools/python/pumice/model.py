"""Models."""
from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from . import _bindings
from ._handle import Handle
from ._interrupt import Progress
from ._library import call, lib, text_of, tokens_of
from ._structures import choice, decoded, encoded, members, numbers, structure
from .batch import Batch
from .device import Device, shared
from .options import prompt_members, request
from .progress import Bar, ShowProgress, shown
from .session import Session, processors
from .stream import Event, Stream, Text, Underway

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Options

PathLike = Union[str, os.PathLike]
_PURPOSES = {"text": 0, "vectors": 1, "scores": 2}


class Info(NamedTuple):
    """What a model is; pumice_model_info in pumice.h says more of each member."""

    architecture: str
    has_decoder: bool
    has_encoder: bool
    has_tokenizer: bool
    has_pictures: bool
    vocabulary: int
    context: int
    input_context: int
    input_values: int
    weight_bytes: int
    similarity_scale: float
    similarity_bias: float


class Model(Handle):
    """A model on a device: a GGUF file, or a Hugging Face folder. Any number of threads may use it.

        model = pumice.Model("model.gguf")
        print(model.generate("Once upon a time", max_tokens=50))

    model: the path, or the bytes of a GGUF file.
    device: a Device, or what Device() takes as its name; by default all models share the best one.
    context, cache: of what generate() and stream() use, as of a Session.
    quantize: the type that 16- and 32-bit weights are converted to: "Q8_0", "Q4_0", "Q4_K" ...
    purpose: "text"; or of a decoder "vectors" or "scores", for an Embedder or a Reranker. They load their models themselves.
    vision: loads the encoder of its pictures too; mmproj is llama.cpp's file of it.
    pictures: loads the encoder of its pictures alone, for an Encoder.
    settings: in place of the file's: {"llama.rope.freq_base": "float:500000"}.
    experts: where the weights of a mixture's experts are: "automatic", "device" or "host".
    device_layers: how many layers have their matrices in the device's memory; None: all.
    tune_seconds: how long kernels that are new to the device are measured; below 0 they are not.
    progress: a function of the bytes that are done and of all, or False; by default a bar, at a terminal.
    """

    _kind = "model"

    def __init__(self, model: Union[PathLike, bytes], *, device: Union[Device, str, int, None] = None, context: Optional[int] = None,
                 cache: str = "f16", quantize: Optional[str] = None, purpose: str = "text", vision: bool = False, pictures: bool = False,
                 mmproj: Optional[PathLike] = None, settings: Optional[dict] = None, experts: str = "automatic",
                 device_layers: Optional[int] = None, tune_seconds: float = 0, threads: Optional[int] = None,
                 progress: ShowProgress = True) -> None:
        self._device = shared(device)
        self._vision = bool(vision)
        self._text_settings: Dict[str, Any] = dict(context=context, cache=cache)
        self._sessions = threading.Lock()
        self._idle: List[Session] = []  # of generate() and stream()
        self._busy: Set[Session] = set()
        if purpose not in _PURPOSES:
            raise ValueError(f"purpose is {purpose!r}: expected {', '.join(map(repr, _PURPOSES))}")
        if device_layers == 0:
            device_layers = -1  # the C interface's word for none
        if isinstance(model, (bytes, bytearray)):
            source = self._in_memory(model)
            name = "the model"
        else:
            source = structure(_bindings.pumice_source, path=encoded(model, "model"))
            name = os.path.basename(os.path.normpath(os.fspath(model)))
        bar = shown(progress, f"loading {name}")
        report = Progress(members(_bindings.pumice_load_options)["progress"], bar)
        options = structure(_bindings.pumice_load_options, progress=report.function, threads=threads or processors(), pictures=pictures,
                            quantize=quantize, tune_seconds=tune_seconds, vision=int(vision), purpose=_PURPOSES[purpose],
                            experts=choice(experts, _bindings.pumice_experts, "PUMICE_EXPERTS_", "experts"),
                            device_layers=device_layers,
                            settings=None if settings is None else [f"{key}={value}" for key, value in settings.items()],
                            mmproj=None if mmproj is None else structure(_bindings.pumice_source, path=encoded(mmproj, "mmproj")))
        try:
            with self._device._use() as on_device:
                self._make(lambda made: report.run(lambda: call(lib.pumice_model_load, on_device, source, options, made)))
        finally:
            if isinstance(bar, Bar):
                bar.end()

    def _in_memory(self, data: Union[bytes, bytearray]) -> Any:
        """A source of bytes, which are to be aligned and to outlive the model."""
        room = ctypes.create_string_buffer(len(data) + 32)
        first = -ctypes.addressof(room) % 32
        ctypes.memmove(ctypes.addressof(room) + first, bytes(data), len(data))
        self._bytes = room
        return structure(_bindings.pumice_source, memory=ctypes.addressof(room) + first, bytes=len(data))

    def _destroy(self) -> None:
        for session in self._idle:
            session.close()
        super()._destroy()

    def __repr__(self) -> str:
        return f"<pumice.Model {'closed' if self.closed else self.info.architecture}>"

    # ---- texts ----

    @contextlib.contextmanager
    def _idle_session(self) -> Iterator[Session]:
        """One that nobody else uses: each thread, and each stream that has not ended, has its own."""
        with self._use():
            with self._sessions:
                session = self._idle.pop() if self._idle else None
            if session is None:
                session = Session(self, **self._text_settings)
                session._model = None  # else the model would wait for Python to find that both refer to each other
            self._busy.add(session)
            try:
                yield session
            finally:
                self._busy.discard(session)
                with self._sessions:
                    self._idle.append(session)

    def _cancel(self) -> None:
        for session in list(self._busy):
            session._cancel()

    def _all_events(self, of_request: Any) -> List[Event]:
        with self._idle_session() as session:
            return session._all_events(of_request)

    def _events(self, underway: Underway, of_request: Any) -> Generator[Event, None, None]:
        with self._idle_session() as session:
            yield from session._events(underway, of_request)

    def generate(self, prompt: Union[str, Sequence[int]], **options: "Unpack[Options]") -> Text:
        """The text that follows a prompt, a text or tokens.

        Of the options, see pumice.Options: max_tokens, stop; temperature, top_k, top_p, min_p, seed and others, without which the most
        probable token is taken each time; choices, regex, json_schema or grammar for a text of that form.
        """
        return Text.of(self._all_events(self._request(prompt, options)))

    def stream(self, prompt: Union[str, Sequence[int]], **options: "Unpack[Options]") -> Stream[str]:
        """The same in pieces, as they come: for `for` and `async for`. Leaving the loop ends the text."""
        return self._stream(prompt, options, lambda event: event.text)

    def events(self, prompt: Union[str, Sequence[int]], **options: "Unpack[Options]") -> Stream[Event]:
        """The same as events, with tokens and, if asked for, log-probabilities."""
        return self._stream(prompt, options, lambda event: event)

    def _stream(self, prompt: Any, options: Any, piece: Callable[[Event], Any]) -> Stream:
        of_request = self._request(prompt, options)
        return Stream(lambda underway: self._events(underway, of_request), piece)

    def generate_all(self, prompts: Sequence[Union[str, Sequence[int]]], *, together: int = 16, **options: "Unpack[Options]") -> List[Text]:
        """The texts that follow several prompts, at most `together` of them in the same steps: each as it would be alone, and all in
        little more time than one."""
        if not prompts:
            return []
        with Batch(self, texts=min(together, len(prompts)), **self._text_settings) as batch:
            numbers_of = [batch.add(prompt, **options) for prompt in prompts]
            texts = batch.run()
            return [texts[number] for number in numbers_of]

    @staticmethod
    def _request(prompt: Any, options: Any) -> Any:
        return request(options, new_conversation=True, **prompt_members(prompt))

    def session(self, **settings: Any) -> Session:
        """A conversation of its own; see Session for its settings."""
        return Session(self, **settings)

    # ---- what it is ----

    @property
    def device(self) -> Device:
        """What it is loaded on."""
        return self._device

    @property
    def info(self) -> Info:
        """What it is: its architecture, its vocabulary, its context ..."""
        info = structure(_bindings.pumice_model_info)
        with self._use() as pointer:
            call(lib.pumice_model_get_info, pointer, ctypes.byref(info))
            values = {name: getattr(info, name) for name in Info._fields}
            return Info(**{**values, "architecture": decoded(values["architecture"])})

    # ---- tokens ----

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> List[int]:
        """The tokens of a text; by default with the special tokens that the model expects around it. parse_special: special tokens that
        the text spells become those tokens, in place of staying text."""
        with self._use() as pointer:
            return tokens_of(lib.pumice_model_tokenize, pointer, encoded(text, "text"), add_special | parse_special << 1,
                             room=len(text) + 8)

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        items = numbers(tokens, "tokens")
        with self._use() as pointer:
            return text_of(lib.pumice_model_detokenize, pointer, items, len(items), room=8 * len(items) + 1)

    def find_token(self, name: str) -> int:
        """The token that the vocabulary spells so, special or not: "<|im_end|>"."""
        token = ctypes.c_uint32()
        with self._use() as pointer:
            call(lib.pumice_model_find_token, pointer, encoded(name, "name"), ctypes.byref(token))
        return token.value

    def token_name(self, token: int) -> str:
        """How the vocabulary spells a token."""
        with self._use() as pointer:
            return text_of(lib.pumice_model_token_name, pointer, token, None, room=256)

    def role_tokens(self, role: str) -> List[int]:
        """The tokens with a role: "begin", "end", "unknown", "padding", "separator" or "mask"."""
        number = choice(role, _bindings.pumice_token_role, "PUMICE_ROLE_", "role")
        with self._use() as pointer:
            return tokens_of(lib.pumice_model_role_tokens, pointer, number)

    def tune(self, seconds: Optional[float] = None, *, thorough: bool = False, progress: ShowProgress = True) -> int:
        """Measures which kernels are the fastest on the device. What is created afterwards uses them. Returns for how many classes of
        shapes the fastest kernel was found."""
        options = structure(_bindings.pumice_tune_options, seconds=seconds, thorough=thorough)
        report = structure(_bindings.pumice_tune_report)
        pointer = ctypes.POINTER(_bindings.pumice_tune)()
        bar = shown(progress, "measuring the device")
        done, total = ctypes.c_uint64(), ctypes.c_uint64()
        waiting = threading.Event()
        with self._use() as of_model:
            call(lib.pumice_tune_start, of_model, options, ctypes.byref(pointer))
            try:
                while not lib.pumice_tune_poll(pointer, ctypes.byref(done), ctypes.byref(total)):
                    if bar and bar(done.value, total.value) is False:
                        lib.pumice_work_cancel(lib.pumice_tune_work(pointer))
                    waiting.wait(0.05)
                call(lib.pumice_tune_finish, pointer, ctypes.byref(report))
            finally:
                lib.pumice_tune_destroy(pointer)
                if isinstance(bar, Bar):
                    bar.end()
        return report.classes


def opened(model: Union[Model, PathLike, bytes], **settings: Any) -> Tuple[Model, bool]:
    """A model, and whether it was loaded here."""
    if isinstance(model, Model):
        if settings:
            raise TypeError(f"{', '.join(settings)}: the model is loaded already; hand its path in, or load it so")
        return model, False
    return Model(model, **settings), True
