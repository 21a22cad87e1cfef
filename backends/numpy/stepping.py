"""A derived step as methods of a NumPy module: packed rows of the new tokens, over rows that `Cache` keeps.

`begin` computes what no token goes into, packed along its own length; `step` the new rows. A value of kept rows has the
lead `kept …`, the length that it counts: attention looks at such keys, and what works row by row works on them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...compiler.decoding import DERIVED, Decoding
from ...compiler.ir import Axis, Graph, Length, Node, walk_all
from ...compiler.ledger import Ledger
from ..limits import input_rows, limit_rows, mask_rows
from . import attention, border_text, examples, stepping_examples
from .border_text import lengths_of
from .mangling import Names, identifier
from .packed import PackedWriter
from .parameters import Parameters
from .rows import only_length
from .values import Unsupported, Value

PACKED = "a step computes new tokens alone, on packed rows"
KEPT = "kept "


class StepWriter(PackedWriter):
    """Writes a step (or what comes before it): `rows` are those of `new`, other lengths are kept."""

    def __init__(
        self, graph: Graph, names: Names, parameters: Parameters, batch: Axis, new: Length | None, lines: dict[str, str]
    ) -> None:
        super().__init__(graph, names, parameters, batch)
        self.new, self.along = new, lines  # the variable of each length's rows
        self.windows: Mapping[str, tuple[int | None, ...]] = {}
        self.bands: dict[tuple[str, tuple[int | None, ...]], str] = {}

    # -------------------------------------------------------------------------------------------------- shapes

    def shape(self, one: Node) -> tuple[str, tuple[Axis, ...]]:
        """The lead (rows, kept rows of a length, examples or none) and the other axes."""
        counted = [axis for axis in one.axes if axis.counted]
        if len(counted) == 1 and counted[0].size != self.new and self.new is not None:
            dims = tuple(axis for axis in one.axes if axis not in (self.batch, counted[0]))
            return f"{KEPT}{self.rows_along(str(counted[0].size))}", dims
        return super().shape(one)

    def fit(self, value: Value, lead: str, dims: tuple[Axis, ...]) -> str:
        if (KEPT in value.lead or KEPT in lead) and value.lead not in ("", lead):
            raise Unsupported("kept rows meet others outside attention")
        return super().fit(value, lead, dims)

    def lead_sizes(self, lead: str) -> list[str]:
        if lead.startswith(KEPT):
            return [f"len(lengths) * {lead.removeprefix(KEPT)}.room"]
        return super().lead_sizes(lead)

    def rows_along(self, length: str) -> str:
        """The variable of the rows along a length."""
        if length not in self.along:
            self.along[length] = self.names.fresh(f"{length}_rows")
        return self.along[length]

    def keys(self, axis: Axis, key: Value, value: Value) -> attention.Keys:
        """Kept rows, or those of the new tokens."""
        if not key.lead.startswith(KEPT):
            return super().keys(axis, key, value)
        if value.lead != key.lead:
            raise Unsupported("attention whose keys and values are of two lengths")
        rows = key.lead.removeprefix(KEPT)
        shift = (f"{rows}.shift", f"{rows}.dropped") if "[" in rows else ("", "")
        return attention.Keys(f"{rows}.stored", f"{rows}.hidden", f"{rows}.room", shift)

    # -------------------------------------------------------------------------------------------------- leaves

    def _index(self, one: Node) -> Value:
        axis: Axis = one["axis"]
        if axis.counted and self.new is not None and axis.size != self.new:
            rows = self.rows_along(str(axis.size))
            return Value(f"np.tile(np.arange({rows}.room), len(lengths))", f"{KEPT}{rows}", (), wide=True)
        return super()._index(one)

    def _size(self, one: Node) -> Value:
        axis: Axis = one["axis"]
        if axis.counted and self.new is not None and axis.size != self.new:
            return Value(f"{self.rows_along(str(axis.size))}.count", "examples", (), wide=True)
        return super()._size(one)

    def settled(self, one: Node, found: Value) -> Value:
        if one.op == "append" and self.sides and not found.text.isidentifier():
            return self.assigned(one, found)  # rows are kept in any case, not where a branch reads them
        return super().settled(one, found)

    def _append(self, one: Node) -> Value:
        value = self.value(one.args[0])
        if value.lead != "rows":
            raise Unsupported("rows are kept of what is no row")
        value = self.real(value) if one.kind == "real" else value
        rows = self.rows_along(str(one["into"].size))
        window = self.windows.get(one["name"], ())
        if window:
            number = self.value(one.args[1]).text if len(one.args) > 1 else "0"
            rows = f"{self.bands.setdefault((rows, window), self.names.fresh(f'{rows}_within'))}[{number}]"
        text = f"{rows}.append({self._key(one, one.args[1:])}, {value.text})"
        return Value(text, f"{KEPT}{rows}", value.dims, wide=value.wide)

    def _keep(self, one: Node) -> Value:
        """Rows along a length are kept as such, other values as they are."""
        value = self.value(one.args[0])
        key, dims = self._key(one, one.args[1:]), tuple(axis for axis in one.axes if not axis.ragged)
        lead, _ = self.shape(one)
        if value.lead == "rows":
            (axis,) = (axis for axis in one.axes if axis.counted)
            self.write(f"{self.rows_along(str(axis.size))}.append({key}, {self.fit(value, 'rows', dims)})")
        else:
            text = self.fit(value, lead, dims)
            self.write(f"cache.keep({key}, {text}, {value.lead == 'examples'})")
        return value

    def _stored(self, one: Node) -> Value:
        key = self._key(one, one.args)
        dims = tuple(axis for axis in one.axes if not axis.ragged)
        counted = [axis for axis in one.axes if axis.counted]
        if counted:
            rows = self.rows_along(str(counted[0].size))
            return Value(f"{rows}.values[{key}]", f"{KEPT}{rows}", dims)
        return Value(f"cache.values[{key}][0]", "examples" if self.batch in one.axes else "", dims)

    def _key(self, one: Node, numbers: Iterable[Node]) -> str:
        return stepping_examples.key(self, one, numbers)


@dataclass(frozen=True)
class Stepping:
    """What a step adds to a module: its methods, and the run-time names that they need."""

    methods: list[list[str]]
    needs: set[str]


def write(decoding: Decoding, fresh: Callable[[], Names], parameters: Parameters, ledger: Ledger) -> Stepping:
    """The methods `begin`, `step` and `decoder`. Raises `Unsupported` for what no way of writing can express.

    `fresh` gives the names of a method, `parameters` are those of the whole module. A step that packed rows cannot
    express computes one example after the other; the ledger says why.
    """
    before = dict(parameters.found)
    try:
        methods, needs = _packed_step(decoding, fresh(), parameters)
        ledger.fired(DERIVED, "step", PACKED)
    except Unsupported as reason:
        parameters.found = before
        ledger.refused(DERIVED, "step", PACKED, str(reason))
        methods, needs = stepping_examples.write(decoding, fresh(), parameters)
    if decoding.begin is not None:
        text, used = _begin_method(decoding.begin, fresh(), parameters)
        methods.insert(0, text)
        needs |= used | {"pack", "rows_of", "check_call"}
    return Stepping([*methods, _decoder_method(decoding)], needs | {"Cache", "Cached"})


def _packed_step(decoding: Decoding, names: Names, parameters: Parameters) -> tuple[list[list[str]], set[str]]:
    step = decoding.step
    assert step.batch is not None
    token = names.fresh(next(one.spec_name for one in step.inputs if one.name == decoding.tokens))
    lines: dict[str, str] = {}
    writer = StepWriter(step, names, parameters, step.batch, decoding.new, lines)
    writer.windows = {row.name: row.window for row in decoding.kept}
    writer.indent = 2
    for one in walk_all(step.roots):
        if one.op == "input":  # there is no other than the tokens
            writer.memo[one] = Value(token, "rows", (), wide=True)
    writer.body(step.roots)
    (out,) = step.outputs
    order = tuple(axis for axis in out.axes if axis in writer.shape(out.node)[1])
    value = writer.value(out.node)
    text = writer.fit(value, "examples", order)
    writer.write(f"return {text if value.buffer is None else f'np.array({text})'}")
    bands = [
        f"        {name} = [{rows}.within(far) for far in {window!r}]"
        for (rows, window), name in writer.bands.items()
    ]
    return [_step_method(decoding, token, lines, [*bands, *writer.lines])], writer.used


def _decoder_method(decoding: Decoding) -> list[str]:
    """`decoder`: a batch that is decoded step by step."""
    step, begin = decoding.step, decoding.begin
    limit = next((limit for name, _, limit in limit_rows(step) if name == decoding.tokens), 1 << 40)
    made = f'Cached(self.step, cache, "{decoding.length}", {limit}, room, self.threads)'
    if begin is None:
        return [
            "    def decoder(self, examples: int = 1, room: int = 64) -> Cached:",
            '        """A batch of texts to decode step by step, with memory for `room` tokens each, then more."""',
            "        cache = Cache(examples)",
            f"        return {made}",
        ]
    rows, masks = input_rows(begin), mask_rows(begin)
    spoken = {one.name: identifier(one.name) for one in begin.inputs} | {mask: mask for mask, _ in masks}
    first = border_text.leading(begin)
    mask = next((mask for mask, masked in masks), "attention_mask")
    arguments = [f"{name}: Any" + ("" if name == first.name else " = None") for name in spoken.values()]
    each = [
        f'rows_of(given, "{one.name}", where, None)' if lengths_of(begin, one) else f'given.get("{one.name}")'
        for one in begin.inputs
    ]
    lines = [
        *border_text.header("decoder", ["self", *arguments, "room: int = 64"], "Cached"),
        '        """A batch of texts to decode step by step; what their inputs make is computed here, once."""',
        f"        given = {{{', '.join(f'{name!r}: {text}' for name, text in spoken.items())}}}",
        f"        given = check_call(given, {rows!r}, {masks!r}, {limit_rows(begin)!r})",
        f'        shape = given["{first.name}"].shape[:2]',
        f'        mask = given.get("{mask}")',
        "        where, lengths, hidden, index = pack(np.ones(shape, np.bool_) if mask is None else mask)",
        "        cache = Cache(shape[0])",
        '        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):',
        f"            self.begin(cache, {', '.join(['lengths', 'hidden', 'index', *each])})",
        f"        return {made}",
    ]
    return lines


def _step_method(decoding: Decoding, tokens: str, along: dict[str, str], lines: list[str]) -> list[str]:
    shown = ["self", "cache: Cache", "lengths: NDArray[np.intp]", "index: NDArray[np.intp]", f"{tokens}: NDArray[Any]"]
    return [
        *border_text.header("step", shown, "NDArray[Any]"),
        f'        """{decoding.step.outputs[0].name} after the last new token of each example.',
        "",
        "        The n packed rows are new tokens, `lengths` of each example; `index` is each one's place among them.",
        '        """',
        "        n = len(index)",
        *(f'        {name} = cache.along("{length}")' for length, name in along.items()),
        *lines,
    ]


def _begin_method(graph: Graph, names: Names, parameters: Parameters) -> tuple[list[str], set[str]]:
    """`begin`: what the other inputs make, kept before the first token."""
    only_length(graph)
    assert graph.batch is not None
    arguments = border_text.argument_names(graph, names)
    lines: dict[str, str] = {}
    writer = StepWriter(graph, names, parameters, graph.batch, None, lines)
    writer.indent = 2
    for one in walk_all(graph.roots):
        if one.op == "input":
            examples.bind_input(writer, one, arguments[one["name"]], writer.shape(one))
    writer.body(graph.roots)
    shown = ["self", "cache: Cache", "lengths: NDArray[np.intp]", "hidden: NDArray[np.bool_] | None"]
    shown += ["index: NDArray[np.intp]", *(f"{name}: Any" for name in arguments.values())]
    (length,) = {str(axis.size) for one in graph.inputs for axis in one.axes if axis.counted}
    lines.setdefault(length, names.fresh(f"{length}_rows"))
    head = [
        *border_text.header("begin", shown, "None"),
        '        """Computes once what no new token changes, on n packed rows of the other inputs."""',
        "        n = len(index)",
        f'        {lines[length]} = cache.along("{length}", int(lengths.max(initial=1)))',
        f"        {lines[length]}.advance(lengths, hidden)",
    ]
    return [*head, *writer.lines], writer.used

