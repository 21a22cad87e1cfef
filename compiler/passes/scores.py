"""Scores of attention as a factor times one product of query and key, plus biases: scalars out, sums apart.

(q · k + b) / c is a sum of two terms, each with the factor 1 / c, wherever the factor was written. A factor is a number
and values without the key axis (a learned temperature, one per head); those go to the query, which is smaller than the
scores. Where several products have the key axis, the one that is a matrix product of two plain sides stays a product,
and the others are part of the bias.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from .. import ir, kernels
from ..ir import Axis, Node
from ..rules.algebra import is_map, number

Scale: TypeAlias = Fraction | float


@dataclass(frozen=True)
class Factor:
    """A number, and what else multiplies (`*`) or divides (`/`): (function, value), the innermost first."""

    number: Scale = Fraction(1)
    values: tuple[tuple[str, Node], ...] = ()

    def times(self, known: Scale, fn: str = "*") -> Factor:
        """The factor multiplied with, or divided by, a number."""
        return replace(self, number=_times(self.number, known, fn))

    def on(self, one: Node) -> Node:
        """The node multiplied with all of it."""
        made = self.by_values(one)
        return made if self.number == 1 else ir.apply("*", kernels.number(self.number), made)

    def by_values(self, one: Node) -> Node:
        """The node multiplied with the values alone."""
        for fn, value in self.values:
            one = ir.apply(fn, one, value)
        return one


@dataclass(frozen=True)
class Term:
    """One term of a sum: its factor, and what the factor multiplies."""

    factor: Factor
    node: Node


@dataclass(frozen=True)
class Scores:
    """factor * (query @[width] key), and the other terms."""

    factor: Factor
    query: Node
    key: Node
    width: Axis
    rest: tuple[Term, ...]


def read(scores: Node, axis: Axis) -> Scores | None:
    """The scores along a key axis as one product and a bias; None if no term is a product of two sides."""
    terms = _terms(scores, axis)
    found: list[tuple[Term, tuple[Node, Node]]] = []
    for one in terms:
        sides = _sides(one.node, axis)
        if sides is not None:
            found.append((one, sides))
    if not found:
        return None
    main, (query, key) = max(found, key=lambda pair: len(pair[0].node.axes))  # what tells examples apart, if one does
    factor = main.factor
    rest = []
    for one in terms:
        if one is main:
            continue
        if one.node is main.node and one.factor.values == factor.values:
            factor = replace(factor, number=factor.number + one.factor.number)
        else:
            rest.append(one)
    query, left = _bare(query)
    key, right = _bare(key)
    return Scores(factor.times(left * right), query, key, main.node["over"][0], tuple(rest))


def _terms(scores: Node, axis: Axis) -> list[Term]:
    """The terms of a sum, with what multiplies each, scalars and values without the key axis taken out."""
    found: list[Term] = []
    left = [Term(Factor(), scores)]
    while left:
        here = left.pop()
        inner = _opened(here.node, here.factor, axis)
        if inner is None:
            found.append(here)
        else:
            left.extend(reversed(inner))
    return found


def _opened(one: Node, factor: Factor, axis: Axis) -> list[Term] | None:
    """A sum as its terms, a product with a factor as what is multiplied; None for anything else."""
    if is_map(one, "+", "-"):
        sign = Fraction(1 if one["fn"] == "+" else -1)
        return [Term(factor, one.args[0]), Term(factor.times(sign), one.args[1])]
    if is_map(one, "neg"):
        return [Term(factor.times(Fraction(-1)), one.args[0])]
    if not is_map(one, "*", "/"):
        return None
    for inner, other in (one.args, one.args[::-1])[: 2 - (one["fn"] == "/")]:
        known = number(other)
        if known is not None and (known != 0 or one["fn"] == "*"):
            return [Term(factor.times(known, one["fn"]), inner)]
        if _outside(other, inner, axis):
            return [Term(replace(factor, values=((one["fn"], other), *factor.values)), inner)]
    return None


def _outside(value: Node, inner: Node, axis: Axis) -> bool:
    """Whether a value multiplies scores that have all its axes, the key axis not among them."""
    return (
        axis not in value.axes and axis in inner.axes and value.kind != "bool" and set(value.axes) <= set(inner.axes)
    )


def _sides(product: Node, axis: Axis) -> tuple[Node, Node] | None:
    """Query and key of a product, told apart by the key axis; a key that differs from query to query is none."""
    if product.op != "contract" or len(product["over"]) != 1 or axis not in product.axes:
        return None
    first, second = product.args
    query, key = (second, first) if axis in first.axes else (first, second)
    if axis in query.axes or axis not in key.axes:
        return None
    lengths = [a for a in key.axes if a != axis and a.ragged and a.owner is not None]
    return None if any(a in query.axes for a in lengths) else (query, key)


def _bare(one: Node) -> tuple[Node, Scale]:
    """A side without a number that multiplies it."""
    if is_map(one, "*", "/"):
        left, right = one.args
        known = number(right)
        if known is not None and known != 0 and set(left.axes) == set(one.axes):
            return left, _times(Fraction(1), known, one["fn"])
        known = number(left)
        if known is not None and one["fn"] == "*":
            return right, known
    if one.op == "rename" and is_map(one.args[0], "*", "/"):
        inner, factor = _bare(one.args[0])
        return ir.rename(inner, dict(one["pairs"])), factor
    return one, Fraction(1)


def _times(factor: Scale, other: Scale, fn: str) -> Scale:
    if fn == "*":
        return factor * other
    if isinstance(factor, Fraction) and isinstance(other, Fraction):
        return factor / other
    return float(factor) / float(other)
