"""Whether a model decodes: its logits choose among the tokens that it reads, and no row of them looks ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..compiler import kernels, masks, pipeline
from ..compiler.affine import constant, form, greatest
from ..compiler.driver import Compiled
from ..compiler.ir import Axis, Graph, Input, Node, index, walk_all
from .limits import limit_rows, mask_rows, source_of
from .numpy.border import COUNTED

RESULT, PROMPT = "logits", "input_ids"
ALONE = ("index", "position", "rename", "widen", "input", "random")
"""Operations that may name a length and still treat each of its entries by itself."""


@dataclass(frozen=True)
class Decodes:
    """How a model decodes, in the names of its border.

    `ids` are the decoder's tokens and `mask` is theirs; `result` holds scores over `vocab` of them. `source` are the
    inputs that stay as they are: those of an encoder. A text has at most `room` tokens, as many as `table` has places.
    """

    ids: str
    mask: str
    result: str
    vocab: int
    source: tuple[str, ...]
    room: int | None
    table: str

    def literal(self) -> dict[str, Any]:
        """The same for a generated module."""
        return dict(vars(self))


def decodes(compiled: Compiled) -> Decodes | None:
    """How the model decodes, None if it does not."""
    graph = compiled.formula
    out = next((one for one in graph.outputs if one.name == RESULT), None)
    if out is None or graph.batch is None or graph.each or len(out.axes) != 3:
        return None
    _, seq, vocab = out.axes
    limits = [row for row in limit_rows(graph) if row[2] == vocab.size]
    own = [one for one in graph.inputs if any(_alike(axis, seq) for axis in one.axes)]
    ids = next((one for one in own if one.kind == "int" and any(row[0] == one.name for row in limits)), None)
    if ids is None or any(one.required and one is not ids for one in own):
        return None
    masked = dict(mask_rows(graph))
    mask = next((name for name, what in masked.items() if what == ids.name), "")
    source = [one.name for one in graph.inputs if one not in own]
    source += [name for name, what in masked.items() if what in source]
    if not mask or (ids.name != PROMPT and PROMPT not in source) or _looks_ahead(_optimised(compiled), seq):
        return None
    room, table = _room(graph, ids, seq)
    return Decodes(ids.name, mask, RESULT, int(str(vocab.size)), tuple(source), room, table)


def _alike(axis: Axis, seq: Axis) -> bool:
    """Whether an axis counts the same entries."""
    return axis.size == seq.size and axis.owner == seq.owner


def _room(graph: Graph, ids: Input, seq: Axis) -> tuple[int | None, str]:
    """How many tokens a text may have, and the table of positions that says so."""
    found = [(limit, table) for name, table, limit in limit_rows(graph) if name.startswith(f"{COUNTED}{ids.name} ")]
    for one in walk_all(graph.roots):
        if one.op == "pick" and one.args[0].op == "weight":
            for axis, place in zip(one["keys"], one.args[1:], strict=True):
                start, shift = source_of(place)
                if start is not None and start.op == "position" and any(_alike(a, seq) for a in start.axes):
                    found.append((int(axis.size) - shift, f"{one.args[0]['name']}[{axis.name}]"))
    return min(found, default=(None, ""))


# ------------------------------------------------------------------------------------------------ what looks ahead


def _optimised(compiled: Compiled) -> Node:
    """The logits after the passes, which know attention by its meaning."""
    graph = compiled.graph
    if compiled.stages[-1].name == "formula":
        graph = pipeline.run(graph)[0][-1].graph
    return next(one.node for one in graph.outputs if one.name == RESULT)


def _looks_ahead(logits: Node, seq: Axis) -> bool:
    """Whether a row may depend on a later one, as far as can be seen: rows meet in causal attention alone.

    Whatever else reads the length as a whole (a sum, a pick, its size) counts as looking ahead.
    """
    for one in walk_all([logits]):
        if one.op == "kernel" and one["name"] == "attention" and _alike(one["axis"], seq):
            if not _is_causal(one, seq):
                return True
        elif one.op == "kernel" and one["name"] == "running_sum":
            continue
        elif one.op not in ALONE and any(_alike(axis, seq) for axis in _axes(list(one.attrs.values()))):
            return True
    return False


def _axes(values: list[Any]) -> Iterator[Axis]:
    """The axes that attributes name."""
    while values:
        value = values.pop()
        if isinstance(value, Axis):
            yield value
        elif isinstance(value, tuple):
            values.extend(value)


def _is_causal(one: Node, seq: Axis) -> bool:
    """Whether each row of an attention sees keys up to its own place alone."""
    at, axis = kernels.parts(one), one["axis"]
    see = kernels.relation(at, axis)
    rows = [row for row in one.axes if _alike(row, seq)]
    if see is None or len(rows) != 1 or any(_alike(a, seq) for a in _axes([one.get("width")])):
        return False
    found = masks.derive(see, axis, [a for a in see.axes if a != axis])
    own = form(index(rows[0]))
    assert own is not None
    return any(greatest(stop - own - constant(1)) <= 0 for stop in found.stop)
