"""How a text is generated: the keyword arguments of generate(), stream(), ask() and others."""
from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING, Any, Dict, Mapping, Sequence, Union

from . import _bindings
from ._library import call, lib
from ._structures import members, structure

if TYPE_CHECKING:
    from typing import TypedDict

    from .adapter import Adapter
else:
    try:
        from typing import TypedDict
    except ImportError:
        TypedDict = dict


class Sampling(TypedDict, total=False):
    """How tokens are chosen. Without any of these, the most probable token each time. pumice_sampling in pumice.h says what is
    allowed; see also usual_sampling()."""

    temperature: float
    top_k: int
    typical_p: float
    top_p: float
    min_p: float
    repeat_penalty: float
    frequency_penalty: float
    presence_penalty: float
    repeat_window: int
    seed: int
    stop_tokens: Sequence[int]
    banned_tokens: Sequence[int]
    logit_biases: Dict[int, float]
    log_probabilities: int
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    dynatemp_range: float
    dynatemp_exponent: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: Sequence[str]
    samplers: str


class Form(TypedDict, total=False):
    """The form that a text must have: one of these. Only tokens that fit it are drawn, so that a program can read the text."""

    choices: Sequence[str]
    """One of these texts."""
    regex: str
    """The whole text matches it; in the dialect of ECMAScript."""
    json_schema: Union[dict, str, type]
    """JSON that is valid for it: a schema as a dict or as JSON, or a class with model_json_schema(), as pydantic's have."""
    grammar: str
    """GBNF as llama.cpp has it, or Lark as llguidance has it."""


class Options(Sampling, Form, total=False):
    """All that generate() and its like take by name, beside what they document themselves."""

    max_tokens: int
    """Most tokens to generate; otherwise to the end of the text or of the context."""
    stop: Union[str, Sequence[str]]
    """Texts that end the text, which ends before them."""
    ignore_end: bool
    """Does not stop at the model's own end tokens."""
    adapter: Adapter
    """Of a session or a batch with adapters."""
    adapter_scale: float


SAMPLING = {name for name in members(_bindings.pumice_sampling)
            if name not in ("struct_size", "reserved") and not name.endswith("_count")}
FORM = {"choices", "regex", "json_schema", "grammar"}


def usual_sampling() -> Sampling:
    """What `pumice chat` and `pumice run` draw with: generate(..., **usual_sampling())."""
    sampling = structure(_bindings.pumice_sampling)
    call(lib.pumice_sampling_usual, ctypes.byref(sampling))
    values = {name: getattr(sampling, name) for name in SAMPLING}
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()
            if isinstance(value, (int, float)) and value}  # type: ignore[return-value]


def schema_text(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    if hasattr(schema, "model_json_schema"):
        schema = schema.model_json_schema()
    return json.dumps(schema)


def form_structure(values: Mapping[str, Any]) -> Any:
    """A pumice_form of those that are in `values`, or None."""
    form = {name: value for name, value in values.items() if name in FORM and value is not None}
    if not form:
        return None
    if "json_schema" in form:
        form["json_schema"] = schema_text(form["json_schema"])
    return structure(_bindings.pumice_form, **form)


def sampling_structure(values: Mapping[str, Any]) -> Any:
    """A pumice_sampling of those that are in `values`, or None."""
    sampling = {name: value for name, value in values.items() if name in SAMPLING and value is not None}
    if not sampling:
        return None
    biases = sampling.get("logit_biases")
    if biases is not None:
        sampling["logit_biases"] = [_bindings.pumice_logit_bias(token, bias) for token, bias in dict(biases).items()]
    return structure(_bindings.pumice_sampling, **sampling)


def prompt_members(prompt: Any) -> Dict[str, Any]:
    """What of a pumice_request a prompt is: a text, or tokens."""
    if isinstance(prompt, str):
        return {"text": prompt}
    if isinstance(prompt, bytes) or not hasattr(prompt, "__iter__"):
        raise TypeError(f"the prompt is {prompt!r}: expected a text, or a list of tokens")
    return {"tokens": prompt}


REQUEST = {"max_tokens", "ignore_end", "adapter_scale"}


def request(options: Mapping[str, Any], **more: Any) -> Any:
    """A pumice_request of a call's options, and of what the caller adds."""
    known = SAMPLING | FORM | REQUEST | {"stop", "adapter"}
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}: expected one of {', '.join(sorted(known))}")
    stop = options.get("stop")
    adapter = options.get("adapter")
    result = structure(_bindings.pumice_request, sampling=sampling_structure(options), form=form_structure(options),
                       stops=[stop] if isinstance(stop, str) else stop,
                       **{name: options.get(name) for name in REQUEST}, **more)
    if adapter is not None:
        result.adapter = adapter._pointer
        result.kept = adapter
    return result
