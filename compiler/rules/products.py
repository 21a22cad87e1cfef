"""Products of sums: a sum whose terms differ along other axes is multiplied out, and each product is one of matrices.

Shaw's relative positions are the case: q · (k_j + r_ij) as it stands makes a table of all pairs of k + r.
"""

from __future__ import annotations

from .. import ir
from ..ir import Axis, Node
from .algebra import is_map
from .rule import Match, Rule


def _wide_sum(one: Node) -> Match | None:
    """q @ (k + r), where k has an axis that q lacks, and lacks an axis that q and r have: then q @ k is smaller."""
    if one.op != "contract":
        return None
    for q, total in (one.args, one.args[::-1]):
        if not is_map(total, "+", "-"):
            continue
        pairs = (total.args, total.args[::-1])
        if any(_widened(q, k, r, one["over"]) for k, r in pairs):
            return {"q": q, "sum": total, "over": one["over"], "first": q is one.args[0]}
    return None


def _widened(q: Node, k: Node, r: Node, over: tuple[Axis, ...]) -> bool:
    owners = {axis.owner for one in (q, k, r) for axis in one.axes}
    shared = [axis for axis in r.axes if axis in q.axes and axis not in k.axes and axis not in owners]
    return bool([axis for axis in shared if axis not in over]) and any(axis not in q.axes for axis in k.axes)


def _all_summed(match: Match) -> str:
    missing = [str(a) for a in match["over"] for term in match["sum"].args if a not in term.axes]
    return f"a term lacks the axis {missing[0]} that is summed over" if missing else ""


def _apart(match: Match) -> Node:
    q, over = match["q"], match["over"]
    products = [
        ir.contract(q, term, over) if match["first"] else ir.contract(term, q, over) for term in match["sum"].args
    ]
    return ir.apply(match["sum"]["fn"], *products)


ROW, COLUMN, D = Axis("i", 3), Axis("j", 4), Axis("d", 2)


def _factors(k: tuple[Axis, ...]) -> tuple[Node, Node, Node]:
    axes = {"q": (ROW, D), "k": k, "r": (ROW, COLUMN, D)}
    q, k_, r = (ir.input_(name, along, "real") for name, along in axes.items())
    return q, k_, r


def _sample(fn: str = "+", turned: bool = False, over: tuple[Axis, ...] = (D,)) -> Node:
    q, k, r = _factors((COLUMN, D))
    total = ir.apply(fn, *((r, k) if turned else (k, r)))
    return ir.contract(total, q, over) if turned else ir.contract(q, total, over)


def _without_d() -> Node:
    q, k, r = _factors((COLUMN,))
    return ir.contract(q, ir.apply("+", k, r), (D,))


RULES = (
    Rule(
        "apart", "q @ (k + r) = q @ k + q @ r", "a table of all pairs of k and r is not made",
        _wide_sum, _apart, lambda: [_sample(), _sample("-"), _sample(turned=True), _sample("-", turned=True)],
        _all_summed, lambda: [_without_d()],
    ),
)  # fmt: skip
