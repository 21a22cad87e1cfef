"""Which values depend on weights and numbers only: they can be prepared once, when a model is loaded."""

from __future__ import annotations

from .. import ir
from ..ir import Axis, Node
from ..kernels import is_draw

LEAVES = ("weight", "const", "table", "counter", "index", "size")
PURE = ("map", "contract", "reduce", "pick", "rename", "split", "merge", "concat", "widen", "rank", "kernel")


def is_parameter(one: Node) -> bool:
    """Whether no input, no length and no state of a loop goes into the value."""
    return all(
        (part.op in LEAVES if not part.args else part.op in PURE and not is_draw(part))
        and not any(axis.ragged for axis in part.axes)
        for part in ir.walk([one])
    )


def has_weight(one: Node) -> bool:
    """Whether a weight goes into the value."""
    return any(part.op == "weight" for part in ir.walk([one]))


def stack_picks(one: Node, stacks: dict[str, tuple[Axis, ...]]) -> dict[Axis, Node] | None:
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


def _is_stack_pick(one: Node, stacks: dict[str, tuple[Axis, ...]]) -> bool:
    if one.op != "pick" or one.args[0].op != "weight":
        return False
    stack = stacks.get(one.args[0]["name"], ())
    return bool(stack) and set(one["keys"]) == set(stack)
