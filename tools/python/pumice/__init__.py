"""Pumice: transformer models on any Vulkan 1.2 device.

    import pumice

    model = pumice.Model("model.gguf")
    print(model.generate("Once upon a time", max_tokens=50))

    chat = pumice.Chat("chat.gguf")
    for piece in chat.stream("What does a cow say?"):
        print(piece, end="", flush=True)

Model, Session and Batch continue texts; Chat talks; Embedder, Reranker, Classifier, Filler, TextIndex, Translator, Captioner,
Transcriber and Encoder are the other tasks; Device, Adapter and estimate() are around them. What goes wrong is an Error.

numpy and Pillow are used where they are installed: vectors are then arrays, and pictures may be files.
"""
from ._bindings import VERSION as _HEADER_VERSION
from ._library import lib as _lib, version_of as _version_of
from .adapter import Adapter
from .batch import Batch
from .captioner import Captioner
from .chat import Answer, Chat
from .classifier import Classifier
from .device import Device, Memory
from .embedder import Embedder
from .encoder import Encoder
from .errors import (Cancelled, Code, ContextFull, DeviceLost, Error, InternalError, InvalidArgument, InvalidFile, IOFailure, NotFound,
                     NotReady, OutOfMemory, Unsupported)
from .filler import Fill, Filler
from .index import Passage, TextIndex
from .memory import Estimate, estimate
from .model import Info, Model
from .options import Form, Options, Sampling, usual_sampling
from .reranker import Ranked, Reranker
from .session import Score, Session
from .stream import Event, Stream, Text, TokenProbability
from .tools import Call, Tool
from .transcriber import Segment, Transcriber, Transcript, Word
from .translator import Sentence, Translation, Translator
from .writing import Written

__all__ = [
    "Adapter", "Answer", "Batch", "Call", "Cancelled", "Captioner", "Chat", "Classifier", "Code", "ContextFull",
    "Device", "DeviceLost", "Embedder", "Encoder", "Error", "Estimate", "Event", "Fill", "Filler", "Form",
    "IOFailure", "Info", "InternalError", "InvalidArgument", "InvalidFile", "Memory", "Model", "NotFound", "NotReady",
    "Options", "OutOfMemory", "Passage", "Ranked", "Reranker", "Sampling", "Score", "Segment", "Sentence", "Session",
    "Stream", "Text", "TextIndex", "TokenProbability", "Tool", "Transcriber", "Transcript", "Translation",
    "Translator", "Unsupported", "Word", "Written", "estimate", "usual_sampling", "library_version",
]

__version__ = ".".join(map(str, _HEADER_VERSION))


def library_version() -> str:
    """The version of the library that is running."""
    return ".".join(map(str, _version_of(_lib)))
