"""Run-time text of the PyTorch backend for beam search, and for beams that are drawn; copied into modules that decode.

What a beam is worth, and when a text is done, is as in the transformers library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .choosing import NEVER, narrow_scores

if TYPE_CHECKING:
    from .generation import Search

LOST = -1e9  # what a beam loses that may not be chosen


def search_beams(search: Search) -> Tensor:
    """The new tokens of the best `num_return_sequences` beams of each text, the pad token behind their ends."""
    options, texts, streams = search.options, len(search.tokens), search.streams
    beams, returned, width = options["num_beams"], options["num_return_sequences"], int(search.most.max())
    most, made = search.most, 0
    going = search.tokens.new_full((texts, beams, width), options["pad_token_id"])
    alive, found = torch.arange(texts, device=going.device), going[:, :returned].clone()
    scores = torch.full((texts, beams), LOST, dtype=torch.float64, device=going.device)
    done = Done(going.clone(), torch.full_like(scores, NEVER), torch.zeros_like(scores, dtype=torch.long))
    scores[:, 0] = 0  # all begin alike: the first one speaks for them
    longest = 0
    while len(alive):
        logs = next_logs(search)
        total = (logs.reshape(len(alive), beams, -1) + scores[:, :, None]).flatten(1)
        chosen = best_candidates(total, options, [streams[text] for text in alive.tolist()])
        beam, token = chosen // logs.shape[1], chosen % logs.shape[1]
        values, grown = pick_rows(total, chosen), pick_rows(going, beam)
        grown[:, :, made] = token
        ended = search.ended(token, most[:, None])
        made += 1
        worth = (values / made ** options["length_penalty"]).masked_fill(~ended, NEVER)
        done.merge(grown[:, :beams], worth[:, :beams], (ended * made)[:, :beams])
        values = values + LOST * ended
        order = values.sort(dim=1, descending=True, stable=True).indices[:, :beams]
        going, scores, beam, token = (pick_rows(one, order) for one in (grown, values, beam, token))
        leaving = done.closed(scores[:, 0], most, made, options) | ended.all(dim=1)
        found[alive[leaving]] = done.tokens[leaving, :returned]
        longest = max([longest, *done.lengths[leaving, :returned].flatten().tolist()])
        stay = (~leaving).nonzero()[:, 0]
        alive, going, scores, most = alive[stay], going[stay], scores[stay], most[stay]
        done = Done(done.tokens[stay], done.scores[stay], done.lengths[stay])
        if len(alive):
            search.take((stay[:, None] * beams + beam[stay]).flatten())
            search.add(token[stay].flatten())
    return found[:, :, :longest].flatten(0, 1)


class Done:
    """The best beams of each text that have ended: tokens [text, beam, …], scores and lengths (0: a place is free)."""

    def __init__(self, tokens: Tensor, scores: Tensor, lengths: Tensor) -> None:
        self.tokens, self.scores, self.lengths = tokens, scores, lengths

    def merge(self, tokens: Tensor, scores: Tensor, lengths: Tensor) -> None:
        """Takes in beams that are better; those that have not ended have length 0 and score -∞."""
        pairs = (self.tokens, tokens), (self.scores, scores), (self.lengths, lengths)
        both = [torch.cat(pair, dim=1) for pair in pairs]
        order = both[1].sort(dim=1, descending=True, stable=True).indices[:, : self.scores.shape[1]]
        self.tokens, self.scores, self.lengths = (pick_rows(one, order) for one in both)

    def closed(self, best: Tensor, most: Tensor, made: int, options: Mapping[str, Any]) -> Tensor:
        """Which texts are done: all beams have ended, and the best of those that go on is not expected to beat one."""
        early, penalty = options["early_stopping"], options["length_penalty"]
        full = (self.lengths > 0).all(dim=1)
        hoped = best / (most if early == "never" and penalty > 0 else made) ** penalty
        return full if early is True else full & (hoped <= self.scores.amin(dim=1))


def next_logs(search: Search) -> Tensor:
    """The logarithms of the shares [beam, vocab] of the next token, as the options want them."""
    options, logs = search.options, search.scores(logs=True)
    if options["do_sample"]:
        logs = narrow_scores(logs, options, max(2, len(options["ends"]) + 1))
    return logs.log_softmax(dim=1) if options["renormalize_logits"] else logs


def best_candidates(total: Tensor, options: Mapping[str, Any], streams: Sequence[Random]) -> Tensor:
    """The places of the best sums [text, beam · vocab], best first, or of drawn ones: more than can end at once."""
    count = min(options["num_beams"] * max(2, 1 + len(options["ends"])), total.shape[1])
    best = total.topk(count, dim=1).indices.sort(dim=1).values
    if options["do_sample"]:
        for row, stream in enumerate(streams):
            found = draw_without_return(total[row], count, stream)
            best[row, : len(found)] = torch.tensor(found, dtype=torch.long)
    return pick_rows(best, pick_rows(total, best).sort(dim=1, descending=True, stable=True).indices)


def draw_without_return(scores: Tensor, count: int, stream: Random) -> list[int]:
    """Different places, drawn one after the other by the shares e^score; fewer where fewer have a share."""
    shares = (scores.double() - scores.max().double()).exp()
    places = shares.nonzero()[:, 0]
    shares, found = shares[places], list[int]()
    while len(found) < min(count, len(places)):
        sums = shares.cumsum(dim=0)
        place = int((sums <= stream.random() * sums[-1]).sum())
        found.append(int(places[place]))
        shares[place] = 0
    return found


def pick_rows(x: Tensor, order: Tensor) -> Tensor:
    """x[row, order[row, …], …]: entries of each row in another order."""
    return x[torch.arange(len(x), device=x.device)[:, None], order]
