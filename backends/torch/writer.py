"""The PyTorch writer: nodes of a graph → lines of a `forward` over a padded batch.

Values have all their axes, the batch included. Padding stays where it is: `index` is each place's order in its example,
`visible` the keys that may be seen, and every reduction over a length leaves the rest out. packed.py writes rows
instead: values that have a lead keep it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Graph, Length, Node, walk
from ...compiler.passes.parameters import is_parameter
from ..limits import checked_picks, picks_rows
from ..numpy import loops, slices
from ..numpy.literals import number
from ..numpy.mangling import Names
from ..numpy.values import Unsupported, Value, aligned, transposed
from ..numpy.writer import Writer
from . import expressions
from .weights import WeightNames

Dims = tuple[Axis, ...]


class TorchWriter(Writer):
    """Writes the body of `forward`."""

    dtype = "dtype"
    cast = "to({})"
    array = "Tensor"
    picker = "gather"
    linear = "F.linear"  # what writes x @ W + b

    def __init__(self, graph: Graph, names: Names, weights: WeightNames, lengths: Mapping[str, str]) -> None:
        super().__init__(graph, names, None, graph.batch)
        self.weights, self.length_texts = weights, lengths
        self.absorbed: set[Node] = set()
        self.checked = checked_picks(graph)

    def shape(self, one: Node) -> tuple[str, Dims]:
        return "", one.axes

    def size(self, axis: Axis) -> str:
        """The number of entries along an axis, as text."""
        if axis == self.batch:
            return "batch"
        if axis in self.sizes:  # as long as an input
            return self.sizes[axis]
        if isinstance(axis.size, Length):
            return self.length_texts[axis.size.name]
        return str(axis.size)

    def broadcast(self, value: Value, lead: str, dims: Dims, sizes: Iterable[str] = ()) -> str:
        sizes = tuple(sizes) or [*self.lead_sizes(lead), *(self.size(axis) for axis in dims)]
        text = self.fit(value, lead, dims)
        return f"{f'torch.as_tensor({text}, device=device)' if value.number else text}.expand({', '.join(sizes)})"

    def is_ready(self, one: Node) -> bool:
        if one.op in ("const", "weight") or one in self.absorbed:
            return True
        return self._stacked(one)

    def _enter(self, one: Node) -> bool:
        return super()._enter(one) or (one in self.absorbed and one not in self.memo)  # it reads, though it has no line

    def value(self, one: Node) -> Value:
        if one not in self.memo and (one.op == "weight" or self._stacked(one)):
            return self.weights.value(one, self)
        return self.fixed(super().value(one))

    @staticmethod
    def fixed(value: Value) -> Value:
        """torch calls a transposition of all dimensions `permute`."""
        return value if value.reorder == "permute" else Value(**{**value.__dict__, "reorder": "permute"})

    def made(self, one: Node) -> Value:
        return self.fixed(super().made(one))

    def settled(self, one: Node, found: Value) -> Value:
        if one.op == "random":  # text that stands twice would be drawn twice
            return self.assigned(one, found, self.origin(one).name or "kept")
        if one.op == "kernel" and not found.text.isidentifier():
            return self.assigned(one, found)
        return super().settled(one, found)

    def _stacked(self, one: Node) -> bool:
        return one.op == "pick" and one.args[0].op == "weight" and self.weights.is_stack_pick(one)

    def visible_text(self, axis: Axis) -> str:
        assert isinstance(axis.size, Length)
        return f"visible_{self.length_texts[axis.size.name]}"

    def masked_text(self, axis: Axis) -> str:
        """Whether the caller gave a mask of the length, as text."""
        assert isinstance(axis.size, Length)
        return f"masked_{self.length_texts[axis.size.name]}"

    def visible(self, axes: Iterable[Axis], lead: str, dims: Dims) -> list[str]:
        """Conditions, aligned with `dims`, that an entry along each length among `axes` is a key that may be seen."""
        found = []
        for axis in axes:
            if isinstance(axis.size, Length) and axis != self.batch and axis.owner is not None:
                keys = Value(self.visible_text(axis), "", (axis.owner, axis), reorder="permute")
                found.append(aligned(keys, "", dims))
        return found

    # -------------------------------------------------------------------------------------------------- leaves

    def _index(self, one: Node) -> Value:
        axis = one["axis"]
        if isinstance(axis.size, Length) and axis.owner is not None:
            return Value(f"index_{self.length_texts[axis.size.name]}", "", (axis.owner, axis), wide=True)
        return Value(f"torch.arange({self.size(axis)}, device=device)", "", (axis,), wide=True)

    def _position(self, one: Node) -> Value:
        return Value("positions", "", one.axes, wide=True)

    def _size(self, one: Node) -> Value:
        return Value(f"count_{self.length_texts[one['axis'].size.name]}", "", one.axes, wide=True)

    def _table(self, one: Node) -> Value:
        inner = ", ".join(number(v) for v in one["values"])
        return Value(f"torch.tensor([{inner}], device=device)", "", one.axes, wide=True)

    # ------------------------------------------------------------------------------------------ entry by entry

    def _map(self, one: Node) -> Value:
        if one["fn"] == "+":
            found = self._sum_of_product(one)
            if found is not None:
                return found
        values = [self.value(arg) for arg in one.args]
        if one["fn"] == "stop" and values[0].number:  # a plain number has no gradient
            return values[0]
        lead, dims = self.order(one, values)
        wide = one.kind == "bool" or all(v.wide or v.number for v in (values[1:] if one["fn"] == "where" else values))
        texts = [self._operand(one, v, arg, lead, dims, wide) for v, arg in zip(values, one.args, strict=True)]
        text, atom = expressions.scalar(one["fn"], texts)
        self.need(*(name for name in ("power", "whole_floor") if name in text))
        plain = all(v.number for v in values)
        return Value(text, lead, dims, atom, wide=wide, number=plain and one["fn"] not in expressions.NUMBERS)

    def _operand(self, one: Node, value: Value, arg: Node, lead: str, dims: Dims, wide: bool) -> str:
        if value.number and one["fn"] in expressions.NUMBERS:
            kind = "torch.bool" if arg.kind == "bool" else "dtype" if not wide else "None"
            return f"torch.as_tensor({value.text}, dtype={kind}, device=device)"
        text = self.fit(value, lead, dims)
        narrow = one.kind != "bool" and not wide and value.wide and arg.kind != "bool" and not value.number
        if narrow:
            return f"{text}.to(dtype)"
        floating = one.kind == "real" and wide and value.wide and arg.kind not in ("real", "bool") and not value.number
        return f"{text}.double()" if floating else text

    def _widen(self, one: Node) -> Value:
        least = one
        while least.op == "widen":
            least = least.args[0]
        if least.op == "const":  # one number everywhere
            sizes = ", ".join(self.size(axis) for axis in one.axes)
            return Value(f"torch.full(({sizes},), {self.value(least).text}, device=device)", "", one.axes, wide=True)
        value = self.value(one.args[0])
        if one["axis"] in value.dims:  # places along a length have their batch already
            return value
        dims = (*value.dims, one["axis"])
        sizes = ", ".join([*self.lead_sizes(value.lead), *(self.size(axis) for axis in dims)])
        shaped = value.dims or value.lead
        inner = f"{value.wrapped}[..., None]" if shaped else f"torch.as_tensor({value.text}, device=device)"
        return Value(f"{inner}.expand({sizes})", value.lead, dims, wide=value.wide)

    def _concat(self, one: Node) -> Value:
        lead, whole = self.shape(one)
        kept = tuple(axis for axis in whole if axis != one["into"])
        texts = []
        for arg, axis in zip(one.args, one["along"], strict=True):
            value = self.value(arg)
            dims = (*kept, axis or one["into"])
            text = self.fit(value, lead, dims) if axis else f"{self.fit(value, lead, kept)}[..., None]"
            sizes = ", ".join([*self.lead_sizes(lead), *(self.size(a) if a != one["into"] else "1" for a in dims)])
            texts.append(f"{text}.expand({sizes})" if len(value.dims) < len(kept) + bool(axis) else text)
        return Value(f"torch.cat([{', '.join(texts)}], dim=-1)", lead, (*kept, one["into"]))

    # ------------------------------------------------------------------------------------------ along the axes

    def _reduce(self, one: Node) -> Value:
        value, (lead, made) = self.value(one.args[0]), self.shape(one)
        if one["reduction"] in expressions.OF_REALS:
            value = self.real(value, wide=True)
        others = (axis for arg in one.args for axis in self.shape(arg)[1])
        dims = tuple(dict.fromkeys((*value.dims, *others, *made, *one["over"])))
        axes = tuple(dims.index(axis) + bool(lead) for axis in one["over"])
        left = tuple(axis for axis in dims if axis not in one["over"])
        condition = self._condition(one, one["over"], lead, dims)
        if len(value.dims) < len(dims):
            value = Value(self.broadcast(value, lead, dims), lead, dims, wide=value.wide)
        wide = value.wide or one["reduction"] in ("count", "argmax", "any", "all")
        if not condition:
            return Value(expressions.reduction(one["reduction"], value.wrapped, axes), lead, left, wide=wide)
        self.need("reduce_where")
        text = f'reduce_where("{one["reduction"]}", {value.text}, {condition}, {axes})'
        if one["reduction"] == "argmax":
            text += self._from_the_first(one["over"][0], left)
        return Value(text, lead, left, wide=wide)

    def _from_the_first(self, axis: Axis, dims: Dims) -> str:
        """The text that makes a place in the padded batch one in the example; 0 where no entry is chosen."""
        if not (isinstance(axis.size, Length) and axis.owner is not None):
            return ""
        first = Value(f"first_{self.length_texts[axis.size.name]}", "", (axis.owner,), reorder="permute")
        return f".sub({aligned(first, '', dims)}).clamp(min=0)"

    def _rank(self, one: Node) -> Value:
        value = self.real(self.value(one.args[0]), wide=True)
        dims = (*(axis for axis in value.dims if axis != one["axis"]), one["axis"])
        see = self.visible([one["axis"]], value.lead, dims)
        self.need("rank")
        text = f"rank({transposed(value, dims).text}{', ' + see[0] if see else ''})"
        return Value(text, value.lead, dims, wide=True)

    def _pick(self, one: Node) -> Value:
        base, keys = self.value(one.args[0]), one["keys"]
        found = slices.runs(one)
        if found is not None:
            return slices.sliced(base, found, backwards=False)
        indices = [self._place(key, self.value(arg)) for key, arg in zip(keys, one.args[1:], strict=True)]
        if len(keys) == 1 and one.args[0].op == "weight" and len(base.dims) == 2 and base.dims[0] == keys[0]:
            text = indices[0].text
            given = one.args[1].args[0] if picks_rows(one.args[1]) else one.args[1]
            if given.op not in ("input", "position") or one not in self.checked:  # anything beyond an example
                text = f"{indices[0].wrapped}.long().clamp(0, {int(self.size(keys[0])) - 1})"
            return Value(f"F.embedding({text}, {base.text})", indices[0].lead, (*indices[0].dims, base.dims[1]))
        if base.lead:
            return self._same_for_all(base, keys, indices)
        lead = next((value.lead for value in indices if value.lead), "")
        at = tuple(dict.fromkeys(axis for value in indices for axis in value.dims))
        shared = tuple(axis for axis in base.dims if axis not in keys and axis in at)
        rest = tuple(axis for axis in base.dims if axis not in keys and axis not in at)
        base = transposed(base, (*keys, *shared, *rest))
        indices += [Value(f"torch.arange({self.size(a)}, device=device)", "", (a,)) for a in shared]
        scalar = [not v.dims and not v.lead for v in indices]
        texts = [f"torch.as_tensor({v.text}, device=device)" if s else "" for v, s in zip(indices, scalar, strict=True)]
        texts = [text or self.fit(value, lead, at) for text, value in zip(texts, indices, strict=True)]
        self.need(self.picker)
        return Value(f"{self.picker}({base.text}, {', '.join(texts)})", lead, (*at, *rest), wide=base.wide)

    def _same_for_all(self, base: Value, keys: Dims, indices: list[Value]) -> Value:
        """One axis of rows (or examples) picked by numbers along one axis."""
        others = [axis for axis in base.dims if axis not in keys]
        if len(keys) > 1 or indices[0].lead or len(indices[0].dims) != 1 or indices[0].dims[0] in others:
            raise Unsupported("a pick by numbers that differ along other axes")
        at = base.dims.index(keys[0])
        dims = (*base.dims[:at], indices[0].dims[0], *base.dims[at + 1 :])
        self.need("gather")
        text = f"gather({base.wrapped}.movedim({at + 1}, 0), {indices[0].text}).movedim(0, {at + 1})"
        return Value(text, base.lead, dims, wide=base.wide)

    def _place(self, key: Axis, value: Value) -> Value:
        """A number along a length counts from the example's first place."""
        if not (isinstance(key.size, Length) and key.owner is not None):
            return value
        first = Value(f"first_{self.length_texts[key.size.name]}", "", (key.owner,), reorder="permute")
        dims = tuple(dict.fromkeys((key.owner, *value.dims)))
        text = f"{aligned(value, '', dims)} + {aligned(first, '', dims)}"
        return Value(text, "", dims, atom=False, wide=True, reorder="permute")

    # ------------------------------------------------------------------------------------------------ products

    def _sum_of_product(self, one: Node) -> Value | None:
        """x @ W + b as one linear."""
        for product, bias in (one.args, one.args[::-1]):
            if product in self.absorbed and is_parameter(bias):
                return self._linear(product, bias)
        return None

    def body(self, roots: Iterable[Node]) -> None:
        roots = tuple(roots)
        self.absorbed |= self._absorbable(roots)
        super().body(roots)

    def _absorbable(self, roots: tuple[Node, ...]) -> set[Node]:
        readers: dict[Node, int] = {}
        for one in walk(roots):
            for arg in one.args:
                readers[arg] = readers.get(arg, 0) + 1
        found: set[Node] = set()
        for one in walk(roots):
            if one.op == "map" and one["fn"] == "+":
                for product, bias in (one.args, one.args[::-1]):
                    outs = self.weights.linear(product) if product not in roots else None
                    fits = outs is not None and self.weights.is_weight(bias) and bias.axes == outs
                    if fits and readers[product] == 1:
                        found.add(product)
        return found

    def _contract(self, one: Node) -> Value:
        if self.weights.linear(one) is not None:
            return self._linear(one, None)
        values = [self.value(arg) for arg in one.args]
        lead, dims = self.order_of_product(one, values)
        return self.einsum(one, values, lead, dims)

    def einsum(self, one: Node, values: list[Value], lead: str, dims: Dims) -> Value:
        """A general contraction; hidden keys along a length that is summed over are a factor 0."""
        letters: dict[Axis, str] = {}
        for axis in (*(a for v in values for a in v.dims), *one.axes):
            letters.setdefault(axis, "abcdefghijklmnopqrstuvwxy"[len(letters)])
        terms, texts = [], []
        for value in values:
            terms.append(("z" if value.lead else "") + "".join(letters[axis] for axis in value.dims))
            texts.append(f"{value.wrapped}.to(dtype)" if value.wide else value.text)
        for axis in one["over"]:
            if axis.ragged and axis.owner is not None:
                letters.setdefault(axis.owner, "abcdefghijklmnopqrstuvwxy"[len(letters)])
                terms.append(letters[axis.owner] + letters[axis])
                texts.append(f"{self.visible_text(axis)}.to(dtype)")
        dims = tuple(dict.fromkeys((*dims, *self.shape(one)[1])))
        target = ("z" if lead else "") + "".join(letters[axis] for axis in dims)
        return Value(f'torch.einsum("{",".join(terms)}->{target}", {", ".join(texts)})', lead, dims)

    def _linear(self, product: Node, bias: Node | None) -> Value:
        x, (over, outs) = self.value(product.args[0]), self.weights.matrix(product)
        kept = tuple(axis for axis in x.dims if axis not in over)
        x = transposed(x, (*kept, *over))
        text = x.text if len(over) == 1 else f"{x.wrapped}.flatten(-{len(over)})"
        parts = [text, self.weights.text(product.args[1], self)]
        if bias is not None:
            parts.append(self.weights.text(bias, self, flat=True))
        made = f"{self.linear}({', '.join(parts)})"
        if len(outs) > 1:
            made += f".unflatten(-1, ({', '.join(self.size(axis) for axis in outs)}))"
        return Value(made, x.lead, (*kept, *outs))

    # --------------------------------------------------------------------------------------------------- loops

    def copied(self, name: str) -> str:
        return name

    def last_step(self, one: Node, stop: Value) -> str:
        return self.size(one["axis"]) if stop.dims else stop.text

    def step(self, one: Node, names: list[str], states: list[Value]) -> None:
        """Over a length, an example that has ended keeps its state."""
        steps = one.args[one["slots"]]
        if not steps.axes:
            super().step(one, names, states)
            return
        self.body(one["body"])
        test = f"{self.counters[one['loop']]} < {self.value(steps).text}"
        going = Value(test, "", steps.axes, atom=False, reorder="permute")
        new = []
        for part, state in zip(one["body"], states, strict=True):
            text = aligned(self.value(part), "", state.dims)
            new.append(Value(f"torch.where({aligned(going, '', state.dims)}, {text}, {state.text})", "", state.dims))
        loops.end_step(self, one, names, new)

    def _history(self, one: Node) -> Value:
        """A state of any number of a finished loop; numbers along an axis choose one each."""
        made, number = one.args[0], self.value(one.args[1])
        like = loops.state(self, made, one["slot"])
        states, shift = self.histories[made["loop"], one["slot"]], f" - {made['start']}" if made["start"] else ""
        if not number.dims:
            return Value(f"{states}[{number.text}{shift}]", like.lead, like.dims, reorder="permute")
        if number.lead or set(number.dims) & set(like.dims):
            raise Unsupported("states chosen by numbers that differ from example to example")
        text = f"torch.stack({states}, dim=1)[:, " if like.lead else f"torch.stack({states})["
        return Value(f"{text}{number.text}{shift}]", like.lead, (*number.dims, *like.dims), reorder="permute")

    # ------------------------------------------------------------------------------------------------- kernels

    def _kernel(self, one: Node) -> Value:
        from . import kernels

        write = getattr(kernels, one["name"], None)
        if write is None:
            return self.value(kernel_table.expanded(one))
        found: Value = write(self, one, kernel_table.parts(one))
        return found

    def _random(self, one: Node) -> Value:
        """Each entry is drawn by itself, along axes too where the value is the same; along a length, each example's."""
        if one["draw"] != "dropout":
            raise Unsupported("a random draw")
        value, rate = self.value(one.args[0]), self.value(one.args[1])
        lead, made = self.shape(one)
        dims = tuple(dict.fromkeys((*value.dims, *rate.dims, *made)))
        x = value.text
        if value.number:
            x = f"torch.as_tensor({x}, dtype=dtype, device=device)"
        elif value.wide:
            x = f"{value.wrapped}.to(dtype)"
        if len(value.dims) < len(dims) or value.lead != lead:
            atom = value.atom or value.wide or value.number
            x = self.broadcast(Value(x, value.lead, value.dims, atom, reorder="permute"), lead, dims)
        if rate.number:
            return Value(f"F.dropout({x}, {rate.text}, self.training)", lead, dims)
        self.need("dropped")
        return Value(f"dropped({x}, {self.fit(rate, lead, dims)}, self.training)", lead, dims)
