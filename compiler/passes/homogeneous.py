"""A divisor that the results do not feel: a value that they read only up to a positive factor.

    x / ‖x‖ of x = y / c is y / ‖y‖            so is the cosine of two mean-pooled embeddings that of the sums

The degree of a value in x says how it grows with x: 1 for x and ‖x‖, 2 for x · x, 0 for x / ‖x‖ and for x > 0. A value
of degree 0 does not feel a positive factor of x. Precondition: all that reads x ends in values of degree 0; what is
added to x or compared with it (an ε inside the norm), and what another function takes (a softmax), has no degree.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from .. import ir, kernels
from ..ir import Axis, Graph, Node
from ..rules.algebra import number

SAME = ("rename", "split", "merge", "widen", "concat", "where", "neg", "abs")
"""What has the degree of its arguments (of all that have one)."""

SMALL = 1e-3
"""A number that is added or compared so that nothing is divided by 0."""


def divisor(one: Node) -> tuple[Node, tuple[Axis, ...]] | None:
    """(the value without its positive divisor, the divisor's axes): the sum of a mean."""
    if one.op != "reduce" or one["reduction"] != "mean":
        return None
    over, condition = one["over"], one.args[1] if len(one.args) > 1 else None
    counted = [axis.owner for axis in over] + list(condition.axes if condition is not None else ())
    axes = tuple(axis for axis in one.axes if axis in counted)
    return ir.reduce("sum", one.args[0], over, condition), axes


def felt(graph: Graph, x: Node, axes: Sequence[Axis]) -> str:
    """'' if no result feels a positive factor of x along these axes, else what feels it."""
    degrees: dict[Node, Fraction] = {x: Fraction(1)}
    for one in graph.nodes():
        if one is x or one.op == "loop" or not any(arg in degrees for arg in one.args):
            if one.op == "loop" and (any(arg in degrees for arg in one.args) or x in ir.walk_all(one["body"])):
                return "a loop reads it"
            continue
        found = degree(one, degrees, axes)
        if isinstance(found, str):
            return found
        if found != 0:
            degrees[one] = found
    return "a result has its size" if any(root in degrees for root in graph.roots) else ""


def degree(one: Node, degrees: dict[Node, Fraction], axes: Sequence[Axis]) -> Fraction | str:
    """The degree of a node some of whose arguments have one, or why it has none."""
    own = [degrees.get(arg) for arg in one.args]
    told = str(one.get("fn") or one.get("reduction") or one.get("name") or one.op)
    if set(one.get("over", ())) & set(axes):
        return f"{told} goes over several factors"
    if one.op == "rename" and any(old in axes for old, _ in one["pairs"]):
        return "two examples meet, each with its own factor"
    if one.op == "contract" or (one.op == "map" and one["fn"] == "*"):
        return sum((part or Fraction(0) for part in own), Fraction(0))
    if one.op == "map" and one["fn"] == "/":
        return (own[0] or Fraction(0)) - (own[1] or Fraction(0))
    if one.op == "map" and one["fn"] in ("<", "<=", ">", ">=", "==", "!="):
        found = _equal(one, own, told)
        return found if isinstance(found, str) else Fraction(0)
    if one.op == "map" and one["fn"] == "sqrt":
        return (own[0] or Fraction(0)) / 2
    if one.op == "kernel":
        return _of_kernel(one, degrees, axes)
    if one.op == "pick":
        return own[0] if own[0] is not None and not any(own[1:]) else "a place depends on it"
    if one.op == "reduce" and one["reduction"] in ("sum", "mean", "norm", "max", "min", "argmax"):
        if any(own[1:]):
            return "a condition depends on it"
        return Fraction(0) if one["reduction"] == "argmax" else own[0] or Fraction(0)
    if one.op in SAME or (one.op == "map" and one["fn"] in (*SAME, "+", "-", "max", "min")):
        return _equal(one, own, told)
    return f"{told} of it is no power of its factor"


def _of_kernel(one: Node, degrees: dict[Node, Fraction], axes: Sequence[Axis]) -> Fraction | str:
    """The degree of a recognised meaning: that of its core graph."""
    inner = {arg: degrees[arg] for arg in one.args if arg in degrees}
    core = kernels.expanded(one)
    for part in ir.walk([core]):
        if part in inner or not any(arg in inner for arg in part.args):
            continue
        found = degree(part, inner, axes)
        if isinstance(found, str):
            return f"in {one['name']}, {found}"
        if found != 0:
            inner[part] = found
    return inner.get(core, Fraction(0))


def _equal(one: Node, own: list[Fraction | None], told: str) -> Fraction | str:
    """The one degree that all arguments have; 0 and ±∞ have every degree."""
    if one.op == "map" and one["fn"] == "where":
        if own[0] is not None:
            return "a condition depends on it"
        own = own[1:]
        args = one.args[1:]
    else:
        args = one.args
    found = {part for part, arg in zip(own, args, strict=True) if part is not None or number(arg) != 0}
    beside = [float(value) for value in map(number, args) if value is not None]
    small = [value for value in beside if 0 < abs(value) < SMALL]
    if small:
        return f"{told} puts ε = {small[0]} beside it"
    if len(found) == 1 and None not in found:
        return next(part for part in found if part is not None)
    return f"{told} puts it beside what has another size"


