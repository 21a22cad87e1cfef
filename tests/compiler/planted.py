"""Wrong passes, planted for tests: each is a rewrite that a compiler somewhere has got wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from tests.compiler import zoo
from transformula.compiler import ir, kernels, passes
from transformula.compiler.ir import Axis, Graph, Node
from transformula.compiler.ledger import Ledger

Change = Callable[[Node], Node]

DIVISION = "h[seq, d] = u / n if n > 0 else 0\n    where u = E[vocab = tokens]\n          n = max(u, 0)\n"
GUARDED = zoo.spec("", zoo.IDS + DIVISION + zoo.EMBED)
"""A division that a condition guards."""


@dataclass(frozen=True)
class Fault:
    """What a pass gets wrong: its name, how its graph is spoilt, a model of the zoo on which that shows."""

    name: str
    stage: str
    spoil: Callable[[Graph], Graph]
    model: str = "bert"


def plant(monkeypatch: Any, fault: Fault) -> None:
    """From now on the pass spoils its graph."""

    def rows() -> Iterator[Any]:
        for row in passes.PASSES:
            yield replace(row, run=_spoilt(row.run, fault)) if row.name == fault.stage else row

    monkeypatch.setattr(passes, "PASSES", tuple(rows()))


def _spoilt(run: Callable[[Graph, Ledger], Graph], fault: Fault) -> Callable[[Graph, Ledger], Graph]:
    return lambda graph, ledger: fault.spoil(run(graph, ledger))


def everywhere(change: Change) -> Callable[[Graph], Graph]:
    """The change at every node."""
    return lambda graph: graph.rewrite(change)


def kernel(name: str, change: Callable[[Node, dict[str, Node]], Node]) -> Callable[[Graph], Graph]:
    """The change at every kernel of a name, given its parts."""
    return everywhere(
        lambda one: change(one, kernels.parts(one)) if one.op == "kernel" and one["name"] == name else one
    )


def remade(one: Node, parts: dict[str, Node], **attrs: Any) -> Node:
    """The kernel with other parts and attributes."""
    kept = {name: value for name, value in one.attrs.items() if name not in ("name", "roles")}
    return kernels.make(one["name"], parts, one.axes, **{**kept, **attrs})


def _guard(one: Node) -> Node:
    return one.args[1] if one.op == "map" and one["fn"] == "where" and set(one.args[1].axes) == set(one.axes) else one


def _flipped(one: Node, at: dict[str, Node]) -> Node:
    return remade(one, {**at, "see": ir.apply("not", at["see"])}) if "see" in at else one


def _unscaled_bias(one: Node) -> Node:
    """scale * b is b again: the sum scale * W and the bias is all that the pass makes of numbers and weights."""
    scaled = one.op == "map" and one["fn"] == "*" and one.args[1].op == "const" and len(one.axes) == 2
    return one.args[0] if scaled and not any(axis.name == "d" for axis in one.axes) else one


def _swapped(one: Node) -> Node:
    if one.op == "pick" and one["keys"][0].name == "projection" and one.args[1].op == "const":
        other = {0: 1, 1: 0}.get(int(one.args[1]["value"]))
        return one if other is None else ir.pick(one.args[0], {one["keys"][0]: ir.const(other)})
    return one


def _disowned(one: Node) -> Node:
    """The reduction sees padding, for it has forgotten whose length it goes over."""
    if one.op != "reduce" or not one["over"][0].counted or len(one.args) > 1:
        return one
    free = _free(one["over"][0])
    return ir.reduce(one["reduction"], ir.rename(one.args[0], {one["over"][0]: free}), (free,))


def _free(axis: Axis) -> Axis:
    return Axis(axis.name, axis.size, None, 77)


def _leaking(one: Node) -> Node:
    """mean[seq](x) = Σ x * real / Σ real, which is right but for NaN where `real` is 0."""
    if one.op != "reduce" or one["reduction"] != "mean" or not one["over"][0].counted or len(one.args) > 1:
        return one
    axis = one["over"][0]
    free, other = _free(axis), Axis(axis.name, axis.size, axis.owner, 78)
    same = ir.apply("==", ir.index(other), ir.index(free))
    real = ir.where(ir.reduce("any", ir.widen(same, axis.owner), (other,)), ir.const(1), ir.const(0))
    total = ir.reduce("sum", ir.apply("*", ir.rename(one.args[0], {axis: free}), real), (free,))
    return ir.apply("/", total, ir.apply("max", ir.reduce("sum", real, (free,)), ir.const(1)))


def _early(one: Node) -> Node:
    """One layer less."""
    if one.op != "loop":
        return one
    less = ir.apply("-", one.args[one["slots"]], ir.const(1))
    args = one.args[: one["slots"]]
    return ir.loop(one["loop"], one["axis"], one["start"], less, args, one["body"], one["name"])


def _strict(one: Node) -> Node:
    return ir.apply("<", *one.args) if one.op == "map" and one["fn"] == "<=" else one


def _residual(one: Node, at: dict[str, Node]) -> Node:
    return remade(one, {**at, "residual": at["x"]}) if "residual" in at else one


def _other_row(one: Node) -> Node:
    """The last token instead of the first."""
    if one.op != "pick" or not one["keys"][0].counted or one.args[1] is not ir.const(0):
        return one
    (axis,) = one["keys"]
    return ir.pick(one.args[0], {axis: ir.apply("-", ir.size(axis), ir.const(1))})


def _scaled(one: Node, at: dict[str, Node]) -> Node:
    return remade(one, at, scale=Fraction(1, 3))


FAULTS = (
    Fault("a guard is dropped", "simplify", everywhere(_guard), GUARDED),
    Fault("a mask has the wrong polarity", "recognise", kernel("attention", _flipped), "gpt"),
    Fault("causality is strict", "simplify", everywhere(_strict), "gpt"),
    Fault("a bias is left out of a folded scale", "fold_scales", everywhere(_unscaled_bias)),
    Fault("operands of equal size are swapped", "merge_projections", everywhere(_swapped)),
    Fault("NaN leaks out of padding", "simplify", everywhere(_leaking), "sbert"),
    Fault("a mean sees padding", "simplify", everywhere(_disowned), "sbert"),
    Fault("ε is another one", "fuse", kernel("layer_norm", lambda one, at: remade(one, at, eps=Fraction(1, 10**9)))),
    Fault("a residual is wrong", "fuse", kernel("layer_norm", _residual)),
    Fault("the last result is swallowed", "fuse", lambda graph: replace(graph, outputs=graph.outputs[:-1])),
    Fault("a scale is folded twice", "fold_scales", kernel("attention", _scaled)),
    Fault("another GELU", "recognise", kernel("gelu", lambda one, at: kernels.make("gelu_tanh", at, one.axes))),
    Fault("another row is picked", "push_picks", everywhere(_other_row)),
    Fault("the last layer is left out", "merge_projections", everywhere(_early)),
)  # fmt: skip
