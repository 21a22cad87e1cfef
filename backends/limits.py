"""What a call of a graph may look like, as the plain literals that backends/numpy/border.py checks it by."""

from __future__ import annotations

from ..compiler.ir import Graph, Node, walk_all
from ..compiler.reference import MASKS, length_names
from .numpy.border import InputRow, LimitRow, MaskRow


def input_rows(graph: Graph) -> tuple[InputRow, ...]:
    """(name, kind, names of the dimensions, whether it is needed) of each input."""
    return tuple(
        (
            one.name,
            one.kind,
            tuple(str(a.size) if isinstance(a.size, int) else a.name for a in one.axes),
            one.required,
        )
        for one in graph.inputs
    )


def mask_rows(graph: Graph) -> tuple[MaskRow, ...]:
    """(mask, the input whose length it masks)."""
    found = []
    names = length_names(graph)
    for mask, place in MASKS.items():
        if place < len(names):
            length = names[place]
            masked = [one for one in graph.inputs if any(str(axis.size) == length for axis in one.axes)]
            found.append((mask, next((one for one in masked if one.required), masked[0]).name))
    return tuple(found)


def limit_rows(graph: Graph) -> tuple[LimitRow, ...]:
    """(input or "position", table, limit) of every table of weights that is picked by an input as it comes.

    Only models: an objective's labels may be out of range where a condition leaves them out.
    """
    if graph.batch is None:
        return ()
    nodes = list(walk_all(graph.roots))
    guarded = {arg for one in nodes if one.op == "map" and one["fn"] == "where" for arg in one.args[1:]}
    found: dict[LimitRow, None] = {}
    for one in nodes:
        if one.op != "pick" or one in guarded or one.args[0].op != "weight":
            continue
        for axis, place in zip(one["keys"], one.args[1:], strict=True):
            source = _source(place)
            if source is not None and isinstance(axis.size, int):
                name, shift = source
                found[name, f"{one.args[0]['name']}[{axis.name}]", axis.size - shift] = None
    if not any(name == "position" for name, _, _ in found) and any(one.op == "position" for one in nodes):
        found["position", "", 1 << 40] = None  # position_ids are an input all the same
    return tuple(found)


def checked_picks(graph: Graph) -> set[Node]:
    """The picks from tables whose numbers the border has checked: their rows exist."""
    nodes = list(walk_all(graph.roots))
    guarded = {arg for one in nodes if one.op == "map" and one["fn"] == "where" for arg in one.args[1:]}
    picks = [one for one in nodes if one.op == "pick" and one.args[0].op == "weight" and one not in guarded]
    sources = {one: [_source(place) for place in one.args[1:]] for one in picks}
    return {one for one in picks if all(source is not None and source[1] >= 0 for source in sources[one])}


def _source(place: Node) -> tuple[str, int] | None:
    """The input (or the position) that a place is a copy of, and what is added to it."""
    shift = 0
    while True:
        if place.op == "input":
            return str(place["name"]), shift
        if place.op == "position":
            return "position", shift
        if place.op in ("rename", "widen"):
            place = place.args[0]
        elif place.op == "map" and place["fn"] == "+" and place.args[1].op == "const":
            shift += int(place.args[1]["value"])
            place = place.args[0]
        else:
            return None
