"""Which nodes a gradient flows through: real numbers that depend on what is wanted by something that has a slope."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir import Node, walk, walk_all
from .scalars import DERIVATIVES

SLOPES = ("sum", "mean", "max", "min", "prod", "norm")
FIRST_ONLY = ("pick", "scatter", "reduce", "random")


class Active:
    """Answers for the nodes of a graph, and for those that are made of them later."""

    def __init__(self, roots: Iterable[Node], wanted: Iterable[Node]) -> None:
        self._roots = tuple(roots)
        self._known: dict[Node, bool] = dict.fromkeys(wanted, True)
        self._slots: set[tuple[int, int]] = set()
        wanted = dict(self._known)
        before = -1
        while before != len(self._slots):  # a state is active through its own step
            before = len(self._slots)
            self._known = dict(wanted)
            for one in walk_all(self._roots):
                self(one)
                if one.op == "loop":
                    self._slots.update((one["loop"], slot) for slot in range(one["slots"]) if self._state(one, slot))

    def _state(self, one: Node, slot: int) -> bool:
        return self(one.args[slot]) or self(one["body"][slot])

    def __call__(self, root: Node) -> bool:
        """Whether a gradient flows through the value."""
        if root not in self._known:
            for one in walk([root], enter=lambda n: n not in self._known):
                if one not in self._known:
                    self._known[one] = self._found(one)
        return self._known[root]

    def _found(self, one: Node) -> bool:
        if one.op == "loop":
            return any((one["loop"], slot) in self._slots for slot in range(one["slots"]))
        if one.op == "reduce" and one["reduction"] not in SLOPES:
            return False
        if one.op in ("carry", "past"):
            return (one["loop"], one["slot"]) in self._slots
        if one.op in ("state", "history"):
            return (one.args[0]["loop"], one["slot"]) in self._slots
        if one.op == "map":
            rows = zip(one.args, DERIVATIVES[one["fn"]], strict=True)
            return any(row is not None and self._known[arg] for arg, row in rows)
        if one.op == "rank" or (one.op == "random" and one["draw"] != "dropout"):
            return False
        args = one.args[:1] if one.op in FIRST_ONLY else one.args
        return any(self._known[arg] for arg in args)
