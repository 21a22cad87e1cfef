"""Packed rows: the tokens of all examples of a chunk one after the other, attention per example.

A value has one of three leads: `rows` (it has the length), `examples` (it has the batch but no length), or none (it is
the same for all). What needs two lengths of one example at once is attention's business, or `Unsupported` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...compiler import kernels as kernel_table
from ...compiler.arithmetic import index_only
from ...compiler.ir import Axis, Graph, Node, walk
from ...compiler.passes.fold_scales import is_product
from ...compiler.passes.parameters import is_parameter
from ..limits import checked_picks
from . import loops
from .buffers import Buffers, last_reads
from .mangling import Names
from .parameters import Parameters
from .values import Unsupported, Value, aligned, transposed
from .writer import Writer

VIEWS = ("rename", "split", "merge", "pick", "state", "carry", "random")


class PackedWriter(Writer):
    """Writes a function over packed rows: `lengths`, `hidden`, `index` and `positions` describe them."""

    def __init__(self, graph: Graph, names: Names, parameters: Parameters, batch: Axis) -> None:
        super().__init__(graph, names, parameters, batch)
        self.buffers = Buffers()
        self._deferred = _relations(graph)
        self._checked = checked_picks(graph)
        self._rooms = self._overwrites = 0
        self._final: dict[Node, tuple[str, list[Node]]] = {}
        self.last: dict[Node, int] = {}
        self.place: dict[Node, int] = {}
        self.preferred: dict[Node, str] = {}
        self.here = 0

    # -------------------------------------------------------------------------------------------------- shapes

    def shape(self, one: Node) -> tuple[str, tuple[Axis, ...]]:
        lengths = [axis for axis in one.axes if axis.ragged and axis != self.batch]
        if len(lengths) > 1 or any(axis.owner != self.batch for axis in lengths):
            raise Unsupported("a value has two lengths of one example outside attention")
        dims = tuple(axis for axis in one.axes if axis != self.batch and axis not in lengths)
        lead = "rows" if lengths else "examples" if self.batch in one.axes else ""
        return lead, dims

    def fit(self, value: Value, lead: str, dims: tuple[Axis, ...]) -> str:
        if value.lead == "examples" and lead == "rows":
            inner = aligned(value, "examples", dims)
            return f"np.repeat({inner}, lengths, axis=0)"
        return aligned(value, lead, dims)

    def lead_sizes(self, lead: str) -> list[str]:
        return {"rows": ["n"], "examples": ["len(lengths)"], "": []}[lead]

    def visible(self, axes: Any, lead: str, dims: tuple[Axis, ...]) -> list[str]:
        if any(axis.ragged for axis in axes):
            raise Unsupported("a kernel along a length")
        return []

    def plan(self, order: list[Node], roots: tuple[Node, ...]) -> None:
        flows = {one for one in order if one.op in VIEWS or self._flows(one)}
        self.last = last_reads(order, roots, flows)
        self.place = {one: number for number, one in enumerate(order)}
        if self._state_buffer is not None:  # a state's buffer is free once the step has read it for the last time
            self.buffers.held[self._state_buffer] = max((self.last.get(c, -1) for c in self._state_carries), default=-1)
            self._state_buffer = None

    def settled(self, one: Node, found: Value) -> Value:
        made = super().settled(one, found)
        if one.op == "map" and not made.text.isidentifier() and not made.number and not self._flows(one):
            return self.assigned(one, made)  # its operands' memory may be used again after this line
        return made

    def _flows(self, one: Node) -> bool:
        """Whether a value is text that its only reader evaluates (an update in place is a line of its own)."""
        if one.op != "map" or self._readers.get(one, 0) > 1:
            return False
        first = one.args[0]
        fresh = first.op in ("contract", "pick") or (first.op == "kernel" and first["name"] == "attention")
        return not (one["fn"] in ("+", "-", "*", "/") and fresh and self._readers.get(first, 0) <= 1)

    def made(self, one: Node) -> Value:
        self.here = self.place.get(one, self.here)
        found = super().made(one)
        if found.buffer is not None:
            self.buffers.hold(found.buffer, self.last.get(one, self.here))
        if one in self.place:
            self.buffers.release(self.here)
        return found

    # -------------------------------------------------------------------------------------------------- leaves

    def _index(self, one: Node) -> Value:
        if one["axis"].ragged:
            return Value("index", "rows", (), wide=True)
        return super()._index(one)

    def _position(self, one: Node) -> Value:
        return Value("positions", "rows", (), wide=True)

    def _size(self, one: Node) -> Value:
        return Value("lengths", "examples", (), wide=True)

    def _widen(self, one: Node) -> Value:
        """Along the batch or a length: the same entry for each example, or for each of its rows."""
        if not one["axis"].ragged:
            return super()._widen(one)
        value, (lead, _) = self.value(one.args[0]), self.shape(one)
        if value.lead == lead:
            return value
        text = self.fit(value, lead, value.dims)
        if not value.lead:
            text = f"np.broadcast_to({text}, ({', '.join(self.lead_sizes(lead) + [self.size(a) for a in value.dims])},))"
        return Value(text, lead, value.dims, wide=value.wide)

    # ------------------------------------------------------------------------------------------------- scratch

    def room(self, one: Node, shape: str) -> tuple[str | None, str]:
        """A scratch buffer for a value, and the text that gives it."""
        if "schedule" not in self.graph.plan:
            return None, f"np.empty(({shape}), {self.dtype})"
        self._rooms += 1
        preferred = self.preferred.get(one)
        name = self.buffers.take(self.last.get(one, self.here), preferred, self._wanted)
        self.need("scratch")
        return name, f'scratch("{name}", ({shape}), {self.dtype})'

    def memory(self) -> dict[str, int]:
        """What the schedule saved, for the ledger."""
        told = {
            f"large values lie in {len(self.buffers.known)} buffers": self._rooms,
            "kernels write over their argument": self._overwrites,
        }
        return {text: count for text, count in told.items() if count}

    def _dies(self, arg: Node) -> bool:
        return self.last.get(arg, self.here) <= self.here

    def writable(self, one: Node, arg: Node, value: Value) -> Value:
        """A value that may be overwritten: the argument itself if this is its last reader, else a copy."""
        own = value.buffer is not None and self._dies(arg) and self.buffers.held.get(value.buffer, -1) <= self.here
        whole = value.text.isidentifier() and arg.op not in VIEWS
        if own and (whole or arg.op in ("state", "carry")) and value.buffer is not None:
            self.buffers.pass_on(value.buffer, self.last.get(one, self.here))
            self._overwrites += 1
            return value
        if value.buffer is None and value.owned and (self._dies(arg) or not value.text.isidentifier()):
            return value
        return Value(f"np.array({value.text}, {self.dtype})", value.lead, value.dims, owned=True)

    # ----------------------------------------------------------------------------------------- entry by entry

    def _map(self, one: Node) -> Value:
        if one["fn"] == "+":
            for product, bias in (one.args, one.args[::-1]):
                if product in self.memo or not is_product(product) or not is_parameter(bias):
                    continue
                found = self._linear(one, product, bias)
                if found is not None:
                    return found
        return self._updated(one) or super()._map(one)

    def _updated(self, one: Node) -> Value | None:
        """`x += y` where x is scratch that nobody reads any more."""
        if one["fn"] not in ("+", "-", "*", "/") or one.kind != "real":
            return None
        left, right = (self.value(arg) for arg in one.args)
        lead, dims = self.shape(one)
        if left.buffer is None or left.wide or not left.text.isidentifier() or left.lead != lead or set(left.dims) != set(dims):
            return None
        dies = self._dies(one.args[0]) and self.buffers.held.get(left.buffer, -1) <= self.here
        view = one.args[0].op in VIEWS and not (one.args[0].op == "pick" and one.args[0].args[1].op != "const")
        if not dies or view or one.args[0].op == "loop" or (right.wide and not right.number):
            return None
        self.explain(one)
        self.write(f"{left.text} {one['fn']}= {self.fit(right, lead, left.dims)}")
        self.buffers.pass_on(left.buffer, self.last.get(one, self.here))
        return left

    def is_ready(self, one: Node) -> bool:
        return super().is_ready(one) or one in self._absorbed or one in self._deferred

    def _name(self, one: Node, wish: str) -> str:
        """A fresh name; the next state of a loop may take the state's own once that is read no more."""
        if one in self._final:
            name, carries = self._final[one]
            if all(self.last.get(carry, -1) <= self.here for carry in carries):
                return name
        return self.names.fresh(wish)

    def assigned(self, one: Node, found: Value, wish: str = "") -> Value:
        name = self._name(one, wish or self.origin(one).name or "t")
        self.explain(one)
        self.write(f"{name} = {found.text}")
        return found.named(name)

    _absorbed: set[Node] = set()
    _wanted: tuple[str, ...] = ()
    packs = True

    def body(self, roots: Any) -> None:
        roots = tuple(roots)
        before = self.last, self.place, self.here
        self._absorbed = self._absorbed | self._with_bias(roots)
        super().body(roots)
        self.last, self.place, self.here = before

    def _with_bias(self, roots: tuple[Node, ...]) -> set[Node]:
        """Products that only a sum with a bias reads: the sum writes them."""
        readers: dict[Node, list[Node]] = {}
        for one in walk(roots):
            for arg in one.args:
                readers.setdefault(arg, []).append(one)
        found = set()
        for one in walk(roots):
            if one.op == "map" and one["fn"] == "+":
                for product, bias in (one.args, one.args[::-1]):
                    if is_product(product) and is_parameter(bias) and len(readers[product]) == 1 and product not in roots:
                        if self._layouts(product) is not None and set(bias.axes) <= set(self._layouts(product)[1]):  # type: ignore[index]
                            found.add(product)
        return found

    # ------------------------------------------------------------------------------------------------ products

    def _layouts(self, product: Node) -> tuple[tuple[Axis, ...], tuple[Axis, ...]] | None:
        """(consumed, made) axes of a product with weights that is one matrix product, or None."""
        weights = product.args[1]
        outs = tuple(axis for axis in weights.axes if axis not in product["over"])
        if any(axis in product.args[0].axes for axis in outs) or not outs:
            return None
        for part in walk([weights]):
            if part.op == "concat" and part["into"] in outs:
                outs = (part["into"], *(axis for axis in outs if axis != part["into"]))
        return product["over"], outs

    def _linear(self, one: Node, product: Node, bias: Node | None) -> Value | None:
        layouts = self._layouts(product)
        if layouts is None or self.parameters is None or not self.hoisted(product.args[1]):
            return None
        over, outs = layouts
        if bias is not None and not set(bias.axes) <= set(outs):
            return None
        value = self.value(product.args[0])
        if not value.lead or value.wide:
            return None
        kept = tuple(axis for axis in value.dims if axis not in over)
        over = tuple(axis for axis in value.dims if axis in over)
        x = transposed(value, (*kept, *over))
        rows = x.wrapped if len(over) == 1 and not kept else f"{x.wrapped}.reshape(-1, {_product(over)})"
        if not kept and len(over) > 1:
            rows = f"{x.wrapped}.reshape({self.lead_sizes(value.lead)[0]}, {_product(over)})"
        W = self.parameters.laid_out(product.args[1], (over, outs), self, outs).text
        b = self._bias(bias, outs)
        self.need("linear")
        width = _product(outs)
        wish = self.origin(one).name or "y"
        name = self.names.fresh(wish)
        extra = f", {b}" if b else ""
        if kept:
            self.explain(one)
            shape = ", ".join([*self.lead_sizes(value.lead), *(self.size(a) for a in (*kept, *outs))])
            self.write(f"{name} = linear({rows}, {W}{extra}).reshape({shape})")
            return Value(name, value.lead, (*kept, *outs), owned=True)
        buffer, room = self.room(one, f"{self.lead_sizes(value.lead)[0]}, {width}")
        self.explain(one)
        self.write(f"{name} = linear({rows}, {W}{extra}, out={room})")
        if len(outs) > 1:
            sizes = ", ".join(self.size(axis) for axis in outs)
            self.write(f"{name} = {name}.reshape({self.lead_sizes(value.lead)[0]}, {sizes})")
        return Value(name, value.lead, outs, buffer=buffer)

    def _bias(self, bias: Node | None, outs: tuple[Axis, ...]) -> str:
        if bias is None or self.parameters is None:
            return ""
        if set(bias.axes) == set(outs):
            return self.parameters.laid_out(bias, (outs,), self, outs).text
        raise Unsupported("a bias along part of a product")

    def _contract(self, one: Node) -> Value:
        if any(axis.ragged for axis in one["over"]):
            return self._over_length(one)
        if is_product(one):
            found = self._linear(one, one, None)
            if found is not None:
                return found
        values = [self.value(arg) for arg in one.args]
        lead, dims = self.order_of_product(one, values)
        if any(value.lead != lead for value in values if value.lead):
            values = [
                Value(self.fit(v, lead, v.dims), lead, v.dims) if v.lead and v.lead != lead else v for v in values
            ]
        return self.einsum(one, values, lead, dims)

    def _over_length(self, one: Node) -> Value:
        """Σ over the length of a product: a sum over each example's rows."""
        if len(one["over"]) != 1:
            raise Unsupported("a product over a length and another axis")
        values = [self.value(arg) for arg in one.args]
        dims = tuple(dict.fromkeys(axis for value in values for axis in value.dims))
        texts = [self.fit(value, "rows", dims) for value in values]
        self.need("segment_sum")
        text = f"segment_sum({texts[0]} * {texts[1]}, lengths{self._seen()})"
        return Value(text, "examples", dims, owned=True)

    @staticmethod
    def _seen(condition: str = "") -> str:
        """The argument that leaves hidden rows out of a sum over an example."""
        if condition:
            return f", ({condition}) if hidden is None else ({condition}) & ~hidden"
        return ", None if hidden is None else ~hidden"

    # ------------------------------------------------------------------------------------------ along the axes

    def _reduce(self, one: Node) -> Value:
        if not any(axis.ragged for axis in one["over"]):
            return super()._reduce(one)
        kind = one["reduction"]
        if len(one["over"]) != 1 or kind not in ("sum", "mean", "max", "min", "count", "norm"):
            raise Unsupported(f"{kind} over a length together with other axes")
        value = self.value(one.args[0])
        dims = value.dims
        condition = ""
        if len(one.args) > 1:
            test = self.value(one.args[1])
            if test.dims or test.lead != "rows":
                raise Unsupported(f"{kind} over a length with a condition along other axes")
            condition = test.text
        x = self.fit(value, "rows", dims)
        if value.lead != "rows":
            sizes = ", ".join(["n", *(self.size(a) for a in dims)])
            x = f"np.broadcast_to({x}, ({sizes},))"
        return Value(self._segments(kind, x, condition), "examples", dims, owned=True, wide=value.wide or kind == "count")

    def _segments(self, kind: str, x: str, condition: str) -> str:
        seen = self._seen(condition)
        if kind == "count":
            self.need("segment_sum")
            return f"segment_sum(np.asarray({x}, np.intp), lengths{seen})"
        if kind == "min":
            self.need("segment_max")
            return f"-segment_max(-({x}), lengths{seen}{', -np.inf' if condition else ''})"
        if kind == "norm":
            self.need("segment_sum")
            return f"np.sqrt(segment_sum(np.square({x}), lengths{seen}))"
        self.need(f"segment_{kind}")
        empty = ", -np.inf" if kind == "max" and condition else ""
        return f"segment_{kind}({x}, lengths{seen}{empty})"

    def _rank(self, one: Node) -> Value:
        if one["axis"].ragged:
            raise Unsupported("a rank along a length")
        return super()._rank(one)

    def _pick(self, one: Node) -> Value:
        base, keys = one.args[0], one["keys"]
        if any(key.ragged for key in keys):
            return self._row_of_example(one)
        if all(arg.op == "const" for arg in one.args[1:]):
            return self._sliced(one, self.value(base))
        if not self.hoisted(base) or len(keys) != 1:
            return self._general_pick(one)
        index = self.value(one.args[1])
        if index.dims or self.parameters is None:
            return self._general_pick(one)
        return self._looked_up(one, base, index)

    def _looked_up(self, one: Node, base: Node, index: Value) -> Value:
        """A row of a table for each token; where nobody has checked the numbers, NaN for a row that does not exist."""
        assert self.parameters is not None
        key = one["keys"][0]
        dims = tuple(axis for axis in base.axes if axis != key)
        table = self.parameters.laid_out(base, ((key,), *((axis,) for axis in dims)), self, (key, *dims))
        if one not in self._checked:
            self.need("gather")
            return Value(f"gather({table.text}, {index.text})", index.lead, dims, owned=True, wide=table.wide)
        if index.lead == "rows" and self._readers.get(one, 0) <= 1 and len(dims) == 1 and index.text not in self.scalars:
            self.explain(one)
            wish = self.origin(one).name or "x"
            name = self.names.fresh(wish)
            buffer, room = self.room(one, f"n, {self.size(dims[0])}")
            self.write(f"{name} = np.take({table.text}, {index.text}, axis=0, out={room}, mode=\"clip\")")
            return Value(name, "rows", dims, buffer=buffer)
        return Value(f"{table.text}[{index.text}]", index.lead, dims, owned=True)

    def _general_pick(self, one: Node) -> Value:
        """One axis picked by numbers along one new axis, the same for all rows: np.take."""
        base = self.value(one.args[0])
        if len(one["keys"]) == 1:
            index = self.value(one.args[1])
            key = one["keys"][0]
            others = [axis for axis in base.dims if axis != key]
            if not index.lead and len(index.dims) == 1 and index.dims[0] not in others:
                at = base.dims.index(key)
                dims = (*base.dims[:at], index.dims[0], *base.dims[at + 1 :])
                text = f"np.take({base.text}, {index.text}.astype(np.intp), axis={at + (1 if base.lead else 0)})"
                return Value(text, base.lead, dims, owned=True, wide=base.wide)
        raise Unsupported("a pick by numbers that differ along other axes")

    def _row_of_example(self, one: Node) -> Value:
        """x[seq = 0]: one row of each example."""
        if len(one["keys"]) != 1 or one.args[1].op != "const":
            raise Unsupported("a pick along a length by computed numbers")
        value = self.value(one.args[0])
        number = int(one.args[1]["value"])
        self.need("row_of_example")
        return Value(f"row_of_example({value.text}, lengths, {number})", "examples", value.dims, owned=True)

    # ------------------------------------------------------------------------------------------------- kernels

    def _kernel(self, one: Node) -> Value:
        at = kernel_table.parts(one)
        name = one["name"]
        if name == "attention":
            from . import attention

            return attention.write(self, one, at)
        if name in kernel_table.POINTWISE:
            return self._in_place(one, at, ())
        if name in ("layer_norm", "rms_norm"):
            return self._in_place(one, at, (one["axis"],))
        if one["axis"].ragged:
            return self._softmax_of_length(one, at)
        return super()._kernel(one)

    def _softmax_of_length(self, one: Node, at: Mapping[str, Node]) -> Value:
        if one["name"] != "softmax" or "see" in at:
            raise Unsupported(f"{one['name']} along a length")
        value = self.value(at["x"])
        self.need("segment_softmax")
        return Value(f"segment_softmax({value.text}, lengths{self._seen()})", "rows", value.dims, owned=True)

    def _in_place(self, one: Node, at: Mapping[str, Node], axes: tuple[Axis, ...]) -> Value:
        """A kernel that overwrites its rows; the norm's axis comes last."""
        value = self.value(at["x"])
        if not value.lead or value.wide:
            raise Unsupported(f"{one['name']} of a value without examples")
        dims = (*(axis for axis in value.dims if axis not in axes), *axes)
        if value.dims != dims:
            value = transposed(value, dims)
        residual = at.get("residual")
        rest = self.value(residual) if residual is not None else None
        x = self.writable(one, at["x"], value)
        arguments = [x.text]
        if axes:
            arguments += [self._parameter(at.get("gain"), axes)]
            if one["name"] == "layer_norm":
                arguments += [self._parameter(at.get("shift"), axes)]
            arguments += [repr(float(one["eps"]))]
        if "bias" in at:
            arguments.append(f"bias={self._flat_bias(at['bias'], dims)}")
        if rest is not None:
            arguments.append(f"residual={self.fit(rest, value.lead, dims)}")
        self.need(one["name"])
        origin = self.origin(one).name
        name = self._name(one, origin or "t") if origin or not x.text.isidentifier() else x.text
        self.explain(one)
        self.write(f"{name} = {one['name']}({', '.join(arguments)})")
        return Value(name, value.lead, dims, buffer=x.buffer)

    def _parameter(self, part: Node | None, axes: tuple[Axis, ...]) -> str:
        if part is None:
            return "None"
        assert self.parameters is not None
        return self.parameters.laid_out(part, (axes,), self, axes).text

    def _flat_bias(self, bias: Node, dims: tuple[Axis, ...]) -> str:
        assert self.parameters is not None
        if set(bias.axes) != set(dims):
            raise Unsupported("a bias along part of a value")
        return self.parameters.laid_out(bias, (dims,), self, dims).text

    # --------------------------------------------------------------------------------------------------- loops

    def start_state(self, one: Node, slot: int, name: str, first: Value) -> Value:
        arg = one.args[slot]
        own = first.buffer is not None and first.text.isidentifier() and self._dies(arg)
        if own and one["slots"] == 1 and len(first.dims) == 1 and not self._is_kept(one, slot):
            assert first.buffer is not None
            self.buffers.pass_on(first.buffer, 10**9)
            return Value(first.text, first.lead, first.dims, buffer=first.buffer)
        name = self.names.fresh(name)
        if "schedule" not in self.graph.plan or one["slots"] > 1 or first.lead == "" or len(first.dims) != 1 or self._is_kept(one, slot):
            self.write(f"{name} = np.array({first.text}, {self.dtype})")
            return Value(name, first.lead, first.dims)
        buffer = self.buffers.take(10**9)
        self.need("scratch")
        shape = ", ".join(self.lead_sizes(first.lead) + [self.size(axis) for axis in first.dims])
        self.write(f'{name} = scratch("{buffer}", ({shape}), {self.dtype})')
        self.write(f"{name}[...] = {first.text}")
        return Value(name, first.lead, first.dims, buffer=buffer)

    def _is_kept(self, one: Node, slot: int) -> bool:
        return (one["loop"], slot) in loops.kept(self, one)

    def step(self, one: Node, names: list[str], states: list[Value]) -> None:
        buffer = states[0].buffer
        if buffer is None:
            super().step(one, names, states)
            self.buffers.release(10**8)
            return
        self._prefer(one["body"][0], buffer)
        before, self._wanted = self._wanted, (*self._wanted, buffer)
        outer = dict(self.buffers.held)
        for other in outer:
            if other != buffer:
                self.buffers.hold(other, 10**9)  # what lies outside the loop stays
        del self.buffers.held[buffer]
        self._watch_state(one, buffer)
        self._final[one["body"][0]] = names[0], loops.carried(one)
        self.body(one["body"])
        self._end(one, names, states, buffer)
        self._wanted = before
        for other in list(self.buffers.held):
            if other in outer:
                self.buffers.held[other] = outer[other]
            else:
                del self.buffers.held[other]
                self.buffers.free.append(other)
        if buffer in self.buffers.free:
            self.buffers.free.remove(buffer)
        self.buffers.held[buffer] = self.last.get(one, self.here)
        users = [n for n in self.place if n.op in ("state", "history") and n.args[0] is one]
        for user in users:
            self.buffers.hold(buffer, self.last.get(user, self.place[user]))

    def _watch_state(self, one: Node, buffer: str) -> None:
        self._state_buffer = buffer
        self._state_carries = set(loops.carried(one))

    _state_buffer: str | None = None
    _state_carries: set[Node] = set()

    def _prefer(self, result: Node, buffer: str) -> None:
        """The chain of overwriting kernels that ends in the next state should start in the state's own buffer."""
        here = result
        while here.op == "kernel" and here["name"] != "attention":
            self.preferred[here] = buffer
            here = kernel_table.parts(here)["x"]
        self.preferred[here] = buffer
        for arg in here.args:
            if here.op == "map" and is_product(arg):
                self.preferred[arg] = buffer

    def _end(self, one: Node, names: list[str], states: list[Value], buffer: str) -> None:
        value = self.value(one["body"][0])
        state = states[0]
        if value.buffer == buffer and value.text.isidentifier() and value.dims == state.dims:
            if value.text != names[0]:
                self.write(f"{names[0]} = {value.text}")
            return
        self.write(f"{names[0]}[...] = {self.fit(value, state.lead, state.dims)}")


def _relations(graph: Graph) -> set[Node]:
    """Masks and biases of places alone: attention asks for them by the lengths of each example."""
    found: set[Node] = set()
    for one in graph.nodes():
        if one.op == "kernel" and one["name"] == "attention":
            at = kernel_table.parts(one)
            found.update(at[role] for role in ("see", "bias") if role in at and index_relation(at[role]))
    return found


def _product(axes: tuple[Axis, ...]) -> int:
    total = 1
    for axis in axes:
        if not isinstance(axis.size, int):
            raise Unsupported("a product over a length")
        total *= axis.size
    return total


def index_relation(one: Node) -> bool:
    """Whether a relation or bias is made of places (and parameters) only."""
    return index_only(one) or all(
        leaf.op in ("index", "size", "const", "table", "counter", "weight") for leaf in walk([one]) if not leaf.args
    )
