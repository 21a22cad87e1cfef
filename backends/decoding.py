"""How a model that decodes is spoken to: the names of its border, for the generation in its modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..compiler.decoding import Decoding
from ..compiler.decoding.choose import RESULT
from ..compiler.ir import Graph, Length, walk_all
from .limits import limit_rows, mask_rows, source_of
from .numpy.border import COUNTED, SPANNED

PROMPT = "input_ids"


@dataclass(frozen=True)
class Decodes:
    """The names of a model's parts.

    `ids` are the decoder's tokens and `mask` is theirs; `result` holds scores over `vocab` of them. `source` are inputs
    that stay as they are, those of an encoder, and `limits` say how many ids they know, or how long they may be. A text
    has at most `room` tokens, as many as `table` has places (None: any number).
    """

    ids: str
    mask: str
    result: str
    vocab: int
    source: tuple[str, ...]
    limits: dict[str, int]
    room: int | None
    table: str

    def literal(self) -> dict[str, Any]:
        """The same for a generated module."""
        return dict(vars(self))


def decodes(graph: Graph, decoding: Decoding | None) -> Decodes | None:
    """How the model of a formula is spoken to while it decodes; None if it does not."""
    if decoding is None:
        return None
    (vocab,) = decoding.step.outputs[0].axes[-1:]
    mask = next((name for name, what in mask_rows(graph) if what == decoding.tokens), "")
    begin = decoding.begin
    source = () if begin is None else (*(one.name for one in begin.inputs), *(name for name, _ in mask_rows(begin)))
    if not isinstance(vocab.size, int) or not mask or (decoding.tokens != PROMPT and PROMPT not in source):
        return None
    limits = {name: limit for name, _, limit in limit_rows(graph) if name.removeprefix(SPANNED) in source}
    room, table = _room(graph, decoding)
    return Decodes(decoding.tokens, mask, RESULT, vocab.size, source, limits, room, table)


def _room(graph: Graph, decoding: Decoding) -> tuple[int | None, str]:
    """How many tokens a text may have, and the table of positions that says so."""
    counted = f"{COUNTED}{decoding.tokens} "
    found = [(limit, table) for name, table, limit in limit_rows(graph) if name.startswith(counted)]
    for one in walk_all(graph.roots):
        if one.op == "pick" and one.args[0].op == "weight":
            for axis, place in zip(one["keys"], one.args[1:], strict=True):
                start, shift = source_of(place, ("index", "position"))
                if start is not None and _along(start.axes, decoding.length):
                    found.append((int(axis.size) - shift, f"{one.args[0]['name']}[{axis.name}]"))
    return min(found, default=(None, ""))


def _along(axes: tuple[Any, ...], length: Length) -> bool:
    return any(axis.size == length for axis in axes)
