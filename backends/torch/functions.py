"""Run-time functions of the PyTorch backend; the emitter copies what a module needs.

Every function stands by itself over torch alone, takes no branch on values (so that a module compiles and exports as
one graph), and has a gradient without NaN where a row is empty.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def places(visible: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
    """visible[batch, seq] → (index, real, count, first, source): each place's order in its example, and so on.

    An example goes from its first to its last visible place; hidden places between are keys that nobody may see.
    `real` tells which places belong to it, `count` how many. Padding takes after a real place, `source` (row, column):
    the nearest of its example, or one of another example where its own is empty. So nothing there overflows.
    """
    batch, seq = visible.shape
    more = visible.new_ones((batch, 1))
    first = torch.cat([visible, more], dim=1).int().argmax(dim=1)
    last = seq - torch.cat([visible.flip(1), more], dim=1).int().argmax(dim=1)
    count = (last - first).clamp(min=0)
    first = torch.where(count > 0, first, 0)
    at = torch.arange(seq, device=visible.device) - first[:, None]
    index = torch.minimum(at, count[:, None] - 1).clamp(min=0)
    other = torch.cat([count > 0, visible.new_ones(1)]).int().argmax(dim=0).clamp(max=batch - 1)
    row = torch.where(count > 0, torch.arange(batch, device=visible.device), other)
    source = row[:, None].expand(batch, seq), first[row][:, None] + torch.where(count[:, None] > 0, index, 0)
    return index, (at >= 0) & (at < count[:, None]), count, first, source


def settled(x: Tensor, real: Tensor, source: tuple[Tensor, Tensor]) -> Tensor:
    """x[batch, seq, …] with padding as copies of a real place; 0 everywhere if no example has any."""
    some = real.any().expand(real.shape).reshape(real.shape + (1,) * (x.dim() - 2))
    return torch.where(some, x[source], torch.zeros((), dtype=x.dtype, device=x.device))


def power(x: Tensor | float, y: Tensor | float) -> Tensor:
    """x ^ y in floating point."""
    base = x if isinstance(x, Tensor) else torch.as_tensor(float(x), dtype=torch.float64)
    return torch.pow(base if base.is_floating_point() else base.double(), y)


def whole_floor(x: Tensor, up: bool = False) -> Tensor:
    """⌊x⌋ (or ⌈x⌉) as whole numbers; a hair beside a whole number is that number."""
    value = x.double()
    near = value.round()
    settled = torch.where((value - near).abs() <= 1e-12 * near.abs().clamp(min=1), near, value)
    return (settled.ceil() if up else settled.floor()).long()


def gather(x: Tensor, *index: Tensor) -> Tensor:
    """x[i, j, …] for numbers that align; a number out of range reads the nearest entry, which nobody may use."""
    if 0 in x.shape[: len(index)]:  # no entry is there to be read
        aligned = sum(index[1:], start=index[0])
        return x.new_zeros(aligned.shape + x.shape[len(index) :])
    return x[tuple(i.long().clamp(0, size - 1) for i, size in zip(index, x.shape, strict=False))]


def taken(x: Tensor, *index: Tensor) -> Tensor:
    """x[i, j, …] for labels, which align; NaN where one is out of range, unless a condition leaves it out.

    Of whole numbers, which have no NaN, it is the least: no place of anything.
    """
    found = gather(x, *index)
    bad = torch.zeros((), dtype=torch.bool, device=x.device)
    for i, size in zip(index, x.shape, strict=False):
        bad = bad | (i < 0) | (i >= size)
    none = float("nan") if found.is_floating_point() else torch.iinfo(found.dtype).min
    return found.masked_fill(bad.reshape(bad.shape + (1,) * (found.dim() - bad.dim())), none)


def selected_places(see: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(rows, columns, counted) of the entries of see[batch, seq] that hold, in their order.

    A graph that is compiled or exported cannot know how many they are: there all entries come, and an entry that does
    not count is a copy of the first one that does.
    """
    if not torch.compiler.is_compiling():
        rows, columns = see.nonzero(as_tuple=True)
        return rows, columns, torch.ones_like(rows, dtype=torch.bool)
    flat = see.flatten()
    at = torch.where(flat, torch.arange(flat.shape[0], device=see.device), flat.int().argmax())
    return at // see.shape[1], at % see.shape[1], flat


def all_places(real: Tensor) -> tuple[Tensor, Tensor]:
    """(rows, columns) of the entries of real[batch, seq] that belong to an example, the longest example first.

    In a graph that is compiled or exported those of all entries: what is computed at padding, no result feels.
    """
    if not torch.compiler.is_compiling():
        order = real.sum(dim=1).argsort(descending=True, stable=True)
        rows, columns = real[order].nonzero(as_tuple=True)
        return order[rows], columns
    at = torch.arange(real.shape[0] * real.shape[1], device=real.device)
    return at // real.shape[1], at % real.shape[1]


def rows_at(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """y[row, …] = x[rows, columns, …] for different places; all of them, which are in their order, are a view of x."""
    return x.flatten(0, 1) if rows.shape[0] == x.shape[0] * x.shape[1] else x[rows, columns]


def rows_put_back(x: Tensor, shape: tuple[int, int], rows: Tensor, columns: Tensor) -> Tensor:
    """The other way: x[row, …] at the places of y[batch, seq, …], zeros elsewhere."""
    if rows.shape[0] == shape[0] * shape[1]:
        return x.reshape(*shape, *x.shape[1:])
    return x.new_zeros((*shape, *x.shape[1:])).index_put((rows, columns), x)


def masked_softmax(x: Tensor, see: Tensor) -> Tensor:
    """softmax over the last axis of the entries that `see` lets through; hidden ones are 0, an empty row is all 0."""
    some = see.any(dim=-1, keepdim=True)
    return x.masked_fill(~see & some, float("-inf")).softmax(dim=-1).masked_fill(~see, 0.0)


def length_softmax(x: Tensor, visible: Tensor, see: Tensor | None = None) -> Tensor:
    """exp(x) / sum[j if visible and see](exp(x)) over the last axis, 0 where not see.

    An entry along a length that nobody may see adds nothing to the sum, but has a share like any other.
    """
    counted = (visible if see is None else visible & see).expand(x.shape)
    top = reduce_where("max", x, counted, (-1,)).unsqueeze(-1).detach()
    most = {torch.float64: 300.0, torch.float16: 5.0}.get(x.dtype, 40.0)  # of hidden entries: nothing overflows
    e = (x - top.masked_fill(top == float("-inf"), 0.0)).clamp(max=most).exp()
    total = torch.where(counted, e, 0.0).sum(dim=-1, keepdim=True)
    share = e / total.masked_fill(total == 0, 1.0)
    return share if see is None else torch.where(see, share, 0.0)


def length_log_softmax(x: Tensor, visible: Tensor) -> Tensor:
    """x - log(sum[j if visible](exp(x))) over the last axis."""
    return x - x.masked_fill(~visible, float("-inf")).logsumexp(dim=-1, keepdim=True)


def log_sum_exp(x: Tensor, see: Tensor | None = None, less: Tensor | float = 0.0) -> Tensor:
    """log(sum[j if see](exp(x))) - less over the last axis; -∞, with no gradient, where nothing is seen.

    The largest entry is taken away first from both, so a small difference keeps its digits.
    """
    some = None
    if see is not None:
        some = see.any(dim=-1, keepdim=True)
        x = x.masked_fill(~see & some, float("-inf"))
    top = x.amax(dim=-1, keepdim=True).detach()
    top = top.masked_fill(top == float("-inf"), 0.0)
    total = (x - top).logsumexp(dim=-1) + (top[..., 0] - less)
    return total if some is None else total.masked_fill(~some[..., 0].expand(total.shape), float("-inf"))


def quick_gelu(x: Tensor) -> Tensor:
    """x / (1 + exp(-1.702 x))"""
    return x * torch.sigmoid(1.702 * x)


def reduce_where(kind: str, x: Tensor, see: Tensor | bool, dims: tuple[int, ...]) -> Tensor:
    """The reduction over the entries that `see` lets through; over nothing: 0, prod 1, max -∞, min ∞."""
    see = torch.as_tensor(see, device=x.device)
    if kind == "count":
        return (x.bool() & see).sum(dim=dims)
    if kind in ("max", "min"):
        worst = float("inf") if kind == "min" else float("-inf")
        chosen = x.masked_fill(~see, worst)
        if 0 in x.shape:  # amax refuses to look for the largest of nothing
            return chosen.sum(dim=dims) + worst
        return chosen.amin(dim=dims) if kind == "min" else chosen.amax(dim=dims)
    if kind == "argmax":
        chosen = x.masked_fill(~see, float("-inf"))
        return chosen.argmax(dim=dims[0]) if chosen.shape[dims[0]] else chosen.sum(dim=dims).long()
    if kind == "any":
        return (x.bool() & see).any(dim=dims)
    if kind == "all":
        return (x.bool() | ~see).all(dim=dims)
    if kind == "prod":
        ones = torch.where(see, x, 1)
        for dim in sorted(dims, reverse=True):
            ones = ones.prod(dim=dim)
        return ones
    zeros = torch.where(see, x, 0)
    if kind == "norm":
        length: Tensor = torch.linalg.vector_norm(zeros, dim=dims)
        return length
    total = zeros.sum(dim=dims)
    return total if kind == "sum" else total / see.expand(zeros.shape).sum(dim=dims).clamp(min=1)


def dropped(x: Tensor, rate: Tensor, training: bool) -> Tensor:
    """dropout(x, p) for rates that are computed: x / (1 - p) with probability 1 - p, else 0; x outside training."""
    if not training:
        return x
    return torch.where(torch.rand_like(x) < rate, 0.0, x / (1 - rate).clamp(min=1e-30))


def rank(x: Tensor, see: Tensor | None = None) -> Tensor:
    """How many entries of the last axis are larger, ties by order; hidden entries are smallest."""
    value = x if see is None else x.masked_fill(~see, float("-inf"))
    order = torch.sort(value, dim=-1, descending=True, stable=True).indices
    return torch.argsort(order, dim=-1)


def biased(bias: Tensor, see: Tensor, dtype: torch.dtype) -> Tensor:
    """The bias where a key may be seen, -∞ elsewhere; a row that sees nothing keeps its bias (attention makes it 0)."""
    return bias.to(dtype).masked_fill(~see, float("-inf"))


def grouped(x: Tensor | tuple[Tensor, ...], groups: tuple[int, int]) -> Any:
    """[group, …] with the axes that make up a group in front: [batch, choice, …]; of each value of a tuple."""
    if not isinstance(x, Tensor):
        return tuple(grouped(one, groups) for one in x)
    return x.reshape(*groups, *x.shape[1:])


def shown(x: Tensor, mask: Tensor) -> Tensor:
    """x where the mask holds, 0 at padding."""
    return torch.where(mask, x, torch.zeros((), dtype=x.dtype, device=x.device))
