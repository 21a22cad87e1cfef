"""The PyTorch form of each scalar function and reduction: one line each."""

from __future__ import annotations

from collections.abc import Sequence

SCALAR: dict[str, tuple[str, bool]] = {
    "+": ("{0} + {1}", False),
    "-": ("{0} - {1}", False),
    "*": ("{0} * {1}", False),
    "/": ("{0} / {1}", False),
    "//": ("{0} // {1}", False),
    "%": ("{0} % {1}", False),
    "^": ("power({0}, {1})", True),
    "neg": ("-{0}", False),
    "max": ("torch.maximum({0}, {1})", True),
    "min": ("torch.minimum({0}, {1})", True),
    "<": ("{0} < {1}", False),
    "<=": ("{0} <= {1}", False),
    ">": ("{0} > {1}", False),
    ">=": ("{0} >= {1}", False),
    "==": ("{0} == {1}", False),
    "!=": ("{0} != {1}", False),
    "and": ("{0} & {1}", False),
    "or": ("{0} | {1}", False),
    "not": ("~{0}", False),
    "where": ("torch.where({0}, {1}, {2})", True),
    "exp": ("{0}.exp()", True),
    "log": ("{0}.log()", True),
    "sqrt": ("{0}.sqrt()", True),
    "erf": ("{0}.erf()", True),
    "tanh": ("{0}.tanh()", True),
    "sin": ("{0}.sin()", True),
    "cos": ("{0}.cos()", True),
    "abs": ("{0}.abs()", True),
    "sign": ("{0}.sign()", True),
    "floor": ("whole_floor({0})", True),
    "ceil": ("whole_floor({0}, up=True)", True),
    "stop": ("{0}.detach()", True),
}
"""Text, and whether it needs no parentheses. The first operand is a tensor, see `tensors`."""

NUMBERS = ("max", "min", "where", "exp", "log", "sqrt", "erf", "tanh", "sin", "cos", "abs", "sign", "floor", "ceil")
"""Functions that take no plain number where a tensor is meant."""

REDUCTIONS = {
    "sum": "{x}.sum(dim={dims})",
    "mean": "{x}.mean(dim={dims})",
    "prod": "{x}.prod(dim={dim})",
    "max": "{x}.amax(dim={dims})",
    "min": "{x}.amin(dim={dims})",
    "argmax": "{x}.argmax(dim={dim})",
    "norm": "torch.linalg.vector_norm({x}, dim={dims})",
    "count": "{x}.sum(dim={dims})",
    "any": "{x}.any(dim={dims})",
    "all": "{x}.all(dim={dims})",
}
"""Each reduction over all entries; those over a condition are the function reduce_where."""

OF_REALS = ("mean", "max", "min", "argmax", "norm")
"""Reductions that torch has for real numbers only, or whose result over nothing is none of the whole ones."""


def scalar(fn: str, texts: Sequence[str]) -> tuple[str, bool]:
    """The text of a scalar function, and whether it needs no parentheses."""
    text, atom = SCALAR[fn]
    return text.format(*texts), atom


def reduction(name: str, x: str, dims: tuple[int, ...]) -> str:
    """The text of a reduction over all entries."""
    shown = str(dims[0]) if len(dims) == 1 else str(dims)
    if name == "prod":  # one dimension at a time, the last one first
        for dim in sorted(dims[1:], reverse=True):
            x = REDUCTIONS[name].format(x=x, dim=dim)
    return REDUCTIONS[name].format(x=x, dims=shown, dim=dims[0])
