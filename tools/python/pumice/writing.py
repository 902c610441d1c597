"""How translators and captioners write, and what they wrote."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import _bindings
from ._structures import choice, decoded, structure
from .options import sampling_structure


class Written(NamedTuple):
    """A text that was written."""

    text: str
    tokens: List[int]
    score: float
    """With beams, or `scores`: the sum of the tokens' log-probabilities, divided as length_penalty says."""
    alignment: List[Tuple[int, int]]
    """Pairs of a word of the source and of the text's word that comes from it."""


def written_of(each: Any) -> Written:
    pairs = each.alignment[:2 * each.alignment_count] if each.alignment_count else []
    return Written(decoded(each.text), each.tokens[:each.token_count] if each.token_count else [], each.score,
                   list(zip(pairs[::2], pairs[1::2])))


def writing_structure(beams: Optional[int], n_best: Optional[int], length_penalty: Optional[float], early_stopping: Optional[str],
                      no_repeat_ngram: Optional[int], max_tokens: Optional[int], inputs: Optional[int], scores: bool,
                      sampling: Optional[Dict[str, Any]]) -> Any:
    return structure(_bindings.pumice_writing_options, beams=beams, n_best=n_best, length_penalty=length_penalty,
                     early_stopping=choice(early_stopping or "default", _bindings.pumice_early_stopping, "PUMICE_EARLY_STOPPING_",
                                           "early_stopping"),
                     no_repeat_ngram=no_repeat_ngram, max_tokens=max_tokens, inputs=inputs, scores=scores,
                     sampling=sampling_structure(sampling or {}))
