"""Algebra of scalars: neutral elements, constants, selections that are decided."""

from __future__ import annotations

import math
from fractions import Fraction

from .. import ir
from ..arithmetic import _static
from ..ir import Axis, Node
from ..numeric import EXACT
from .rule import Match, Rule

ZERO, ONE, TWO = ir.const(Fraction(0)), ir.const(Fraction(1)), ir.const(Fraction(2))


def is_map(one: Node, *names: str) -> bool:
    """Whether the node is one of these scalar functions."""
    return one.op == "map" and one["fn"] in names


def number(one: Node) -> Fraction | float | None:
    """The value of a constant number."""
    if one.op == "const" and not isinstance(one["value"], bool):
        value: Fraction | float = one["value"]
        return value
    return None


def _neutral(one: Node) -> Match | None:
    if not is_map(one, "+", "-", "*", "/", "^"):
        return None
    left, right = one.args
    fn = one["fn"]
    if number(right) == {"+": 0, "-": 0, "*": 1, "/": 1, "^": 1}[fn]:
        return {"node": one, "kept": left}
    if fn in ("+", "*") and number(left) == {"+": 0, "*": 1}[fn]:
        return {"node": one, "kept": right}
    return None


def _same_kind(match: Match) -> str:
    node, kept = match["node"], match["kept"]
    return "" if node.kind == kept.kind or node.kind != "real" else "the result would be an integer, not a real number"


def _dropped_nothing(one: Node) -> Match | None:
    """A rate of 0. (At a rate of 1 all is 0 in training, yet x outside it: no law holds in both.)"""
    if one.op == "random" and one["draw"] == "dropout" and number(one.args[1]) == 0:
        return {"node": one, "kept": one.args[0]}
    return None


def _x(kind: str = "real") -> Node:
    return ir.input_("x", (Axis("a", 3), Axis("b", 4)), kind)


def _square(one: Node) -> Match | None:
    if is_map(one, "^") and number(one.args[1]) == 2:
        return {"x": one.args[0]}
    return None


def _fold(one: Node) -> Match | None:
    if one.op != "map" or one["fn"] not in ("+", "-", "*", "/", "max", "min", "neg"):
        return None
    values = [number(arg) for arg in one.args]
    if any(value is None for value in values):
        return None
    return {"fn": one["fn"], "values": values}


def _no_overflow(match: Match) -> str:
    values = match["values"]
    if match["fn"] == "/" and values[1] == 0:
        return "division by zero stays where it is"
    return "" if all(abs(value) < 1e300 for value in values) else "the numbers are too large to fold"


def _folded(match: Match) -> Node:
    values = match["values"]
    if match["fn"] == "neg":
        return ir.const(-values[0])
    result = _static(match["fn"], *values)
    if isinstance(result, float) and not math.isfinite(result):
        return ir.apply(match["fn"], *(ir.const(v) for v in values))
    return ir.const(result)


def _twice_negated(one: Node) -> Match | None:
    if is_map(one, "neg", "not") and is_map(one.args[0], one["fn"]):
        return {"x": one.args[0].args[0]}
    return None


def _decided(one: Node) -> Match | None:
    """An inner selection by a condition that the outer one has settled already."""
    if not is_map(one, "where"):
        return None
    condition, value, other = one.args
    inside = settle(value, condition, True, 6)
    outside = settle(other, condition, False, 6)
    if inside is value and outside is other:
        return None
    return {"condition": condition, "value": inside, "other": outside}


def settle(one: Node, condition: Node, holds: bool, depth: int) -> Node:
    """The value where the condition is known to hold (or not to): inner selections by it are decided."""
    if depth == 0 or one.op != "map":
        return one
    if one["fn"] == "where" and one.args[0] is condition:
        return settle(one.args[1 if holds else 2], condition, holds, depth)
    args = tuple(settle(arg, condition, holds, depth - 1) for arg in one.args)
    made = ir.rebuild(one, args)
    return made if set(made.axes) <= set(one.axes) else one


def _decide(match: Match) -> Node:
    return ir.where(match["condition"], match["value"], match["other"])


def _selected_sum(one: Node) -> Match | None:
    if one.op != "reduce" or one["reduction"] != "sum" or not is_map(one.args[0], "where"):
        return None
    condition, value, other = one.args[0].args
    if number(other) != 0:
        return None
    missing = [axis for axis in one["over"] if axis not in (*value.axes, *condition.axes)]
    return None if missing else {"node": one, "condition": condition, "value": value}


def _make_selected_sum(match: Match) -> Node:
    node, condition = match["node"], match["condition"]
    if len(node.args) > 1 and node.args[1] is not condition:
        condition = ir.apply("and", node.args[1], condition)
    return ir.reduce("sum", match["value"], node["over"], condition)


MIRROR = {">": "<", ">=": "<="}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def _mirrored(one: Node) -> Match | None:
    return {"node": one} if is_map(one, *MIRROR) else None


def _opposite(one: Node) -> Match | None:
    return {"test": one.args[0]} if is_map(one, "not") and is_map(one.args[0], *OPPOSITE) else None


def _whole_numbers(match: Match) -> str:
    kinds = {arg.kind for arg in match["test"].args}
    return "" if kinds == {"int"} else "real numbers may be NaN, which is neither smaller nor larger"


def _index(size: int, name: str) -> Node:
    return ir.index(Axis(name, size))


def _product_sum(one: Node) -> Match | None:
    """A sum of products in which each side has an axis that the other lacks: a matrix product."""
    if one.op != "reduce" or one["reduction"] != "sum" or len(one.args) > 1 or not is_map(one.args[0], "*"):
        return None
    left, right = one.args[0].args
    shared = all(axis in left.axes and axis in right.axes for axis in one["over"])
    own = not set(left.axes) <= set(right.axes) and not set(right.axes) <= set(left.axes)
    return {"left": left, "right": right, "over": one["over"]} if shared and own else None


def _shared_late(one: Node) -> Match | None:
    if not is_map(one, "/") or one.args[0].op != "contract":
        return None
    product, total = one.args
    if total.op != "reduce" or total["reduction"] != "sum" or total["over"] != product["over"] or len(total.args) > 1:
        return None
    if not is_map(total.args[0], "exp") or total.args[0] not in product.args:
        return None
    return {"product": product, "total": total}


def _share_first(match: Match) -> Node:
    product, total = match["product"], match["total"]
    share = ir.apply("/", total.args[0], total)
    first, second = product.args
    if first is total.args[0]:
        return ir.contract(share, second, product["over"])
    return ir.contract(first, share, product["over"])


def _outer(weights: Node) -> tuple[Node, Node]:
    """Weights along a and b, and values along b and c."""
    return weights, ir.input_("v", (Axis("b", 4), Axis("c", 2)), "real")


def _shared_sample(turned: bool) -> Node:
    weights, values = _outer(ir.apply("exp", _x()))
    over = (Axis("b", 4),)
    product = ir.contract(values, weights, over) if turned else ir.contract(weights, values, over)
    return ir.apply("/", product, ir.reduce("sum", weights, over))


def _truth_sample() -> Node:
    return ir.apply(">", _x(), ONE)


RULES = (
    Rule(
        "neutral", "x + 0 = x, x * 1 = x, x ^ 1 = x", "defaults of parameters leave such terms behind",
        _neutral, lambda m: m["kept"],
        lambda: [ir.apply("+", _x(), ZERO), ir.apply("*", ONE, _x()), ir.apply("/", _x(), ONE)],
        _same_kind, lambda: [ir.apply("/", _x("int"), ONE)],
        numeric=EXACT,
    ),
    Rule(
        "dropped_nothing", "dropout(x, 0) = x", "every entry is kept, and scaled by 1",
        _dropped_nothing, lambda m: ir.widen_to(m["kept"], m["node"].axes),
        lambda: [ir.draw("dropout", (_x(), ZERO), (), "real", "site")],
        _same_kind, lambda: [ir.draw("dropout", (_x("int"), ZERO), (), "real", "site")],
        numeric=EXACT,
    ),
    Rule(
        "square", "x ^ 2 = x * x", "a product is exact and cheaper than a power",
        _square, lambda m: ir.apply("*", m["x"], m["x"]), lambda: [ir.apply("^", _x(), TWO)],
        numeric=EXACT,
    ),
    Rule(
        "constants", "numbers are computed once, here", "exact arithmetic at compile time",
        _fold, _folded, lambda: [ir.apply("*", ir.const(Fraction(3, 2)), TWO), ir.apply("neg", ONE)],
        _no_overflow, lambda: [ir.apply("/", ONE, ZERO), ir.apply("*", ir.const(1e301), TWO)],
    ),
    Rule(
        "negations", "-(-x) = x", "nothing to compute",
        _twice_negated, lambda m: m["x"],
        lambda: [ir.apply("neg", ir.apply("neg", _x()))],
        numeric=EXACT,
    ),
    Rule(
        "decided", "c ? (c ? x : y) : z = c ? x : z", "0/−∞ masks make nested selections of one relation",
        _decided, _decide,
        lambda: [ir.where(_truth_sample(), ir.apply("exp", ir.where(_truth_sample(), _x(), ZERO)), ONE)],
        numeric=EXACT,
    ),
    Rule(
        "selected_sum", "Σ (c ? x : 0) = Σ over c of x", "the normal form of a sum over a relation",
        _selected_sum, _make_selected_sum,
        lambda: [
            ir.reduce("sum", ir.where(_truth_sample(), _x(), ZERO), (Axis("b", 4),), condition)
            for condition in (None, ir.apply("<", _x(), ONE), ir.apply("<", ir.apply("tanh", _x()), ZERO))
        ],
        numeric=EXACT,
    ),
    Rule(
        "mirrored", "a ≥ b is b ≤ a", "one form for each comparison, so that equal masks are one",
        _mirrored, lambda m: ir.apply(MIRROR[m["node"]["fn"]], *m["node"].args[::-1]),
        lambda: [ir.apply(">=", _x(), ONE), ir.apply(">", _x("int"), TWO)],
        numeric=EXACT,
    ),
    Rule(
        "opposite", "not a < b is a ≥ b", "what -∞ excludes is told by what it lets through",
        _opposite, lambda m: ir.apply(OPPOSITE[m["test"]["fn"]], *m["test"].args),
        lambda: [ir.apply("not", ir.apply(fn, _index(4, "a"), _index(4, "b"))) for fn in ("<", "<=", "==", "!=")],
        _whole_numbers, lambda: [ir.apply("not", ir.apply("<", _x(), ONE))],
        numeric=EXACT,
    ),
    Rule(
        "product_sum", "Σ[k] (a * b) = a @[k] b", "a product of matrices makes no table of all its terms",
        _product_sum, lambda m: ir.contract(m["left"], m["right"], m["over"]),
        lambda: [ir.reduce("sum", ir.apply("*", *_outer(_x())), (Axis("b", 4),))],
    ),
    Rule(
        "share_first", "(e^s @[k] V) / Σ[k] e^s = (e^s / Σ[k] e^s) @[k] V", "the shares are a softmax, made stable",
        _shared_late, _share_first, lambda: [_shared_sample(False), _shared_sample(True)],
    ),
)  # fmt: skip
