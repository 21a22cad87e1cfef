"""fold_masks: the relation that attention (or a softmax) sees by, as bounds on the keys of each row and what is left.

Where the number of a step decides about the relation (layers of two kinds), each kind of step has an attention of its
own. A relation that always holds goes. Bounds become the parts `first` and `stop` of an attention, so that a backend
looks at the keys between them alone and makes no table of rows and keys; a condition that is no bound stays as `see`.
A node whose rows surely see a key is marked `full`: it needs no guard against an empty row. Precondition of each fact:
its proof from 0 ≤ index < length, for every length; of a bound: it knows the axes of the row alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...grammar.diagnostics import Span
from .. import ir, kernels, masks, steps
from ..affine import Form, extreme
from ..ir import Axis, Graph, Node, Origin, Size
from ..ledger import Ledger
from ..masks import Facts
from .substitute import substitute

NAME = "fold_masks"
FULL = "every row sees a key: no guard against an empty one"


def run(graph: Graph, ledger: Ledger) -> Graph:
    """The graph with masks as bounds where they are bounds."""
    new: dict[Node, Node] = {}
    named: dict[Node, Origin] = {}
    for one in graph.nodes():
        if one.op != "kernel" or one["name"] not in ("attention", "softmax") or "see" not in one["roles"]:
            continue
        if one.get("full") is not None or "scores" in one["roles"]:  # been here before, or no block of queries and keys
            continue
        span = graph.origins.get(one, Origin()).span
        lengths = masks.inhabited(graph, (axis for axis in one.axes if axis != one["axis"]))
        made = (_of_steps if one["name"] == "attention" else _softmax)(one, lengths, ledger, span)
        new[one] = ir.widen_to(made, one.axes)
        for role, part in _ends(made):
            if part not in graph.origins:
                named[part] = replace(graph.origins.get(one, Origin()), name=role)
    return substitute(replace(graph, origins={**named, **graph.origins}), new) if new else graph


def rows_of(one: Node) -> tuple[Axis, ...]:
    """The axes of an attention's rows: those that the query has and the keys lack, and who owns a length."""
    at = kernels.parts(one)
    rows = [axis for axis in at["query"].axes if axis not in (*at["key"].axes, one["width"])]
    owners = [axis.owner for axis in (*rows, one["axis"]) if axis.owner is not None]
    return tuple(dict.fromkeys((*owners, *rows)))


def _of_steps(one: Node, lengths: frozenset[Size], ledger: Ledger, span: Span | None) -> Node:
    """An attention; where the number of a step decides what it sees, one for either decision."""
    at = kernels.parts(one)
    condition = next(steps.conditions(at["see"]), None)
    if condition is None:
        return _attention(one, lengths, ledger, span)
    ledger.fired(NAME, "steps", "steps of two kinds: an attention for each", span)
    attrs = {name: value for name, value in one.attrs.items() if name not in ("name", "roles")}
    sides = []
    for known in (True, False):
        (see,) = ir.transform([at["see"]], lambda n, now=known: ir.const(now) if n is condition else n)  # type: ignore[misc]
        made = _of_steps(kernels.make("attention", {**at, "see": see}, one.axes, **attrs), lengths, ledger, span)
        sides.append(ir.widen_to(made, one.axes))
    return ir.where(condition, *sides)


def _ends(made: Node) -> Iterator[tuple[str, Node]]:
    """The bounds of an attention, or of those for each kind of step."""
    if made.op == "kernel":
        yield from ((role, part) for role, part in kernels.parts(made).items() if role in ("first", "stop"))
    else:
        for arg in made.args[made.op == "map" :]:
            yield from _ends(arg)


def _attention(one: Node, lengths: frozenset[Size], ledger: Ledger, span: Span | None) -> Node:
    at, axis, rows = kernels.parts(one), one["axis"], rows_of(one)
    found = masks.derive(at["see"], axis, rows)
    if not found.everything:
        _tell_of_rows(at["see"], axis, lengths, ledger, span)
    told = described(found, axis, rows)
    if told:
        ledger.fired(NAME, "bounds", told, span)
    if found.rest is not None:
        ledger.refused(NAME, "bounds", "a relation is bounds on the keys of each row", _why_not(found.rest, axis), span)
    first, stop = (None if end is None else end.node() for end in ends(found))
    parts = {"query": at["query"], "key": at["key"], "value": at["value"], "see": found.rest, "first": first}
    parts |= {"stop": stop, "bias": at.get("bias"), "drop": at.get("drop"), "at": at.get("at")}
    attrs = {name: value for name, value in one.attrs.items() if name not in ("name", "roles")}
    if not found.everything:
        attrs["full"] = not masks.never_empty(at["see"], axis, lengths)
    return kernels.make("attention", parts, _axes(one, parts.values()), **attrs)


def _softmax(one: Node, lengths: frozenset[Size], ledger: Ledger, span: Span | None) -> Node:
    at, axis = kernels.parts(one), one["axis"]
    if masks.derive(at["see"], axis, (a for a in at["see"].axes if a != axis)).everything:
        ledger.fired(NAME, "bounds", described(Facts(), axis, ()), span)
        return kernels.make("softmax", {"x": at["x"]}, _axes(one, [at["x"]]), axis=axis)
    _tell_of_rows(at["see"], axis, lengths, ledger, span)
    return kernels.make("softmax", at, one.axes, axis=axis, full=not masks.never_empty(at["see"], axis, lengths))


def _axes(one: Node, parts: Iterable[Node | None]) -> tuple[Axis, ...]:
    """The axes of the result that the parts have; a mask that is gone may have had more."""
    have = ir.union(part for part in parts if part is not None)
    return tuple(axis for axis in one.axes if axis in have)


def _tell_of_rows(see: Node, axis: Axis, lengths: frozenset[Size], ledger: Ledger, span: Span | None) -> None:
    missing = masks.never_empty(see, axis, lengths)
    if missing:
        ledger.refused(NAME, "full", FULL, missing, span)
    else:
        ledger.fired(NAME, "full", FULL, span)


def ends(found: Facts) -> tuple[Form | None, Form | None]:
    """The first key and the one behind the last, as one number of each row; None where nothing bounds them."""
    return extreme("max", found.first), extreme("min", found.stop)


def described(found: Facts, axis: Axis, rows: tuple[Axis, ...]) -> str:
    """The bounds in words; '' where there are none."""
    if found.everything or found == masks.NOTHING:
        return "the mask always holds: it goes" if found.everything else "no row sees a key"
    first, stop = (None if end is None else end.node() for end in ends(found))
    for row in rows:
        low, high = (masks.offset(end, row, axis) for end in (first, stop))
        if first is None and high is not None:
            return "causal" if high == 1 else f"causal, with {high - 1} keys more" if high > 1 else "strictly causal"
        if low is not None and high is not None:
            return f"a window: {-low} keys before the row to {high - 1} after it"
    if first is None and stop is None:
        return ""
    sides = [name for name, end in (("first", first), ("last", stop)) if end is not None]
    same = not any(row in end.axes for end in (first, stop) if end is not None for row in rows if row is not axis.owner)
    kind = "every row has the same" if same else "each row has its"
    return f"bounds: {kind} {' and '.join(sides)} key"


def _why_not(rest: Node, axis: Axis) -> str:
    """What of a relation is no bound, and why."""
    reads = {one.op for one in ir.walk([rest])}
    if "input" in reads or "carry" in reads:
        alone = all(set(part.axes) <= {axis, axis.owner} for part in masks.conjuncts(rest))
        return "a part depends on the tokens of the keys" if alone else "a part depends on tokens of rows and keys"
    return "what a row sees is no single run of keys"
