"""Run-time text of the PyTorch backend that generates tokens; the emitter copies it into modules that decode.

What computes is a decoder. `feed(ids, counts)` takes the new tokens of each row, at first the prompts, at the left and
`counts` of them real (all, if none are given), and gives the logits [rows, vocab] behind the last of them; `take(rows)`
keeps these rows, in this order. A literal says what the model calls its parts (backends/decoding.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ..numpy.options import allowance, is_plain, row_streams, search_options
from .beams import search_beams
from .choosing import adjust_scores, draw_tokens, narrow_scores
from .functions import places


class Recomputed:
    """A decoder without a cache: the model's ordinary call on all tokens so far, at each step."""

    def __init__(self, model: Any, parts: Mapping[str, Any], source: Mapping[str, Tensor]) -> None:
        self.model, self.parts, self.source = model, parts, source
        self.tokens: Any = None

    def feed(self, ids: Tensor, counts: Tensor | None = None) -> Tensor:
        """The logits behind the last of the new tokens."""
        if self.tokens is None:
            self.tokens, self.lengths = ids[:, :0], ids.new_zeros(len(ids))
        self.tokens, self.lengths = extend_rows(self.tokens, self.lengths, ids, counts)
        real = torch.arange(self.tokens.shape[1], device=ids.device) < self.lengths[:, None]
        given = {**self.source, self.parts["ids"]: self.tokens, self.parts["mask"]: real}
        logits: Tensor = self.model(**given)[self.parts["result"]]
        return logits[torch.arange(len(logits), device=ids.device), self.lengths - 1]

    def take(self, rows: Tensor) -> None:
        """Keeps these rows, in this order."""
        self.tokens, self.lengths = self.tokens[rows], self.lengths[rows]
        self.source = {name: value[rows] for name, value in self.source.items()}


def extend_rows(tokens: Tensor, lengths: Tensor, ids: Tensor, counts: Tensor | None) -> tuple[Tensor, Tensor]:
    """(tokens, lengths) of rows with `counts` ids more each; what is behind a row's end does not matter."""
    counts = torch.full_like(lengths, ids.shape[1]) if counts is None else counts
    grown = lengths + counts
    made = tokens.new_zeros((len(tokens), int(grown.max())))
    made[:, : tokens.shape[1]] = tokens[:, : made.shape[1]]
    row, column = (torch.arange(ids.shape[1], device=ids.device) < counts[:, None]).nonzero(as_tuple=True)
    made[row, lengths[row] + column] = ids[row, column]
    return made, grown


class Search:
    """Rows of a generation: their tokens, how many more they may and must get, and the scores of the next one."""

    def __init__(
        self, decoder: Any, tokens: Tensor, lengths: Tensor, options: Mapping[str, Any], allowed: Any, copies: int
    ) -> None:
        self.decoder, self.options, self.copies = decoder, options, copies
        self.tokens, self.lengths = tokens, lengths
        self.new, self.counts = tokens, lengths if bool((lengths < tokens.shape[1]).any()) else None  # not yet fed
        self.most, self.least = (torch.tensor(one, device=tokens.device) for one in allowed)
        self.ends = torch.tensor(options["ends"], dtype=torch.long, device=tokens.device)
        seed = options["seed"]
        if seed is None and options["do_sample"]:
            seed = int(torch.randint(2**62, ()))  # torch's own generator decides: torch.manual_seed repeats it
        self.streams = row_streams(seed, len(tokens), copies if options["num_beams"] == 1 else 1)
        self.made, self.plain = 0, is_plain(options, int(self.least.max()))

    def scores(self, logs: bool = False) -> Tensor:
        """The scores [rows, vocab] of the next token, logarithms of shares if wanted; of `copies` of the prompts."""
        with torch.no_grad():
            scores: Tensor = self.decoder.feed(self.new, self.counts)
        scores = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
        if self.made == 0 and self.copies > 1:
            rows = torch.arange(len(scores), device=scores.device).repeat_interleave(self.copies)
            self.take(rows)
            scores = scores[rows]
        if logs:
            scores = scores.log_softmax(dim=1)
        return scores if self.plain else adjust_scores(scores.clone(), self)

    def take(self, rows: Tensor) -> None:
        """Keeps these rows, in this order."""
        if torch.equal(rows, torch.arange(len(self.tokens), device=rows.device)):
            return
        self.decoder.take(rows)
        self.tokens, self.lengths, self.most, self.least = (
            one[rows] for one in (self.tokens, self.lengths, self.most, self.least)
        )

    def add(self, chosen: Tensor) -> None:
        """A token more for each row."""
        self.new, self.counts = chosen[:, None], None
        self.tokens, self.lengths = extend_rows(self.tokens, self.lengths, self.new, None)
        self.made += 1

    def ended(self, chosen: Tensor, most: Tensor) -> Tensor:
        """Which rows end with these tokens: by the token, or because there is no room for more."""
        return (chosen[..., None] == self.ends).any(dim=-1) | (self.made + 1 >= most)


def search_tokens(search: Search) -> Iterator[Tensor]:
    """Greedy search, or draws: the next token of every row, step after step; the pad token where a row has ended."""
    options, rows = search.options, len(search.tokens) * search.copies
    alive = torch.arange(rows, device=search.tokens.device)
    while len(alive):
        scores = search.scores()
        if options["do_sample"]:
            chosen = draw_tokens(narrow_scores(scores, options), [search.streams[row] for row in alive.tolist()])
        else:
            chosen = scores.argmax(dim=1)
        step = chosen.new_full((rows,), options["pad_token_id"])
        step[alive] = chosen
        going = (~search.ended(chosen, search.most)).nonzero()[:, 0]
        yield step
        alive = alive[going]
        if len(alive):
            search.take(going)
            search.add(chosen[going])


def generate_tokens(
    decoder: Any, parts: Mapping[str, Any], own: Mapping[str, Any], given: Mapping[str, Any], device: Any
) -> Tensor:
    """The prompts as they were given, with the new tokens behind them (an encoder-decoder's: start token first)."""
    prompts, search = begin_search(decoder, parts, own, given, device)
    options = search.options
    new = search_beams(search) if options["num_beams"] > 1 else torch.stack(list(search_tokens(search)), dim=1)
    return torch.cat([prompts.repeat_interleave(options["num_return_sequences"], dim=0), new], dim=1)


def stream_tokens(
    decoder: Any, parts: Mapping[str, Any], own: Mapping[str, Any], given: Mapping[str, Any], device: Any
) -> Iterator[Tensor]:
    """The new tokens [rows], step after step, as soon as they are known."""
    return search_tokens(begin_search(decoder, parts, own, given, device, streaming=True)[1])


def begin_search(
    decoder: Any,
    parts: Mapping[str, Any],
    own: Mapping[str, Any],
    given: Mapping[str, Any],
    device: Any,
    streaming: bool = False,
) -> tuple[Tensor, Search]:
    """The prompts as they are given, and a search that begins with them; ValueError says what cannot be done."""
    names = ("input_ids", "attention_mask", *parts["source"])
    options = search_options({name: given[name] for name in given if name not in names}, own, streaming)
    for name in ("forced_bos_token_id", "forced_eos_token_id", "decoder_start_token_id"):
        wanted = [] if options[name] is None else options[name]
        check_ids(name, torch.as_tensor(wanted, dtype=torch.long), parts["vocab"])
    tensors = {name: given[name] for name in names if given.get(name) is not None}
    tensors = {name: torch.as_tensor(value, device=device) for name, value in tensors.items()}
    ids: Any = tensors.get("input_ids")
    mask: Any = tensors.get("attention_mask")
    source = {name: value for name, value in tensors.items() if name in parts["source"]}
    check_source(source, parts["limits"])
    if "input_ids" in parts["source"]:
        texts, _ = left_tokens(ids, mask, None)
        start = options["decoder_start_token_id"]
        start = options["bos_token_id"] if start is None else start
        if start is None:
            raise ValueError("decoder_start_token_id is needed: the token that a text begins with")
        prompts = tokens = texts.new_full((len(texts), 1), start)
        lengths = torch.ones(len(texts), dtype=torch.long, device=device)
    else:
        if ids is None and options["bos_token_id"] is not None:
            ids = torch.tensor([[options["bos_token_id"]]], device=device)
        if mask is None and options["padding"] is not None and ids is not None:
            mask = ids != options["padding"]
        tokens, lengths = left_tokens(ids, mask, parts["vocab"])
        prompts = ids.long()
    allowed = allowance(options, lengths.tolist(), parts["room"], parts["table"])
    copies = max(options["num_beams"], options["num_return_sequences"])
    made = decoder(**source, room=max(map(sum, zip(lengths.tolist(), allowed[0], strict=True))))
    return prompts, Search(made, tokens, lengths, options, allowed, copies)


def left_tokens(ids: Any, mask: Any, vocab: int | None) -> tuple[Tensor, Tensor]:
    """(tokens, lengths): of each row those that the mask shows, at the left; none may be without."""
    if ids is None:
        raise ValueError("input_ids is needed: the tokens of the prompt")
    if ids.dim() != 2 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise ValueError(f"input_ids should be whole numbers [batch, seq], not {ids.dtype} of shape {list(ids.shape)}")
    see = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0
    if see.shape != ids.shape:
        shapes = list(see.shape), list(ids.shape)
        raise ValueError(f"attention_mask is {shapes[0]}, and input_ids is {shapes[1]}: they should be alike")
    lengths = see.sum(dim=1)
    if not bool(lengths.all()):
        row = int((lengths == 0).nonzero()[0, 0])
        raise ValueError(f"the prompt of row {row} is empty: give it a token, as bos_token_id")
    if vocab is not None:
        check_ids("input_ids", ids[see], vocab)
    order = (~see).long().argsort(dim=1, stable=True)[:, : int(lengths.max())]
    real = torch.arange(order.shape[1], device=ids.device) < lengths[:, None]
    return torch.where(real, ids.long().gather(1, order), 0), lengths


def check_source(source: Mapping[str, Tensor], limits: Mapping[str, int]) -> None:
    """The ids of an encoder are known to it, and its texts fit into its table of positions."""
    for name, limit in limits.items():
        own = name.removeprefix("length of ")
        if own in source and own == name:
            check_ids(own, source[own], limit)
        elif own in source:
            see = source.get("attention_mask", torch.ones(source[own].shape[:2], device=source[own].device))
            length = int(places(see != 0)[2].max())
            if length > limit:
                raise ValueError(f"a text has {length} entries, the table of positions has {limit}: cut or split it")


def check_ids(name: str, values: Tensor, limit: int) -> None:
    """Every id is one of 0 … limit - 1."""
    if values.numel() and not 0 <= int(values.min()) <= int(values.max()) < limit:
        wrong = int(values.min()) if int(values.min()) < 0 else int(values.max())
        raise ValueError(f"{name} holds {wrong}, the rows are 0 … {limit - 1}")
