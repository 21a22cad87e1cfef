"""Masks by meaning: which keys a relation lets each row see, as bounds and what is left.

A relation of places is taken apart by its logic, whatever its spelling: `and`, `or`, `not`, comparisons of sums,
absolute values, maxima and whole quotients. What comes out is

    see  ⟺  first ≤ j < stop  and  rest

where first and stop are whole numbers of the row. Causality is stop = i + 1, a window has both bounds, a prefix is a
stop that no row changes, blocks are the first and the last of a whole quotient. A condition on the row alone makes the
bounds of other rows empty. Where an `or` leaves gaps the bounds hold all that is seen, and the rest says the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from . import ir
from .affine import DEEP, Form, constant, extreme, form, greatest, highest, least, lowest, whole
from .ir import Axis, Graph, Node, Size

MIRRORED = {">": "<", ">=": "<="}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@dataclass(frozen=True)
class Facts:
    """first ≤ j < stop for each of these bounds, and the rest of the relation (None: it is exactly the bounds)."""

    first: tuple[Form, ...] = ()
    stop: tuple[Form, ...] = ()
    rest: Node | None = None

    @property
    def everything(self) -> bool:
        """Whether every key is seen."""
        return not self.first and not self.stop and self.rest is None


ALL, NOTHING = Facts(), Facts((), (constant(0),))


class Reading:
    """How one relation is read: j counts along `axis`, and a bound may only know the axes of the row."""

    def __init__(self, axis: Axis, rows: Iterable[Axis]) -> None:
        self.axis, self.rows = axis, frozenset(rows)
        self.key = ir.index(axis)

    # ----------------------------------------------------------------------------------------------------- logic

    def facts(self, one: Node, holds: bool = True, depth: int = DEEP) -> Facts:
        """What the relation (or its opposite) says."""
        if one.op == "const":
            return ALL if bool(one["value"]) == holds else NOTHING
        if one.op == "widen":
            return self.facts(one.args[0], holds, depth)
        if one.op != "map" or not depth:
            return self._dense(one, holds)
        fn, deeper = one["fn"], depth - 1
        if fn == "not":
            return self.facts(one.args[0], not holds, deeper)
        if fn in ("and", "or"):
            left, right = (self.facts(arg, holds, deeper) for arg in one.args)
            return self.both(left, right) if (fn == "and") == holds else self.either(left, right, one, holds)
        if fn == "where":
            left, right = (self.facts(arg, holds, deeper) for arg in one.args[1:])
            found = self._chosen(one.args[0], left, right)
            if found is not None:
                return found
            left = self.both(self.facts(one.args[0], True, deeper), left)
            return self.either(left, self.both(self.facts(one.args[0], False, deeper), right), one, holds)
        if fn in OPPOSITE and all(arg.kind not in ("bool", "unknown") for arg in one.args):
            return self._comparison(one, holds, deeper)
        return self._dense(one, holds)

    def both(self, left: Facts, right: Facts) -> Facts:
        """left and right."""
        if NOTHING in (left, right):
            return NOTHING
        rests = [one for one in (left.rest, right.rest) if one is not None]
        rest = None if not rests else rests[0] if len(rests) == 1 else ir.apply("and", *rests)
        first, stop = highest((*left.first, *right.first)), lowest((*left.stop, *right.stop))
        if any(least(begin - end) >= 0 for begin in first for end in stop):
            return NOTHING
        return Facts(first, stop, rest)

    def either(self, left: Facts, right: Facts, one: Node, holds: bool) -> Facts:
        """left or right: exact where the two overlap, or where one is a condition on the row alone."""
        for this, other in ((left, right), (right, left)):
            if this == NOTHING:
                return other
            if this.everything:
                return ALL
            if not this.first and not this.stop and this.rest is not None and self.of_row(this.rest):
                return self._chosen(this.rest, ALL, other) or self._dense(one, holds)
        first = self._outer("min", left.first, right.first)
        stop = self._outer("max", left.stop, right.stop)
        exact = left.rest is None and right.rest is None and _meet(left, right) and _meet(right, left)
        return Facts(first, stop, None if exact else self._dense(one, holds).rest)

    @staticmethod
    def _outer(fn: str, left: tuple[Form, ...], right: tuple[Form, ...]) -> tuple[Form, ...]:
        """The bound of all that either side holds: none if a side has none."""
        inner = "max" if fn == "min" else "min"
        ends = [extreme(inner, left), extreme(inner, right)]
        made = None if None in ends else extreme(fn, [end for end in ends if end is not None])
        return () if made is None else (made,)

    def _chosen(self, condition: Node, left: Facts, right: Facts) -> Facts | None:
        """left where a condition on the row holds, else right."""
        if not self.of_row(condition):
            return None
        ends = []
        for name, nothing in (("first", constant(0)), ("stop", self.size())):
            fn = "max" if name == "first" else "min"
            made = [extreme(fn, getattr(side, name)) for side in (left, right)]
            if made == [None, None] or made[0] == made[1]:
                ends.append(() if made[0] is None else (made[0],))
                continue
            nodes = [(nothing if end is None else end).node() for end in made]
            ends.append((Form({ir.where(condition, *nodes): 1}),))
        if left.rest is None and right.rest is None:
            return Facts(ends[0], ends[1])
        rests = [ir.const(True) if side.rest is None else side.rest for side in (left, right)]
        if rests[0].op == "const":
            return Facts(ends[0], ends[1], ir.apply("or", condition, rests[1]))
        return Facts(ends[0], ends[1], ir.where(condition, *rests))

    def of_row(self, one: Node) -> bool:
        """Whether a value is the same for all keys of a row (and differs along no other axis than the row's)."""
        return self.rows.issuperset(one.axes) and self.axis not in one.axes

    def size(self) -> Form:
        """How many keys there are."""
        made = form(ir.size(self.axis))
        assert made is not None
        return made

    def _dense(self, one: Node, holds: bool) -> Facts:
        return Facts((), (), one if holds else ir.apply("not", one))

    # ----------------------------------------------------------------------------------------------- comparisons

    def _comparison(self, one: Node, holds: bool, depth: int) -> Facts:
        fn = one["fn"] if holds else OPPOSITE[one["fn"]]
        left, right = (_over(arg) for arg in one.args)
        if left is None or right is None:
            return self._dense(one, holds)
        gap = left[0] * right[1] - right[0] * left[1]
        if fn == "==":
            return self.both(self.below(gap, one, holds, depth), self.below(gap * -1, one, holds, depth))
        if fn == "!=":
            less, more = gap + constant(1), gap * -1 + constant(1)
            ends = self.below(less, one, holds, depth), self.below(more, one, holds, depth)
            return self.either(*ends, one, holds)
        gap = gap if fn in ("<", "<=") else gap * -1
        return self.below(gap + constant(1) if fn in ("<", ">") else gap, one, holds, depth)

    def below(self, gap: Form, one: Node, holds: bool, depth: int) -> Facts:
        """What gap ≤ 0 says; it is (a part of) what `one` says."""
        if greatest(gap) <= 0:
            return ALL
        if least(gap) > 0:
            return NOTHING
        along = [atom for atom in gap.terms if self.axis in atom.axes]
        if len(along) != 1:
            return self._dense(one, holds)
        (atom,) = along
        sign = 1 if gap.terms[atom] > 0 else -1
        others = _quotient(gap.without(atom) * -1, abs(gap.terms[atom])) * -1  # ± atom + others ≤ 0
        if atom is self.key:
            return self._bound(others, sign) or self._dense(one, holds)
        if atom.op == "map" and depth:
            return self._opened(atom, sign, others, one, holds, depth - 1) or self._dense(one, holds)
        return self._dense(one, holds)

    def _bound(self, others: Form, sign: int) -> Facts | None:
        """± j + others ≤ 0 as a bound of j."""
        if not self.rows.issuperset(others.axes):
            return None
        return Facts((), (others * -1 + constant(1),)) if sign > 0 else Facts((others,), ())

    def _opened(self, atom: Node, sign: int, others: Form, one: Node, holds: bool, depth: int) -> Facts | None:
        """± atom + others ≤ 0 for an absolute value, a maximum, a minimum or a quotient by a number."""
        fn, parts = atom["fn"], [form(arg) for arg in atom.args]
        if any(part is None for part in parts):
            return None
        first, *more = (part for part in parts if part is not None)
        if fn == "//":
            by = more[0].constant
            if more[0].terms or by <= 0:
                return None
            whole_blocks = others * by + (constant(1 - by) if sign > 0 else constant(0))
            return self.below(first * sign + whole_blocks, one, holds, depth)
        if fn not in ("abs", "max", "min"):
            return None
        sides = (first, first * -1) if fn == "abs" else (first, more[0])
        left, right = (self.below(side * sign + others, one, holds, depth) for side in sides)
        every = (fn == "min") == (sign < 0)  # max ≤ c and c ≤ min speak of both sides
        return self.both(left, right) if every else self.either(left, right, one, holds)


def _over(one: Node) -> tuple[Form, int] | None:
    """A number as a form over a positive whole number: comparing quotients is comparing products."""
    made = form(one)
    if made is not None:
        return made, 1
    if one.op == "const" and isinstance(one["value"], Fraction):
        return constant(one["value"].numerator), one["value"].denominator
    if one.op == "map" and one["fn"] == "/":
        above, below = form(one.args[0]), whole(one.args[1])
        if above is not None and below is not None and below > 0:
            return above, below
    return None


def _quotient(made: Form, by: int) -> Form:
    """⌊form / by⌋; what `by` divides stands before the quotient."""
    out = Form({a: f // by for a, f in made.terms.items() if f % by == 0}, made.constant // by)
    left = Form({a: f for a, f in made.terms.items() if f % by}, made.constant % by)
    return out + (Form({ir.apply("//", left.node(), ir.const(by)): 1}) if left.terms else constant(0))


def _meet(left: Facts, right: Facts) -> bool:
    """Whether left begins nowhere beyond the end of right."""
    return all(least(stop - first) >= 0 for first in left.first for stop in right.stop)


def derive(see: Node, axis: Axis, rows: Iterable[Axis]) -> Facts:
    """see ⟺ first ≤ j < stop and rest, for j the index of `axis` and bounds that know the axes `rows` alone.

    What is left and speaks of the row alone becomes a bound: the row sees nothing where it does not hold. Bounds that
    hold for every place are left out.
    """
    reading = Reading(axis, rows)
    found = reading.facts(see)
    kept: list[Node] = []
    stop = found.stop
    for part in conjuncts(found.rest):
        if not reading.of_row(part):
            kept.append(part)
            continue
        end = extreme("min", stop) or reading.size()
        stop = (Form({ir.where(part, end.node(), ir.const(0)): 1}),)
    first = tuple(one for one in highest(found.first) if greatest(one) > 0)
    stop = tuple(one for one in lowest(stop) if least(one - reading.size()) < 0)
    return Facts(first, stop, conjunction(kept))


def conjuncts(one: Node | None) -> list[Node]:
    """The parts of which all must hold."""
    found: list[Node] = []
    stack = [] if one is None else [one]
    while stack:
        part = stack.pop()
        if part.op == "map" and part["fn"] == "and":
            stack.extend(reversed(part.args))
        else:
            found.append(part)
    return list(dict.fromkeys(found))


def conjunction(parts: Iterable[Node]) -> Node | None:
    """One relation of several, None of none."""
    made: Node | None = None
    for part in parts:
        made = part if made is None else ir.apply("and", made, part)
    return made


def bounded(axis: Axis, first: Node | None, stop: Node | None, rest: Node | None = None) -> Node | None:
    """The relation first ≤ j < stop and rest; None where nothing is said."""
    key = ir.index(axis)
    parts = [] if first is None else [ir.apply("<=", first, key)]
    parts += [] if stop is None else [ir.apply("<", key, stop)]
    return conjunction([*parts, *([] if rest is None else [rest])])


# ------------------------------------------------------------------------------------------------------ empty rows

NO_KEY_OF_ALL = "neither the first nor the last key is seen by every row, and one between may be hidden"
OF_TOKENS = "what a row may see depends on the tokens"
OF_ANOTHER = "the keys are of another text than the row, and that may be empty"


def inhabited(graph: Graph, rows: Iterable[Axis]) -> frozenset[Size]:
    """The lengths that surely have an entry where there is such a row: its own, and the only one that there is.

    Nothing is shown of an example without any token.
    """
    lengths = {axis.size for one in graph.inputs for axis in one.axes if axis.counted}
    return frozenset({axis.size for axis in rows if axis.counted} | (lengths if len(lengths) == 1 else set()))


def never_empty(see: Node | None, axis: Axis, lengths: frozenset[Size] | None = None) -> str:
    """'' if every row surely sees a key, else the fact that is missing; of the lengths given there surely is an entry.

    Leading and trailing hidden positions are no part of an example: its first and its last key are visible. A hidden
    key between is one that nobody may see, so that a row which sees only itself may see nothing.
    """
    if lengths is not None and axis.counted and axis.size not in lengths:
        return OF_ANOTHER
    if see is None:
        return ""
    size = ir.size(axis)
    last = ir.const(axis.size - 1) if isinstance(axis.size, int) else ir.apply("-", size, ir.const(1))
    for place in (ir.const(0), last):
        (settled,) = ir.transform([see], lambda one, at=place: at if one is ir.index(axis) else one)  # type: ignore[misc]
        if always(settled):
            return ""
    tokens = any(one.op in ("input", "random", "carry", "past") for one in ir.walk([see]))
    return OF_TOKENS if tokens else NO_KEY_OF_ALL


def always(one: Node, holds: bool = True, depth: int = DEEP) -> bool:
    """Whether a relation surely holds (or surely does not), for all places and lengths."""
    if one.op == "const":
        return bool(one["value"]) == holds
    if one.op == "widen":
        return always(one.args[0], holds, depth)
    if one.op != "map" or not depth:
        return False
    fn, args = one["fn"], one.args
    if fn == "not":
        return always(args[0], not holds, depth - 1)
    if fn in ("and", "or"):
        quantifier = all if (fn == "and") == holds else any
        return quantifier(always(arg, holds, depth - 1) for arg in args)
    if fn == "where":
        return all(always(arg, holds, depth - 1) for arg in args[1:])
    left, right = (_over(arg) for arg in args) if fn in OPPOSITE else (None, None)
    if left is None or right is None:
        return False
    gap = left[0] * right[1] - right[0] * left[1]
    return _sure(gap, fn if holds else OPPOSITE[fn])


def _sure(gap: Form, fn: str) -> bool:
    """Whether gap fn 0 for every value that gap may have."""
    low, high = least(gap), greatest(gap)
    decided = {
        "<": high < 0, "<=": high <= 0, ">": low > 0, ">=": low >= 0, "==": low == high == 0, "!=": low > 0 or high < 0,
    }  # fmt: skip
    return decided[fn]


# ----------------------------------------------------------------------------------------------- telling what it is


def offset(bound: Node | None, axis: Axis, key: Axis) -> int | None:
    """c of a bound i + c, for i the index of `axis` that counts the same length as the keys; None for other bounds."""
    made = None if bound is None else form(bound)
    if made is None or axis.size != key.size or axis.owner != key.owner:
        return None
    return made.constant if made.terms == {ir.index(axis): 1} else None
