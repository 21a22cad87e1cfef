"""Stored layouts: groups of a weight's axes, one group per stored dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..grammar.diagnostics import Diagnostic, Span, TransformulaError, did_you_mean
from .instances import OUT
from .ir import Axis, Weight

Layout: TypeAlias = tuple[tuple[Axis, ...], ...]
Written: TypeAlias = tuple[tuple[str, ...], ...]
Part: TypeAlias = tuple[int, int] | None


def resolve(
    weights: Sequence[Weight], own: Sequence[tuple[Axis, ...]], written: Written | None, span: Span
) -> tuple[tuple[Layout, ...], Part]:
    """The layout of each weight of a tensor (`own`: its axes there), and the place of the parts."""
    if written is not None:
        return _written(weights, own, written, span)
    found = tuple(default(weight, axes) for weight, axes in zip(weights, own, strict=True))
    if len(weights) == 1:
        return found, None
    part = (
        len(weights[0].axes) - len(weights[0].stack) - len(weights[0].ins) - len(weights[0].outs or ()),
        0,
    )
    if weights[0].outs is None:
        part = (0, 0)
    _fits_together(found, part, span)
    return found, part


def default(weight: Weight, axes: tuple[Axis, ...]) -> Layout:
    """[carried, out, in] for a map, the declared order for what has no arrow."""
    if weight.outs is None:
        return tuple((axis,) for axis in axes)
    carried = tuple((axis,) for axis in axes if axis not in weight.ins and axis not in weight.outs)
    return (*carried, weight.outs, weight.ins)


def _written(
    weights: Sequence[Weight], own: Sequence[tuple[Axis, ...]], written: Written, span: Span
) -> tuple[tuple[Layout, ...], Part]:
    words = [name for group in written for name in group]
    strangers = [name for name in words if not any(_axis(name, axes) for axes in own)]
    part: Part = None
    if len(weights) > 1:
        if len(strangers) != 1:
            raise _wrong(
                "K008", f"the layout of {len(weights)} weights needs one name for the parts", span,
                help='Like [W_Q; W_K; W_V] : "c_attn.weight" [d, (part head dk)].',
            )  # fmt: skip
        part = next(
            (i, group.index(strangers[0])) for i, group in enumerate(written) if strangers[0] in group
        )
    elif strangers:
        known = [label(axis) for axis in own[0]]
        advice = did_you_mean(strangers[0], known) or f"It has [{', '.join(known)}]."
        raise _wrong("K005", f"`{weights[0].name}` has no axis `{strangers[0]}`", span, help=advice)
    found = []
    for weight, axes in zip(weights, own, strict=True):
        groups = tuple(
            tuple(a for name in group for a in [_axis(name, axes)] if a is not None) for group in written
        )
        flat = [axis for group in groups for axis in group]
        if sorted(map(label, flat)) != sorted(map(label, axes)):
            have = f"[{', '.join(map(label, axes))}]"
            raise _wrong("K005", f"the layout should name each axis of `{weight.name}` : {have} once", span)
        found.append(groups)
    if part is not None:
        _fits_together(found, part, span)
    return tuple(found), part


def _axis(name: str, axes: Sequence[Axis]) -> Axis | None:
    """The axis of this name; an instance's own `G.d` is `d` inside its rows."""
    exact = [axis for axis in axes if label(axis) == name]
    inner = [axis for axis in axes if label(axis).rpartition(".")[2] == name]
    return next(iter((*exact, *inner)), None)


def axes_text(weight: Weight, stacked: bool = False) -> str:
    """[carried, in → out], as a weight is declared; with `stacked` the axes of the blocks that have one each first."""
    sides = (*weight.ins, *(weight.outs or ()))
    first = [axis for axis in weight.axes if axis not in sides and (stacked or axis not in weight.stack)]
    shown = [axis.name for axis in first]
    if weight.outs is not None:
        groups = weight.ins, weight.outs
        shown.append(" → ".join(" ".join(axis.name for axis in group) for group in groups))
    return f"[{', '.join(shown)}]"


def label(axis: Axis) -> str:
    """An axis as layouts call it: the out-side of [d → d] is d'."""
    return f"{axis.name}'" if axis.tag == OUT else axis.name


def _sizes(axes: Sequence[Axis]) -> tuple[object, ...]:
    return tuple(axis.size for axis in axes)


def _fits_together(found: Sequence[Layout], part: tuple[int, int], span: Span) -> None:
    """Parts differ along their own dimension only, and only behind their place in it."""
    dimension, place = part
    for one in found:
        same = len(one) == len(found[0]) and _sizes(one[dimension][:place]) == _sizes(
            found[0][dimension][:place]
        )
        others = [i for i in range(len(one)) if i != dimension]
        if not same or any(_product(one[i]) != _product(found[0][i]) for i in others):
            raise _wrong(
                "K008", "the weights of one tensor must agree in all dimensions but that of the parts", span
            )


def _product(axes: Sequence[Axis]) -> int:
    total = 1
    for axis in axes:
        total *= int(str(axis.size))
    return total


def _wrong(code: str, message: str, span: Span, **more: object) -> TransformulaError:
    return TransformulaError(Diagnostic(code, message, span, **more))  # type: ignore[arg-type]
