"""Attention over packed rows: the kernel node as a call of the run-time kernel `attention`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Node, walk
from . import bounded
from .values import Unsupported, Value, transposed

if TYPE_CHECKING:
    from .rows import RowWriter
    from .writer import Writer


@dataclass(frozen=True)
class Keys:
    """The rows that attention looks at: how many each example has, which nobody may see, and how far apart they begin.

    All are text; `room` is empty where the rows of one example follow those of the one before. `shift` is how many rows
    of each example are there no more, for each new row and for each example.
    """

    lengths: str = "lengths"
    hidden: str = "hidden"
    room: str = ""
    shift: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Call:
    """What a call of the kernel is given: the text of each argument; `heads` and `width` are what it makes.

    `queries` is the text of how many queries each example has where only some rows ask: one, or an axis of `rows`.
    """

    tensors: list[str]
    options: list[str]
    heads: tuple[Axis, ...]
    width: Axis
    queries: str = ""
    rows: tuple[Axis, ...] = ()
    name: str = "attention"
    keys: Keys = Keys()


def read(writer: RowWriter, one: Node, at: Mapping[str, Node]) -> Call:
    """The kernel node as a call; key and value are rows of heads, and so is the query, or some rows of each example."""
    query, key, value = (writer.value(at[role]) for role in ("query", "key", "value"))
    width, axis = one["width"], one["axis"]
    some = query.lead == "examples"
    keys = writer.keys(axis, key, value)
    if some and not keys.room:  # a few rows have no blocks: their bounds are a relation again
        one = kernel_table.unbounded(one)
        at = kernel_table.parts(one)
    if query.lead not in ("rows", "examples") or any(part.wide for part in (query, key, value)):
        raise Unsupported("attention whose query or keys are not tokens")
    rows = tuple(a for a in query.dims if a.ragged) if some else ()
    if some and key.dims == (width,):  # heads that read the same keys are so many queries
        rows = tuple(a for a in query.dims if a != width)
    groups, made = _heads(tuple(a for a in query.dims if a not in rows), key, value, width)
    own = _width_of_value(value, groups)
    tensors = [
        _with_heads(writer, query, (*rows, *made, width), rows),
        _with_heads(writer, key, (*groups, width)),
        _with_heads(writer, value, (*groups, own)),
    ]
    options = [f"scale={float(one['scale'])!r}"] if one["scale"] != 1 else []
    seen = bounded.seen_rows(writer, at, axis, keys.hidden)
    blocks = bounded.is_bounded(at) or bool(keys.room)
    if seen.see is not None:
        options.append(f"see={_function(writer, seen.see, axis, (), 'see', blocks)}")
    options.append(f"hidden={seen.hidden}")
    if "bias" in at:
        options.append(f"bias={_function(writer, at['bias'], axis, made, 'bias', blocks)}")
    options += bounded.row_bounds(writer, at, rows if some else None, keys.shift[some]) if blocks else []
    name = "kept_attention" if keys.room else "attention_within" if blocks else "attention"
    writer.need(name)
    queries = "" if not some else " * ".join(writer.size(axis) for axis in rows) or "1"
    return Call(tensors, options, made, own, queries, rows, name, keys)


def write(writer: RowWriter, one: Node, call: Call) -> Value:
    """`heads = attention(Q, K, V, lengths, …)` into scratch memory."""
    count = "n" if not call.queries else "len(lengths)" if not call.rows else f"len(lengths) * {call.queries}"
    shape = ", ".join([count, *([writer.size(a) for a in call.heads] or ["1"]), writer.size(call.width)])
    name = writer.names.fresh(writer.origin(one).name or "heads")
    buffer, room = writer.room(one, shape)
    some = [f"np.full(len(lengths), {call.queries})"] if call.queries else ["lengths"]
    some += [f"key_lengths={call.keys.lengths}"] if call.queries or call.keys.room else []
    some += [f"room={call.keys.room}"] if call.keys.room else []
    writer.explain(one)
    guard = ["full=True"] if call.name != "attention" and one.get("full") else []
    writer.write(f"{name} = {call.name}({', '.join([*call.tensors, *some, *call.options, *guard])}, out={room})")
    if not call.heads:
        writer.write(f"{name} = {name}[:, 0]")
    if call.rows:
        sizes = ", ".join(writer.size(axis) for axis in (*call.rows, *call.heads, call.width))
        writer.write(f"{name} = {name}.reshape(len(lengths), {sizes})")
    return Value(name, "examples" if call.queries else "rows", (*call.rows, *call.heads, call.width), buffer=buffer)


def _heads(
    asked: tuple[Axis, ...], key: Value, value: Value, width: Axis
) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """The head axes of keys and values, and those of the query (one more when queries are grouped)."""
    groups = tuple(axis for axis in key.dims if axis != width)
    made = tuple(axis for axis in asked if axis != width)
    if set(groups) - set(value.dims):
        raise Unsupported("attention whose keys have heads that the values lack")
    if len(groups) > 1 or not set(groups) <= set(made) or len(made) - len(groups) > 1:
        raise Unsupported("attention with more than one axis of heads and one of groups")
    made = (*groups, *(axis for axis in made if axis not in groups))
    if not groups and made:
        raise Unsupported("attention with heads in the query alone")
    return groups, made


def _width_of_value(value: Value, groups: tuple[Axis, ...]) -> Axis:
    own = tuple(axis for axis in value.dims if axis not in groups)
    if len(own) != 1:
        raise Unsupported("attention whose values have several axes beside the heads")
    return own[0]


def _with_heads(writer: RowWriter, value: Value, dims: tuple[Axis, ...], rows: tuple[Axis, ...] = ()) -> str:
    """Rows with the heads before the width; one head where there is none, rows of one example after the other."""
    text = transposed(value, dims).wrapped
    if rows:
        text = f"{text}.reshape(-1, {', '.join(writer.size(axis) for axis in dims if axis not in rows)})"
    return f"{text}[:, None]" if len(dims) - len(rows) == 1 else text


def _function(
    writer: RowWriter, one: Node, axis: Axis, heads: tuple[Axis, ...], wish: str, blocks: bool = False
) -> str:
    """A relation (or bias) of places as a function, written before its use.

    It is called with the numbers of queries and keys; in blocks, with the places of some and the lengths of both.
    """
    if not all(
        leaf.op in ("index", "size", "const", "table", "weight", "counter", "carry")
        for leaf in walk([one])
        if not leaf.args
    ):
        raise Unsupported(f"a {'mask' if wish == 'see' else 'bias'} that depends on the tokens")
    if any(leaf.op == "carry" for leaf in walk([one])):
        raise Unsupported("a bias that a loop carries")
    rows = [a for a in one.axes if a.ragged and a != axis and a != writer.batch]
    if len(rows) > 1 or any(a not in (*rows, axis, *heads, writer.batch) for a in one.axes):
        raise Unsupported(f"a {'mask' if wish == 'see' else 'bias'} with other axes than heads, queries and keys")
    name = writer.names.fresh(wish)
    inner = writer.places()
    inner.lines, inner.used = writer.lines, writer.used
    inner.indent, inner.counters = writer.indent + 1, writer.counters
    query = rows[0] if rows else None
    sizes = _bind_places(inner, one, axis, query, blocks)
    writer.explain(one)
    places = [f"i: {inner.array}", f"j: {inner.array}"] if blocks else []
    writer.write(f"def {name}({', '.join([*places, 'queries: int', 'keys: int'])}) -> {inner.array}:")
    inner.body([one])
    found = inner.value(one)
    assert writer.batch is not None
    dims = (*(heads if wish == "bias" else ()), query or writer.batch, axis)  # one entry where no query is named
    sizes = [*(writer.size(a) for a in dims[:-2]), *sizes]
    flat = f".reshape(-1, {sizes[-2]}, {sizes[-1]})" if len(sizes) > 3 else ""
    inner.write(f"return {inner.broadcast(found, '', dims, sizes)}{flat}")
    return name


def _bind_places(inner: Writer, one: Node, axis: Axis, query: Axis | None, blocks: bool) -> list[str]:
    """What places and lengths are called inside the function; the texts of how many rows and columns it makes."""
    inner.by_axis = {axis: "keys", **({query: "queries"} if query is not None else {})}
    for leaf in walk([one]):
        if leaf.op == "size":
            own = leaf["axis"].size == axis.size
            inner.memo[leaf] = Value("keys" if own else "queries", "", (), wide=True, number=True)
        elif blocks and leaf.op == "index" and leaf["axis"].ragged:
            inner.memo[leaf] = Value("j" if leaf["axis"] == axis else "i", "", (leaf["axis"],), wide=True)
    return ["len(i)", "len(j)"] if blocks else ["queries", "keys"]
