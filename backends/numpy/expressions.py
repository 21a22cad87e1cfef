"""The NumPy form of each scalar function and reduction: one line each."""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.ir import Node
from .values import Value

SCALAR: dict[str, tuple[str, bool, tuple[str, ...]]] = {
    "+": ("{0} + {1}", False, ()),
    "-": ("{0} - {1}", False, ()),
    "*": ("{0} * {1}", False, ()),
    "/": ("{0} / {1}", False, ()),
    "//": ("{0} // {1}", False, ()),
    "%": ("{0} % {1}", False, ()),
    "^": ("np.power({0}, {1}, dtype=float)", True, ()),
    "neg": ("-{0}", False, ()),
    "max": ("np.maximum({0}, {1})", True, ()),
    "min": ("np.minimum({0}, {1})", True, ()),
    "<": ("{0} < {1}", False, ()),
    "<=": ("{0} <= {1}", False, ()),
    ">": ("{0} > {1}", False, ()),
    ">=": ("{0} >= {1}", False, ()),
    "==": ("{0} == {1}", False, ()),
    "!=": ("{0} != {1}", False, ()),
    "and": ("{0} & {1}", False, ()),
    "or": ("{0} | {1}", False, ()),
    "not": ("np.logical_not({0})", True, ()),
    "where": ("np.where({0}, {1}, {2})", True, ()),
    "exp": ("np.exp({0})", True, ()),
    "log": ("np.log({0})", True, ()),
    "sqrt": ("np.sqrt({0})", True, ()),
    "tanh": ("np.tanh({0})", True, ()),
    "sin": ("np.sin({0})", True, ()),
    "cos": ("np.cos({0})", True, ()),
    "abs": ("np.abs({0})", True, ()),
    "sign": ("np.sign({0})", True, ()),
    "floor": ("whole_floor({0})", True, ("whole_floor",)),
    "ceil": ("whole_floor({0}, up=True)", True, ("whole_floor",)),
    "erf": ("erf(np.asarray({0}))", True, ("erf",)),
    "stop": ("{0}", False, ()),
}
"""Text, whether it needs no parentheses, and the run-time kernels it calls."""

REDUCTIONS = {
    "sum": "{x}.sum(axis={axes})",
    "mean": "{x}.mean(axis={axes})",
    "prod": "{x}.prod(axis={axes})",
    "max": "{x}.max(axis={axes})",
    "min": "{x}.min(axis={axes})",
    "argmax": "{x}.argmax(axis={axis})",
    "norm": "np.sqrt(np.square({x}).sum(axis={axes}))",
    "count": "np.count_nonzero({x}, axis={axes})",
    "any": "{x}.any(axis={axes})",
    "all": "{x}.all(axis={axes})",
}
"""Each reduction over all entries; those over a condition are the kernel reduce_where."""


def scalar(fn: str, texts: Sequence[str], wide: bool = True) -> tuple[str, bool, tuple[str, ...]]:
    """The text of a scalar function, whether it needs no parentheses, and the kernels it calls."""
    text, atom, needs = SCALAR[fn]
    if fn == "^" and not wide:  # already in the model's type, which is kept
        text = "np.power({0}, {1})"
    return text.format(*texts), atom, needs


def reduction(name: str, value: Value, axes: tuple[int, ...]) -> str:
    """The text of a reduction over all entries."""
    shown = str(axes[0]) if len(axes) == 1 else str(axes)
    return REDUCTIONS[name].format(x=value.wrapped, axes=shown, axis=axes[0])


def is_wide(one: Node, values: Sequence[Value]) -> bool:
    """Whether a result is still made of whole numbers (and numbers) only, hence in double precision."""
    if one.kind == "bool":
        return True
    branches = values[1:] if one["fn"] == "where" else values
    return all(value.wide or value.number for value in branches)
