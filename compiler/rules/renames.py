"""Renames sink towards the results: Q, K and V become contractions of one x, and bound axes get one name."""

from __future__ import annotations

from fractions import Fraction

from .. import ir
from ..ir import Axis, Length, Node
from ..kernels import number
from ..numeric import EXACT
from .rule import Match, Rule

ENTRYWISE = ("map", "contract", "reduce", "pick")


def _pairs(one: Node) -> dict[Axis, Axis]:
    return dict(one["pairs"]) if one.op == "rename" else {}


def _sinkable(one: Node) -> Match | None:
    """An operation with a renamed argument, some of whose pairs no other argument minds."""
    if not (one.op in ENTRYWISE or _drops(one)) or not any(arg.op == "rename" for arg in one.args):
        return None
    count = 1 if one.op in ("pick", "random") else len(one.args)
    args, rest = one.args[:count], one.args[count:]
    moved: dict[Axis, Axis] = {}
    for arg in args:
        for old, new in _pairs(arg).items():
            if old != new and _agreed(one, args, rest, old, new):
                moved[old] = new
    moved = _closed(args, moved)
    return {"node": one, "args": args, "rest": rest, "moved": moved} if moved else None


def _drops(one: Node) -> bool:
    """A dropout of every row: its numbers go by the order of its axes, whatever their names are."""
    return one.op == "random" and one["draw"] == "dropout" and one.get("picked") is None


def _agreed(one: Node, args: tuple[Node, ...], rest: tuple[Node, ...], old: Axis, new: Axis) -> bool:
    """Every argument that has the new axis got it by this very renaming, and none has the old one otherwise."""
    for arg in args:
        pairs = _pairs(arg)
        if old in arg.axes or (new in arg.axes and pairs.get(old) != new):
            return False
    if any(old in arg.axes or new in arg.axes for arg in rest):
        return False
    if one.op == "pick" and new in one["keys"]:
        return False
    over = one.get("over", ())
    return old not in over and (old not in one.axes)


def _closed(args: tuple[Node, ...], moved: dict[Axis, Axis]) -> dict[Axis, Axis]:
    """An owner and the axes it owns move together or not at all."""
    while True:
        bad = {
            old
            for old, new in moved.items()
            for arg in args
            for other_old, other_new in _pairs(arg).items()
            if (other_old.owner == old or old.owner == other_old) and moved.get(other_old) != other_new
        }
        if not bad:
            return moved
        moved = {old: new for old, new in moved.items() if old not in bad}


def _sunk(match: Match) -> Node:
    one, moved = match["node"], match["moved"]
    back = {new: old for old, new in moved.items()}
    args = tuple(ir.rename(arg, {a: b for a, b in back.items() if a in arg.axes}) for arg in match["args"])
    over = tuple(back.get(axis, axis) for axis in one.get("over", ()))
    keys = one.get("keys", ())
    if one.op == "contract":
        made = ir.contract(args[0], args[1], over)
    elif one.op == "reduce":
        made = ir.reduce(one["reduction"], args[0], over, args[1] if len(args) > 1 else None)
    elif one.op == "pick":
        made = ir.pick(args[0], dict(zip(keys, match["rest"], strict=True)))
    elif one.op == "random":
        axes = tuple(ir.renamed(axis, back) for axis in one.axes)
        made = ir.node("random", (*args, *match["rest"]), axes, one.kind, **one.attrs)
    else:
        made = ir.rebuild(one, args)
    return ir.rename(made, {old: new for old, new in moved.items() if old in made.axes})


def _batch() -> Axis:
    return Axis("batch", Length("batch"))


def _samples() -> list[Node]:
    seq = Axis("seq", Length("seq"), _batch())
    key, d, dk = Axis("key", Length("seq"), _batch()), Axis("d", 4), Axis("dk", 3)
    x = ir.input_("x", (_batch(), seq, d), "real")
    W, b = ir.weight("W", (d, dk)), ir.weight("b", (dk,))
    K = ir.contract(ir.rename(x, {seq: key}), W, (d,))
    fresh = Axis("dk", 3, None, 7)
    scores = ir.contract(
        ir.rename(ir.contract(x, W, (d,)), {dk: fresh}), ir.rename(ir.apply("+", K, b), {dk: fresh}), (fresh,)
    )
    dropped = ir.draw("dropout", (ir.rename(x, {seq: key}), number(Fraction(1, 4))), (), "real", "dropout at 3")
    return [K, ir.apply("exp", ir.rename(x, {seq: key})), scores, dropped]


RULES = (
    Rule(
        "sink_renames", "f(x[a → b]) = f(x)[a → b]", "one x for all projections; bound axes have one name",
        _sinkable, _sunk, _samples, numeric=EXACT,
    ),
)  # fmt: skip
