"""tie A = B: two weights of one storage. The second is the first, wherever it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..grammar import syntax as s
from . import expressions, ir
from .ir import Node, Output
from .scope import Scope
from .values import Tensor


def tied(scope: Scope, outputs: Sequence[Output]) -> tuple[Output, ...]:
    """The results with tied weights as one node each. Raises `TransformulaError` for what cannot be tied."""
    root = scope.root()
    one_of: dict[Node, Node] = {}
    for tie in scope.session.module.ties:
        left, right = _weight(root, tie.left), _weight(root, tie.right)
        if set(left.axes) != set(right.axes):
            raise root.fail(
                "U711",
                "only weights with the same axes can be one",
                tie.right.span,
                because=(root.told(Tensor(left), tie.left), root.told(Tensor(right), tie.right)),
                help="An instance with a size of its own, like G : Bert(d = d / 4), has axes of its own.",
            )
        left, right = _first(one_of, left), _first(one_of, right)
        if left is not right:
            one_of[right] = left
    if not one_of:
        return tuple(outputs)
    roots = ir.transform([out.node for out in outputs], lambda node: _first(one_of, node))
    return tuple(replace(out, node=node) for out, node in zip(outputs, roots, strict=True))


def _first(one_of: dict[Node, Node], node: Node) -> Node:
    """Follows ties of ties."""
    while node in one_of:
        node = one_of[node]
    return node


def _weight(root: Scope, written: s.Expr) -> Node:
    found = expressions.lower(root, written)
    if isinstance(found, Tensor) and found.node.op == "weight":
        return found.node
    raise root.fail(
        "U710",
        "only a weight can be tied",
        written.span,
        help="Name it through the instances at the top level of the file: tie head.U = bert.embed.E.",
    )
