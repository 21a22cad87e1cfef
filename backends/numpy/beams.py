"""Run-time text of the NumPy backend for beam search, and for beams that are drawn; copied into modules that decode.

What a beam is worth, and when a text is done, is as in the transformers library.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .choosing import narrow_scores
from .kernels import log_softmax

if TYPE_CHECKING:
    from .generation import Search, Tokens

LOST = -1e9  # what a beam loses that may not be chosen


def search_beams(search: Search) -> Tokens:
    """The new tokens of the best `num_return_sequences` beams of each text, the pad token behind their ends."""
    options, texts, streams = search.options, len(search.tokens), search.streams
    beams, returned, width = options["num_beams"], options["num_return_sequences"], int(search.most.max())
    most, alive, made = search.most, np.arange(texts), 0
    going = np.full((texts, beams, width), options["pad_token_id"], np.int64)
    scores = np.full((texts, beams), LOST)
    scores[:, 0] = 0  # all begin alike: the first one speaks for them
    done = Done(going.copy(), np.full((texts, beams), -np.inf), np.zeros((texts, beams), np.int64))
    found = np.full((texts, returned, width), options["pad_token_id"], np.int64)
    longest = 0
    while len(alive):
        logs = next_logs(search)
        total = (logs.reshape(len(alive), beams, -1) + scores[:, :, None]).reshape(len(alive), -1)
        chosen = best_candidates(total, options, [streams[text] for text in alive])
        beam, token = np.divmod(chosen, logs.shape[1])
        values, grown = pick_rows(total, chosen), pick_rows(going, beam)
        grown[:, :, made] = token
        ended = search.ended(token, most[:, None])
        made += 1
        worth = np.where(ended, values / made ** options["length_penalty"], -np.inf)
        done.merge(grown[:, :beams], worth[:, :beams], np.where(ended, made, 0)[:, :beams])
        values = values + LOST * ended
        order = np.argsort(-values, axis=1, kind="stable")[:, :beams]
        going, scores, beam, token = (pick_rows(one, order) for one in (grown, values, beam, token))
        leaving = done.closed(scores[:, 0], most, made, options) | ended.all(axis=1)
        found[alive[leaving]] = done.tokens[leaving, :returned]
        longest = max(longest, int(done.lengths[leaving, :returned].max(initial=0)))
        stay = np.flatnonzero(~leaving)
        alive, going, scores, most = alive[stay], going[stay], scores[stay], most[stay]
        done = Done(done.tokens[stay], done.scores[stay], done.lengths[stay])
        if len(alive):
            search.take((stay[:, None] * beams + beam[stay]).reshape(-1))
            search.add(token[stay].reshape(-1))
    return found[:, :, :longest].reshape(texts * returned, longest)


class Done:
    """The best beams of each text that have ended: tokens [text, beam, …], scores and lengths (0: a place is free)."""

    def __init__(self, tokens: Tokens, scores: NDArray[Any], lengths: Tokens) -> None:
        self.tokens, self.scores, self.lengths = tokens, scores, lengths

    def merge(self, tokens: Tokens, scores: NDArray[Any], lengths: Tokens) -> None:
        """Takes in beams that are better; those that have not ended have length 0 and score -∞."""
        pairs = (self.tokens, tokens), (self.scores, scores), (self.lengths, lengths)
        both = [np.concatenate(pair, axis=1) for pair in pairs]
        order = np.argsort(-both[1], axis=1, kind="stable")[:, : self.scores.shape[1]]
        self.tokens, self.scores, self.lengths = (pick_rows(one, order) for one in both)

    def closed(self, best: NDArray[Any], most: Tokens, made: int, options: Any) -> NDArray[np.bool_]:
        """Which texts are done: all beams have ended, and the best of those that go on is not expected to beat one."""
        early, penalty = options["early_stopping"], options["length_penalty"]
        full = (self.lengths > 0).all(axis=1)
        hoped = best / (most if early == "never" and penalty > 0 else made) ** penalty
        return np.asarray(full if early is True else full & (hoped <= self.scores.min(axis=1)))


def next_logs(search: Search) -> NDArray[Any]:
    """The logarithms of the shares [beam, vocab] of the next token, as the options want them."""
    options, logs = search.options, search.scores(logs=True)
    if options["do_sample"]:
        logs = narrow_scores(logs, options, max(2, len(options["ends"]) + 1))
    return log_softmax(logs) if options["renormalize_logits"] else logs


def best_candidates(total: NDArray[Any], options: Any, streams: Sequence[Random]) -> Tokens:
    """The places of the best sums [text, beam · vocab], best first, or of drawn ones: more than can end at once."""
    count = min(options["num_beams"] * max(2, 1 + len(options["ends"])), total.shape[1])
    best = np.sort(np.argpartition(total, total.shape[1] - count, axis=1)[:, total.shape[1] - count :], axis=1)
    if options["do_sample"]:
        for row, stream in enumerate(streams):
            found = draw_without_return(total[row], count, stream)
            best[row, : len(found)] = found
    return pick_rows(best, np.argsort(-pick_rows(total, best), axis=1, kind="stable"))


def draw_without_return(scores: NDArray[Any], count: int, stream: Random) -> list[int]:
    """Different places, drawn one after the other by the shares e^score; fewer where fewer have a share."""
    shares = np.exp(np.asarray(scores, np.float64) - scores.max())
    places = np.flatnonzero(shares)
    shares, found = shares[places], list[int]()
    while len(found) < min(count, len(places)):
        sums = np.cumsum(shares)
        place = int((sums <= stream.random() * sums[-1]).sum())
        found.append(int(places[place]))
        shares[place] = 0
    return found


def pick_rows(x: NDArray[Any], order: NDArray[Any]) -> NDArray[Any]:
    """x[row, order[row, …], …]: entries of each row in another order."""
    return np.asarray(x[np.arange(len(x))[:, None], order])
