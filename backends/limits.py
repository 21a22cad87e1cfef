"""What a call of a graph may look like, as the plain literals that backends/numpy/border.py checks it by."""

from __future__ import annotations

from collections.abc import Sequence

from ..compiler import kernels
from ..compiler.ir import Axis, Graph, Input, Node, Origin, at_selected, const, walk_all
from ..compiler.passes.running import added
from ..compiler.reference import mask_names
from .numpy.border import SPANNED, InputRow, LimitRow, MaskRow

GIVEN = ("input", "position", "random", "append", "keep", "stored")
"""Operations that depend on what the caller gives, in this call or an earlier one."""


def input_rows(graph: Graph) -> tuple[InputRow, ...]:
    """(name, kind, names of the dimensions, whether it is needed) of each input."""
    return tuple(
        (
            one.name,
            one.kind,
            _dimensions(graph, one),
            one.instead or one.required,
        )
        for one in graph.inputs
    )


def _dimensions(graph: Graph, one: Input) -> tuple[str, ...]:
    names = tuple(str(a.size) if isinstance(a.size, int) else a.name for a in one.axes)
    if graph.groups is not None:
        return names if graph.groups[0] in one.axes else (*map(str, graph.groups), *names[1:])
    return (*names[:1], graph.each, *names[1:]) if graph.each else names


def mask_rows(graph: Graph) -> tuple[MaskRow, ...]:
    """(mask, the input whose length it masks)."""
    found = []
    for length, mask in mask_names(graph).items():
        masked = [one for one in graph.inputs if any(str(axis.size) == length for axis in one.axes)]
        found.append((mask, next((one for one in masked if one.required), masked[0]).name))
    return tuple(found)


def limit_rows(graph: Graph) -> tuple[LimitRow, ...]:
    """(input, "position" or "length of …", table, limit) of every table that is picked by such numbers as they come.

    Only models: an objective's labels may be out of range where a condition leaves them out.
    """
    if graph.batch is None:
        return ()
    nodes = list(walk_all(graph.roots))
    guarded = {arg for one in nodes if one.op == "map" and one["fn"] == "where" for arg in one.args[1:]}
    found: dict[LimitRow, None] = {}
    for one in nodes:
        if one.op != "pick" or one in guarded or not _is_table(one.args[0]):
            continue
        for axis, place in zip(one["keys"], one.args[1:], strict=True):
            source, shift = source_of(place, ("input", "position", "index"))
            name = _limited(graph, source)
            if name and isinstance(axis.size, int):
                table = f"{_named(graph, one.args[0])}[{axis.name}]"
                found[name, table, axis.size - shift] = None
                if (counted := _counted(place)) is not None:
                    found[counted[0], table, axis.size - counted[1]] = None
    if not any(name == "position" for name, _, _ in found) and any(one.op == "position" for one in nodes):
        found["position", "", 1 << 40] = None  # position_ids are an input all the same
    order = [one.name for one in graph.inputs]  # a text that is too long is told before one that is made of it
    return tuple(sorted(found, key=lambda row: _rank(row[0].removeprefix(SPANNED), order)))


def _rank(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else 0


def _limited(graph: Graph, source: Node | None) -> str:
    """What an input, a position or an index limits, by name: itself, or a length; '' if nothing that is given."""
    if source is None or source.op == "position":
        return "" if source is None else "position"
    if source.op == "input":
        return str(source["name"])
    size = source["axis"].size
    along = [one for one in graph.inputs if any(axis.size == size and axis.counted for axis in one.axes)]
    return SPANNED + along[0].name if along else ""


def _is_table(one: Node) -> bool:
    """Whether a value is the same in each call: a weight, or what is made of nothing that is given."""
    if one.op == "weight":
        return True
    return not any(here.op in GIVEN or any(axis.ragged for axis in here.axes) for here in walk_all((one,)))


def _named(graph: Graph, table: Node) -> str:
    """The name of a table."""
    return str(table["name"]) if table.op == "weight" else graph.origins.get(table, Origin()).name or "of the spec"


def checked_picks(graph: Graph) -> set[Node]:
    """The picks from tables whose numbers the border has checked: their rows exist."""
    nodes = list(walk_all(graph.roots))
    guarded = {arg for one in nodes if one.op == "map" and one["fn"] == "where" for arg in one.args[1:]}
    picks = [one for one in nodes if one.op == "pick" and one.args[0].op == "weight" and one not in guarded]
    return {one for one in picks if all(map(_is_checked, one["keys"], one.args[1:]))}


def _is_checked(axis: Axis, place: Node) -> bool:
    """Whether the place is an input, and what stands in where it is not given, if anything, is a row, too."""
    (source, shift), here = source_of(place), _bare(place)
    if source is None or shift < 0:
        return False
    if here.op == "input" and here.args and here.args[0].op == "const":
        return isinstance(axis.size, int) and 0 <= here.args[0]["value"] + shift < axis.size
    return here.op != "input" or not here.args or _counted(place) is not None


def _bare(one: Node) -> Node:
    while one.op in ("rename", "widen") or picks_rows(one):
        one = one.args[0]
    return one


def picks_rows(one: Node) -> bool:
    """Whether a pick has entries of its value at places that surely exist."""
    return one.op == "pick" and at_selected(one)


def _counted(place: Node) -> tuple[str, int] | None:
    """Positions that count the entries of an input other than one number: told as such, and what is added."""
    place = _bare(place)
    here, shift = place.args[0] if place.op == "input" and place.args else place, 1
    while here.op == "map" and here["fn"] in ("+", "where"):
        if here["fn"] == "where":
            here = here.args[1] if here.args[2] is const(0) else here.args[2]
            continue
        number = next((arg for arg in here.args if arg.op == "const"), None)
        if number is None:
            return None
        shift += int(number["value"])
        here = next(arg for arg in here.args if arg is not number)
    x = kernels.parts(here)["x"] if here.op == "kernel" and here["name"] == "running_sum" else added(here)
    if x is None or x.op != "map" or x["fn"] != "where" or x.args[1:] != (const(1), const(0)):
        return None
    test = x.args[0]
    if test.op != "map" or test["fn"] != "!=" or test.args[0].op != "input" or test.args[1].op != "const" or shift < 1:
        return None
    return f"position of {test.args[0]['name']} != {int(test.args[1]['value'])}", shift


def source_of(place: Node, kinds: Sequence[str] = ("input", "position")) -> tuple[Node | None, int]:
    """The input (position, index) that a place is a copy of, and what is added to it; None if it is no copy."""
    shift = 0
    while place.op not in kinds:
        if place.op in ("rename", "widen") or picks_rows(place):
            place = place.args[0]
        elif place.op == "map" and place["fn"] == "+" and place.args[1].op == "const":
            shift += int(place.args[1]["value"])
            place = place.args[0]
        else:
            return None, shift
    return place, shift
