"""Which values depend on weights and numbers only: they can be prepared once, when a model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from .. import ir
from ..ir import Axis, Node
from ..kernels import is_draw

LEAVES = ("weight", "const", "table", "counter", "index", "size")
PURE = ("map", "contract", "reduce", "pick", "rename", "split", "merge", "concat", "widen", "rank", "kernel")

_known: WeakKeyDictionary[Node, bool] = WeakKeyDictionary()
"""What `is_parameter` has found out: passes ask for the same nodes again and again."""


def is_parameter(one: Node) -> bool:
    """Whether no input, no length and no state of a loop goes into the value."""
    if one not in _known:
        for part in ir.ordered([one], lambda here: () if here in _known else here.args):
            if part not in _known:
                _known[part] = _settled(part) and all(_known[arg] for arg in part.args)
    return _known[one]


def _settled(one: Node) -> bool:
    """Whether the node is a parameter if its arguments are."""
    pure = one.op in LEAVES if not one.args else one.op in PURE and not is_draw(one)
    return pure and not any(axis.ragged for axis in one.axes)


def parameters_among(nodes: Iterable[Node]) -> set[Node]:
    """The nodes for which `is_parameter` holds; they come after their arguments."""
    found: set[Node] = set()
    for one in nodes:
        if _settled(one) and found.issuperset(one.args):
            found.add(one)
    return found


def has_weight(one: Node) -> bool:
    """Whether a weight goes into the value."""
    return any(part.op == "weight" for part in ir.walk([one]))


def stack_picks(one: Node, stacks: Mapping[str, tuple[Axis, ...]]) -> dict[Axis, Node] | None:
    """The numbers by which stacked weights are chosen inside a parameter; None if one axis is chosen by two numbers."""
    found: dict[Axis, Node] = {}
    for part in ir.walk([one], enter=lambda n: not _is_stack_pick(n, stacks)):
        if _is_stack_pick(part, stacks):
            for axis, number in zip(part["keys"], part.args[1:], strict=True):
                if found.setdefault(axis, number) is not number:
                    return None
        elif part.op == "counter":
            return None
    return found


def _is_stack_pick(one: Node, stacks: Mapping[str, tuple[Axis, ...]]) -> bool:
    if one.op != "pick" or one.args[0].op != "weight":
        return False
    stack = stacks.get(one.args[0]["name"], ())
    return bool(stack) and set(one["keys"]) == set(stack)


def of_any_number(one: Node, picks: Mapping[Axis, Node], stacks: Mapping[str, tuple[Axis, ...]]) -> Node:
    """The parameter with a letter for each number that chooses from a stack: one list serves x[l] and x[11]."""
    if not picks:
        return one
    letters = {axis: ir.counter(-1 - place) for place, axis in enumerate(picks)}

    def change(part: Node) -> Node:
        if _is_stack_pick(part, stacks):
            return ir.pick(part.args[0], {axis: letters[axis] for axis in part["keys"]})
        return part

    return ir.transform([one], change)[0]
