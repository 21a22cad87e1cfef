"""derive_cache: the step of a causal model, over rows that earlier calls kept.

    step    results of the new rows alone; `append` puts the new rows of a value behind those that are kept
    begin   what only the other inputs go into (an encoder, cross-attention's keys and values): `keep`, once

The step's length `seq_new` counts the new tokens of an example, the model's own all of them; the new ones come last, so
that row r of the step is row r + (size(seq) − size(seq_new)) of the text. Precondition: the model is causal along the
length (causality.py); the operation that is not is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...grammar.diagnostics import Span
from .. import ir
from ..ir import Axis, Graph, Length, Node, Origin
from ..ledger import Ledger
from ..pipeline import DERIVED
from .causality import Causality, decided
from .demand import NEW, Demand, Key

CAUSAL = "row i depends on the rows up to i alone"


@dataclass(frozen=True)
class Kept:
    """Rows that are kept of a value: its axes (`along` counts them), and how many steps of loops have their own.

    `window` says for each step how many old rows it needs, None for all; it is empty where all steps need all.
    """

    name: str
    axes: tuple[Axis, ...]
    along: Axis | None
    steps: tuple[int, ...]
    kind: str
    window: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Decoding:
    """A model that decodes along `length`: `begin` (None where nothing is computed once) and `step`, as graphs.

    `tokens` is the input that holds the tokens, `new` the length of a step.
    """

    length: Length
    new: Length
    tokens: str
    begin: Graph | None
    step: Graph
    kept: tuple[Kept, ...]


def derived(graph: Graph, tokens: str, result: str, ledger: Ledger) -> Decoding | None:
    """The step that computes the rows of `result` for new `tokens`; None, and the ledger says why, if there is none.

    `graph` is the formula of the model, `tokens` the name of an input whose axes are the batch and a length.
    """
    from ..passes import inference  # passes compute with arrays, and to check a spec takes none

    told = inference.run(_of(graph, result), Ledger())
    (length,) = {axis.size for one in told.inputs if one.name == tokens for axis in one.axes if axis.counted}
    assert isinstance(length, Length)
    told = decided(told, length)
    proof = Causality(told, length)
    if proof.ahead is not None:
        ledger.refused(DERIVED, "causal", CAUSAL, proof.ahead.reason, _place(told, proof.ahead.node))
        return None
    for seen in proof.seen:
        what = f"row {seen.row} sees no {seen.axis} after it: {CAUSAL}"
        ledger.fired(DERIVED, "causal", what, _place(told, seen.node))
    more = _needed_besides(told, tokens, length)
    if more:
        ledger.refused(DERIVED, "inputs", "a step is given new tokens alone", f"each of them needs its {more}, too")
        return None
    return _Deriving(told, tokens, length, ledger).made()


def _needed_besides(graph: Graph, tokens: str, length: Length) -> str:
    """An input along the length that has no default."""
    for one in graph.nodes():
        along = one.op == "input" and any(axis.size == length for axis in one.axes)
        if along and one["name"] != tokens and not one.args:
            return str(one["name"])
    return ""


def _of(graph: Graph, result: str) -> Graph:
    outputs = tuple(out for out in graph.outputs if out.name == result)
    return replace(graph, outputs=outputs)


def _place(graph: Graph, wanted: Node) -> Span | None:
    """The line of an operation: of the first formula made of it that no library function holds, if there is one."""
    above, found = {wanted}, graph.origins.get(wanted, Origin()).span
    for one in (wanted, *graph.nodes()):
        if one is not wanted and above.isdisjoint((*one.args, *one.get("body", ()))):
            continue
        above.add(one)
        span = graph.origins.get(one, Origin()).span
        if span is not None and not span.source.name.startswith("lib/"):
            return span
        found = found or span
    return found


class _Deriving:
    """Builds the graphs of a step and of what comes before it."""

    def __init__(self, graph: Graph, tokens: str, length: Length, ledger: Ledger) -> None:
        self.graph, self.tokens, self.length, self.ledger = graph, tokens, length, ledger
        self.new = Length(_fresh(f"{length.name}_new", graph), length)
        self.demand = Demand(graph, length)
        self.origins = dict(graph.origins)
        self.names: dict[Node, str] = {}
        self.done: dict[Key, Node] = {}
        self.stored: dict[Node, Node] = {}
        self.appended: dict[Node, Node] = {}
        self.loops = {one["loop"]: one for one in self.demand.order if one.op == "loop"}

    def made(self) -> Decoding:
        """Both graphs."""
        for key in self._keys():
            self.done[key] = made = self._built(key)
            ir.take_origin(self.origins, key[0], made)
        outputs = tuple(
            replace(out, node=self.done[out.node, NEW], axes=tuple(map(self._axis, out.axes)))
            for out in self.graph.outputs
        )
        step = self._graph(outputs, f"{self.graph.name}_step")
        begin = self._begin()
        kept = tuple(self._kept(one, node) for one, node in (*self.stored.items(), *self.appended.items()))
        return Decoding(self.length, self.new, self.tokens, begin, step, kept)

    def _keys(self) -> Iterator[Key]:
        """All demands below the results, those of the arguments first."""
        return ir.ordered([(out.node, NEW) for out in self.graph.outputs], lambda key: list(self.demand.below(key)))

    def _graph(self, outputs: tuple[ir.Output, ...], name: str) -> Graph:
        """A graph of these results, with the inputs and weights that they need."""
        nodes = list(ir.walk_all([out.node for out in outputs]))
        read = {one["name"] for one in nodes if one.op == "input"}
        weights = {one["name"] for one in nodes if one.op == "weight"}
        inputs = tuple(
            replace(
                one,
                axes=tuple(map(self._axis, one.axes)),
                instead="",
                required=one.required or one.name == self.tokens,
            )
            for one in self.graph.inputs
            if one.name in read
        )
        used = tuple(one for one in self.graph.weights if one.name in weights)
        return replace(self.graph, name=name, outputs=outputs, inputs=inputs, weights=used, origins=self.origins)

    # ----------------------------------------------------------------------------------------------------- axes

    def _axis(self, axis: Axis) -> Axis:
        """The axis of the new rows."""
        return replace(axis, size=self.new) if axis.size == self.length else axis

    def _axes(self, axes: Iterable[Axis], key: Key) -> tuple[Axis, ...]:
        return tuple(axis if axis in key[1] else self._axis(axis) for axis in axes)

    def _before(self, axis: Axis) -> Node:
        """How many rows there are before the new ones."""
        return ir.apply("-", ir.size(axis), ir.size(self._axis(axis)))

    # -------------------------------------------------------------------------------------------------- building

    def _built(self, key: Key) -> Node:
        one, whole = key
        if one not in self.demand.moving:
            return self._still(one)
        if self.demand.is_kept(key):
            return self._append(one)
        match one.op:
            case "index" | "position":
                return self._place(one, key)
            case "size":
                return one
            case "input":
                return self._input(one, key)
            case "loop":
                return self._loop(one)
            case "carry":
                return ir.node("carry", (), self._axes(one.axes, key), one.kind, **one.attrs)
            case "past":
                return ir.node("past", self._args(key), self._axes(one.axes, key), one.kind, **one.attrs)
            case "widen":
                return ir.widen(self._args(key)[0], self._axes((one["axis"],), key)[0])
            case "rename":
                (arg,) = self._args(key)
                pairs = {
                    old if new in whole else self._axis(old): new if new in whole else self._axis(new)
                    for old, new in one["pairs"]
                }
                return ir.rename(arg, pairs)
        return ir.rebuild(one, self._args(key))

    def _args(self, key: Key) -> tuple[Node, ...]:
        return tuple(self.done[below] for below in self.demand.below(key))

    def _place(self, one: Node, key: Key) -> Node:
        """Places of all rows, or of the new ones behind those that are kept."""
        axis: Axis = one["axis"]
        if axis in key[1]:
            return ir.widen_to(ir.index(axis), one.axes)
        return ir.widen_to(ir.apply("+", ir.index(self._axis(axis)), self._before(axis)), self._axes(one.axes, key))

    def _input(self, one: Node, key: Key) -> Node:
        """The new tokens; another input along the length is its default."""
        if one["name"] == self.tokens:
            return ir.input_(self.tokens, self._axes(one.axes, key), one.kind)
        return ir.widen_to(self._args(key)[0], self._axes(one.axes, key))

    def _loop(self, one: Node) -> Node:
        slots = one["slots"]
        first = [self.done[arg, NEW] for arg in one.args[:slots]]
        steps = self.done[one.args[slots], NEW]
        body = [ir.widen_to(self.done[part, NEW], own.axes) for part, own in zip(one["body"], first, strict=True)]
        return ir.loop(one["loop"], one["axis"], one["start"], steps, first, body, one["name"])

    def _append(self, one: Node) -> Node:
        """All rows of a value: those kept of earlier calls, and the new ones."""
        (axis,) = self.demand.along(one)
        value, others = self._bare(self.done[one, NEW])
        if one not in self.appended:
            numbers = [ir.counter(loop) for loop in sorted(one.free)]
            name = self._name(one)
            self.appended[one] = ir.append(name, value, self._axis(axis), axis, numbers)
            often = f" in each step of {self._told(one)}" if numbers else ""
            span = _place(self.graph, one)
            self.ledger.fired(DERIVED, "append", f"{_shown(name, one)} is kept{often}: its rows never change", span)
        return ir.rename(self.appended[one], others)

    def _bare(self, value: Node) -> tuple[Node, dict[Axis, Axis]]:
        """The value under its own names but for the length's, and the other names that it goes by."""
        if value.op != "rename":
            return value, {}
        pairs = dict(value["pairs"])
        mine = {old: new for old, new in pairs.items() if new.size == self.new}
        return ir.rename(value.args[0], mine), {old: new for old, new in pairs.items() if old not in mine}

    def _told(self, one: Node) -> str:
        return " and ".join(str(self.loops[loop]["axis"]) for loop in sorted(one.free))

    # -------------------------------------------------------------------------------------------- before the step

    def _still(self, one: Node) -> Node:
        """A value that no token goes into: read back where another input went into it, else as it is."""
        if not self.demand.is_stored(one):
            return one
        if one not in self.stored:
            numbers = [ir.counter(loop) for loop in sorted(one.free)]
            self.stored[one] = ir.node("stored", numbers, one.axes, one.kind, name=self._name(one))
            span = _place(self.graph, one)
            often = f", for each step of {self._told(one)}" if numbers else ""
            told = f"{_shown(self._name(one), one)} is computed once, before the first token{often}"
            self.ledger.fired(DERIVED, "keep", told, span)
        return self.stored[one]

    def _begin(self) -> Graph | None:
        """What is read back, computed: by itself, or in loops over the steps that it is made in."""
        if not self.stored:
            return None
        outputs = []
        for free in dict.fromkeys(one.free for one in self.stored):
            group = [one for one in self.stored if one.free == free]
            numbers = [ir.counter(loop) for loop in sorted(free)]
            kept = [ir.keep(self._name(one), one, numbers) for one in group]
            for loop in sorted(free, reverse=True):
                kept = self._each_step(loop, kept)
            outputs += [ir.Output(self._name(one), node, node.axes) for one, node in zip(group, kept, strict=True)]
        return self._graph(tuple(outputs), f"{self.graph.name}_begin")

    def _each_step(self, loop: int, values: list[Node]) -> list[Node]:
        """The values of the last step of a loop that does nothing but compute them at each."""
        old = self.loops[loop]
        first = [ir.widen_to(ir.const(0), one.axes) for one in values]
        made = ir.loop(loop, old["axis"], old["start"], old.args[old["slots"]], first, values, old["name"])
        return [ir.state(made, slot) for slot in range(len(values))]

    # ----------------------------------------------------------------------------------------------------- names

    def _kept(self, one: Node, made: Node) -> Kept:
        steps = tuple(self._steps(loop) for loop in sorted(one.free))
        return Kept(self._name(one), made.axes, made.get("into"), steps, one.kind)

    def _steps(self, loop: int) -> int:
        """How many steps a loop has: the size of the axis that it runs through."""
        last = self.loops[loop].args[self.loops[loop]["slots"]]
        return int(last["value"]) if last.op == "const" else int(self.loops[loop]["axis"].size)

    def _name(self, one: Node) -> str:
        """What a kept value is called: as in the spec, or by the weight that made it."""
        if one not in self.names:
            bare = one
            while bare.op == "rename" and not self.graph.origins.get(bare, Origin()).name:
                bare = bare.args[0]
            name = self.graph.origins.get(bare, Origin()).name or _by_weight(bare) or "rows"
            taken, number = set(self.names.values()), 2
            made = name
            while made in taken:
                made, number = f"{name}_{number}", number + 1
            self.names[one] = made
        return self.names[one]


NAMED = ("map", "contract", "rename", "pick", "split", "merge", "concat", "widen")


def _by_weight(one: Node) -> str:
    """attn.K for what attn.W_K makes."""
    below = list(ir.walk([one], enter=lambda n: n.op in NAMED))
    products = [arg for part in below if part.op == "contract" for arg in part.args]
    for part in reversed([*(one for one in below if one.op == "weight"), *products]):
        part = part.args[0] if part.op == "pick" else part
        if part.op == "weight":
            *path, last = re.sub(r"\[[^]]*\]", "", part["name"]).split(".")
            short = last.removeprefix("W_")
            return ".".join([*path[-1:], short if short.isidentifier() else last])
    return ""


def _shown(name: str, one: Node) -> str:
    return f"{name}[{', '.join(map(str, one.axes))}]"


def _fresh(name: str, graph: Graph) -> str:
    taken = {str(axis.size) for one in graph.nodes() for axis in one.axes}
    while name in taken:
        name += "_"
    return name
