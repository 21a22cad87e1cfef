"""tie A = B: two weights of one storage. A is B, wherever it is used: B has the row in the checkpoint map."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ..grammar import syntax as s
from . import expressions, ir
from .ir import Node, Output
from .names import declared_names, names_in
from .scope import Scope
from .values import Tensor


def tied(scope: Scope, outputs: Sequence[Output]) -> tuple[Output, ...]:
    """The results with tied weights as one node each. Raises `TransformulaError` for what cannot be tied."""
    one_of: dict[Node, Node] = {}
    for tie in scope.session.module.ties:
        if _unused(scope, tie.left) or _elsewhere(scope, tie.left) or _elsewhere(scope, tie.right):
            continue
        left, right = _weight(scope, tie.left), _weight(scope, tie.right)
        if set(left.axes) != set(right.axes):
            raise scope.fail(
                "U711",
                "only weights with the same axes can be one",
                tie.right.span,
                because=(scope.told(Tensor(left), tie.left), scope.told(Tensor(right), tie.right)),
                help="An instance with a size of its own, like G : Bert(d = d / 4), has axes of its own.",
            )
        left, right = _first(one_of, left), _first(one_of, right)
        if left is not right:
            one_of[left] = right
    if not one_of:
        return tuple(outputs)
    moved = partial(ir.take_origin, scope.session.origins)
    roots = ir.transform([out.node for out in outputs], lambda node: _first(one_of, node), moved)
    return tuple(replace(out, node=node) for out, node in zip(outputs, roots, strict=True))


def _first(one_of: dict[Node, Node], node: Node) -> Node:
    """Follows ties of ties."""
    while node in one_of:
        node = one_of[node]
    return node


def _unused(scope: Scope, written: s.Expr) -> bool:
    """Whether the weight is of an instance of the spec of which this model uses nothing."""
    first = next(names_in(written), None)
    if first is None or first.name not in scope.session.module.uses:
        return False
    return not any(re.split(r"[.\[]", name)[0] == first.name for name in scope.session.weights)


def _elsewhere(scope: Scope, written: s.Expr) -> bool:
    """Whether the weight belongs to another model of the spec, and so is none of this one's business."""
    first = next(names_in(written), None)
    if first is None or scope.lookup(first.name) is not None:
        return False
    entries = scope.session.module.entries.values()
    return any(first.name in (one.name for one in declared_names(entry.definition.body)) for entry in entries)


def _weight(scope: Scope, written: s.Expr) -> Node:
    found = expressions.lower(scope, written)
    if isinstance(found, Tensor) and found.node.op == "weight":
        return found.node
    raise scope.fail(
        "U710",
        "only a weight can be tied",
        written.span,
        help="Name it through the instances at the top level of the file: tie head.U = bert.embed.E.",
    )
