"""One sweep against the flow of a scope: adjoints are added up node by node, readers first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from .. import ir
from ..ir import Axis, Node
from .finite import Finite
from .scalars import ZERO, add

Rule = Callable[["Sweep", Node, Node], None]
"""(sweep, node, its adjoint): lets flow to the arguments what is theirs."""


def summed(values: Sequence[Node], over: Iterable[Axis]) -> Node:
    """Σ over axes of a product of one or two values, of all entries that exist.

    Where no length takes part this is an ordinary sum or product, which all passes know.
    """
    over = tuple(over)
    axes = ir.union(values)
    if not over:
        return values[0] if len(values) == 1 else ir.apply("*", *values)
    if any(axis.ragged and (axis in over or axis.owner in over) and axis.owner is not None for axis in axes):
        return ir.total(values, over)
    if len(values) == 1:
        return ir.reduce("sum", values[0], over)
    # what only one of the two has is summed first, which is less work
    both = tuple(axis for axis in over if all(axis in one.axes for one in values))
    alone = [tuple(a for a in over if a in one.axes and a not in both) for one in values]
    a, b = (ir.reduce("sum", one, own) if own else one for one, own in zip(values, alone, strict=True))
    return ir.contract(a, b, both) if both else ir.apply("*", a, b)


@dataclass
class Sweep:
    """The adjoints of a scope: a graph, the body of a loop, or the inside of a recognised meaning.

    `active` says which nodes a gradient flows through; `parent` takes what flows out of the scope. `keep` are axes that
    a sum leaves: in a loop over a length each example has its own number of steps, and sums of its own. `ends` are
    the readers of loops: (state, its number, adjoint). `forward` are nodes of the forward pass that are worth keeping,
    `stands_for` tells what a node is the adjoint of, `extended` what a loop of the forward keeps besides.
    """

    active: Callable[[Node], bool]
    rules: Callable[[Node], Rule]
    finite: Finite
    fresh: Callable[[], int]
    adjoints: dict[Node, Node] = field(default_factory=dict)
    ends: dict[Node, list[tuple[int, Node | None, Node]]] = field(default_factory=dict)
    keep: tuple[Axis, ...] = ()
    forward: set[Node] = field(default_factory=set)
    extended: dict[Node, tuple[list[Node], list[Node]]] = field(default_factory=dict)
    stands_for: dict[Node, Node] = field(default_factory=dict)

    def inner(self) -> Sweep:
        """A sweep of a scope inside, which shares all but the adjoints."""
        return Sweep(
            self.active, self.rules, self.finite, self.fresh,
            keep=self.keep, forward=self.forward, extended=self.extended, stands_for=self.stands_for,
        )  # fmt: skip

    def flow(self, arg: Node, g: Node) -> None:
        """Adds to the adjoint of a node; axes that the node lacks are summed."""
        if not self.active(arg):
            return
        g = summed((g,), (axis for axis in g.axes if axis not in arg.axes and axis not in self.keep))
        old = self.adjoints.get(arg)
        self.adjoints[arg] = g if old is None else add(old, g)

    def run(self, order: Sequence[Node], leaf: Callable[[Node], bool] = lambda one: False) -> None:
        """Goes through the nodes of the scope, last first; leaves keep their adjoints."""
        for one in reversed(order):
            reached = one in self.adjoints or one in self.ends
            if reached and not leaf(one) and self.active(one):
                g = self.adjoints.get(one, ZERO)
                self.stands_for.setdefault(g, one)
                self.rules(one)(self, one, ir.widen_to(g, one.axes) if one.op != "loop" else g)
