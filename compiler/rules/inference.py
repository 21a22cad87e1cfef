"""Evaluation instead of training: dropout is the identity."""

from __future__ import annotations

from fractions import Fraction

from .. import ir
from ..ir import Axis, Node
from ..numeric import EXACT
from .rule import Match, Rule


def _dropout(one: Node) -> Match | None:
    return {"x": one.args[0], "axes": one.axes} if one.op == "random" and one["draw"] == "dropout" else None


def _stop(one: Node) -> Match | None:
    return {"x": one.args[0]} if one.op == "map" and one["fn"] == "stop" else None


def _x() -> Node:
    return ir.input_("x", (Axis("a", 3),), "real")


def _rate() -> Node:
    return ir.input_("rate", (Axis("b", 2),), "real")


RULES = (
    Rule(
        "no_dropout", "dropout(x, p) = x outside training", "a compiled module is for inference",
        _dropout, lambda m: ir.widen_to(m["x"], m["axes"]),
        lambda: [ir.draw("dropout", (_x(), rate), (), "real", "site") for rate in (ir.const(Fraction(1, 10)), _rate())],
        numeric=EXACT,
    ),
    Rule(
        "no_stop", "stop(x) = x where no gradient is taken", "it only cuts the gradient",
        _stop, lambda m: m["x"],
        lambda: [ir.apply("stop", _x())],
        numeric=EXACT,
    ),
)  # fmt: skip
