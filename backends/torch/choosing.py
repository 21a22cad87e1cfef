"""Run-time text of the PyTorch backend: what the options make of the scores of the next token, and draws by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .generation import Search

NEVER = -float("inf")


def adjust_scores(scores: Tensor, search: Search) -> Tensor:
    """The scores with what must not come at -∞, in the library's order; in place."""
    options, made, vocab = search.options, search.made, scores.shape[1]
    penalty, size, words = (options[name] for name in ("repetition_penalty", "no_repeat_ngram_size", "bad_words_ids"))
    words = [word for word in words if word and word[-1] < vocab and word not in [[end] for end in options["ends"]]]
    for row, length in enumerate(search.lengths.tolist() if penalty != 1 or size or words else ()):
        seen = search.tokens[row, :length]
        if penalty != 1:
            old = scores[row, seen]
            scores[row, seen] = torch.where(old < 0, old * penalty, old / penalty)
        if 0 < size <= length:
            runs = seen.unfold(0, size, 1)
            again = (runs[:, :-1] == seen[length + 1 - size :]).all(dim=1)
            scores[row, runs[again, -1]] = NEVER
        for word in words:
            if word[:-1] == seen[length + 1 - len(word) :].tolist():
                scores[row, word[-1]] = NEVER
    put_scores(scores, made < search.least, [end for end in options["ends"] if end < vocab], NEVER)
    first = options["forced_bos_token_id"]
    for rows, forced in (
        (search.lengths == 1, [] if first is None else [first]),
        (made + 1 == search.most, options["forced_eos_token_id"]),
    ):
        if forced:
            scores[rows] = NEVER
            put_scores(scores, rows, forced, 0.0)
    late = (search.lengths - made == 1) & (first is not None)  # such a prompt begins behind the forced token
    put_scores(scores, slice(None), [one for one in options["suppress_tokens"] if one < vocab], NEVER)
    put_scores(scores, made == late.long(), [one for one in options["begin_suppress_tokens"] if one < vocab], NEVER)
    return scores


def put_scores(scores: Tensor, rows: Any, ids: Sequence[int], value: float) -> None:
    """scores[row, id] = value for all of these rows and ids."""
    for one in ids:
        scores[rows, one] = value


def narrow_scores(scores: Tensor, options: Mapping[str, Any], keep: int = 1) -> Tensor:
    """The scores that tokens are drawn by: of one temperature, those that are no candidates at -∞.

    A token is as good as another one of the same score: both are candidates, or none. At least `keep` are.
    """
    scores = scores / options["temperature"]
    width = scores.shape[1]
    if 0 < options["top_k"] < width:
        scores = cut_below(scores, scores.topk(min(max(options["top_k"], keep), width)).values[:, -1])
    if options["top_p"] < 1:
        whole = (scores - scores.amax(dim=1, keepdim=True)).exp().sum(dim=1, keepdim=True) * options["top_p"]
        count = min(max(512, keep), width)
        while True:  # sorting all of a vocabulary takes longer than what is mostly enough
            falling = scores.topk(count, dim=1).values
            shares = (falling - falling[:, :1]).exp()
            if count == width or bool((shares.sum(dim=1, keepdim=True) >= whole).all()):
                break
            count = min(8 * count, width)
        inside = (shares.cumsum(dim=1) - shares < whole).sum(dim=1)
        scores = cut_below(scores, falling.gather(1, inside.clamp(min=min(keep, width))[:, None] - 1)[:, 0])
    if options["min_p"]:
        least = scores.amax(dim=1) + torch.tensor(options["min_p"], dtype=scores.dtype).log().item()
        scores = cut_below(scores, torch.minimum(least, scores.topk(min(keep, width)).values[:, -1]))
    return scores


def cut_below(scores: Tensor, least: Tensor) -> Tensor:
    """The scores with those below a row's least one at -∞."""
    return scores.masked_fill(scores < least[:, None], NEVER)


def draw_tokens(scores: Tensor, streams: Sequence[Random]) -> Tensor:
    """A token of each row: one number of its stream, on the running sum of the shares e^score."""
    sums = (scores.double() - scores.amax(dim=1, keepdim=True).double()).exp().cumsum(dim=1)
    points = torch.tensor([stream.random() for stream in streams], dtype=sums.dtype, device=sums.device)
    return (sums <= (points * sums[:, -1])[:, None]).sum(dim=1)
