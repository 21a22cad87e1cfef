"""The reference: a graph run as it stands, in float64, by the naive evaluator.

The border is the ecosystem's: `input_ids` [batch, seq] with `attention_mask`, padding on either side. Inside, examples
stand left-aligned: leading and trailing hidden positions are no part of an example, hidden ones between stay as keys
that nobody may see. Results go back to the caller's places, 0 where there is padding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..grammar.diagnostics import error
from .evaluate import Evaluator, Lengths
from .ir import Axis, Graph, Input, Length

Array = npt.NDArray[Any]
Weights = Callable[[str, tuple[Axis, ...]], Array]

MASK = "attention_mask"
"""The mask of a text at the border; another text's is called encoder_… or decoder_…"""


def run(
    graph: Graph,
    weights: Weights | Mapping[str, Array],
    inputs: Mapping[str, Any],
    seed: int = 0,
    training: bool = False,
    evaluator: type[Evaluator] = Evaluator,
) -> dict[str, Array]:
    """Named results of a graph for a (padded) batch; `inputs` by the graph's input names, masks included.

    `evaluator` may be another one that evaluates nodes.
    Raises `TransformulaError` for unknown or missing inputs, shapes that do not fit, ids out of range.
    """
    given = {name: np.asarray(value) for name, value in inputs.items() if value is not None}
    for one in graph.inputs:
        if one.name not in given and one.instead in given:
            given[one.name] = np.full(given[one.instead].shape[: len(one.axes) + bool(graph.each)], -1)
    if graph.each and graph.groups is None:
        each = next(given[one.name].shape[:2] for one in graph.inputs if one.name in given)
        flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in given.items()}
        found = run(replace(graph, each=""), weights, flat, seed, training, evaluator)
        return {name: value.reshape(*each, *value.shape[1:]) for name, value in found.items()}
    groups: tuple[int, int] | None = None
    if graph.groups is not None:
        given, groups = _texts(graph, given)
    check_inputs(graph, given)
    lookup = weights if callable(weights) else _lookup(weights)
    return _evaluated(graph, lookup, given, seed, training, evaluator, groups)


def _texts(graph: Graph, given: Mapping[str, Array]) -> tuple[dict[str, Array], tuple[int, int]]:
    """The texts of all examples as one batch, and how many examples there are, and texts of each; labels stay."""
    assert graph.groups is not None
    labels = [one.name for one in graph.inputs if graph.groups[0] in one.axes]
    texts = {name: value for name, value in given.items() if name not in labels}
    if not texts or any(value.ndim < 2 for value in texts.values()):
        raise error("R903", f"{graph.name} takes texts [{', '.join(map(str, graph.groups))}, …]")
    groups = next(iter(texts.values())).shape[:2]
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in texts.items()}
    return {**given, **flat}, (groups[0], groups[1])


def _lookup(weights: Mapping[str, Array]) -> Weights:
    def found(name: str, axes: tuple[Axis, ...]) -> Array:
        """A stack without entries has no weights."""
        sizes = tuple(axis.size for axis in axes if isinstance(axis.size, int))
        return weights[name] if name in weights or 0 not in sizes else np.zeros(sizes)

    return found


def length_names(graph: Graph) -> list[str]:
    """The lengths of the inputs, in the order of first sight (the batch left out, and the texts of an example)."""
    found: dict[str, None] = {}
    for one in graph.inputs:
        for axis in one.axes:
            if axis in (graph.batch, *(graph.groups or ())):
                continue
            if isinstance(axis.size, Length) and axis.owner is not None:
                found[axis.size.name] = None
    return list(found)


def mask_names(graph: Graph) -> dict[str, str]:
    """Length → its mask at the border.

    Of encoder_hidden_states and its like it is encoder_attention_mask, of the first other length attention_mask, of the
    next one decoder_attention_mask.
    """
    found: dict[str, str] = {}
    for length in length_names(graph):
        first = next(one.name for one in graph.inputs if any(_is_length(axis, length) for axis in one.axes))
        names = (f"encoder_{MASK}",) if first.startswith("encoder_") else (MASK, f"decoder_{MASK}")
        free = [one for one in names if one not in found.values()]
        if free:
            found[length] = free[0]
    return found


def _is_length(axis: Axis, name: str) -> bool:
    return isinstance(axis.size, Length) and axis.size.name == name and axis.owner is not None


def allowed_inputs(graph: Graph) -> list[str]:
    """The names that the border takes: the graph's inputs, masks of its lengths, position ids if it asks for them."""
    masks = mask_names(graph).values()
    positions = any(one.op == "position" for one in graph.nodes())
    names = [one.name for one in graph.inputs]
    return [*names, *masks, *(["position_ids"] if positions and "position_ids" not in names else [])]


def check_inputs(graph: Graph, given: Mapping[str, Array]) -> None:
    """Errors by name: what is unknown, what is missing, what has the wrong number of dimensions."""
    known = allowed_inputs(graph)
    for name in given:
        if name not in known:
            raise error("R901", f"{graph.name} has no input `{name}`", help=f"It takes {', '.join(known)}.")
    for one in graph.inputs:
        if one.required and one.name not in given:
            raise error("R902", f"{graph.name} needs the input `{one.name}`")
        if one.name in given and given[one.name].ndim != len(one.axes):
            axes = ", ".join(map(str, one.axes))
            raise error("R903", f"`{one.name}` should have the dimensions [{axes}], not {list(given[one.name].shape)}")


def arranged(
    graph: Graph, given: Mapping[str, Array], groups: tuple[int, int] | None = None
) -> tuple[dict[str, Array], Lengths, dict[str, Places]]:
    """The inputs with every example left-aligned, the lengths of the examples, and where the caller had them.

    `groups` are the numbers of examples and of the texts of one; one example of all texts, if nothing is said.
    """
    places = _places(graph, given)
    lengths = Lengths(_owners(graph, given))
    if graph.groups is not None:
        _grouped(graph.groups, groups or (1, next(iter(places.values())).shape[0]), lengths)
    for name, place in places.items():
        lengths.size[name], lengths.count[name], lengths.visible[name] = place.width, place.count, place.visible
    lengths.numbered = next(iter(places), "")
    aligned = {one.name: _align_input(one, given[one.name], places) for one in graph.inputs if one.name in given}
    if "position_ids" in given and "position_ids" not in aligned:
        first = next(iter(places.values()))
        aligned["position_ids"] = first.take(np.broadcast_to(given["position_ids"], first.shape))
    return aligned, lengths, places


def _grouped(axes: tuple[Axis, Axis], groups: tuple[int, int], lengths: Lengths) -> None:
    """Each example has as many texts as another one."""
    for axis, size in zip(axes, groups, strict=True):
        assert isinstance(axis.size, Length)
        lengths.size[axis.size.name] = size
    each = str(axes[1].size)
    lengths.count[each], lengths.visible[each] = np.full(groups[0], groups[1]), np.ones(groups, bool)


def _evaluated(
    graph: Graph,
    weights: Weights,
    given: dict[str, Array],
    seed: int,
    training: bool,
    kind: type[Evaluator],
    groups: tuple[int, int] | None,
) -> dict[str, Array]:
    aligned, lengths, places = arranged(graph, given, groups)
    evaluator = kind(aligned, weights, lengths, seed, training)
    results = {}
    for out in graph.outputs:
        value = evaluator(out.node).transpose([out.node.axes.index(axis) for axis in out.axes])
        results[out.name] = _restore(value, out.axes, places, graph)
    return results


class Places:
    """Where the entries of one length stand in the caller's padded array.

    `count` of an example are its own, of which `visible` may be seen; `real` is which entries an example has.
    """

    def __init__(self, mask: Array) -> None:
        mask = np.asarray(mask, bool)
        self.shape = mask.shape
        any_ = mask.any(axis=1)
        some = mask if mask.shape[1] else np.zeros((len(mask), 1), bool)
        first = np.where(any_, some.argmax(axis=1), 0)
        last = np.where(any_, mask.shape[1] - some[:, ::-1].argmax(axis=1), 0)
        self.count = last - first
        self.width = int(self.count.max(initial=0))
        self.index = first[:, None] + np.arange(self.width)[None, :]
        self.real = np.arange(self.width)[None, :] < self.count[:, None]
        self.index = np.where(self.real, self.index, 0)
        self.visible = np.take_along_axis(mask, self.index, axis=1) & self.real if mask.shape[1] else self.real

    def take(self, value: Array) -> Array:
        """[batch, padded, …] → [batch, width, …], left-aligned; 0 beyond an example's end."""
        if not value.shape[1]:
            return value
        moved = value[np.arange(value.shape[0])[:, None], self.index]
        return np.where(self.real.reshape(self.real.shape + (1,) * (value.ndim - 2)), moved, 0)

    def put(self, value: Array) -> Array:
        """The other way: back to the padded places, 0 elsewhere."""
        result = np.zeros((*self.shape, *value.shape[2:]), value.dtype)
        rows, columns = np.nonzero(self.real)
        result[rows, self.index[rows, columns]] = value[rows, columns]
        return result


def _places(graph: Graph, given: Mapping[str, Array]) -> dict[str, Places]:
    found, masks = {}, mask_names(graph)
    for name in length_names(graph):
        shape = _length_shape(graph, given, name)
        mask_name = masks.get(name, "")
        mask = given.get(mask_name)
        if mask is not None and mask.shape != shape:
            raise error(
                "R903", f"`{mask_name}` should be {list(shape)} like the input it masks, not {list(mask.shape)}"
            )
        found[name] = Places(np.ones(shape, bool) if mask is None else mask != 0)
    return found


def _length_shape(graph: Graph, given: Mapping[str, Array], name: str) -> tuple[int, int]:
    shape: tuple[int, int] | None = None
    for one in graph.inputs:
        for place, axis in enumerate(one.axes):
            if one.name in given and isinstance(axis.size, Length) and axis.size.name == name:
                here = (given[one.name].shape[0], given[one.name].shape[place])
                if shape is not None and here != shape:
                    raise error("R903", f"`{one.name}` is {list(here)} where another input has {list(shape)}")
                shape = here
    if shape is None:
        raise error("R902", f"no input tells how long `{name}` is")
    return shape


def _align_input(one: Input, value: Array, places: Mapping[str, Places]) -> Array:
    for number, axis in enumerate(one.axes):
        if isinstance(axis.size, Length) and axis.size.name in places:
            moved = np.moveaxis(value, number, 1)
            value = np.moveaxis(places[axis.size.name].take(moved), 1, number)
        elif isinstance(axis.size, int) and value.shape[number] != axis.size:
            raise error("R903", f"`{one.name}` has {value.shape[number]} entries along {axis}, not {axis.size}")
    return value


def _restore(value: Array, axes: tuple[Axis, ...], places: Mapping[str, Places], graph: Graph) -> Array:
    """Back to the caller's places; NaN means that an entry out of range was read. Without a token all is 0."""
    if graph.batch is not None and places:
        rows = np.any([place.count > 0 for place in places.values()], axis=0)
        value = np.where(rows.reshape((-1,) + (1,) * (value.ndim - 1)), value, 0)
    told: set[Axis | None] = set()
    for number, axis in enumerate(axes):
        if isinstance(axis.size, Length) and axis.size.name in places and axis.owner in axes:
            place, ends = places[axis.size.name], (axes.index(axis.owner), number)
            moved = np.moveaxis(value, ends, (0, 1))
            shown = place.visible if axis.owner in told else place.real  # a second length: keys, and hidden ones are 0
            told.add(axis.owner)
            real = shown.reshape(shown.shape + (1,) * (moved.ndim - 2))
            value = np.moveaxis(place.put(np.where(real, moved, 0)), (0, 1), ends)
    if value.dtype.kind == "f" and np.isnan(value).any():
        raise error(
            "I801",
            f"{graph.name} reads an entry that does not exist",
            help="An id may be larger than its table, a text longer than its table, or a number beyond float64.",
        )
    return value


def _owners(graph: Graph, given: Mapping[str, Array]) -> dict[str, int]:
    """How many entries the axes without an owner have: the batch of an objective."""
    found: dict[str, int] = {}
    for one in graph.inputs:
        for number, axis in enumerate(one.axes):
            if isinstance(axis.size, Length) and axis.owner is None and one.name in given:
                here = given[one.name].shape[number]
                if found.setdefault(axis.size.name, here) != here:
                    raise error("R903", f"`{one.name}` has {here} entries along {axis}, not {found[axis.size.name]}")
    return found
