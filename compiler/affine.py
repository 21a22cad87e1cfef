"""Whole numbers as affine forms: constant + Σ coefficient * atom, with what is known of their range.

Atoms are nodes that sums do not take apart: the index of an axis, the length of an example, n // 2, an input. Two
spellings of one sum are one form, and whether a form can be negative is decided from 0 ≤ index < length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from . import ir
from .ir import Axis, Length, Node

DEEP = 40
"""How deeply nested an expression may be to be looked into."""


@dataclass(frozen=True)
class Form:
    """constant + Σ coefficient * atom; equal sums are equal forms."""

    terms: Mapping[Node, int]
    constant: int = 0

    def __add__(self, other: Form) -> Form:
        terms = dict(self.terms)
        for atom, factor in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor
        return Form({atom: factor for atom, factor in terms.items() if factor}, self.constant + other.constant)

    def __mul__(self, factor: int) -> Form:
        return Form({a: f * factor for a, f in self.terms.items() if factor}, self.constant * factor)

    def __sub__(self, other: Form) -> Form:
        return self + other * -1

    def __hash__(self) -> int:
        return hash((frozenset(self.terms.items()), self.constant))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All axes of the atoms."""
        return ir.union(self.terms)

    def without(self, atom: Node) -> Form:
        """The form but for one atom."""
        return Form({a: f for a, f in self.terms.items() if a is not atom}, self.constant)

    def node(self) -> Node:
        """The form as nodes: what is added first, then what is taken away."""
        made: Node | None = None
        ordered = sorted(self.terms.items(), key=lambda item: item[1] < 0)
        for atom, factor in ordered:
            term = atom if abs(factor) == 1 else ir.apply("*", ir.const(abs(factor)), atom)
            if made is None:
                made = term if factor > 0 else ir.apply("neg", term)
            else:
                made = ir.apply("+" if factor > 0 else "-", made, term)
        number = ir.const(abs(self.constant))
        if made is None:
            return ir.const(self.constant)
        return made if not self.constant else ir.apply("+" if self.constant > 0 else "-", made, number)


def constant(number: int) -> Form:
    """A number."""
    return Form({}, number)


def whole(one: Node) -> int | None:
    """The value of a constant whole number."""
    value = one["value"] if one.op == "const" and not isinstance(one["value"], bool) else None
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else None


def form(one: Node, depth: int = DEEP) -> Form | None:
    """The node as a form, None if it is not surely a whole number."""
    if one.kind != "int":
        return None
    known = whole(one)
    if known is not None:
        return constant(known)
    if one.op == "widen":
        return form(one.args[0], depth)
    if one.op == "map" and depth:
        made = _combined(one["fn"], [form(arg, depth - 1) for arg in one.args])
        if made is not None:
            return made
    return Form({_atom(one): 1})


def _combined(fn: str, parts: list[Form | None]) -> Form | None:
    if any(part is None for part in parts):
        return None
    first, *others = (part for part in parts if part is not None)
    if fn == "neg":
        return first * -1
    if fn in ("+", "-"):
        return first + others[0] * (1 if fn == "+" else -1)
    if fn == "*":
        for left, right in ((first, others[0]), (others[0], first)):
            if not right.terms:
                return left * right.constant
    return None


def _atom(one: Node) -> Node:
    """The lengths of two axes that are renames of one another are one number."""
    if one.op == "size" and isinstance(one["axis"].size, Length):
        axis = one["axis"]
        return ir.size(Axis(axis.size.name, axis.size, axis.owner))
    return one


# ------------------------------------------------------------------------------------------------------- the range


def least(made: Form, depth: int = 6) -> float:
    """The least value that the form may have, -∞ if nothing is known; a length is at least 1."""
    for atom, factor in made.terms.items():
        if atom.op == "index" and factor < 0:  # the last place: the length less 1, which other terms may cancel
            last = form(ir.size(atom["axis"]))
            assert last is not None
            return least(made.without(atom) + (last + constant(-1)) * factor, depth)
    made = _whole_less_part(made)
    total: float = made.constant
    for atom, factor in made.terms.items():
        low, high = bounds(atom, depth)
        total += factor * (low if factor > 0 else high)
    return total


def _whole_less_part(made: Form) -> Form:
    """The form without pairs of a length and one within it that is taken away: they are 0 at least."""
    for part, factor in made.terms.items():
        inner = part["axis"].size if part.op == "size" and factor < 0 else None
        if inner is None or inner.within is None:
            continue
        for atom, more in made.terms.items():
            if atom.op == "size" and atom["axis"].size == inner.within and more > 0:
                pairs = min(more, -factor)
                return _whole_less_part(made + Form({part: pairs}) + Form({atom: -pairs}))
    return made


def greatest(made: Form, depth: int = 6) -> float:
    """The greatest value that the form may have, ∞ if nothing is known."""
    return -least(made * -1, depth)


def bounds(atom: Node, depth: int) -> tuple[float, float]:
    """The least and the greatest value of an atom."""
    if atom.op == "size":
        return 1, math.inf
    if atom.op == "index":
        return 0, atom["axis"].size - 1 if isinstance(atom["axis"].size, int) else math.inf
    if atom.op == "table" and atom.kind == "int":
        return float(min(atom["values"])), float(max(atom["values"]))
    if atom.op == "pick" and atom.args[0].op == "table":
        return bounds(atom.args[0], depth)
    if atom.op != "map" or not depth:
        return -math.inf, math.inf
    parts = [form(arg) for arg in atom.args]
    spans = [(least(p, depth - 1), greatest(p, depth - 1)) if p is not None else (-math.inf, math.inf) for p in parts]
    return _range(atom, spans)


def _range(atom: Node, spans: list[tuple[float, float]]) -> tuple[float, float]:
    fn = atom["fn"]
    if fn in ("max", "min"):
        chosen = max if fn == "max" else min
        return chosen(spans[0][0], spans[1][0]), chosen(spans[0][1], spans[1][1])
    if fn == "abs":
        low, high = spans[0]
        return max(0.0, low, -high), max(-low, high)
    if fn == "where":
        return min(spans[1][0], spans[2][0]), max(spans[1][1], spans[2][1])
    by = whole(atom.args[1]) if len(atom.args) > 1 else None
    if fn == "%" and by is not None and by > 0:
        return 0, by - 1
    if fn == "//" and by is not None and by > 0:
        return tuple(math.floor(end / by) if math.isfinite(end) else end for end in spans[0])  # type: ignore[return-value]
    return -math.inf, math.inf


def highest(parts: Iterable[Form]) -> tuple[Form, ...]:
    """The forms of which one is the maximum: those that never exceed another are left out."""
    return _undominated(parts, 1)


def lowest(parts: Iterable[Form]) -> tuple[Form, ...]:
    """The forms of which one is the minimum."""
    return _undominated(parts, -1)


def _undominated(parts: Iterable[Form], sign: int) -> tuple[Form, ...]:
    kept: list[Form] = []
    for one in dict.fromkeys(parts):
        if any(least((other - one) * sign) >= 0 for other in kept):
            continue
        kept = [other for other in kept if least((one - other) * sign) < 0]
        kept.append(one)
    return tuple(kept)


def extreme(fn: str, parts: Iterable[Form]) -> Form | None:
    """The max or min of forms as one form; None of none."""
    left = highest(parts) if fn == "max" else lowest(parts)
    if not left:
        return None
    made = left[0]
    for other in left[1:]:
        made = Form({ir.apply(fn, made.node(), other.node()): 1})
    return made
