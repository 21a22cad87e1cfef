"""The derivative of each scalar function: one row each, beside the meaning in compiler/ops.py.

A row has an entry for each argument: from the adjoint g of the result, the arguments and the result, what flows to that
argument; None where nothing does. Where a function has a corner:

    |x|, sign, floor at a jump            0
    √x and ‖x‖ at 0                       0, as of the length of a vector that is 0
    max(x, y), min(x, y) at x = y         the constant takes it, so that max(0, x) has the slope 0 at 0; else the second
    0^y                                   0 towards y
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from .. import ir
from ..ir import Node

Flow = Callable[[Node, tuple[Node, ...], Node], Node]
"""(g, arguments, result) → what flows to an argument."""

ZERO, ONE = ir.const(Fraction(0)), ir.const(Fraction(1))


def add(a: Node, b: Node) -> Node:
    """a + b"""
    return a if b is ZERO else b if a is ZERO else ir.apply("+", a, b)


def sub(a: Node, b: Node) -> Node:
    """a - b"""
    return a if b is ZERO else ir.apply("-", a, b)


def mul(a: Node, b: Node) -> Node:
    """a · b"""
    return a if b is ONE else b if a is ONE else ir.apply("*", a, b)


def div(a: Node, b: Node) -> Node:
    """a / b"""
    return ir.apply("/", a, b)


def chosen(condition: Node, value: Node) -> Node:
    """The value where the condition holds, 0 elsewhere."""
    return ir.where(condition, value, ZERO)


def neg(a: Node) -> Node:
    """-a"""
    return ir.apply("neg", a)


def _map(fn: str, *args: Node) -> Node:
    return ir.apply(fn, *args)


def _root(g: Node, x: tuple[Node, ...], y: Node) -> Node:
    return ir.where(_map("==", y, ZERO), ZERO, div(g, mul(ir.const(2), y)))


def _error(g: Node, x: tuple[Node, ...], y: Node) -> Node:
    return mul(g, mul(ir.const(2 / math.sqrt(math.pi)), _map("exp", neg(mul(x[0], x[0])))))


def _base(g: Node, x: tuple[Node, ...], y: Node) -> Node:
    """y x^(y - 1); a whole constant exponent of 0 or 1 has no power left."""
    base, exponent = x
    if exponent.op == "const" and not isinstance(exponent["value"], bool):
        value = exponent["value"]
        if value == 0:
            return mul(g, ZERO)
        power = base if value == 2 else ONE if value == 1 else _map("^", base, ir.const(value - 1))
        return mul(g, mul(exponent, power))
    slope = mul(exponent, _map("^", base, sub(exponent, ONE)))
    return mul(g, ir.where(_map("==", exponent, ZERO), ZERO, slope))


def _exponent(g: Node, x: tuple[Node, ...], y: Node) -> Node:
    return mul(g, ir.where(_map("==", x[0], ZERO), ZERO, mul(y, _map("log", x[0]))))


def _tie(x: tuple[Node, ...], less: str) -> str:
    """Two that are equal: the second takes it, but not from a constant."""
    return less if x[0].op == "const" else f"{less}="


DERIVATIVES: dict[str, tuple[Flow | None, ...]] = {
    "exp": (lambda g, x, y: mul(g, y),),
    "log": (lambda g, x, y: div(g, x[0]),),
    "sqrt": (_root,),
    "erf": (_error,),
    "tanh": (lambda g, x, y: mul(g, sub(ONE, mul(y, y))),),
    "sin": (lambda g, x, y: mul(g, _map("cos", x[0])),),
    "cos": (lambda g, x, y: neg(mul(g, _map("sin", x[0]))),),
    "abs": (lambda g, x, y: mul(g, _map("sign", x[0])),),
    "floor": (None,),
    "ceil": (None,),
    "sign": (None,),
    "neg": (lambda g, x, y: neg(g),),
    "stop": (None,),
    "not": (None,),
    "+": (lambda g, x, y: g, lambda g, x, y: g),
    "-": (lambda g, x, y: g, lambda g, x, y: neg(g)),
    "*": (lambda g, x, y: mul(g, x[1]), lambda g, x, y: mul(g, x[0])),
    "/": (lambda g, x, y: div(g, x[1]), lambda g, x, y: neg(div(mul(g, y), x[1]))),
    "//": (None, None),
    "%": (lambda g, x, y: g, lambda g, x, y: neg(mul(g, _map("floor", div(x[0], x[1]))))),
    "^": (_base, _exponent),
    "max": (lambda g, x, y: chosen(_map(">", *x), g), lambda g, x, y: chosen(_map(_tie(x, "<"), *x), g)),
    "min": (lambda g, x, y: chosen(_map("<", *x), g), lambda g, x, y: chosen(_map(_tie(x, ">"), *x), g)),
    "<": (None, None),
    "<=": (None, None),
    ">": (None, None),
    ">=": (None, None),
    "==": (None, None),
    "!=": (None, None),
    "and": (None, None),
    "or": (None, None),
    "where": (None, lambda g, x, y: chosen(x[0], g), lambda g, x, y: ir.where(x[0], ZERO, g)),
}
"""What flows to each argument of each scalar function."""

PARTIAL = ("log", "sqrt", "/", "^", "exp", "%")
"""Functions whose derivative may be no number where their arguments are: there an adjoint of 0 gives 0."""
