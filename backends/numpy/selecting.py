"""What an objective has beside the formulas of a model: rows where a condition holds, groups of texts, draws.

Both writers of objectives have it, that of the loss (objective.py) and that of its gradients (gradient_writer.py).
"""

from __future__ import annotations

from collections import Counter

from ...compiler.ir import Axis, Graph, Node, at_selected, drawing_order, walk_all
from ..limits import picks_rows
from ..objectives import SEED, over_batch
from . import attended
from .losses import Dims, LossWriter
from .mangling import Names
from .values import Unsupported, Value, aligned, transposed


class Selecting(LossWriter):
    """Writes a function of a whole batch that may look at some places of it alone."""

    def __init__(self, graph: Graph, names: Names, lengths: dict[str, str]) -> None:
        super().__init__(graph, names, lengths)
        self.chosen_places: dict[tuple[Node, Axis], dict[Axis, str]] = {}
        self.pieces: dict[Node, Value] = {}  # meanings that one line makes together
        self.attentions: Counter[bool] = Counter()  # by whether they go from example to example
        self.seed = SEED

    def size(self, axis: Axis) -> str:
        """The number of entries along an axis, also of rows that were selected and of texts in groups."""
        if axis in self.sizes:
            return self.sizes[axis]
        grouped = self.graph.groups is not None and axis.ragged and axis.owner is None
        if grouped and axis.size != over_batch(self.graph).batch.size:  # type: ignore[union-attr]
            return "groups[0]"
        return super().size(axis)

    def _size(self, one: Node) -> Value:
        if one["axis"].owner is None:
            return Value(self.size(one["axis"]), "", (), wide=True, number=True)
        return super()._size(one)

    def begin_rows(self) -> None:
        """The places of all tokens, for what is computed on rows of them: they are known before anything else."""
        for one in walk_all(self.graph.roots):
            if one.op == "selected" and one.get("hidden"):
                self.value(one)

    def is_ready(self, one: Node) -> bool:
        return super().is_ready(one) or (one.op == "selected" and one in self.memo)

    def _selected(self, one: Node) -> Value:
        """The places where a condition holds, or of all that there are: examples and places in them."""
        key = one.args[0], one["into"]
        if key not in self.chosen_places:
            among = one["among"]
            names = [self.names.fresh(f"{one['into']}_{axis}") for axis in among]
            self.explain(one)
            self.write(f"{', '.join(names)} = np.nonzero({self._holding(one)})")
            self.chosen_places[key] = dict(zip(among, names, strict=True))
            self.sizes[one["into"]] = f"len({names[0]})"
        if one["axis"] is None:
            return Value(f"np.ones({self.sizes[one['into']]}, np.bool_)", "", (one["into"],), wide=True)
        return Value(self.chosen_places[key][one["axis"]], "", (one["into"],), wide=True)

    def _holding(self, one: Node) -> str:
        """The text of the relation that is selected by."""
        among = one["among"]
        if one.get("hidden"):
            text = self.length_texts[str(among[1].size)]
            return f"np.arange({text}) < count_{text}[:, None]"
        tests = [*self.visible(among, "", among), aligned(self.value(one.args[0]), "", among)]
        sizes = ", ".join(self.size(axis) for axis in among)
        return f"np.broadcast_to({' & '.join(tests)}, ({sizes}))"

    def _pick(self, one: Node) -> Value:
        """Selected places surely exist."""
        if not picks_rows(one):
            return super()._pick(one)
        base, places = self.value(one.args[0]), one.args[1:]
        rest = tuple(axis for axis in base.dims if axis not in one["keys"])
        base = transposed(base, (*one["keys"], *rest))
        at = ", ".join(self.value(place).text for place in places)
        dims = (places[0]["into"], *rest)
        if len(places) == 1:
            return Value(f"{base.wrapped}[{at}]", "", dims, owned=True, wide=base.wide)
        self.need("rows_at")
        return Value(f"rows_at({base.text}, {at})", "", dims, wide=base.wide)

    def _scatter(self, one: Node) -> Value:
        """Rows at their places, all of which are different."""
        places = one.args[1:]
        if not at_selected(one) or len(places) != 2:
            raise Unsupported("a sum at places")
        rest = tuple(axis for axis in one.axes if axis not in one["keys"])
        text = self.whole(self.real(self.value(one.args[0])), (places[0]["into"], *rest))
        sizes, at = ", ".join(map(self.size, one["keys"])), ", ".join(self.value(place).text for place in places)
        self.need("rows_put_back")
        return Value(f"rows_put_back({text}, ({sizes}), {at})", "", (*one["keys"], *rest))

    def whole(self, value: Value, dims: Dims) -> str:
        """Text of the value with all of these dimensions, in order."""
        return transposed(value, dims).text if set(value.dims) == set(dims) else self.broadcast(value, "", dims)

    def seen_text(self, axis: Axis) -> str:
        """The relation [owner, entry] that says which entries of a length may be seen, as text."""
        return f"visible_{self.length_texts[str(axis.size)]}"

    def _kernel(self, one: Node) -> Value:
        found = attended.write(self, one) if one["name"] in (attended.FORWARD, attended.BACKWARD) else None
        return found or super()._kernel(one)

    def _random(self, one: Node) -> Value:
        if one["draw"] == "dropout":
            return super()._random(one)
        axes = tuple(dict.fromkeys((*one.axes, *((one["axis"],) if one.get("axis") else ()))))
        steps = "".join(f"@{{{self.counters[ident]}}}" for ident in sorted(one.free))
        site = one["site"].replace("{", "{{").replace("}", "}}") if steps else one["site"]
        known = drawing_order(axes)
        sizes = ", ".join(self.size(axis) for axis in known)
        u = f"uniform({self.seed}, {'f' if steps else ''}{site + steps!r}, ({sizes},))"
        u += "" if known == list(axes) else f".transpose({', '.join(str(known.index(axis)) for axis in axes)})"
        given = ", ".join(f"np.asarray({aligned(self.value(arg), '', axes)}, float)" for arg in one.args)
        self.need("uniform", "draw")
        kept = tuple(axis for axis in axes if one["draw"] != "sample" or axis != one["axis"])
        wide = one["draw"] in ("sample", "randint")
        text = f'draw("{one["draw"]}", [{given}], {u})' + (".astype(np.intp)" if wide else "")
        return Value(text, "", kept, owned=True, wide=wide or one.kind == "bool")
