"""Cross-entropy of products, some rows at a time; the emitter copies it into generated modules."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOGITS = 1 << 22
"""So many logits are made at a time."""


def product_cross_entropy(
    x: NDArray[Any],
    table: NDArray[Any],
    bias: NDArray[Any] | None,
    label: NDArray[Any],
    smoothing: float = 0.0,
    most: int = 0,
) -> NDArray[Any]:
    """log Σ e^z - (1 - s) z[label] - s mean(z) of each row z = x[row, width] @ tableᵀ + bias, `most` logits at a time.

    NaN where a label is no place of the table.
    """
    count = table.shape[0]
    step = max(1, (most or LOGITS) // max(1, count))
    loss = np.empty(len(x), x.dtype)
    room = np.empty((min(step, len(x)), count), x.dtype)
    for first in range(0, len(x), step):
        part = slice(first, first + step)
        z = np.matmul(x[part], table.T, out=room[: len(x) - first])
        if bias is not None:
            z += bias
        own = label[part].astype(np.intp)
        aim = z[np.arange(len(z)), np.clip(own, 0, count - 1)]
        aim[(own < 0) | (own >= count)] = np.nan
        if smoothing:
            aim = (1 - smoothing) * aim + smoothing * z.mean(axis=1)
        top = z.max(axis=1, keepdims=True)
        z -= top
        np.exp(z, out=z)
        loss[part] = np.log(z.sum(axis=1)) + (top[:, 0] - aim)
    return loss
