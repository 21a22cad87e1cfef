"""Making terms: axes, kinds and bounds follow from the arguments; whatever could be no number is guarded here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from tests.fuzz.tree import Loop, Term

T = TypeVar("T")
INF = float("inf")


class Draw:
    """Choices of a hypothesis strategy; the first option of each is what shrinking aims at."""

    def __init__(self, draw: Callable[[st.SearchStrategy[T]], T]) -> None:
        self._draw = draw

    def whole(self, low: int, high: int) -> int:
        """A whole number from low to high."""
        return self._draw(st.integers(low, high))  # type: ignore[arg-type,return-value]

    def choice(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.whole(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self.whole(0, 99) >= 100 - percent


def step_of(args: Sequence[Term]) -> Loop | None:
    """The loop whose step the arguments belong to."""
    return next((one.step for one in args if one.step is not None), None)


def union(*args: Term) -> frozenset[str]:
    """All axes of the arguments."""
    return frozenset().union(*(one.axes for one in args))


def term(op: str, text: str, *args: Term, axes: frozenset[str] | None = None, **more: object) -> Term:
    """A term whose axes are all those of its arguments, unless they are given."""
    made = union(*args) if axes is None else axes
    return Term(op, text, args, made, step=step_of(args), **more)  # type: ignore[arg-type]


def number(text: str) -> Term:
    """A constant, as it is written."""
    plain = text.replace(".", "").isdigit()
    value = abs(float(eval(text.replace("√", "").replace("^", "**")))) if not plain else float(text)
    return Term("number", text, bound=max(value, 1e-3), low=value if plain else -INF, more="" if plain else "ratio")


def leaf(text: str, axes: str, kind: str = "real", bound: float = 8.0, low: float = -INF) -> Term:
    """A name that is known from outside."""
    return Term("leaf", text, (), frozenset(axes.split()), kind, bound, low)


def binary(op: str, a: Term, b: Term) -> Term:
    """a op b; the bound and the lower bound follow."""
    bound = {"+": a.bound + b.bound, "-": a.bound + b.bound, "⊙": a.bound * b.bound, "*": a.bound * b.bound}[op]
    low = {"+": a.low + b.low, "⊙": 0.0 if min(a.low, b.low) >= 0 else -INF}.get(op, -INF)
    kind = "int" if a.kind == b.kind == "int" else "real"
    name = {"⊙": "*"}.get(op, op)
    return term(name, f"{{0}} {op} {{1}}", a, b, kind=kind, bound=bound, low=low)


def times(factor: str, a: Term) -> Term:
    """factor * a."""
    return binary("*", number(factor), a)


def over(a: Term, b: Term) -> Term:
    """a / b for a b that is known to be positive."""
    assert b.low > 0, f"{b} may be 0"
    return term("/", "{0} / {1}", a, b, bound=a.bound / b.low, low=0.0 if a.low >= 0 else -INF)


def fn(name: str, a: Term) -> Term:
    """A scalar function of a value that it is defined for and does not overflow at."""
    assert name not in ("log", "sqrt") or a.low >= (1e-6 if name == "log" else 0), f"{name}({a})"
    bound = {"exp": 3e4, "log": 30.0, "sqrt": max(1.0, a.bound)}.get(name, 1.0)
    low = {"exp": 1e-6, "sqrt": 0.0}.get(name, -INF)
    return term("fn", f"{name}({{0}})", a, bound=bound, low=low, more=name)


def magnitude(a: Term) -> Term:
    """|a|."""
    return term("abs", "|{0}|", a, bound=a.bound, low=0.0)


def positive(a: Term, least: str = "0.5") -> Term:
    """|a| + 0.5, or another number."""
    return binary("+", magnitude(a), number(least))


def larger(name: str, a: Term, b: Term) -> Term:
    """max(a, b) or min(a, b)."""
    low = max(a.low, b.low) if name == "max" else min(a.low, b.low)
    return term("fn", f"{name}({{0}}, {{1}})", a, b, bound=max(a.bound, b.bound), low=low, more=name)


def library(text: str, *args: Term, bound: float = 8.0, low: float = -INF) -> Term:
    """A call of a function of specs/lib, named by the text up to its brackets."""
    name = text.split("(")[0].split("[")[0]
    return term("lib", text, *args, bound=bound, low=low, more=name)


def reduced(kind: str, axis: str, a: Term, condition: Term | None = None) -> Term:
    """sum[axis if condition](a), with `axis` gone."""
    args = (a,) if condition is None else (a, condition)
    text = f"{kind}[{axis}]({{0}})" if condition is None else f"{kind}[{axis} if {{1}}]({{0}})"
    bound = a.bound * (8 if kind == "sum" else 1)
    shown = "int" if kind == "count" else a.kind if kind in ("sum", "max", "min") else "real"
    low = 0.0 if a.low >= 0 or kind == "count" else -INF
    return term(
        "reduce", text, *args, axes=union(*args) - {axis}, kind=shown, bound=bound, low=low, more=f"{kind} {axis}"
    )


def contracted(a: Term, b: Term, axis: str) -> Term:
    """a @[axis] b."""
    return term(
        "contract", f"{{0}} @[{axis}] {{1}}", a, b, axes=union(a, b) - {axis}, bound=a.bound * b.bound * 3, more=axis
    )


def renamed(a: Term, old: str, new: str) -> Term:
    """a[old → new]."""
    axes = a.axes - {old} | {new}
    return term(
        "rename", f"{{0}}[{old} → {new}]", a, axes=axes, kind=a.kind, bound=a.bound, low=a.low, more=f"{old} {new}"
    )


def picked(a: Term, axis: str, at: Term, otherwise: str = "") -> Term:
    """a[axis = at], or `otherwise` where there is no such entry."""
    tail = f" else {otherwise}" if otherwise else ""
    axes = a.axes - {axis} | at.axes
    low = min(a.low, 0.0) if otherwise else a.low
    return term(
        "pick", f"{{0}}[{axis} = {{1}}{tail}]", a, at, axes=axes, kind=a.kind, bound=a.bound, low=low, more=axis
    )


def chosen(condition: Term, a: Term, b: Term) -> Term:
    """a if condition else b."""
    bound, low = max(a.bound, b.bound), min(a.low, b.low)
    kind = "int" if a.kind == b.kind == "int" else "real"
    return term("where", "{1} if {0} else {2}", condition, a, b, kind=kind, bound=bound, low=low)


def compared(op: str, a: Term, b: Term) -> Term:
    """A yes/no relation."""
    return term("compare", f"{{0}} {op} {{1}}", a, b, kind="bool", bound=1.0, more=op)


def joined(op: str, a: Term, b: Term) -> Term:
    """a and b, a or b."""
    return term(op, f"{{0}} {op} {{1}}", a, b, kind="bool", bound=1.0)


def denied(a: Term) -> Term:
    """not a."""
    return term("not", "not {0}", a, kind="bool", bound=1.0)
