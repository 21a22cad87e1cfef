"""An objective as a module of its own: from the inputs of its model and its labels to the loss, over a padded batch.

Every value has the examples as an axis like any other. What the formulas draw is decided by `seed`; dropout is torch's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...compiler import kernels as kernel_table
from ...compiler.draws import apart
from ...compiler.ir import Axis, Graph, Length, Node, at_selected, drawing_order, walk_all
from ..limits import picks_rows
from ..numpy.mangling import Names
from ..numpy.values import Unsupported, Value, aligned, transposed
from ..objectives import SEED
from . import attending
from .border import Border, bind_inputs, border_names, entering, result
from .weights import WeightNames
from .writer import Dims, TorchWriter


class ObjectiveWriter(TorchWriter):
    """Writes the body of `forward`: a label that is no place makes the loss NaN, for a module looks at no value."""

    picker = "taken"

    def __init__(self, graph: Graph, names: Names, weights: WeightNames, lengths: Mapping[str, str]) -> None:
        super().__init__(graph, names, weights, lengths)
        self.chosen_places: dict[tuple[Node, Axis], dict[Axis | None, str]] = {}
        self.attentions: dict[Node, Axis] = {}  # of tokens to tokens, with the axis of their rows
        self.runs: dict[Axis, list[str]] = {}  # what these are told: runs and places of the rows, which may be seen
        self.by_rows: dict[Node, Value] = {}  # values that are rows, and not put back at their places
        self.put_back: dict[Node, Value] = {}

    def size(self, axis: Axis) -> str:
        """The number of entries along an axis, as text."""
        if axis in self.sizes:
            return self.sizes[axis]
        if isinstance(axis.size, Length) and axis.owner is None:  # the batch, perhaps under another name
            assert self.batch is not None
            if axis.size == self.batch.size:
                return "batch"
            if self.graph.groups is not None and axis.size == self.graph.groups[0].size:
                return "groups[0]"
        return super().size(axis)

    def begin_rows(self) -> None:
        """The places of all tokens, for what is computed on rows of them: they are known before anything else."""
        self.attentions = attending.of_tokens(self.graph)
        self.absorbed |= attending.absorbed(self.graph, self.attentions)
        for one in walk_all(self.graph.roots):
            if one.op == "selected" and one.get("hidden"):
                self._chosen(one)

    def value(self, one: Node) -> Value:
        """The value with all its axes."""
        if one not in self.by_rows:
            return super().value(one)
        if one not in self.put_back:
            rows = self.by_rows[one]
            scatter = kernel_table.parts(one)["query"]
            text = self._at_places(rows, scatter.args[1:], (*scatter["keys"], *rows.dims[1:]))
            self.put_back[one] = self.assigned(one, text)
        return self.put_back[one]

    def _kernel(self, one: Node) -> Value:
        if one not in self.attentions:
            return super()._kernel(one)
        self.by_rows[one] = attending.write(self, one, self.attentions[one])
        return self.by_rows[one]

    def _chosen(self, one: Node) -> dict[Axis | None, str]:
        """The variables of the places where a condition holds, or of all that there are: rows and columns of the
        padded batch, and which of them count."""
        key = one.args[0], one["into"]
        if key not in self.chosen_places:
            among, into = one["among"], one["into"]
            names = [self.names.fresh(f"{into}_{axis}") for axis in among]
            names += [] if one.get("hidden") else [self.names.fresh("counted")]
            self.explain(one)
            if one.get("hidden"):
                self._all_places(among[1], into, names)
            else:
                self.need("selected_places")
                self.write(f"{', '.join(names)} = selected_places({self._holding(one)})")
            self.chosen_places[key] = dict(zip((*among, None), names, strict=False))
            self.sizes[into] = f"{names[0]}.shape[0]"
        return self.chosen_places[key]

    def _all_places(self, axis: Axis, into: Axis, names: list[str]) -> None:
        text = self.length_texts[str(axis.size)]
        self.need("all_places")
        self.write(f"{', '.join(names)} = all_places(real_{text})")
        if into not in self.attentions.values():
            return
        runs = self.names.fresh(f"runs_{text}")
        self.need("runs_of_tokens")
        self.write(f"{runs} = runs_of_tokens(real_{text})")
        self.runs[into] = [runs, *names, f"index_{text}", self.visible_text(axis), self.masked_text(axis)]

    def _holding(self, one: Node) -> str:
        """The text of the relation that is selected by."""
        among, condition = one["among"], self.value(one.args[0])
        tests = [*self.visible(among, "", among), aligned(condition, "", among)]
        sizes = ", ".join(self.size(axis) for axis in among)
        return " & ".join(tests) if condition.dims == among else f"({' & '.join(tests)}).expand({sizes})"

    def _selected(self, one: Node) -> Value:
        """The number of a place, which along a length counts from the example's first token."""
        names, axis = self._chosen(one), one["axis"]
        text = names[axis]
        if axis is not None and axis.counted:
            owner, *_ = one["among"]
            text = f"index_{self.length_texts[str(axis.size)]}[{names[owner]}, {text}]"
        return Value(text, "", (one["into"],), wide=True, reorder="permute")

    def settled(self, one: Node, found: Value) -> Value:
        return found if one.op == "selected" else super().settled(one, found)

    def _pick(self, one: Node) -> Value:
        """Selected places surely exist, and those of the padded batch are known."""
        places = one.args[1:]
        if not picks_rows(one):
            return super()._pick(one)
        into = places[0]["into"]
        if one.args[0] in self.by_rows and self.attentions[one.args[0]] == into:
            return self.by_rows[one.args[0]]
        base = self.value(one.args[0])
        names = {key: self._chosen(place)[place["axis"]] for key, place in zip(one["keys"], places, strict=True)}
        for key, place in zip(one["keys"], places, strict=True):
            if key.owner in base.dims and key.owner not in names:  # a place along a length is one of its batch here
                names = {key.owner: self._chosen(place)[place["among"][0]], **names}
        rest = tuple(axis for axis in base.dims if axis not in names)
        base, at = transposed(base, (*names, *rest)), ", ".join(names.values())
        if len(names) == 1:
            return Value(f"{base.wrapped}[{at}]", "", (into, *rest), wide=base.wide, reorder="permute")
        self.need("rows_at")
        return Value(f"rows_at({base.text}, {at})", "", (into, *rest), wide=base.wide, reorder="permute")

    def _scatter(self, one: Node) -> Value:
        """Rows at their places, all of which are different."""
        places = one.args[1:]
        if len(places) != 2 or not at_selected(one, hidden=True):
            raise Unsupported("a sum at places")
        value, into = self.real(self.value(one.args[0])), places[0]["into"]
        rest = tuple(axis for axis in one.axes if axis not in one["keys"])
        whole = set(value.dims) == {into, *rest}
        text = transposed(value, (into, *rest)).text if whole else self.broadcast(value, "", (into, *rest))
        return self._at_places(Value(text, "", (into, *rest)), places, (*one["keys"], *rest))

    def _at_places(self, rows: Value, places: Sequence[Node], dims: Dims) -> Value:
        at = ", ".join(self._chosen(place)[place["axis"]] for place in places)
        sizes = ", ".join(map(self.size, dims[:2]))
        self.need("rows_put_back")
        return Value(f"rows_put_back({rows.text}, ({sizes}), {at})", "", dims, reorder="permute")

    def _random(self, one: Node) -> Value:
        """A draw that the seed decides, with the numbers that the reference has."""
        if one["draw"] == "dropout":
            return super()._random(one)
        axes = tuple(dict.fromkeys((*one.axes, *((one["axis"],) if one.get("axis") else ()))))
        site, taken = apart(str(one["site"]))
        steps = [*taken, *(self.counters[ident] for ident in sorted(one.free))]
        index = [f"torch.tensor({step}, device=device)" for step in steps]
        index += [aligned(self._index_along(axis), "", axes) for axis in drawing_order(axes)]
        self.need("drawn")
        u = f"drawn({SEED}, {', '.join([repr(site), *index])})"
        texts = [self._parameter_of(arg, axes) for arg in one.args]
        match one["draw"]:
            case "bernoulli":
                return Value(f"{u} < {texts[0]}", "", axes, atom=False, wide=True, reorder="permute")
            case "sample":
                self.need("sampled")
                text, kept = f"sampled({texts[0]}, {u})", tuple(a for a in axes if a != one["axis"])
                return Value(text, "", kept, wide=True, reorder="permute")
        text = f"{texts[0]} + {u} * ({texts[1]} - {texts[0]})"
        if one["draw"] == "randint":
            return Value(f"({text}).floor().long()", "", axes, wide=True, reorder="permute")
        return Value(f"({text}).to(dtype)", "", axes, reorder="permute")

    def _parameter_of(self, arg: Node, axes: Dims) -> str:
        return aligned(self.value(arg), "", axes)

    def _index_along(self, axis: Axis) -> Value:
        """The logical place of each entry."""
        if axis.counted:
            assert isinstance(axis.size, Length)
            text = f"index_{self.length_texts[axis.size.name]}"
            return Value(text, "", (axis.owner, axis), reorder="permute")  # type: ignore[arg-type]
        return Value(f"torch.arange({self.size(axis)}, device=device)", "", (axis,), reorder="permute")


def layout(
    graph: Graph, names: Names, weights: WeightNames, source: str | None
) -> tuple[Border, list[str], dict[str, str], set[str]]:
    """(the border, lines of `forward`, its results, the run-time functions) of an objective over its batch."""
    at = border_names(graph, names)
    writer = ObjectiveWriter(graph, names, weights, at.lengths)
    writer.indent = 2
    lines = entering(graph, at, source)
    if graph.groups is not None:
        lines += _texts(graph, at, names)
    bind_inputs(writer, graph, at)
    writer.begin_rows()
    writer.body(graph.roots)
    results = {out.name: result(writer, out) for out in graph.outputs}
    needs = {*writer.used, "places", *(["settled"] if at.position_ids else [])}
    return at, ["    " * 2 + line for line in lines] + writer.lines, results, needs


def _texts(graph: Graph, at: Border, names: Names) -> list[str]:
    """Lines that make the texts of an example a length all of whose entries are seen."""
    assert graph.groups is not None
    text = at.lengths[str(graph.groups[1].size)] = names.fresh(str(graph.groups[1]))
    found = [names.fresh(f"{name}_{text}") for name in ("index", "real", "count", "first", "source")]
    return [
        f"{text} = groups[1]",
        f"{names.fresh(f'visible_{text}')} = torch.ones(groups, dtype=torch.bool, device=device)",
        f"{', '.join(found)} = places(visible_{text})",
    ]
