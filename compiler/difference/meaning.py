"""Whether two graphs mean the same: a signature that neither names, order of terms nor spelling change.

Nodes are coloured from what they are made of and from where they are used, as in the test of isomorphism by Weisfeiler
and Leman. Names of axes, weights and loops are no part of a colour; sums, products and conjunctions are taken as the
terms that they have, in any order. Two graphs with the same signature are the same formula.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..ir import Axis, Graph, Node, Output, ordered

ROUNDS = 3
CHAINS: Mapping[str, tuple[str, tuple[int, int]]] = {
    "+": ("+", (1, 1)),
    "-": ("+", (1, -1)),
    "*": ("*", (1, 1)),
    "/": ("*", (1, -1)),
    "and": ("and", (1, 1)),
    "or": ("or", (1, 1)),
}
"""Functions whose terms stand in any order: the chain that each belongs to, and the sign of its terms."""
UNORDERED = frozenset(("max", "min", "==", "!="))
MIRRORED = {">": "<", ">=": "<="}
IGNORED = frozenset(("site", "steps", "full"))
IDENTITIES = frozenset(("loop",))
LONGEST = 256
"""Terms of a chain; a longer one is not opened further: x + x of y + y of … would have too many."""


def signature(graph: Graph, inputs: Sequence[str] = ()) -> str:
    """The colour of a graph. With `inputs` these are known by their place in it, all others by their name."""
    return _Colours(graph, {name: str(place) for place, name in enumerate(inputs)}).whole()


def digest(one: Node) -> str:
    """The colour of a single expression: what it is made of, names of axes aside."""
    output = Output("", one, one.axes)
    return _Colours(Graph("", (output,), (), (), {}), {}).whole()


def _digest(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


class _Colours:
    """The colours of one graph: of nodes by what is below and above them, of axes, weights and loops by their use."""

    def __init__(self, graph: Graph, inputs: Mapping[str, str]) -> None:
        self.graph, self.inputs = graph, inputs
        self.terms: dict[Node, tuple[str, tuple[tuple[int, Node], ...]]] = {}
        self.order = list(ordered(graph.roots, self.below))
        self.identity: dict[object, str] = {}

    def below(self, one: Node) -> Sequence[Node]:
        """What a node is made of: the terms of a whole chain, and the body of a loop."""
        if one.op == "map" and (one["fn"] in CHAINS or one["fn"] == "neg"):
            if one not in self.terms:
                self.terms[one] = _chain(one)
            return [term for _, term in self.terms[one][1]]
        return (*one.args, *one["body"]) if one.op == "loop" else one.args

    def whole(self) -> str:
        """The signature: the colours of all nodes as often as they are there, and those of the results in order."""
        for _ in range(ROUNDS):
            below = self.from_below()
            above = self.from_above(below)
            self.identity = self.refined(below, above)
        below = self.from_below()
        axes = [[self.of(axis) for axis in out.axes] for out in self.graph.outputs]
        outputs = zip(self.graph.outputs, axes, strict=True)
        results = [(out.name, below[out.node], sorted(made)) for out, made in outputs]
        return _digest(sorted(Counter(below.values()).items()), results)

    def of(self, one: object) -> str:
        """The colour of an axis, weight or loop so far."""
        found = self.identity.get(one)
        if found is None and isinstance(one, Axis):
            found = _digest("axis", one.size if isinstance(one.size, int) else "length", one.owner is not None)
        return found or "?"

    def from_below(self) -> dict[Node, str]:
        """The colour of each node by what it is made of."""
        made: dict[Node, str] = {}
        for one in self.order:
            made[one] = _digest(one.op, self.own(one, made), sorted(self.of(axis) for axis in one.axes))
        return made

    def own(self, one: Node, made: Mapping[Node, str]) -> object:
        """What a node is, without its axes."""
        if one in self.terms:
            name, terms = self.terms[one]
            return name, sorted((sign, made[term]) for sign, term in terms)
        args: list[str] = [made[arg] for arg in self.below(one)]
        if one.op == "map":
            name = one["fn"]
            if name in MIRRORED:
                name, args = MIRRORED[name], args[::-1]
            return name, sorted(args) if name in UNORDERED else args
        if one.op == "weight":
            return self.of(("weight", one["name"]))
        if one.op == "input":
            return self.inputs.get(one["name"], one["name"]), args
        attrs = [(key, self.value(key, value, made)) for key, value in sorted(one.attrs.items()) if key not in IGNORED]
        if one.op == "loop":
            attrs = [pair for pair in attrs if pair[0] != "name"]
        return attrs, sorted(args) if one.op == "contract" else args

    def value(self, key: str, value: Any, made: Mapping[Node, str]) -> object:
        """An attribute, names aside."""
        if isinstance(value, Axis):
            return self.of(value)
        if isinstance(value, Node):
            return made.get(value, "?")
        if isinstance(value, tuple):
            return [self.value(key, part, made) for part in value]
        return self.of((key, value)) if key in IDENTITIES else str(value)

    def from_above(self, below: Mapping[Node, str]) -> dict[Node, str]:
        """The colour of each node by where it is used."""
        used: dict[Node, list[str]] = {one: [] for one in self.order}
        for place, root in enumerate(self.graph.roots):
            used[root].append(_digest("result", place))
        above: dict[Node, str] = {}
        for one in reversed(self.order):
            above[one] = _digest(sorted(used[one]))
            for where, arg in self.places(one):
                used[arg].append(_digest(below[one], above[one], where))
        return above

    def places(self, one: Node) -> Iterable[tuple[object, Node]]:
        """What a node is made of, each with the place that it has there, if places matter."""
        if one in self.terms:
            return self.terms[one][1]
        if one.op == "contract" or (one.op == "map" and one["fn"] in UNORDERED):
            return [(0, arg) for arg in one.args]
        found = self.below(one)
        mirrored = one.op == "map" and one["fn"] in MIRRORED
        return [(len(found) - 1 - place if mirrored else place, arg) for place, arg in enumerate(found)]

    def refined(self, below: Mapping[Node, str], above: Mapping[Node, str]) -> dict[object, str]:
        """The colours of axes, weights and loops by all the nodes that they are used in."""
        used: dict[object, list[str]] = {}
        for one in self.order:
            here = _digest(below[one], above[one])
            for axis in one.axes:
                used.setdefault(axis, []).append(here)
            if one.op == "weight":
                used.setdefault(("weight", one["name"]), []).append(here)
            for key, value in one.attrs.items():
                for place, part in enumerate(value if isinstance(value, tuple) else (value,)):
                    if isinstance(part, Axis):
                        used.setdefault(part, []).append(_digest(here, key, place))
                    elif isinstance(part, tuple):
                        for inner, axis in enumerate(part):
                            if isinstance(axis, Axis):
                                used.setdefault(axis, []).append(_digest(here, key, place, inner))
                if key in IDENTITIES:
                    used.setdefault((key, value), []).append(here)
        return {one: _digest(self.of(one), sorted(places)) for one, places in used.items()}


def _chain(one: Node) -> tuple[str, tuple[tuple[int, Node], ...]]:
    """The terms of a sum (or product, …) with their signs, however it is bracketed."""
    if one["fn"] == "neg":
        name: str = "+"
    else:
        name = CHAINS[one["fn"]][0]
    found: list[tuple[int, Node]] = []
    stack = [(1, one)]
    while stack:
        sign, here = stack.pop()
        kind: str = here["fn"] if here.op == "map" else ""
        if kind == "neg" and name == "+":
            stack.append((-sign, here.args[0]))
        elif kind in CHAINS and CHAINS[kind][0] == name and len(stack) + len(found) < LONGEST:
            signs = CHAINS[kind][1]
            stack += [(sign * mine, arg) for mine, arg in zip(signs, here.args, strict=True)]
        else:
            found.append((sign, here))
    return name, tuple(found)

