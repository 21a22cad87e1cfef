"""The verifier: what must hold of a graph after every stage. A violation is a fault of transformula."""

from __future__ import annotations

from ..grammar.diagnostics import InternalError
from . import ops
from .ir import Axis, Graph, Node
from .kernels import BACKWARD, KERNELS, is_draw, parts

LEAVES = ("input", "weight", "const", "table", "index", "position", "size", "visible", "counter", "carry")
OPERATIONS = (
    *LEAVES, "map", "contract", "reduce", "pick", "rename", "split", "merge", "concat", "widen", "rank", "order",
    "repeat", "random", "selected", "total", "scatter",
    "past", "loop", "state", "history", "kernel", "append", "keep", "stored",
)  # fmt: skip


def verify(graph: Graph) -> None:
    """Raises `InternalError` when axes, operations, loops or weights of the graph are not in order."""
    known = {weight.name: weight for weight in graph.weights}
    loops: dict[int, Node] = {}
    for one in graph.nodes():
        _node(one)
        if one.op == "loop" and loops.setdefault(one["loop"], one) is not one:
            raise InternalError(f"two loops have the number {one['loop']}: their counters would be one")
        if one.op == "weight" and (one["name"] not in known or known[one["name"]].axes != one.axes):
            raise InternalError(f"the weight {one['name']} is not in the graph's table with these axes")
    for out in graph.outputs:
        if set(out.axes) != set(out.node.axes):
            raise InternalError(f"output {out.name} has {out.node.axes}, not {out.axes}")
        if out.node.free:
            raise InternalError(f"output {out.name} depends on the step of a loop")


def _node(one: Node) -> None:
    if one.op not in OPERATIONS:
        raise InternalError(f"no core operation is called {one.op}")
    if len(set(one.axes)) != len(one.axes):
        raise InternalError(f"{one} has an axis twice")
    if one.op == "map" and len(one.args) != ops.FUNCTIONS[one["fn"]].arity:
        raise InternalError(f"{one} has {len(one.args)} arguments")
    if one.op == "contract":
        for axis in one["over"]:
            if any(axis not in arg.axes for arg in one.args):
                raise InternalError(f"{one} sums over {axis}, which an operand lacks")
    if one.op == "total" and any(all(axis not in arg.axes for arg in one.args) for axis in one["over"]):
        raise InternalError(f"{one} sums over an axis that no operand has")
    if one.op == "scatter" and any(key not in one.axes for key in one["keys"]):
        raise InternalError(f"{one} adds along an axis that its result lacks")
    if one.op == "pick" and any(key not in one.args[0].axes for key in one["keys"]):
        raise InternalError(f"{one} picks along an axis that its argument lacks")
    if one.op == "kernel" and (one["name"] not in KERNELS or len(one["roles"]) != len(one.args)):
        raise InternalError(f"{one} is no kernel with {len(one.args)} parts")
    if one.op == "kernel" and ("drop" in one["roles"]) != is_draw(one):
        raise InternalError(f"{one} has a rate without a site, or a site without a rate")
    if one.op == "kernel":
        _mask(one)
    if one.op == "loop":
        _loop(one)


def _mask(one: Node) -> None:
    """A relation is truth values, a bound is a whole number of the row: the same for all keys."""
    for role, part in parts(one).items():
        if role == "see" and part.kind not in ("bool", "unknown"):
            raise InternalError(f"{one} sees by numbers")
        if role in ("first", "stop") and (one["name"] != "attention" or part.kind != "int" or one["axis"] in part.axes):
            raise InternalError(f"{one} has a bound `{role}` that is no whole number of its rows")
        if role in ("see", "first", "stop") and not set(part.axes) <= {*one.axes, one["axis"], *_of_slope(one)}:
            raise InternalError(f"{one} has axes of `{role}` that its result lacks")
    if one.get("full") not in (None, True, False):
        raise InternalError(f"{one} says of its rows {one['full']!r}")


def _of_slope(one: Node) -> tuple[Axis, ...]:
    """What flows back has the axes of the meaning's result."""
    return parts(one)["g"].axes if one["name"] in BACKWARD else ()


def _loop(one: Node) -> None:
    slots = one["slots"]
    if len(one["body"]) != slots:
        raise InternalError(f"{one} has {slots} states and {len(one['body'])} results")
    for first, result in zip(one.args[:slots], one["body"], strict=True):
        if set(first.axes) != set(result.axes):
            raise InternalError(f"{one} changes the axes of a state: {first.axes} to {result.axes}")
