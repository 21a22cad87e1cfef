"""How many threads a benchmark computes on."""

from __future__ import annotations

import importlib.util

from transformula.backends.numpy.kernels import blas_threads


def use_threads(threads: int) -> None:
    """The same number of threads for NumPy's BLAS and for torch."""
    found = blas_threads()
    if found is not None:
        found[0](threads)
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(threads)
