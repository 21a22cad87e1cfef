"""A corruption → the text of a standalone module with NumPy: `corrupt(input_ids, …, seed=…)`, one text at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ...compiler.corruptions import Border, border, planned
from ...compiler.draws import key
from ...compiler.driver import Compiled
from ...compiler.ir import Axis, Graph, Length, Node, walk_all
from ...grammar.diagnostics import error
from ..pages import module_template, tidy
from .border_text import header
from .copying import Library
from .examples import ExampleWriter
from .mangling import Names, comment, identifier
from .values import Unsupported, Value, transposed
from .writer import Writer

LIBRARY = Library("transformula.backends.numpy", ("dense", "drawing"))
LOCALS = (
    *("seed", "example", "pad_token_id", "texts", "given", "made", "one_text", "corrupt"),
    *("INPUTS", "MASKS", "OUTPUTS", "SHARES"),
)


class OneText(Writer):
    """Writes a function of one text: all its entries are there, and new lengths are counted as they are made.

    What a backend calls its functions is said by the texts below.
    """

    arange, repeat = "np.arange({0})", "np.repeat({0}, {1})"
    order_of, floor = '{0}.argsort(axis=-1, kind="stable")', "np.floor({0}).astype(np.int64)"
    where = ""  # what a draw is told of its place in memory
    counts: Mapping[Length, Node]
    counted: dict[object, str]

    def begin(self, lengths: Mapping[str, str], counts: Mapping[Length, Node]) -> None:
        """Which lengths have a variable, and which node says how long a new one is."""
        self.counts, self.counted = counts, dict(lengths.items())

    def number(self, text: str, one: Node) -> str:
        """A plain number as a value of the backend."""
        return text

    def shape(self, one: Node) -> tuple[str, tuple[Axis, ...]]:
        return "", tuple(axis for axis in one.axes if axis != self.batch)

    def size(self, axis: Axis) -> str:
        """The number of entries along an axis; that of a new length has a line of its own."""
        if isinstance(axis.size, int):
            return str(axis.size)
        if axis.size.made is None:
            return self.counted[str(axis.size)]
        if axis.size not in self.counted:
            count = self.value(self.counts[axis.size])
            name = self.counted[axis.size] = self.names.fresh(f"n_{axis.size}")
            self.need("counted")
            self.write(f"{name} = counted({count.text})")
        return self.counted[axis.size]

    def visible(self, axes: Iterable[Axis], lead: str, dims: tuple[Axis, ...]) -> list[str]:
        """Padding is no part of a text."""
        return []

    def _index(self, one: Node) -> Value:
        return Value(self.arange.format(self.size(one["axis"])), "", (one["axis"],), wide=True)

    def _size(self, one: Node) -> Value:
        return Value(self.size(one["axis"]), "", (), wide=True, number=True)

    def _order(self, one: Node) -> Value:
        value = self.value(one.args[0])
        dims = (*(axis for axis in value.dims if axis != one["axis"]), one["axis"])
        return Value(self.order_of.format(transposed(value, dims).wrapped), "", dims, owned=True, wide=True)

    def _repeat(self, one: Node) -> Value:
        self.size(one["into"])  # what is too long is told before it is made
        times, axis = self.value(one.args[0]), one["axis"]
        if set(times.dims) - {axis}:
            raise Unsupported("repetitions that differ along another axis")
        text = times.text if times.dims else self.broadcast(times, "", (axis,))
        return Value(self.repeat.format(self.arange.format(self.size(axis)), text), "", (one["into"],), wide=True)

    def _pick(self, one: Node) -> Value:
        base, keys = self.value(one.args[0]), one["keys"]
        indices = [self.value(arg) for arg in one.args[1:]]
        at = tuple(dict.fromkeys(axis for value in indices for axis in value.dims))
        shared = tuple(axis for axis in base.dims if axis not in keys and axis in at)
        rest = tuple(axis for axis in base.dims if axis not in keys and axis not in at)
        dims = (*keys, *shared, *rest)
        if set(base.dims) != set(dims):  # the same everywhere along an axis
            base = replace(base, text=self.broadcast(base, "", dims), dims=dims, atom=True, number=False)
        base = transposed(base, dims)
        indices += [Value(self.arange.format(self.size(axis)), "", (axis,)) for axis in shared]
        texts = [self.fit(value, "", at) if value.dims else value.text for value in indices]
        self.need("chosen")
        return Value(f"chosen({', '.join([base.text, *texts])})", "", (*at, *rest), owned=True, wide=base.wide)

    def _random(self, one: Node) -> Value:
        own = sorted((axis for axis in one.axes if axis != self.batch), key=lambda axis: (axis.name, axis.tag))
        self.need("uniform")
        first = [self.counters[ident] for ident in sorted(one.free)] + ["example"] * (self.batch in one.axes)
        sizes = [self.size(axis) for axis in own]
        text = f"uniform(seed, {key(one['site']):#x}, {_tuple(first)}, {_tuple(sizes)}{self.where})"
        u = self.assigned(one, Value(text, "", tuple(own), wide=True), "u")
        args = [self.value(arg) for arg in one.args]
        lead, dims = self.order(one, [u, *args])
        p, *more = (self.fit(value, lead, dims) for value in args)
        text = self.fit(u, lead, dims)
        match one["draw"]:
            case "bernoulli":
                return Value(f"{text} < {p}", "", dims, atom=False, wide=True)
            case "uniform":
                plain = [arg.get("value") for arg in one.args] == [0, 1]
                return u if plain else Value(f"{p} + {text} * ({more[0]} - {p})", "", dims, atom=False, wide=True)
            case "randint":
                drawn = self.floor.format(f"{text} * ({more[0]} - {p})")
                return Value(f"{p} + {drawn}", "", dims, atom=False, wide=True)
        raise Unsupported(f"the draw {one['draw']}, whose last digit decides and differs between machines")


class CorruptionWriter(OneText, ExampleWriter):
    """The lines of NumPy."""

    dtype = "np.float64"

    def __init__(self, graph: Graph, names: Names) -> None:
        super().__init__(graph, names, None, {})  # a corruption has no parameters


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def emit(compiled: Compiled) -> str:
    """The text of the module. Raises `TransformulaError` for what it cannot hold."""
    graph, counts = planned(compiled.formula)
    edge = border(compiled.formula, compiled.config)
    try:
        writer = CorruptionWriter(graph, Names((*LIBRARY.names(), *LOCALS)))
        arguments = write(writer, edge, counts)
    except Unsupported as fault:
        raise error("X992", f"`{compiled.entry}` cannot be written with NumPy yet: {fault}") from None
    library = LIBRARY.copied({*writer.used, "Texts"}, ("Any", "NDArray"))
    return tidy(
        module_template("numpy", "corruption").render(
            **page(compiled, edge, "NumPy"),
            imports=library.imports,
            type_imports=library.type_imports,
            types=library.types,
            arguments=arguments,
            body=writer.lines,
            kernels=library.texts,
        )
    )


def write(writer: OneText, edge: Border, counts: Mapping[Length, Node]) -> list[str]:
    """Writes the function of one text; its arguments."""
    graph, names = writer.graph, writer.names
    lengths = {length: names.fresh(f"n_{length}") for _, length in edge.masks}
    writer.begin(lengths, counts)
    writer.indent = 1
    own = {one.name: names.fresh(one.spec_name) for one in graph.inputs}
    kinds = {one.name: one.kind for one in graph.inputs}
    for node in walk_all((*counts.values(), *graph.roots)):
        if node.op == "input":
            value = Value(own[node["name"]], "", tuple(axis for axis in node.axes if axis != graph.batch), wide=True)
            truth = kinds[node["name"]] == "bool"
            if node.args:
                writer.defaults[node] = partial(default, writer, node, value, truth)
                continue
            writer.memo[node] = value
            if truth:
                writer.write(f"{value.text} = {value.text} != 0")
    writer.body((*counts.values(), *graph.roots))
    writer.write("return {")
    for out in graph.outputs:
        order = tuple(axis for axis in out.axes if axis != graph.batch)
        value = writer.value(out.node)
        text = writer.fit(value, "", order)
        if len(value.dims) < len(order):
            text = writer.broadcast(value, "", order)
        writer.lines.append(f'        "{out.name}": {text},')
    writer.write("}")
    return [*lengths.values(), *own.values()]


def default(writer: OneText, one: Node, value: Value, truth: bool) -> Value:
    """Writes what stands in for an input that is not given."""
    made = writer.value(one.args[0])
    text = writer.fit(made, "", value.dims) if len(made.dims) == len(value.dims) else ""
    text = writer.number(made.text, one.args[0]) if made.number and not value.dims else text
    text = text or writer.broadcast(made, "", value.dims)
    writer.write(f"if {value.text} is None:")
    writer.write(f"    {value.text} = {text}")
    if truth:
        writer.write("else:")
        writer.write(f"    {value.text} = {value.text} != 0")
    return value


def python_names(edge: Border) -> dict[str, str]:
    """What `corrupt` calls its inputs and masks: as the spec does, where Python can."""
    spoken = Names((*LIBRARY.names(), *LOCALS))
    named = [*(name for name, _, _ in edge.inputs), *(mask for mask, _ in edge.masks)]
    plain = {one: spoken.name(one, one) for one in named if identifier(one) == one}  # λ' must not take the name of λ
    return {one: plain.get(one) or spoken.name(one, one) for one in named}


def page(compiled: Compiled, edge: Border, backend: str) -> dict[str, object]:
    """What the templates of all backends say of a corruption."""
    python = python_names(edge)
    needed = [name for name, _, must in edge.inputs if must]
    optional = [one for one in python if one not in needed]
    arguments = [f"{python[one]}: Any = None" for one in (*needed[1:], *optional)]
    example = [f"{python[one]}=…" for one in needed]
    kind = "NDArray[Any]" if backend == "NumPy" else "Tensor"
    seeded = ["*", "seed: int = 0", "example: Any = None", f"pad_token_id: int = {edge.pad}"]
    signature = [f"{python[needed[0]]}: Any", *arguments, *seeded]
    return {
        "title": f"{compiled.entry}: a corruption of {comment(compiled.module.name, 60)}, generated from its formulas.",
        "call": f"corrupt({', '.join(example)}, seed=0)",
        "inputs": repr(edge.inputs),
        "masks": repr(dict(edge.masks)),
        "outputs": repr(edge.outputs),
        "shares": repr(edge.shares),
        "signature": [line.removeprefix("    ") for line in header("corrupt", signature, f"dict[str, {kind}]")],
        "given": [f'"{one}": {name},' for one, name in python.items()],
    }
