"""Run-time text of the NumPy backend: what the options make of the scores of the next token, and draws by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .generation import Search, Tokens

def adjust_scores(scores: NDArray[Any], search: Search) -> NDArray[Any]:
    """The scores with what must not come at -∞, in the library's order; in place."""
    options, made, vocab = search.options, search.made, scores.shape[1]
    penalty, size, words = (options[name] for name in ("repetition_penalty", "no_repeat_ngram_size", "bad_words_ids"))
    words = [word for word in words if word and word[-1] < vocab and word not in [[end] for end in options["ends"]]]
    for row, length in enumerate(search.lengths if penalty != 1 or size or words else ()):
        seen = search.tokens[row, :length]
        if penalty != 1:
            old = scores[row, seen]
            scores[row, seen] = np.where(old < 0, old * penalty, old / penalty)
        if 0 < size <= length:
            runs = np.lib.stride_tricks.sliding_window_view(seen, size)
            again = (runs[:, :-1] == seen[length + 1 - size :]).all(axis=1)
            scores[row, runs[again, -1]] = -np.inf
        for word in words:
            if word[:-1] == seen[length + 1 - len(word) :].tolist():
                scores[row, word[-1]] = -np.inf
    hidden = [end for end in options["ends"] if end < vocab]
    scores[np.ix_(np.flatnonzero(made < search.least), hidden)] = -np.inf
    first = options["forced_bos_token_id"]
    for rows, forced in (
        (search.lengths == 1, [] if first is None else [first]),
        (made + 1 == search.most, options["forced_eos_token_id"]),
    ):
        if forced:
            scores[rows] = -np.inf
            scores[np.ix_(np.flatnonzero(rows), forced)] = 0
    late = (search.lengths - made == 1) & (first is not None)  # such a prompt begins behind the forced token
    scores[:, [one for one in options["suppress_tokens"] if one < vocab]] = -np.inf
    begin = [one for one in options["begin_suppress_tokens"] if one < vocab]
    scores[np.ix_(np.flatnonzero(made == late), begin)] = -np.inf
    return scores


def narrow_scores(scores: NDArray[Any], options: Mapping[str, Any], keep: int = 1) -> NDArray[Any]:
    """The scores that tokens are drawn by: of one temperature, those that are no candidates at -∞.

    A token is as good as another one of the same score: both are candidates, or none. At least `keep` are.
    """
    scores = scores / options["temperature"]
    width = scores.shape[1]
    if 0 < options["top_k"] < width:
        place = width - min(max(options["top_k"], keep), width)
        scores = cut_below(scores, np.partition(scores, place, axis=1)[:, place])
    if options["top_p"] < 1:
        falling = np.sort(scores, axis=1)[:, ::-1]
        shares = np.exp(falling - falling[:, :1])
        before = np.cumsum(shares, axis=1) - shares
        inside = (before < options["top_p"] * shares.sum(axis=1, keepdims=True)).sum(axis=1)
        scores = cut_below(scores, falling[np.arange(len(falling)), np.maximum(inside, min(keep, width)) - 1])
    if options["min_p"]:
        place = width - min(keep, width)
        least = scores.max(axis=1) + np.log(options["min_p"])
        scores = cut_below(scores, np.minimum(least, np.partition(scores, place, axis=1)[:, place]))
    return scores


def cut_below(scores: NDArray[Any], least: NDArray[Any]) -> NDArray[Any]:
    """The scores with those below a row's least one at -∞."""
    return np.where(scores < least[:, None], -np.inf, scores)


def draw_tokens(scores: NDArray[Any], streams: Sequence[Random]) -> Tokens:
    """A token of each row: one number of its stream, on the running sum of the shares e^score."""
    shares = np.exp(np.asarray(scores, np.float64) - scores.max(axis=1, keepdims=True))
    sums = np.cumsum(shares, axis=1)
    points = np.array([stream.random() for stream in streams]) * sums[:, -1]
    return np.asarray((sums <= points[:, None]).sum(axis=1), np.int64)
