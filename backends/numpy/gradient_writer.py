"""Writes a differentiated objective on whole padded batches: every value has its batch as an axis like any other.

Products are matrix products over all examples at once. Meanings have their fast forms, over an argument that is read no
more (scheduled.py) or on a copy. A loop keeps its states as they are, for these are never overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ...compiler import kernels as kernel_table
from ...compiler.ir import Axis, Graph, Length, Node, at_selected, reduce, widen_to
from ..objectives import SEED
from . import activations, dropout, loops, pieces
from .einsum import LETTERS
from .literals import number
from .losses import Dims
from .mangling import Names
from .scheduled import Scheduled
from .values import Unsupported, Value, aligned, transposed

POINTWISE = ("gelu", "gelu_tanh", "silu", "sigmoid", "relu", "gelu_slope", "gelu_tanh_slope", "silu_slope")
ROLES = {"x", "g", "y", "see", "gain", "shift"}
ALONG = ("softmax", "softmax_slope", "layer_norm", "layer_norm_slope", "rms_norm", "rms_norm_slope")


class GradientWriter(Scheduled):
    """Writes a loss and its gradients, from the inputs of a model on."""

    def __init__(self, graph: Graph, names: Names, lengths: dict[str, str]) -> None:
        super().__init__(graph, names, lengths)
        self.seed = f"{SEED} or 0"  # without one nothing is dropped out, and what the formulas draw has the seed 0
        self.changing: set[str] = set()  # the variables of loops

    def start_state(self, one: Node, slot: int, name: str, first: Value) -> Value:
        found = super().start_state(one, slot, name, first)
        self.changing.add(found.text)
        return found

    def begin_length(self, text: str) -> None:
        """What stands for the entries that exist and that may be seen: None for all of them."""
        self.write(f"exists_{text} = if_any_not(np.arange({text}) < count_{text}[:, None])")
        self.write(f"seen_{text} = if_any_not(visible_{text})")

    def settled(self, one: Node, found: Value) -> Value:
        """What has another name, too, is still computed once."""
        again = one.op == "rename" and self.readers.get(one, 0) > 1 and not found.text.isidentifier()
        return self.assigned(one, found) if again and not found.number else super().settled(one, found)

    def seen_text(self, axis: Axis) -> str:
        return f"seen_{self._length(axis)}"

    def copied(self, name: str) -> str:
        return name  # no state is overwritten

    # -------------------------------------------------------------------------------------------------- leaves

    def _weight(self, one: Node) -> Value:
        text = f'weights["{one["name"]}"]'
        return Value(f"np.asarray({text})" if self.stacks.get(one["name"]) else text, "", one.axes)

    def is_ready(self, one: Node) -> bool:
        return super().is_ready(one) or one.op == "weight"

    def _widen(self, one: Node) -> Value:
        """A number that is repeated has the type of the model, and a whole one stays whole."""
        value = self.value(one.args[0])
        if value.number and one.kind == "real":
            self.memo[one.args[0]] = replace(value, text=f"self.dtype.type({value.text})", number=False)
        made = super()._widen(one)
        self.memo[one.args[0]] = value
        return replace(made, wide=made.wide or (value.number and one.kind != "real"))

    def _position(self, one: Node) -> Value:
        axis = one["axis"]
        text = self.length_texts[axis.size.name]
        self.need("given_positions")
        made = f'given_positions(given.get("position_ids"), places_{text}, shape_{text}, {text})'
        return Value(made, "", one.axes, wide=True)

    def _visible(self, one: Node) -> Value:
        return Value(f"visible_{self._length(one['axis'])}", "", one.axes)

    def _length(self, axis: Axis) -> str:
        assert isinstance(axis.size, Length)
        return self.length_texts[axis.size.name]

    def _pick(self, one: Node) -> Value:
        base = one.args[0]
        numbers = [self.value(arg) for arg in one.args[1:]]
        if base.op == "weight" and all(value.number for value in numbers):
            stack = self.stacks.get(base["name"], ())
            if stack and set(stack) == set(one["keys"]):
                at = dict(zip(one["keys"], numbers, strict=True))
                places = "".join(f"[{at[axis].text}]" for axis in stack)
                return Value(f'weights["{base["name"]}"]{places}', "", one.axes)
        return super()._pick(one)

    # ------------------------------------------------------------------------------------------------ relations

    def _map(self, one: Node) -> Value:
        if one["fn"] == "where" and one.args[0].op == "visible" and _is_zero(one.args[2]):
            return self.within(self.real(self.value(one.args[1])), one.args[0]["axis"], "seen")
        if one["fn"] in ("+", "-") and one.args[1].op == "scatter" and self.readers.get(one.args[1], 0) <= 1:
            found = self._added_at(one)
            if found is not None:
                return found
        return super()._map(one)

    def _added_at(self, one: Node) -> Value | None:
        """A sum with values at places that are all different, in the memory of the other; None if it is no such."""
        into, scatter = self.value(one.args[0]), one.args[1]
        own = not into.text.isidentifier() and into.owned
        value, *indices = (self.value(arg) for arg in scatter.args)
        at = tuple(dict.fromkeys(axis for part in (value, *indices) for axis in part.dims))
        places = dict(zip(scatter["keys"], indices, strict=True))
        fits = set(into.dims) == {*at, *places} and not set(at) & set(places)
        if into.wide or not fits or not (own or self.schedules):
            return None
        places |= {axis: Value(f"np.arange({self.size(axis)})", "", (axis,)) for axis in at}
        texts = ", ".join(self.fit(places[axis], "", at) for axis in into.dims)
        sign = "-" if one["fn"] == "-" else ""
        self.need("add_at")
        added = f"{sign}{self.real(value).wrapped}" if set(value.dims) == set(at) else ""
        if not added or transposed(value, at).text != value.text or not (own or self.overwritten(one.args[0], into)):
            return None
        return Value(f"add_at({into.text}, {added}, {texts})", "", into.dims, owned=True)

    def within(self, value: Value, axis: Axis, relation: str) -> Value:
        """The value with 0 where an entry of a length does not exist, or may not be seen."""
        assert axis.owner is not None
        missing = tuple(a for a in (axis.owner, axis) if a not in value.dims)
        if missing:
            dims = (*value.dims, *missing)
            value = Value(self.broadcast(value, "", dims), "", dims)
        self.need("zero_beyond")
        owner, entry = value.dims.index(axis.owner), value.dims.index(axis)
        text = f"zero_beyond({value.text}, {relation}_{self._length(axis)}, {owner}, {entry})"
        made = Value(text, "", value.dims)  # perhaps the value itself
        if not value.text.isidentifier() or value.text in self.changing:
            return made
        key: object = (text, "within")
        if key not in self.memo:
            name = self.names.fresh(value.text)
            self.write(f"{name} = {text}")
            self.memo[key] = made.named(name)  # type: ignore[index]
            self.also_called(value, key, name)
        return made.named(self.memo[key].text)  # type: ignore[index]

    # ---------------------------------------------------------------------------------------------------- draws

    def _random(self, one: Node) -> Value:
        return dropout.write(self, one) if one["draw"] == "dropout" else super()._random(one)

    # ------------------------------------------------------------------------------------------------- meanings

    def _kernel(self, one: Node) -> Value:
        """A meaning in place, on a copy; its fast forms are those of slopes.py, kernels.py and rowwise.py."""
        name, at = one["name"], kernel_table.parts(one)
        if name in pieces.NAMES:
            found = pieces.write(self, one)
            return super()._kernel(one) if found is None else found
        if name in POINTWISE and "bias" not in at:
            if (found := activations.write(self, one)) is not None:
                return found
            value = self.real(self.value(at["x"]))
            self.need(name, "in_parts")
            text = f"in_parts({name}, self.threads, {self.fresh(at['x'], value, value.dims)})"
            return Value(text, "", value.dims, owned=True)
        axis = one.get("axis")
        plain = all(at[role].axes == (axis,) for role in ("gain", "shift") if role in at)
        if name in ALONG and plain and set(at) <= ROLES and not (axis.ragged and "norm" in name):
            return self._along(one, at)
        return super()._kernel(one)

    def _along(self, one: Node, at: Mapping[str, Node]) -> Value:
        """A meaning along its axis, which comes last."""
        axis, name = one["axis"], one["name"]
        role_of_first = "g" if "g" in at else "x"
        value = self.real(self.value(at[role_of_first]))
        dims = (*(a for a in dict.fromkeys((*value.dims, *one.axes)) if a != axis), axis)
        texts = [self.fresh(at[role_of_first], value, dims)]
        for role in ("y", "x"):
            if role in at and role != role_of_first:
                other = self.real(self.value(at[role]))
                texts.append(self.whole(other, dims))
        if name.startswith("softmax"):
            name = "softmax_slope" if "g" in at else "seen_softmax"
            texts.append(self._lifted(axis, "seen", dims) or "None")
            texts += [self.fit(self.value(at["see"]), "", dims)] if "see" in at else []
        else:
            for role in ("gain", "shift"):
                texts += [f"{role}={self.value(at[role]).text}"] if role in at else []
            texts.append(f"eps={number(one['eps'])}")
        self.need(name, "in_parts")
        return Value(f"in_parts({name}, self.threads, {', '.join(texts)})", "", dims, owned=True)

    def fresh(self, arg: Node, value: Value, dims: Dims, by: Sequence[Node] = ()) -> str:
        """Text of memory that may be overwritten, with these dimensions in order; `by` what is being written."""
        own = value.owned and not value.text.isidentifier()
        if value.dims == dims and (own or self.overwritten(arg, value, by)):
            return value.text
        if self.schedules:
            self.copied_for(value, dims)
        self.need("fresh")
        return f"fresh({self.whole(value, dims)}, self.dtype)"

    def _lifted(self, axis: Axis, relation: str, dims: Dims) -> str:
        """A relation of a length as an argument: over these dimensions, None where it always holds."""
        if not axis.counted or axis.owner not in dims:
            return ""
        self.need("lifted")
        owner, entry = dims.index(axis.owner), dims.index(axis)
        return f"lifted({relation}_{self._length(axis)}, {owner}, {entry}, {len(dims)})"

    def _reduce(self, one: Node) -> Value:
        """One result for each owner of a length, even where the value does not know the owner."""
        owners = [axis for axis in one.axes if all(axis not in arg.axes for arg in one.args)]
        if owners:
            value, *condition = one.args
            one = reduce(one["reduction"], widen_to(value, owners), one["over"], *condition)
        return super()._reduce(one)

    # ------------------------------------------------------------------------------------------------- products

    def _contract(self, one: Node) -> Value:
        return self._product(one, "seen")

    def _total(self, one: Node) -> Value:
        return self._product(one, "exists")

    def _product(self, one: Node, relation: str) -> Value:
        over = one["over"]
        values = [self.real(self.value(arg)) for arg in one.args]
        have = dict.fromkeys((*over, *(axis for value in values for axis in value.dims)))
        for axis in have:
            known = axis.owner in have or relation == "seen"  # a length leaves a result for each owner
            if axis.counted and known and (axis in over or axis.owner in over):
                both = [axis.owner, axis]
                at = min(range(len(values)), key=lambda i: (not set(both) <= set(values[i].dims), len(values[i].dims)))
                values[at] = self.within(values[at], axis, relation)
        values = [self._alone(values, at, over) for at in range(len(values))]
        if len(values) == 1:
            return values[0]
        return self._multiplied(values[0], values[1], tuple(over))

    @staticmethod
    def _alone(values: Sequence[Value], at: int, over: Iterable[Axis]) -> Value:
        """The value without the axes that it alone has, which are summed."""
        value = values[at]
        others = [axis for place, other in enumerate(values) if place != at for axis in other.dims]
        dims = tuple(axis for axis in value.dims if axis in over and axis not in others)
        if not dims:
            return value
        axes = tuple(value.dims.index(axis) for axis in dims)
        text = f"{value.wrapped}.sum(axis={axes if len(axes) > 1 else axes[0]})"
        return Value(text, "", tuple(axis for axis in value.dims if axis not in dims), owned=True)

    def _multiplied(self, left: Value, right: Value, over: Dims) -> Value:
        letters = {axis: LETTERS[at] for at, axis in enumerate(dict.fromkeys((*left.dims, *right.dims)))}
        if _grows(right, left) and not _grows(left, right) and set(left.dims) & set(right.dims) - set(over):
            left, right = right, left  # what grows with the batch comes before the rest
        common = tuple(axis for axis in left.dims if axis in right.dims and axis not in over)
        dims = (*common, *(a for a in left.dims if a not in right.dims), *(a for a in right.dims if a not in left.dims))
        spelled = ["".join(letters[axis] for axis in axes) for axes in (left.dims, right.dims, dims)]
        self.need("product_of")
        more = ", self.threads" if common else ""
        text = f'product_of({left.text}, {right.text}, "{spelled[0]},{spelled[1]}->{spelled[2]}"{more})'
        return Value(text, "", dims, owned=True)

    def _scatter(self, one: Node) -> Value:
        if len(one.args) > 2 and at_selected(one):
            return super()._scatter(one)
        text, dims = self.scattered(one)
        self.need("scatter_add")
        return Value(f"scatter_add(({', '.join(map(self.size, dims))},), {text})", "", dims, owned=True)

    def scattered(self, one: Node) -> tuple[str, Dims]:
        """(the arguments of a sum at places but for the first, its dimensions)"""
        keys = one["keys"]
        value = self.real(self.value(one.args[0]))
        indices = [self.value(arg) for arg in one.args[1:]]
        kept = tuple(axis for axis in one.axes if axis not in keys)
        at = tuple(dict.fromkeys((*(a for i in indices for a in i.dims), *(a for a in value.dims if a not in kept))))
        shared = tuple(axis for axis in kept if axis in at)
        rest = tuple(axis for axis in kept if axis not in at)
        texts = [aligned(index, "", at) if index.dims else index.text for index in indices]
        texts += [aligned(Value(f"np.arange({self.size(axis)})", "", (axis,)), "", at) for axis in shared]
        whole = set(value.dims) >= {*at, *rest}
        dims = (*at, *rest)
        text = transposed(value, dims).text if whole else self.broadcast(value, "", dims)
        there = self._there(at, one.axes)
        return f"{text}, {len(keys)}, {', '.join(texts)}{there}", (*keys, *shared, *rest)

    def _there(self, at: Dims, target: Dims) -> str:
        """The argument that leaves out entries that do not exist, where a length is summed."""
        found = []
        for axis in at:
            if axis.counted and axis.owner in at and not (axis in target and axis.owner in target):
                found.append(self._lifted(axis, "exists", at))
        if len(found) > 1:
            raise Unsupported("a sum at places over two lengths at once")
        return f", there={found[0]}" if found else ""

    # --------------------------------------------------------------------------------------------------- loops

    def last_step(self, one: Node, stop: Value) -> str:
        return f"int(np.max({stop.text}, initial=0))" if stop.dims else stop.text

    def step(self, one: Node, names: list[str], states: list[Value]) -> None:
        """In a loop over a length an example that has ended keeps its state."""
        stop = self.value(one.args[one["slots"]])
        if not stop.dims:
            super().step(one, names, states)
            return
        self.body(one["body"])
        running = Value(f"({self.counters[one['loop']]} < {stop.text})", "", stop.dims)
        new = []
        for part, before in zip(one["body"], states, strict=True):
            text = self.whole(self.value(part), before.dims)
            text = f"np.where({aligned(running, '', before.dims)}, {text}, {before.text})"
            new.append(Value(text, "", before.dims))
        loops.end_step(self, one, names, new)

    def _history(self, one: Node) -> Value:
        number = self.value(one.args[1])
        if not number.dims:
            return super()._history(one)
        made = one.args[0]
        like = loops.state(self, made, one["slot"])
        return self._of_numbers(self.histories[made["loop"], one["slot"]], like, number, made["start"])

    def _past(self, one: Node) -> Value:
        number = self.value(one.args[0])
        if not number.dims:
            return super()._past(one)
        like: Value = self.memo["like", one["loop"], one["slot"]]  # type: ignore[index]
        return self._of_numbers(self.histories[one["loop"], one["slot"]], like, number, 0)

    def _of_numbers(self, states: str, like: Value, number: Value, start: int) -> Value:
        """The states of numbers that differ from entry to entry."""
        shared = tuple(axis for axis in like.dims if axis in number.dims)
        rest = tuple(axis for axis in like.dims if axis not in number.dims)
        order = [0, *(like.dims.index(axis) + 1 for axis in (*shared, *rest))]
        base = f"np.stack({states})" + (f".transpose({', '.join(map(str, order))})" if order != sorted(order) else "")
        texts = [f"{number.wrapped} - {start}" if start else number.text]
        texts += [aligned(Value(f"np.arange({self.size(a)})", "", (a,)), "", number.dims) for a in shared]
        self.need("gather")
        return Value(f"gather({base}, {', '.join(texts)})", "", (*number.dims, *rest), owned=True, wide=like.wide)


def _grows(value: Value, beside: Value) -> bool:
    """Whether what a factor has alone is as long as a text is."""
    return any(axis.ragged for axis in value.dims if axis not in beside.dims)


def _is_zero(one: Node) -> bool:
    return one.op == "const" and one["value"] == 0 and not isinstance(one["value"], bool)
