"""Draws that depend on the seed, the site and the logical place of each entry alone; the emitter copies them.

The numbers are those of compiler/draws.py: seed and site, stirred with each index in turn (splitmix64).
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor


def stirred(state: Tensor) -> Tensor:
    """The finaliser of splitmix64 on 64 bits, which torch has as signed numbers."""
    state = (state ^ ((state >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    state = (state ^ ((state >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return state ^ ((state >> 31) & 0x1FFFFFFFF)


def drawn(seed: int, site: str, *index: Tensor) -> Tensor:
    """Numbers in (0, 1), one for each entry: of the seed, the site and the entry's own indices, which align."""
    digest = hashlib.sha256(site.encode()).digest()
    device = index[0].device if index else torch.device("cpu")
    begun = (seed + 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63
    state = stirred(torch.tensor(begun, device=device)) ^ int.from_bytes(digest[:8], "little", signed=True)
    for one in index:
        state = stirred(state + (one.long() + 1) * -0x61C8864680B583EB)
    return (((stirred(state) >> 12) & 0xFFFFFFFFFFFFF).double() + 0.5) / 2.0**52


def sampled(logits: Tensor, u: Tensor) -> Tensor:
    """A place along the last axis, with the probabilities softmax(logits): where logits + Gumbel noise is largest."""
    return (logits.double() - (-u.log()).log()).argmax(dim=-1)
