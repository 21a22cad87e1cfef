"""Run-time text of the NumPy backend that generates tokens; the emitter copies it into modules that decode.

What computes is a decoder. `feed(ids, counts)` takes the new tokens of each row, at first the prompts, at the left and
`counts` of them real (all, if none are given), and gives the logits [rows, vocab] behind the last of them; `take(rows)`
keeps these rows, in this order. A literal says what the model calls its parts (backends/decoding.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .beams import search_beams
from .border import as_input, check_ids, check_like
from .choosing import adjust_scores, draw_tokens, narrow_scores
from .kernels import log_softmax
from .options import NEUTRAL, SEARCH, allowance, is_plain, row_streams, search_options

Tokens = NDArray[np.int64]


class Recomputed:
    """A decoder without a cache: the model's ordinary call on all tokens so far, at each step."""

    def __init__(self, model: Any, parts: Mapping[str, Any], source: Mapping[str, Any]) -> None:
        self.model, self.parts = model, parts
        self.source = {name: np.asarray(value) for name, value in source.items()}
        self.tokens: Any = None

    def feed(self, ids: Tokens, counts: Tokens | None = None) -> NDArray[Any]:
        """The logits behind the last of the new tokens."""
        if self.tokens is None:
            self.tokens, self.lengths = ids[:, :0], np.zeros(len(ids), np.int64)
        self.tokens, self.lengths = extend_rows(self.tokens, self.lengths, ids, counts)
        real = np.arange(self.tokens.shape[1]) < self.lengths[:, None]
        given = {**self.source, self.parts["ids"]: self.tokens, self.parts["mask"]: real}
        logits: NDArray[Any] = self.model(**given, outputs=[self.parts["result"]])[self.parts["result"]]
        return logits[np.arange(len(logits)), self.lengths - 1]

    def take(self, rows: NDArray[np.intp]) -> None:
        """Keeps these rows, in this order."""
        self.tokens, self.lengths = self.tokens[rows], self.lengths[rows]
        self.source = {name: value[rows] for name, value in self.source.items()}


def extend_rows(tokens: Tokens, lengths: Tokens, ids: Tokens, counts: Tokens | None) -> tuple[Tokens, Tokens]:
    """(tokens, lengths) of rows with `counts` ids more each; what is behind a row's end does not matter."""
    counts = np.full(len(ids), ids.shape[1]) if counts is None else counts
    grown = lengths + counts
    made = np.zeros((len(tokens), int(grown.max(initial=0))), np.int64)
    made[:, : tokens.shape[1]] = tokens[:, : made.shape[1]]
    row, column = np.nonzero(np.arange(ids.shape[1]) < counts[:, None])
    made[row, lengths[row] + column] = ids[row, column]
    return made, grown


class Search:
    """Rows of a generation: their tokens, how many more they may and must get, and the scores of the next one."""

    def __init__(
        self, decoder: Any, tokens: Tokens, lengths: Tokens, options: Mapping[str, Any], allowed: Any, copies: int
    ) -> None:
        self.decoder, self.options, self.copies = decoder, options, copies
        self.tokens, self.lengths = tokens, lengths
        self.new, self.counts = tokens, lengths if (lengths < tokens.shape[1]).any() else None  # not yet fed
        self.most, self.least = (np.array(one) for one in allowed)
        self.ends = np.array(options["ends"], np.int64)
        self.streams = row_streams(options["seed"], len(tokens), copies if options["num_beams"] == 1 else 1)
        self.made, self.plain = 0, is_plain(options, int(self.least.max()))

    def scores(self, logs: bool = False) -> NDArray[Any]:
        """The scores [rows, vocab] of the next token, logarithms of shares if wanted; of `copies` of the prompts."""
        scores = self.decoder.feed(self.new, self.counts)
        if self.made == 0 and self.copies > 1:
            rows = np.repeat(np.arange(len(scores)), self.copies)
            self.take(rows)
            scores = scores[rows]
        if logs:
            scores = log_softmax(np.array(scores))
        return scores if self.plain else adjust_scores(np.array(scores), self)

    def take(self, rows: NDArray[np.intp]) -> None:
        """Keeps these rows, in this order."""
        if np.array_equal(rows, np.arange(len(self.tokens))):
            return
        self.decoder.take(rows)
        self.tokens, self.lengths, self.most, self.least = (
            one[rows] for one in (self.tokens, self.lengths, self.most, self.least)
        )

    def add(self, chosen: Tokens) -> None:
        """A token more for each row."""
        self.new, self.counts = chosen[:, None], None
        self.tokens, self.lengths = extend_rows(self.tokens, self.lengths, self.new, None)
        self.made += 1

    def ended(self, chosen: Tokens, most: Tokens) -> NDArray[np.bool_]:
        """Which rows end with these tokens: by the token, or because there is no room for more."""
        return np.asarray((chosen[..., None] == self.ends).any(axis=-1) | (self.made + 1 >= most))


def search_tokens(search: Search) -> Iterator[Tokens]:
    """Greedy search, or draws: the next token of every row, step after step; the pad token where a row has ended."""
    options, rows = search.options, len(search.tokens) * search.copies
    alive = np.arange(rows)
    while len(alive):
        scores = search.scores()
        if options["do_sample"]:
            chosen = draw_tokens(narrow_scores(scores, options), [search.streams[row] for row in alive])
        else:
            chosen = scores.argmax(axis=1)
        step = np.full(rows, options["pad_token_id"], np.int64)
        step[alive] = chosen
        going = np.flatnonzero(~search.ended(chosen, search.most))
        yield step
        alive = alive[going]
        if len(alive):
            search.take(going)
            search.add(chosen[going])


def generate_tokens(decoder: Any, parts: Mapping[str, Any], own: Mapping[str, Any], given: Mapping[str, Any]) -> Tokens:
    """The prompts as they were given, with the new tokens behind them (an encoder-decoder's: start token first)."""
    prompts, search = begin_search(decoder, parts, own, given)
    options = search.options
    new = search_beams(search) if options["num_beams"] > 1 else np.stack(list(search_tokens(search)), axis=1)
    return np.concatenate([np.repeat(prompts, options["num_return_sequences"], axis=0), new], axis=1)


def stream_tokens(
    decoder: Any, parts: Mapping[str, Any], own: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[Tokens]:
    """The new tokens [rows], step after step, as soon as they are known."""
    return search_tokens(begin_search(decoder, parts, own, given, streaming=True)[1])


def begin_search(
    decoder: Any, parts: Mapping[str, Any], own: Mapping[str, Any], given: Mapping[str, Any], streaming: bool = False
) -> tuple[Tokens, Search]:
    """The prompts as they are given, and a search that begins with them; ValueError says what cannot be done."""
    names = ("input_ids", "attention_mask", *parts["source"])
    options = search_options({name: given[name] for name in given if name not in names}, own, streaming)
    for name in ("forced_bos_token_id", "forced_eos_token_id", "decoder_start_token_id"):
        check_ids(name, np.array([] if options[name] is None else options[name]), parts["vocab"])
    source = {name: np.asarray(given[name]) for name in parts["source"] if given.get(name) is not None}
    if "input_ids" in parts["source"]:
        texts, _ = left_tokens(source.get("input_ids"), source.get("attention_mask"), None)
        start = options["decoder_start_token_id"]
        start = options["bos_token_id"] if start is None else start
        if start is None:
            raise ValueError("decoder_start_token_id is needed: the token that a text begins with")
        prompts = tokens = np.full((len(texts), 1), start, np.int64)
        lengths = np.ones(len(texts), np.int64)
    else:
        ids, mask = given.get("input_ids"), given.get("attention_mask")
        if ids is None and options["bos_token_id"] is not None:
            ids = [[options["bos_token_id"]]]
        ids = None if ids is None else as_input("input_ids", ids, "int")
        if mask is None and options["padding"] is not None and ids is not None:
            mask = ids != options["padding"]
        tokens, lengths = left_tokens(ids, mask, parts["vocab"])
        prompts = np.asarray(ids, np.int64)
    allowed = allowance(options, lengths.tolist(), parts["room"], parts["table"])
    copies = max(options["num_beams"], options["num_return_sequences"])
    room = int((lengths + allowed[0]).max())
    made = decoder(**source, room=room) if parts["source"] else decoder(len(tokens), room)
    return prompts, Search(made, tokens, lengths, options, allowed, copies)


def left_tokens(ids: Any, mask: Any, vocab: int | None) -> tuple[Tokens, Tokens]:
    """(tokens, lengths): of each row those that the mask shows, at the left; none may be without."""
    if ids is None:
        raise ValueError("input_ids is needed: the tokens of the prompt")
    if ids.ndim != 2:
        raise ValueError(f"input_ids should be [batch, seq], not an array of shape {list(ids.shape)}")
    see = np.ones(ids.shape, np.bool_) if mask is None else np.asarray(mask) != 0
    check_like("attention_mask", see, "input_ids", ids.shape)
    lengths = see.sum(axis=1, dtype=np.int64)
    if not lengths.all():
        row = int(np.flatnonzero(lengths == 0)[0])
        raise ValueError(f"the prompt of row {row} is empty: give it a token, as bos_token_id")
    if vocab is not None:
        check_ids("input_ids", ids[see], vocab)
    order = np.argsort(~see, axis=1, kind="stable")[:, : int(lengths.max(initial=0))]
    return np.where(np.arange(order.shape[1]) < lengths[:, None], np.take_along_axis(ids, order, axis=1), 0), lengths


def read_generation(path: str | Path, own: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the folder's generation_config.json asks for; without that file, the module's own."""
    file = Path(path) / "generation_config.json"
    if not file.is_file():
        return dict(own)
    try:
        keys = json.loads(file.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as fault:
        raise ValueError(f"{file} is not valid JSON: {fault}") from None
    if not isinstance(keys, dict):
        raise ValueError(f"{file} should hold an object with keys")
    return {name: value for name, value in keys.items() if value is not None and name in {**SEARCH, **NEUTRAL}}
