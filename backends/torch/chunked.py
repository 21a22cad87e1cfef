"""Cross-entropy of products, some rows at a time; the emitter copies it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

LOGITS = 1 << 24
"""So many logits are made at a time; if these are all, they are kept for the gradient."""


class ProductCrossEntropy(torch.autograd.Function):
    """log Σ e^z - (1 - s) z[label] - s mean(z) of each row z = x @ tableᵀ + bias: forward and backward in pieces."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, table: Tensor, bias: Tensor | None, label: Tensor, smoothing: float, most: int
    ) -> Tensor:
        """The loss [row] of x[row, width]; NaN where a label is no place of the table."""
        step = max(1, most // max(1, table.shape[0]))
        loss, shares = [], None
        for first in range(0, x.shape[0], step):
            z, own = logits_of(x[first : first + step], table, bias), label[first : first + step, None]
            there = z.gather(1, own.clamp(0, z.shape[1] - 1))[:, 0]
            there = there.masked_fill((own[:, 0] < 0) | (own[:, 0] >= z.shape[1]), float("nan"))
            aim = there if not smoothing else (1 - smoothing) * there + smoothing * z.mean(dim=1)
            top = z.amax(dim=1, keepdim=True)
            z = z.sub_(top).exp_()
            total = z.sum(dim=1)
            loss.append(total.log() + (top[:, 0] - aim))
            shares = z.div_(total[:, None]) if x.shape[0] <= step else None
            del z  # before the next piece is made
        ctx.save_for_backward(x, table, bias, label, shares)
        ctx.smoothing, ctx.step = smoothing, step
        return torch.cat(loss) if loss else x.new_zeros(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """softmax(z) minus the label's share, in pieces; what was not kept is made again."""
        x, table, bias, label, shares = ctx.saved_tensors
        (gradient,) = gradients
        of_x, of_table = torch.empty_like(x), torch.zeros_like(table)
        of_bias = None if bias is None else torch.zeros_like(bias)
        for first in range(0, x.shape[0], ctx.step):
            part, scale = slice(first, first + ctx.step), gradient[first : first + ctx.step, None]
            z = logits_of(x[part], table, bias).softmax(dim=1) if shares is None else shares
            z = z * scale
            own = label[part, None].clamp(0, z.shape[1] - 1)
            z.scatter_add_(1, own, (ctx.smoothing - 1) * scale)
            if ctx.smoothing:
                z -= scale * (ctx.smoothing / z.shape[1])
            torch.mm(z, table, out=of_x[part])
            of_table.addmm_(z.t(), x[part])
            if of_bias is not None:
                of_bias += z.sum(dim=0)
            del z
        return of_x, of_table, of_bias, None, None, None


def logits_of(x: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
    """x @ tableᵀ + bias, memory of its own."""
    return x @ table.t() if bias is None else torch.addmm(bias, x, table.t())


def product_cross_entropy(
    x: Tensor, table: Tensor, bias: Tensor | None, label: Tensor, smoothing: float = 0.0, most: int = 0
) -> Tensor:
    """The cross-entropy [row, …] of logits x[row, …, width] @ tableᵀ + bias and labels [row, …], `most` at a time."""
    flat, places = x.reshape(-1, x.shape[-1]), label.reshape(-1).long()
    made: Tensor = ProductCrossEntropy.apply(flat, table, bias, places, smoothing, most or LOGITS)  # type: ignore[no-untyped-call]
    return made.reshape(label.shape)
