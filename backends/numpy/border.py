"""Run-time text of the NumPy backend that checks a call; the emitter copies it into generated modules.

One implementation for generated modules and for the reference: what a call may look like is told by three
literals that backends/limits.py makes of a graph:

    inputs   ((name, kind, names of its dimensions, whether it is needed), …)   kind: "int", "bool" or "real";
             needed may be the name of an input that can stand in for it
    masks    ((name of the mask, the input that it masks), …)   both [batch, length]
    limits   ((name, table, limit), …)   ids below the limit; the name "position" also limits lengths,
             "length of input_ids" limits that one, and "position of input_ids != 1" the number of such entries
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

InputRow = tuple[str, str, tuple[str, ...], bool | str]
MaskRow = tuple[str, str]
LimitRow = tuple[str, str, int]
LabelRow = tuple[str, int, int | None]
DefaultRow = tuple[str, str, tuple[str, ...], str]
LossRow = tuple[str, tuple[InputRow, ...], tuple[str, ...], tuple[LabelRow, ...]]

COUNTED = "position of "
SPANNED = "length of "


def check_call(
    given: Mapping[str, Any],
    inputs: Sequence[InputRow],
    masks: Sequence[MaskRow],
    limits: Sequence[LimitRow],
    losses: Sequence[LossRow] = (),
    each: str = "",
    defaults: Sequence[DefaultRow] = (),
    own: Sequence[str] = (),
) -> dict[str, NDArray[Any]]:
    """The inputs of a call as arrays, None left out; ValueError says what is wrong and with which input.

    Ids are integers inside their tables wherever the mask shows an example; texts fit into the table of
    positions; labels are those of one objective. Inputs with an axis `each` behind the batch come back without
    it: each of its entries is an example then. Not so those that are an example's `own`.
    """
    loss = chosen_loss(given, losses)
    if loss is not None:
        inputs = (*inputs, *loss[1])
    whole = stood_in(given, inputs)
    made_up, given = [name for name in whole if given.get(name) is None], whole
    positions = any(name == "position" for name, _, _ in limits)
    known = [row[0] for row in inputs] + [mask for mask, _ in masks]
    known += (["position_ids"] if positions else []) + [one[0] for row in losses for one in row[1]]
    check_names(list(given), list(dict.fromkeys(known)), inputs, defaults)
    arrays: dict[str, NDArray[Any]] = {}
    sizes: dict[str, tuple[int, str]] = {}
    for name, kind, dimensions, _ in inputs:
        if name in given:
            arrays[name] = as_input(name, given[name], kind)
            if name == "position_ids" and len(arrays) > 1:
                arrays[name] = placed(arrays[name], next(iter(arrays.values())))
            check_dimensions(name, arrays[name], dimensions, sizes)
    for mask, masked in masks:
        if mask in given and masked in arrays:
            arrays[mask] = as_input(mask, given[mask], "mask")
            check_like(mask, arrays[mask], masked, arrays[masked].shape[: 3 if each else 2])
    if "position_ids" in given and "position_ids" not in arrays:
        arrays["position_ids"] = as_input("position_ids", given["position_ids"], "int")
    if each:
        own = (*own, *(row[0] for row in (loss[1] if loss else ())))
        inputs = [(a, kind, (d[0], *d[2:]) if each in d and a not in own else d, n) for a, kind, d, n in inputs]
        arrays = {n: x if n in own else x.reshape(-1, *x.shape[2:]) for n, x in arrays.items()}
    if loss is not None:
        check_labels(arrays, inputs, masks, loss[3])
    check_limits(arrays, inputs, masks, [row for row in limits if row[0] not in made_up])
    return arrays


def completed(
    given: Mapping[str, Any],
    defaults: Sequence[DefaultRow],
    makers: Sequence[Callable[[Mapping[str, Any]], NDArray[Any]]],
    inputs: Sequence[InputRow],
    masks: Sequence[MaskRow],
    losses: Sequence[LossRow] = (),
) -> dict[str, Any]:
    """What is given, and what is made of it where an input is left out: (input, objective, sources, why not), …

    The first row counts whose objective is asked for and whose sources are given. A text that is made of another one
    has its mask. ValueError says why an input cannot be made.
    """
    found = {name: value for name, value in given.items() if value is not None}
    loss = chosen_loss(found, losses)
    rows = {row[0]: row for row in (*inputs, *(loss[1] if loss else ()))}
    masks_of = {masked: mask for mask, masked in masks}
    for (name, objective, sources, reason), make in zip(defaults, makers, strict=True):
        asked = not objective or (loss is not None and loss[0] == objective)
        if name in found or rows[name][3] in found or not asked or not all(one in found for one in sources):
            continue
        if reason:
            raise ValueError(f"the input {name!r} is missing: it would be made of {' and '.join(sources)}, {reason}")
        own = {one: as_input(one, found[one], rows[one][1]) for one in sources}
        sizes: dict[str, tuple[int, str]] = {}
        for one in sources:
            check_dimensions(one, own[one], rows[one][2], sizes)
        own |= {mask: as_input(mask, found[mask], "mask") for mask, _ in masks if mask in found}
        found[name] = make(own)
        there = next((masks_of[one] for one in sources if masks_of.get(one) in found), None)
        if there is not None and masks_of.get(name, name) not in found:
            found[masks_of[name]] = found[there]
    return found


def stood_in(given: Mapping[str, Any], inputs: Sequence[InputRow]) -> dict[str, Any]:
    """What is given; an input for which another one stands in is -1 everywhere, an id that no table has."""
    made = {name: value for name, value in given.items() if value is not None}
    for name, _, dimensions, needed in inputs:
        if isinstance(needed, str) and name not in made and needed in made:
            made[name] = np.full(np.shape(made[needed])[: len(dimensions)], -1)
    return made


def check_names(
    given: Sequence[str], known: Sequence[str], inputs: Sequence[InputRow], defaults: Sequence[DefaultRow] = ()
) -> None:
    """No unknown input, and none missing."""
    for name in given:
        if name not in known:
            import difflib  # only a mistake needs it

            near = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean {near[0]}? It" if near else "it"
            raise ValueError(f"there is no input {name!r}: {advice} takes {', '.join(known)}")
    for name, _, _, needed in inputs:
        if needed and name not in given:
            ways = [f"{needed} can stand in for it"] if isinstance(needed, str) else []
            ways += [f"it can be made of {' and '.join(row[2])}" for row in defaults if row[0] == name and not row[3]]
            raise ValueError(f"the input {name!r} is missing" + (f" ({', and '.join(ways)})" if ways else ""))


def chosen_loss(given: Mapping[str, Any], losses: Sequence[LossRow]) -> LossRow | None:
    """The objective whose inputs are given, None if none is; ValueError says what is missing or has another shape."""
    here = {name for row in losses for name, _, _, _ in row[1] if given.get(name) is not None}
    if not here:
        return None
    fits = [row for row in losses if {one[0] for one in row[1]} == here]
    for row in fits:
        if all(np.ndim(given[name]) == len(dimensions) for name, _, dimensions, _ in row[1]):
            return row
    wanted = [
        " with ".join(f"{name}[{', '.join(dimensions)}]" for name, _, dimensions, _ in row[1]) for row in fits or losses
    ]
    told = ", ".join(f"{name} of shape {list(np.shape(given[name]))}" for name in sorted(here))
    raise ValueError(f"a loss takes {' or '.join(wanted)}, not {told}")


def check_labels(
    arrays: Mapping[str, NDArray[Any]], inputs: Sequence[InputRow], masks: Sequence[MaskRow], labels: Sequence[LabelRow]
) -> None:
    """Labels are 0 … limit - 1, or the marker that leaves an entry out; what stands at padding does not matter."""
    length = {row[0]: row[2][1:2] for row in inputs}
    for name, limit, marker in labels:
        values = arrays[name]
        mask = next((arrays[mask] for mask, other in masks if mask in arrays and length[other] == length[name]), None)
        if mask is not None and values.shape[:2] == mask.shape:
            values = values[real_places(mask, mask.shape)]
        wrong = values[(values < 0) | (values >= limit)]
        if marker is not None:
            wrong = wrong[wrong != marker]
        if wrong.size:
            besides = "" if marker is None else f", or {marker} for what does not count"
            raise ValueError(f"{name} holds {wrong.flat[0]}, labels are 0 … {limit - 1}{besides}")


def as_input(name: str, value: Any, kind: str) -> NDArray[Any]:
    """An input as an array of its kind; whole numbers are needed for ids, and no rounding happens."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} should be an array of numbers with rows of one length, not {type(value).__name__}"
        )
    if kind == "int" and array.dtype.kind != "i":
        whole = array.astype(np.int64) if np.isfinite(array).all() else None
        if whole is None or array.dtype.kind == "b" or (whole != array).any():
            raise ValueError(f"{name} should be whole numbers, not {array.dtype}")
        return whole
    return array


def check_dimensions(
    name: str, array: NDArray[Any], dimensions: Sequence[str], sizes: dict[str, tuple[int, str]]
) -> None:
    """The right number of dimensions, those of one name of one size in all inputs."""
    if array.ndim != len(dimensions):
        raise ValueError(
            f"{name} should be [{', '.join(dimensions)}], not an array of shape {list(array.shape)}"
        )
    for axis, size in zip(dimensions, array.shape, strict=True):
        if axis.isdigit():
            if size != int(axis):
                raise ValueError(f"{name} should be [{', '.join(dimensions)}], not {list(array.shape)}")
            continue
        first, other = sizes.setdefault(axis, (size, name))
        if size != first:
            raise ValueError(f"{name} has {size} along {axis}, {other} has {first}")


def check_like(name: str, array: NDArray[Any], other: str, shape: Sequence[int]) -> None:
    """A mask has the shape of what it masks."""
    if array.shape != tuple(shape):
        raise ValueError(f"{name} is {list(array.shape)}, and {other} is {list(shape)}: they should be alike")


def check_limits(
    arrays: dict[str, NDArray[Any]],
    inputs: Sequence[InputRow],
    masks: Sequence[MaskRow],
    limits: Sequence[LimitRow],
) -> None:
    """Ids are inside their tables, and texts no longer than the table of positions."""
    masks_of = {masked: mask for mask, masked in masks}
    first = next((row for row in inputs if len(row[2]) > 1 and row[0] in arrays), None)
    if first is None:
        return
    length = first[2][1]
    real = real_places(arrays.get(masks_of.get(first[0], "")), arrays[first[0]].shape[:2])
    for name, table, limit in limits:
        if name.startswith(SPANNED):
            one = name[len(SPANNED) :]
            if one in arrays:
                count = real_places(arrays.get(masks_of.get(one, "")), arrays[one].shape[:2]).sum(axis=1)
                axis = next(row[2][1] for row in inputs if row[0] == one)
                check_length(axis, int(count.max(initial=0)), limit, table)
            continue
        if name == "position" and "position_ids" not in arrays:
            check_length(length, int(real.sum(axis=1).max(initial=0)), limit, table)
            continue
        if name.startswith(COUNTED) and "position_ids" not in arrays:
            source, _, other = name[len(COUNTED) :].rpartition(" != ")
            counted = real & (arrays[source] != int(other))
            check_length(length, int(counted.sum(axis=1).max(initial=0)), limit, table, f" other than {other}")
            continue
        name = "position_ids" if name == "position" else name
        if name not in arrays:
            continue
        own = next((row[2] for row in inputs if row[0] == name), ())
        if name == "position_ids":
            check_ids(name, placed(arrays[name], real)[real], limit, table)
        elif own[1:2] == (length,):
            check_ids(name, arrays[name][real], limit, table)
        elif masks_of.get(name) in arrays:
            check_ids(name, arrays[name][real_places(arrays[masks_of[name]], arrays[name].shape[:2])], limit, table)
        else:
            check_ids(name, arrays[name], limit, table)


def placed(position_ids: NDArray[Any], real: NDArray[Any]) -> NDArray[Any]:
    """position_ids for each row of the batch; one row serves all."""
    try:
        return np.broadcast_to(position_ids, real.shape)
    except ValueError:
        raise ValueError(
            f"position_ids is {list(position_ids.shape)}, it should be {list(real.shape)}"
        ) from None


def real_places(mask: NDArray[Any] | None, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which places belong to an example: those from the first to the last that its mask shows."""
    if mask is None:
        return np.ones(shape, np.bool_)
    see = np.asarray(mask) != 0
    begun = np.logical_or.accumulate(see, axis=1)
    ended = np.logical_or.accumulate(see[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(begun & ended, np.bool_)


def check_ids(name: str, values: NDArray[Any], limit: int, table: str = "") -> None:
    """Every id is one of 0 … limit - 1."""
    if not values.size:
        return
    low, high = int(values.min()), int(values.max())
    if low < 0 or high >= limit:
        told = f" of the table {table}" if table else ""
        raise ValueError(f"{name} holds {low if low < 0 else high}, the rows{told} are 0 … {limit - 1}")


def check_length(axis: str, length: int, limit: int, table: str = "", counted: str = "") -> None:
    """A text fits into the table of positions."""
    if length > limit:
        told = f"the table of positions {table}" if table else "the table of positions"
        room = f"has room for {limit} of them" if counted else f"has {limit}"
        raise ValueError(f"a text has {length} entries{counted} along {axis}, {told} {room}: cut it, or split it")
