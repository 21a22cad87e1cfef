"""Which values are surely numbers (no NaN, no ∞), weights and inputs being so.

Where a value may be none, an adjoint of exactly 0 must stay 0: the value may be of a branch that is not selected. A
selection is taken to be a number, for that is what it is written for.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from itertools import product

from ..ir import Node, at_selected
from ..passes.parameters import is_parameter

MOST = 1e30
"""Numbers below are numbers in single precision, too."""

DEEP = 30
"""How deeply nested a value of numbers may be to be looked into."""

CORNERS: dict[str, Callable[..., float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "neg": operator.neg,
    "^": operator.pow,
}  # fmt: skip
"""Functions whose largest and smallest values are those of the corners of what goes in."""

PLAIN = ("+", "-", "*", "max", "min", "neg", "abs", "tanh", "sin", "cos", "erf", "sign", "floor", "ceil", "stop")


class Finite:
    """Answers for the nodes of one graph, each once."""

    def __init__(self) -> None:
        self._known: dict[Node, bool] = {}

    def __call__(self, root: Node) -> bool:
        """Whether the value is surely a number everywhere."""
        stack = [root]
        while stack:
            one = stack[-1]
            if one in self._known:
                stack.pop()
                continue
            waiting = [arg for arg in self._needs(one) if arg not in self._known]
            if waiting:
                stack.extend(waiting)
            else:
                self._known[one] = self._found(one)
        return self._known[root]

    @staticmethod
    def _needs(one: Node) -> tuple[Node, ...]:
        if one.op in ("map", "kernel", "contract", "total", "reduce", "scatter"):
            return () if one.op == "map" and one["fn"] == "where" else one.args
        return one.args[:1] if one.op in ("rename", "split", "merge", "widen", "pick", "random") else (
            one.args if one.op == "concat" else ()
        )

    def _found(self, one: Node) -> bool:
        below = all(self._known[arg] for arg in self._needs(one))
        if one.op == "const":
            value = one["value"]
            return isinstance(value, bool) or abs(value) != float("inf")
        if one.op == "map":
            fn = one["fn"]
            if fn == "where" or one.kind in ("bool", "int"):
                return True
            if fn in ("/", "^") and is_parameter(one) and _moderate(one) is not None:
                return True
            if fn == "/":
                return below and positive(one.args[1])
            if fn == "sqrt":
                return below and (positive(one.args[0]) or not_negative(one.args[0]))
            return below and (fn in PLAIN or (fn == "^" and _whole_power(one)))
        if one.op == "pick":
            return below and (at_selected(one) or not any(key.ragged for key in one["keys"]))
        if one.op == "reduce":
            return below and one["reduction"] not in ("max", "min", "prod")
        return below and one.op not in ("past", "history")


def _whole_power(one: Node) -> bool:
    value = one.args[1]["value"] if one.args[1].op == "const" else None
    return value is not None and value >= 0 and value == int(value)


def _moderate(one: Node, depth: int = DEEP) -> tuple[float, float] | None:
    """What a value of numbers and places alone lies between, such as the frequencies of a rotation.

    None if that is not known, or if it is near the largest number, or a quotient of nothing.
    """
    if one.op == "const" and not isinstance(one["value"], bool):
        return float(one["value"]), float(one["value"])
    if one.op in ("index", "size") and isinstance(one["axis"].size, int):
        return (0.0, one["axis"].size - 1.0) if one.op == "index" else (float(one["axis"].size),) * 2
    if one.op in ("rename", "widen") and depth:
        return _moderate(one.args[0], depth - 1)
    if one.op != "map" or one["fn"] not in CORNERS or not depth:
        return None
    sides = [found for arg in one.args if (found := _moderate(arg, depth - 1)) is not None]
    if len(sides) < len(one.args) or not _allowed(one["fn"], *sides):
        return None
    made = [CORNERS[one["fn"]](*corner) for corner in product(*sides)]
    return (min(made), max(made)) if max(map(abs, made)) < MOST else None


def _allowed(fn: str, *sides: tuple[float, float]) -> bool:
    if fn == "/":
        return sides[1][0] > 0 or sides[1][1] < 0
    if fn != "^":
        return True
    (least, most), exponent = sides
    return least > 0 and max(map(abs, exponent)) * max(abs(math.log(least)), abs(math.log(most))) < math.log(MOST)


def not_negative(one: Node) -> bool:
    """Whether the value is surely at least 0."""
    if one.op == "const":
        return not isinstance(one["value"], bool) and one["value"] >= 0
    if one.op == "size" or (one.op == "reduce" and one["reduction"] in ("norm", "count")):
        return True
    if one.op == "reduce" and one["reduction"] in ("sum", "mean", "max"):
        return not_negative(one.args[0])
    if one.op in ("rename", "widen", "split", "merge", "pick"):
        return not_negative(one.args[0])
    if one.op != "map":
        return False
    if one["fn"] == "^":
        value = one.args[1]["value"] if one.args[1].op == "const" else 1
        return bool(value % 2 == 0)
    if one["fn"] == "*" and one.args[0] is one.args[1]:
        return True
    return one["fn"] in ("exp", "abs") or (
        one["fn"] in ("+", "*", "sqrt", "/", "max") and all(map(not_negative, one.args))
    )


def positive(one: Node) -> bool:
    """Whether the value is surely more than 0, by a margin that no rounding takes."""
    if one.op == "const":
        return not isinstance(one["value"], bool) and one["value"] > 0
    if one.op in ("rename", "widen"):
        return positive(one.args[0])
    if one.op != "map":
        return False
    if one["fn"] == "+":
        a, b = one.args
        return (positive(a) and not_negative(b)) or (positive(b) and not_negative(a))
    if one["fn"] == "max":
        return any(map(positive, one.args))
    return one["fn"] in ("sqrt", "*") and all(map(positive, one.args))
