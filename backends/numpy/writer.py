"""The writer: nodes of a graph → lines of Python, each named value a line with the formula it implements.

This part writes values with all their axes (one example at a time, and parameters prepared at loading). packed.py adds
packed rows of many examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Graph, Node, Origin, const, walk
from ...compiler.passes.parameters import has_weight, is_parameter, stack_picks
from ..lines import marked, placed
from . import branching, einsum, expressions, loops, reshaping, slices, softmax
from .literals import literal, number
from .mangling import Names, comment
from .parameters import Parameters
from .values import LONGEST, Unsupported, Value, aligned, transposed


class Writer:
    """Writes the nodes of one scope (a function's body, or a loop's) in order."""

    def __init__(self, graph: Graph, names: Names, parameters: Parameters | None, batch: Axis | None) -> None:
        self.graph, self.names, self.parameters, self.batch = graph, names, parameters, batch
        self.lines: list[str] = []
        self.indent = 0
        self.memo: dict[Node, Value] = {}
        self.used: set[str] = set()
        self.stacks = {weight.name: weight.stack for weight in graph.weights}
        self.counters: dict[int, str] = {}
        self.histories: dict[tuple[int, int], str] = {}
        self.sizes: dict[Axis, str] = {}
        self.by_axis: dict[Axis, str] = {}
        self.scalars: set[str] = set()
        self.defaults: dict[Node, Callable[[], Value]] = {}  # of optional inputs, written when they are needed
        self._told: tuple[str, int] | None = None
        self.source: Origin | None = None  # of the node whose lines are written now
        self.readers: dict[Node, int] = {}
        self.chosen: dict[Node, str] = {}  # conditions of steps: the variable that holds them
        self.sides: dict[Node, tuple[list[Node], list[Node]]] = {}  # of selections: what each side alone needs

    # ------------------------------------------------------------------------------------------------- writing

    def write(self, line: str = "") -> None:
        """A line at the present depth."""
        self.lines.append(marked("    " * self.indent + line, self.source) if line else "")

    def need(self, *names: str) -> None:
        """Run-time kernels that the text calls."""
        self.used.update(names)

    def explain(self, one: Node) -> None:
        """The formula that the next lines implement, once."""
        origin = self.graph.origins.get(one)
        if origin is None or origin.span is None:
            return
        place = (origin.span.source.name, origin.span.line)
        if place != self._told:
            self._told = place
            text = origin.span.source.line(origin.span.line).strip()
            self.write(f"# {comment(place[0].rsplit('/', 1)[-1], 40)}:{place[1]}  {comment(text)}")

    def origin(self, one: Node) -> Origin:
        """Where the node comes from."""
        return self.graph.origins.get(one, Origin())

    def body(self, roots: Iterable[Node]) -> None:
        """Writes everything that the roots need, in order."""
        roots = tuple(roots)
        order = slices.read([one for one in walk(roots, enter=self._enter) if self._enter(one)], roots)
        order = branching.arranged(self, order, roots)
        self._count_readers(order, roots)
        self.plan(order, roots)
        within = branching.inside(self, order)
        self.lines_of(one for one in order if one not in within)

    def lines_of(self, nodes: Iterable[Node]) -> None:
        """Writes nodes whose arguments are there."""
        for one in nodes:
            if one not in self.memo and not self.is_ready(one):
                self.memo[one] = self.made(one)

    def plan(self, order: list[Node], roots: tuple[Node, ...]) -> None:
        """Hook: what must be known before the lines are written."""

    def _enter(self, one: Node) -> bool:
        return one not in self.memo and not self.is_ready(one)

    def is_ready(self, one: Node) -> bool:
        """Whether the value needs no line here: a constant or a parameter."""
        return one.op == "const" or self.hoisted(one)

    def hoisted(self, one: Node) -> bool:
        """Whether the value is prepared when the model is loaded."""
        return (
            self.parameters is not None
            and one.op not in ("const", "counter")
            and is_parameter(one)
            and (has_weight(one) or bool(one.axes))
            and stack_picks(one, self.stacks) is not None
        )

    def _count_readers(self, order: list[Node], roots: tuple[Node, ...]) -> None:
        parts = (part for one in order for part in (one, *(walk(one["body"]) if one.op == "loop" else ())))
        for arg in (arg for part in parts for arg in slices.reads(part)):
            self.readers[arg] = self.readers.get(arg, 0) + 1
        for root in roots:
            self.readers[root] = self.readers.get(root, 0) + 2

    def value(self, one: Node) -> Value:
        """The value of a node that is written already, or needs no line."""
        if one in self.memo:
            return self.memo[one]
        if one.op == "const":
            return literal(one)
        if self.hoisted(one):
            assert self.parameters is not None
            return self.parameters.array(one, self)
        made = self.made(one)
        self.memo[one] = made
        return made

    @placed
    def made(self, one: Node) -> Value:
        """Writes the node: its own line if it has a name or several readers, else text for its reader."""
        if one in self.sides:
            return branching.write(self, one)
        method: Callable[[Node], Value] | None = getattr(self, f"_{one.op}", None)
        if method is None:
            raise Unsupported(f"the operation {one.op} has no NumPy form")
        if self._of_wholes(one):
            return self.settled(one, self.value(kernel_table.expanded(one)))
        found = method(one)
        return self.settled(one, found)

    def _of_wholes(self, one: Node) -> bool:
        """Whether a kernel would round whole numbers, places of a table perhaps, to the model's type."""
        pointwise = one.op == "kernel" and one["name"] in kernel_table.POINTWISE
        return pointwise and self.value(kernel_table.parts(one)["x"]).wide

    def settled(self, one: Node, found: Value) -> Value:
        """Gives the value a line of its own where that reads better or saves work."""
        if found.text.isidentifier() or (found.number and self.readers.get(one, 0) <= 1):
            return found
        heavy = (self.readers.get(one, 0) > 1 and one.op not in ("rename", "state")) or len(found.text) > LONGEST
        if heavy or (self.origin(one).name and one.op in ("map", "reduce", "contract", "pick", "concat")):
            return self.assigned(one, found)
        return found

    def assigned(self, one: Node, found: Value, wish: str = "") -> Value:
        """A line `name = text`."""
        name = self.names.fresh(wish or self.origin(one).name or "t")
        self.explain(one)
        self.write(f"{name} = {found.text}")
        return found.named(name)

    # -------------------------------------------------------------------------------------------------- shapes

    def shape(self, one: Node) -> tuple[str, tuple[Axis, ...]]:
        """The lead and the other axes of a node's value."""
        return "", tuple(axis for axis in one.axes if axis != self.batch)

    def size(self, axis: Axis) -> str:
        """The number of entries along an axis, as text."""
        if isinstance(axis.size, int):
            return str(axis.size)
        if axis in self.by_axis:
            return self.by_axis[axis]
        for known, text in (*self.by_axis.items(), *self.sizes.items()):
            if known.size == axis.size:
                return text
        raise Unsupported(f"the length {axis.size} is not known here")

    def fit(self, value: Value, lead: str, dims: tuple[Axis, ...]) -> str:
        """Text of the value that broadcasts against the shape."""
        return aligned(value, lead, dims)

    def broadcast(self, value: Value, lead: str, dims: tuple[Axis, ...], sizes: Iterable[str] = ()) -> str:
        """Text of the value with the whole shape."""
        sizes = tuple(sizes) or [*self.lead_sizes(lead), *(self.size(axis) for axis in dims)]
        return f"np.broadcast_to({self.fit(value, lead, dims)}, ({', '.join(sizes)},))"

    def order(self, one: Node, values: Iterable[Value]) -> tuple[str, tuple[Axis, ...]]:
        """The shape of an entry-by-entry result, in the order of its largest operand."""
        lead, dims = self.shape(one)
        for value in values:
            if set(value.dims) == set(dims):
                return lead, value.dims
        found = tuple(dict.fromkeys(axis for value in values for axis in value.dims))
        return lead, found

    # -------------------------------------------------------------------------------------------------- leaves

    def _weight(self, one: Node) -> Value:
        raise Unsupported("a weight is used before it is prepared")

    def _table(self, one: Node) -> Value:
        inner = ", ".join(number(v) for v in one["values"])
        return Value(f"np.array([{inner}])", "", one.axes, wide=True)

    def _index(self, one: Node) -> Value:
        return Value(f"np.arange({self.size(one['axis'])})", "", (one["axis"],), wide=True)

    def _size(self, one: Node) -> Value:
        return Value(self.size(one["axis"]), "", (), wide=True, number=True)

    def _counter(self, one: Node) -> Value:
        return Value(self.counters[one["loop"]], "", (), wide=True, number=True)

    def _input(self, one: Node) -> Value:
        if one not in self.defaults:
            raise Unsupported(f"the input {one['name']} is not bound")
        return self.defaults[one]()

    # ------------------------------------------------------------------------------------------ entry by entry

    def _map(self, one: Node) -> Value:
        values = [self.value(arg) for arg in one.args]
        lead, dims = self.order(one, values)
        wide = expressions.is_wide(one, values)
        texts = []
        for value, arg in zip(values, one.args, strict=True):
            text = self.fit(value, lead, dims)
            narrow = one.kind != "bool" and not wide and value.wide and arg.kind != "bool" and not value.number
            texts.append(f"{text}.astype({self.dtype})" if narrow else text)
        made, atom, needs = expressions.scalar(one["fn"], texts, wide)
        self.need(*needs)
        plain = all(value.number for value in values)
        return Value(made, lead, dims, atom, owned=True, wide=wide, number=plain)

    def real(self, value: Value, wide: bool = False) -> Value:
        """Whole numbers as real ones: in double precision while they are among themselves, else in the model's type."""
        if not value.wide or value.number:
            return value
        text = f"{value.wrapped}.{self.cast.format('float' if wide else self.dtype)}"
        return replace(value, text=text, atom=True, buffer=None, owned=True, wide=wide)

    dtype = "self.dtype"
    cast = "astype({})"
    array = "NDArray[Any]"
    packs = False

    def _rename(self, one: Node) -> Value:
        value = self.value(one.args[0])
        pairs = dict(one["pairs"])
        dims = tuple(pairs.get(axis, axis) for axis in value.dims)
        return Value(value.text, value.lead, dims, value.atom, value.buffer, value.owned, value.wide, value.number)

    def _split(self, one: Node) -> Value:
        return reshaping.split(self, one)

    def _merge(self, one: Node) -> Value:
        return reshaping.merged(self, one)

    def _concat(self, one: Node) -> Value:
        return reshaping.concatenated(self, one)

    def _widen(self, one: Node) -> Value:
        value = self.value(one.args[0])
        if one["axis"] == self.batch:  # each example has it
            return value
        dims = (*value.dims, one["axis"])
        sizes = ", ".join(self.lead_sizes(value.lead) + [self.size(axis) for axis in dims])
        inner = aligned(value, value.lead, dims) if value.dims or value.lead else value.text
        return Value(f"np.broadcast_to({inner}, ({sizes},))", value.lead, dims, buffer=value.buffer, wide=value.wide)

    def lead_sizes(self, lead: str) -> list[str]:
        """The size of the leading dimension, as text."""
        return []

    # ------------------------------------------------------------------------------------------ along the axes

    def visible(self, axes: Iterable[Axis], lead: str, dims: tuple[Axis, ...]) -> list[str]:
        """Conditions on the lengths among the axes: which of their entries may be seen."""
        return [aligned(seen, lead, dims) for seen in map(self.shown_along, axes) if seen is not None]

    def shown_along(self, axis: Axis) -> Value | None:
        """Which entries along a length may be seen; None for an axis that is no length."""
        return Value(self.visible_text(axis), "", (axis,)) if axis.ragged else None

    def visible_text(self, axis: Axis) -> str:
        """The relation that says which entries along a length may be seen."""
        return "visible"

    def _condition(self, one: Node, over: Iterable[Axis], lead: str, dims: tuple[Axis, ...]) -> str:
        parts = self.visible(over, lead, dims)
        if len(one.args) > 1 and one.args[1] is not const(True):
            value = self.value(one.args[1])
            parts.append(self.fit(value, lead, dims))
        of_none = one.get("reduction") == "mean" and any(axis.ragged for axis in over)  # of no examples it is 0
        return " & ".join(parts) or ("True" if of_none else "")

    def _reduce(self, one: Node) -> Value:
        value = self.value(one.args[0])
        lead, _ = self.shape(one)
        dims = tuple(dict.fromkeys((*value.dims, *(a for arg in one.args for a in self.shape(arg)[1]), *one["over"])))
        axes = tuple(dims.index(axis) + (1 if lead else 0) for axis in one["over"])
        left = tuple(axis for axis in dims if axis not in one["over"])
        condition = self._condition(one, one["over"], lead, dims)
        if len(value.dims) < len(dims):
            value = Value(self.broadcast(value, lead, dims), lead, dims, wide=value.wide)
        wide = value.wide or one["reduction"] in ("count", "argmax", "any", "all")
        if not condition:
            return Value(expressions.reduction(one["reduction"], value, axes), lead, left, owned=True, wide=wide)
        self.need("reduce_where")
        text = f'reduce_where("{one["reduction"]}", {value.text}, {condition}, {axes})'
        return Value(text, lead, left, owned=True, wide=wide)

    def _rank(self, one: Node) -> Value:
        value = self.value(one.args[0])
        dims = (*(axis for axis in value.dims if axis != one["axis"]), one["axis"])
        see = self.visible([one["axis"]], value.lead, dims)
        self.need("rank")
        text = f"rank({transposed(value, dims).text}{', ' + see[0] if see else ''})"
        return Value(text, value.lead, dims, owned=True, wide=True)

    def _contract(self, one: Node) -> Value:
        values = [self.value(arg) for arg in one.args]
        lead, dims = self.order_of_product(one, values)
        return self.einsum(one, values, lead, dims)

    def order_of_product(self, one: Node, values: list[Value]) -> tuple[str, tuple[Axis, ...]]:
        """The shape of a product: what is left of the first, then of the second."""
        lead, wanted = self.shape(one)
        dims = tuple(dict.fromkeys(axis for value in values for axis in value.dims if axis in wanted))
        return lead, dims

    def einsum(self, one: Node, values: list[Value], lead: str, dims: tuple[Axis, ...]) -> Value:
        """The product as np.einsum, hidden entries left out."""
        return einsum.write(self, one, values, lead, dims)

    def _pick(self, one: Node) -> Value:
        base = self.value(one.args[0])
        keys = one["keys"]
        found = slices.runs(one)
        if found is not None:
            return slices.sliced(base, found)
        indices = [self.value(arg) for arg in one.args[1:]]
        at = tuple(dict.fromkeys(axis for value in indices for axis in value.dims))
        shared = tuple(axis for axis in base.dims if axis not in keys and axis in at)
        rest = tuple(axis for axis in base.dims if axis not in keys and axis not in at)
        base = transposed(base, (*keys, *shared, *rest))
        texts = [aligned(value, "", at) if value.dims else value.text for value in indices]
        texts += [aligned(Value(f"np.arange({self.size(axis)})", "", (axis,)), "", at) for axis in shared]
        self.need("gather")
        return Value(f"gather({base.text}, {', '.join(texts)})", "", (*at, *rest), owned=True, wide=base.wide)

    # ------------------------------------------------------------------------------------------------- kernels

    def _kernel(self, one: Node) -> Value:
        at, name = kernel_table.parts(one), one["name"]
        if name == "running_sum":
            return loops.running_sum(self, one, self.value(at["x"]))
        if name not in ("softmax", "log_softmax", "logsumexp"):
            return self.value(kernel_table.expanded(one))
        return softmax.write(self, one, at)

    # --------------------------------------------------------------------------------------------------- loops

    def _loop(self, one: Node) -> Value:
        return loops.write(self, one)

    def start_state(self, one: Node, slot: int, name: str, first: Value) -> Value:
        """The variable of a state before the first step; `name` is what the spec calls it."""
        name = self.names.fresh(name)
        self.write(f"{name} = {first.text}")
        return Value(name, first.lead, first.dims, wide=first.wide)

    def copied(self, name: str) -> str:
        """A state as it is kept for later: a copy, since its memory is used again."""
        return f"np.array({name})"

    def last_step(self, one: Node, stop: Value) -> str:
        """Where a loop stops, as text."""
        return stop.text

    def step(self, one: Node, names: list[str], states: list[Value]) -> None:
        """One step of a loop: the body, then the next states."""
        loops.step(self, one, names, states)

    def _state(self, one: Node) -> Value:
        return loops.state(self, one.args[0], one["slot"])

    def _carry(self, one: Node) -> Value:
        return self.memo[one]

    def _past(self, one: Node) -> Value:
        return loops.past(self, one)

    def _history(self, one: Node) -> Value:
        return loops.recalled(self, one, loops.state(self, one.args[0], one["slot"]))

    def _random(self, one: Node) -> Value:
        if one["draw"] == "dropout":  # a module is for inference
            return self.value(one.args[0])
        raise Unsupported("a random draw")
