"""A derived step as methods of an nn.Module: a padded batch of new tokens, over rows that `Cache` keeps.

`begin` computes what no token goes into, `step` the new rows. Kept rows stand as [batch, keys, …], so whatever works on
padded batches works on them; attention within causal bounds of kept rows needs no table where all examples are alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from ...compiler import kernels as kernel_table
from ...compiler.affine import Form, form
from ...compiler.decoding import Decoding
from ...compiler.ir import Axis, Graph, Node, index, size, walk_all
from ..limits import limit_rows, mask_rows
from ..numpy.border_text import header
from ..numpy.mangling import Names
from ..numpy.stepping_examples import key, lengths_along
from ..numpy.values import Unsupported, Value, aligned
from . import kernels
from .border import bind_inputs, border_names, entering
from .weights import WeightNames
from .writer import TorchWriter

EACH = ("visible", "masked", "index", "count", "first")


class StepWriter(TorchWriter):
    """Writes the body of `step` or `begin`; `rows` is the variable of the kept rows of a length."""

    rows: dict[str, str]

    def __init__(self, graph: Graph, names: Names, weights: WeightNames, lengths: Mapping[str, str]) -> None:
        super().__init__(graph, names, weights, lengths)
        self.windows: Mapping[str, tuple[int | None, ...]] = {}
        self.bands: dict[tuple[int | None, ...], str] = {}

    def rows_of(self, one: Node) -> str:
        """The variable of the rows that a kept value has: those of its length, or of its window of them."""
        rows, window = self.rows[str(one["into"].size)], self.windows.get(one["name"], ())
        if not window:
            return rows
        return f"{self.bands.setdefault(window, self.names.fresh(f'{rows}_within'))}[{self._number(one)}]"

    def _number(self, one: Node) -> str:
        return self.value(one.args[1]).text if len(one.args) > 1 else "0"

    def _append(self, one: Node) -> Value:
        axis, into = one["along"], one["into"]
        value = self.real(self.value(one.args[0])) if one.kind == "real" else self.value(one.args[0])
        dims = (axis.owner, axis, *(a for a in value.dims if a not in (axis.owner, axis)))
        text = f"{self.rows_of(one)}.append({self._key(one, one.args[1:])}, {aligned(value, '', dims)})"
        return Value(text, "", (axis.owner, into, *dims[2:]), wide=value.wide, reorder="permute")

    def _keep(self, one: Node) -> Value:
        value = self.value(one.args[0])
        own = self.batch in value.dims
        dims = (*((self.batch,) if own else ()), *(a for a in one.axes if a != self.batch or not own))
        text = aligned(value, "", tuple(axis for axis in dims if axis is not None))
        self.write(f"cache.keep({self._key(one, one.args[1:])}, {text}, {own})")
        return value

    def _stored(self, one: Node) -> Value:
        dims = tuple(axis for axis in one.axes if axis != self.batch)
        dims = (*((self.batch,) if self.batch in one.axes else ()), *dims)
        return Value(f"cache.values[{self._key(one, one.args)}][0]", "", dims, reorder="permute")

    def _key(self, one: Node, numbers: Iterable[Node]) -> str:
        return key(self, one, numbers)

    def settled(self, one: Node, found: Value) -> Value:
        if one.op == "append" and not found.text.isidentifier():
            return self.assigned(one, found, self.origin(one.args[0]).name or "rows")
        return super().settled(one, found)

    def _kernel(self, one: Node) -> Value:
        if isinstance(one.get("form"), KeptForm):
            return self._kept_attention(one, one["form"])
        return super()._kernel(one)

    def _kept_attention(self, one: Node, form: KeptForm) -> Value:
        at = kernel_table.parts(one)
        window = form.window
        before = str(window[0]) if len(set(window)) == 1 else f"{window!r}[{self._number(at['key'])}]"
        given = [self.rows_of(at["key"]), f"{float(one['scale'])!r}", *([f"before={before}"] if window else [])]
        given += ["last=True"] if form.last else []
        self.need("kept_attention")

        def call(sides: kernels.Sides, q: str, k: str, v: str) -> str:
            flat = len(sides.heads) > 1
            parts = [f"{part}.flatten(1, 2)" if flat else part for part in (q, k, v)]
            parts = parts if sides.heads else [f"{part}[:, None]" for part in parts]
            text = f"kept_attention({', '.join([*parts, *given])})"
            if flat:
                return f"{text}.unflatten(1, ({', '.join(self.size(axis) for axis in sides.heads)}))"
            return text if sides.heads else f"{text}[:, 0]"

        return kernels.call_of(self, one, at, call) or self.value(kernel_table.expanded(one))


@dataclass(frozen=True)
class KeptForm:
    """Attention to the kept rows up to the query's own, or `window` of those before (by the step of a loop).

    `last`: each example has one query, its last token.
    """

    window: tuple[int | None, ...]
    last: bool


def _settled(windows: Mapping[str, tuple[int | None, ...]], one: Node) -> Node:
    """Attention over kept rows in its own form, if it has it; bounds of another are a relation again."""
    if one.op != "kernel" or one["name"] != "attention" or "query" not in one["roles"]:
        return one
    at, axis = kernel_table.parts(one), one["axis"]
    asked = [a for a in at["query"].axes if a.ragged and a != axis.owner]
    stop = _behind(at.get("stop"), asked[0] if asked else None, axis)
    causal = stop == 1 or (not asked and "stop" not in at)
    window = windows.get(at["key"].get("name", ""), ()) if at["key"].op == "append" else ()
    plain = at["key"].op == at["value"].op == "append" and not {"see", "bias", "drop"} & set(at)
    if not (plain and causal and len(asked) < 2 and ("first" not in at or window)):
        return kernel_table.unbounded(one)
    parts = {role: part for role, part in at.items() if role not in ("first", "stop")}
    attrs = {name: value for name, value in one.attrs.items() if name not in ("name", "roles")}
    return kernel_table.make("attention", parts, one.axes, **attrs, form=KeptForm(window, not asked))


def _behind(bound: Node | None, row: Axis | None, axis: Axis) -> int | None:
    """c of a bound that is c places from the row's own: for the last row, from the last key."""
    made = None if bound is None else form(bound)
    if made is None:
        return None
    if row is None:
        own = form(size(axis))
        assert own is not None
        gap = made - own + Form({}, 1)
    else:
        parts = [form(one) for one in (index(row), size(axis), size(row))]
        place, every, new = (one for one in parts if one is not None)
        gap = made - place - every + new
    return gap.constant if not gap.terms else None


@dataclass(frozen=True)
class Stepping:
    """What a step adds to a module: its methods, and the run-time names that they need."""

    lines: list[str]
    needs: set[str]


def write(
    decoding: Decoding, fresh: Callable[[], Names], weights: WeightNames, source: str | None
) -> Stepping:
    """The methods `begin`, `step` and `decoder`. Raises `Unsupported` for what has no form.

    `fresh` gives the names of a method, `source` is the text of a parameter, which tells the module's dtype.
    """
    lines, needs = _step(decoding, fresh(), weights, source)
    if decoding.begin is not None:
        more, used = _begin(decoding.begin, fresh(), weights, source)
        lines, needs = [*more, "", *lines], needs | used
    return Stepping([*lines, "", *_decoder(decoding, fresh())], needs | {"Cache", "Cached"})


def _step(decoding: Decoding, names: Names, weights: WeightNames, source: str | None) -> tuple[list[str], set[str]]:
    windows = {row.name: row.window for row in decoding.kept}
    step = decoding.step.rewrite(partial(_settled, windows))
    ids = names.fresh(next(one.spec_name for one in step.inputs if one.name == decoding.tokens))
    lengths = lengths_along(step)
    texts = {length: names.fresh(length) for length in lengths}
    writer = StepWriter(step, names, weights, texts)
    writer.windows = windows
    writer.rows = {decoding.length.name: "rows", decoding.new.name: "rows"}
    writer.linear, writer.indent = "cache.linear", 2
    for one in walk_all(step.roots):
        if one.op == "input":
            writer.memo[one] = Value(ids, "", one.axes, wide=True, reorder="permute")
    writer.body(step.roots)
    (out,) = step.outputs
    tail = f"        return {aligned(writer.value(out.node), '', out.axes)}"
    body = [*writer.lines, tail]
    bands = [f"        {name} = [rows.within(far) for far in {window!r}]" for window, name in writer.bands.items()]
    places = [line for length in lengths for line in _places(decoding, length, texts[length])]
    lines = [
        *header("step", ["self", "cache: Cache", f"{ids}: Tensor", "rows: Rows"], "Tensor"),
        f'        """{out.name} after each example\'s last new token; `rows` are all that are kept."""',
        f"        device, dtype, batch = {ids}.device, {_dtype(source)}, {ids}.shape[0]",
        *_used(places, body),
        *bands,
        *body,
    ]
    return lines, writer.used


def _dtype(source: str | None) -> str:
    return f"{source}.dtype" if source else "torch.get_default_dtype()"


def _places(decoding: Decoding, length: str, text: str) -> list[str]:
    """Lines for what the writer calls the places of a length: how many, which may be seen, their numbers."""
    every = f"torch.arange({text}, device=device).expand(batch, {text})"
    if length == decoding.new.name:
        return [
            f"        {text} = rows.new",
            f"        index_{text} = {every}",
            f"        count_{text} = rows.own",
            f"        masked_{text} = not rows.even",
            f"        visible_{text} = index_{text} < count_{text}[:, None]",
            f"        first_{text} = torch.zeros_like(count_{text})",
        ]
    if length == decoding.length.name:
        return [
            f"        {text}, count_{text}, visible_{text} = rows.keys, rows.count, rows.visible",
            f"        masked_{text} = not rows.even",
            f"        index_{text} = {every}",
            f"        first_{text} = torch.zeros_like(count_{text})",
        ]
    held = ", ".join(f"{name}_{text}" for name in EACH if name != "masked")
    return [
        f'        {held} = cache.held["{length}"]',
        f'        {text}, masked_{text} = visible_{text}.shape[1], cache.masked["{length}"]',
    ]


def _used(places: list[str], body: list[str]) -> list[str]:
    """The lines whose names something after them reads."""
    kept: list[str] = []
    read = set(re.findall(r"\w+", "\n".join(body)))
    for line in reversed(places):
        names, _, value = line.strip().partition(" = ")
        if read.intersection(names.split(", ")):
            kept.append(line)
            read |= set(re.findall(r"\w+", value))
    return kept[::-1]


def _begin(graph: Graph, names: Names, weights: WeightNames, source: str | None) -> tuple[list[str], set[str]]:
    at = border_names(graph, names)
    writer = StepWriter(graph, names, weights, at.lengths)
    writer.rows = {}
    writer.indent = 2
    border = ["    " * 2 + line for line in entering(graph, at, source)]
    bind_inputs(writer, graph, at)
    writer.body(graph.roots)
    held = []
    for length, text in at.lengths.items():
        told = ", ".join(f"{name}_{text}" for name in EACH if name != "masked")
        held.append(f'        cache.hold("{length}", masked_{text}, {told})')
    shown = [*(at.arguments[one.name] for one in graph.inputs), *at.masks.values()]
    if at.position_ids:
        raise Unsupported("given places of what is computed once")
    lines = [
        *header("begin", ["self", "cache: Cache", *(f"{name}: Tensor | None" for name in shown)], "None"),
        '        """Computes once what no new token changes."""',
        *border,
        *writer.lines,
        *held,
    ]
    return lines, writer.used | {"places", "settled"}


def _decoder(decoding: Decoding, names: Names) -> list[str]:
    step, begin = decoding.step, decoding.begin
    limit = next((limit for name, _, limit in limit_rows(step) if name == decoding.tokens), 1 << 40)
    made = f'Cached(self.step, cache, "{decoding.length}", {limit})'
    needed = [] if begin is None else [one for one in begin.inputs if one.required]
    optional = [] if begin is None else [one for one in begin.inputs if not one.required]
    masks = [] if begin is None else [mask for mask, _ in mask_rows(begin)]
    order = [] if begin is None else [*(one.name for one in begin.inputs), *masks]
    spoken = {name: names.fresh(name) for name in order}
    arguments = [f"{spoken[one.name]}: Tensor" for one in needed]
    arguments += [f"{spoken[name]}: Tensor | None = None" for name in (*(o.name for o in optional), *masks)]
    lines = [
        *header("decoder", ["self", *arguments, "room: int = 64"], "Cached"),
        '        """A batch of texts to decode step by step, with memory for `room` tokens each, then more."""',
        "        cache = Cache(room)",
    ]
    if begin is not None:
        lines += [
            "        with torch.inference_mode():",
            f"            self.begin(cache, {', '.join(spoken[name] for name in order)})",
        ]
    return [*lines, f"        return {made}"]
