"""The spellings of tests/compiler/spellings.py written with PyTorch, by the same names, for systems that read that.

Each attention stands in one block as a BERT has it: a LayerNorm, projections with bias, heads, the spelling, the output
projection, a residual and a LayerNorm. Optimisers anchor their patterns on these, so they have the best chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

BATCH, SEQ, HEADS, WIDTH = 2, 8, 4, 16
LOWEST = torch.finfo(torch.float32).min
C = math.sqrt(WIDTH)

Given = Mapping[str, Tensor]  # what a spelling reads beside q, k and v
Core = Callable[[Tensor, Tensor, Tensor, Given], Tensor]


@dataclass(frozen=True)
class Spelling:
    """How the heads are computed; `layout` is that of q, k and v: bhsd, bshd (not transposed), bsd or sd (one head)."""

    core: Core
    layout: str = "bhsd"
    batch: int = BATCH
    kv: int = HEADS


class Block(nn.Module):
    """layer_norm(x + heads(x) W_O), where x itself is a LayerNorm's result."""

    def __init__(self, spelling: Spelling) -> None:
        super().__init__()
        self.spelling = spelling
        d = HEADS * WIDTH
        self.q, self.out = nn.Linear(d, d), nn.Linear(d, d)
        self.k, self.v = (nn.Linear(d, spelling.kv * WIDTH) for _ in "kv")
        self.first, self.norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.low = nn.Parameter(torch.tensor(0.25))
        self.table = nn.Parameter(torch.randn(2 * SEQ - 1, HEADS))
        self.near = nn.Parameter(torch.randn(2 * SEQ - 1, WIDTH))
        self.w = nn.Parameter(torch.randn(WIDTH))
        at = torch.arange(SEQ)[None, :] - torch.arange(SEQ)[:, None] + SEQ - 1
        self.register_buffer("at", at)

    def split(self, x: Tensor) -> Tensor:
        if self.spelling.layout in ("bsd", "sd"):
            return x
        x = x.view(x.shape[0], x.shape[1], -1, WIDTH)
        return x if self.spelling.layout == "bshd" else x.permute(0, 2, 1, 3)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        """x[batch, seq, d]; there[batch, seq] is 1 for tokens and 0 for padding. The mask is made as in BERT."""
        see, at = there[:, None, None, :], self.get_buffer("at")
        given = {
            "mask": (1.0 - see) * torch.finfo(see.dtype).min, "see": see > 0, "t": self.low, "w": self.w,
            "bias": self.table[at].permute(2, 0, 1)[None], "near": self.near[at],
        }  # fmt: skip
        x = self.first(x)
        q, k, v = (self.split(part(x)) for part in (self.q, self.k, self.v))
        made = self.spelling.core(q, k, v, given)
        if self.spelling.layout == "bhsd":
            made = made.permute(0, 2, 1, 3)
        made = made.reshape(made.shape[0], made.shape[1], HEADS * WIDTH) if made.dim() == 4 else made
        return self.norm(x + self.out(made))  # type: ignore[no-any-return]

    def inputs(self, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Random inputs, and a padding that leaves each example some tokens."""
        draw = torch.Generator().manual_seed(1)
        batch = () if self.spelling.layout == "sd" else (self.spelling.batch,)
        x = torch.randn(*batch, SEQ, HEADS * WIDTH, generator=draw).to(dtype)
        there = (torch.arange(SEQ)[None, :] < SEQ - torch.arange(self.spelling.batch)[:, None] * 3).to(dtype)
        return x, there


def scores(q: Tensor, k: Tensor) -> Tensor:
    """q kᵀ"""
    return q @ k.transpose(-2, -1)


def soft(s: Tensor, v: Tensor) -> Tensor:
    """softmax(s) v"""
    return s.softmax(dim=-1) @ v


def literal(s: Tensor) -> Tensor:
    """The softmax as it stands on the page."""
    return s.exp() / s.exp().sum(dim=-1, keepdim=True)


def stable(s: Tensor) -> Tensor:
    """The softmax in three steps."""
    e = (s - s.amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)


def no_mask(q: Tensor) -> Tensor:
    """A mask of zeros, made on the spot."""
    return torch.zeros(1, 1, q.shape[-2], q.shape[-2], dtype=q.dtype)


def from_iota(q: Tensor) -> Tensor:
    """Which keys are no later than the query."""
    place = torch.arange(q.shape[-2])
    return place[None, :] <= place[:, None]


def hidden(given: Given) -> Tensor:
    """The mask of a padding: 0 where a token is there, -∞ elsewhere."""
    return torch.where(given["see"], 0.0, float("-inf"))


def causal_and_padding(q: Tensor, k: Tensor, v: Tensor, given: Given) -> Tensor:
    """One mask after the other."""
    return soft((scores(q, k) / C).masked_fill(~from_iota(q), float("-inf")) + hidden(given), v)


def each_head(q: Tensor, k: Tensor, v: Tensor, given: Given) -> Tensor:
    """One head after the other, put together along the width."""
    made = [soft(scores(q[:, h], k[:, h]) / C, v[:, h]) for h in range(HEADS)]
    return torch.cat(made, dim=-1)


def by_letters(q: Tensor, k: Tensor, v: Tensor, given: Given) -> Tensor:
    """einsum with the heads in front."""
    shares = (torch.einsum("bhid,bhjd->bhij", q, k) / C).softmax(dim=-1)
    return torch.einsum("bhij,bhjd->bhid", shares, v)


def by_letters_untransposed(q: Tensor, k: Tensor, v: Tensor, given: Given) -> Tensor:
    """einsum with the heads where the projection left them."""
    shares = (torch.einsum("bihd,bjhd->bhij", q, k) / C).softmax(dim=-1)
    return torch.einsum("bhij,bjhd->bihd", shares, v)


def shaw(q: Tensor, k: Tensor, v: Tensor, given: Given) -> Tensor:
    """q (k + r)ᵀ for each pair."""
    pairs = k[:, :, None] + given["near"][None, None]
    return soft(torch.einsum("bhid,bhijd->bhij", q, pairs) / C, v)


def additive(q: Tensor, k: Tensor, v: Tensor, given: Given) -> Tensor:
    """w · tanh(q + k) for each pair."""
    return soft((q[:, :, :, None] + k[:, :, None]).tanh() @ given["w"], v)


def turned(q: Tensor, k: Tensor, v: Tensor, given: Given) -> Tensor:
    """Keys by queries, the softmax over the first of the two."""
    shares = (k @ q.transpose(-2, -1) / C).softmax(dim=-2)
    return shares.transpose(-2, -1) @ v


def narrow(q: Tensor, k: Tensor, v: Tensor, given: Given) -> Tensor:
    """Half precision but for the softmax."""
    q, k, v = (one.to(torch.bfloat16) for one in (q, k, v))
    shares = (scores(q, k) / C).softmax(dim=-1, dtype=torch.float32).to(torch.bfloat16)
    return (shares @ v).to(given["w"].dtype)


def repeated(q: Tensor, k: Tensor, v: Tensor, given: Given) -> Tensor:
    """Two heads share a key and a value."""
    k, v = (one.repeat_interleave(2, dim=1) for one in (k, v))
    return soft(scores(q, k) / C, v)


ATTENTION: dict[str, Spelling] = {
    "QK/c": Spelling(lambda q, k, v, g: soft(scores(q, k) / C, v)),
    "QK*c": Spelling(lambda q, k, v, g: soft(scores(q, k) * (1 / C), v)),
    "c*QK": Spelling(lambda q, k, v, g: soft((1 / C) * scores(q, k), v)),
    "max-exp-sum softmax": Spelling(lambda q, k, v, g: stable(scores(q, k) / C) @ v),
    "QK/c+M": Spelling(lambda q, k, v, g: soft(scores(q, k) / C + g["mask"], v)),
    "constant zero mask": Spelling(lambda q, k, v, g: soft(scores(q, k) / C + no_mask(q), v)),
    "permute(0,2,1,3)/c+mask": Spelling(
        lambda q, k, v, g: soft(
            scores(*(one.permute(0, 2, 1, 3) for one in (q, k))) / C + g["mask"], v.permute(0, 2, 1, 3)
        ).permute(0, 2, 1, 3),
        "bshd",
    ),
    "batch 1": Spelling(lambda q, k, v, g: soft(scores(q, k) / C, v), batch=1),
    "GQA repeat_interleave": Spelling(repeated, kv=2),
    "bf16, fp32 softmax": Spelling(narrow),
    "(q/c)K": Spelling(lambda q, k, v, g: soft(scores(q / C, k), v)),
    "q(K/c)": Spelling(lambda q, k, v, g: soft(scores(q, k / C), v)),
    "no scale": Spelling(lambda q, k, v, g: soft(scores(q, k), v)),
    "einsum bhid,bhjd": Spelling(by_letters),
    "einsum on (b,s,h,d)": Spelling(by_letters_untransposed, "bshd"),
    "exp/sum softmax": Spelling(lambda q, k, v, g: literal(scores(q, k) / C) @ v),
    "divide after PV": Spelling(
        lambda q, k, v, g: (scores(q, k) / C).exp() @ v / (scores(q, k) / C).exp().sum(dim=-1, keepdim=True)
    ),
    "(QK+M)/c": Spelling(lambda q, k, v, g: soft((scores(q, k) + g["mask"]) / C, v)),
    "M+QK/c": Spelling(lambda q, k, v, g: soft(g["mask"] + scores(q, k) / C, v)),
    "QK*c+M": Spelling(lambda q, k, v, g: soft(scores(q, k) * (1 / C) + g["mask"], v)),
    "masked_fill(-inf)": Spelling(
        lambda q, k, v, g: soft((scores(q, k) / C).masked_fill(~g["see"], float("-inf")), v)
    ),
    "where(m, s, -inf)": Spelling(
        lambda q, k, v, g: soft(torch.where(g["see"], scores(q, k) / C, float("-inf")), v)
    ),
    "where(m, s, finfo.min)": Spelling(
        lambda q, k, v, g: soft(torch.where(g["see"], scores(q, k) / C, LOWEST), v)
    ),
    "causal from iota": Spelling(
        lambda q, k, v, g: soft((scores(q, k) / C).masked_fill(~from_iota(q), float("-inf")), v)
    ),
    "causal + padding": Spelling(causal_and_padding),
    "QK+B": Spelling(lambda q, k, v, g: soft(scores(q, k) + g["bias"], v)),
    "QK/c+B+M": Spelling(lambda q, k, v, g: soft(scores(q, k) / C + g["bias"] + g["mask"], v)),
    "(VᵀAᵀ)ᵀ": Spelling(
        lambda q, k, v, g: (v.transpose(-2, -1) @ (scores(q, k) / C).softmax(-1).transpose(-2, -1)).transpose(-2, -1)
    ),
    "KᵀQ, softmax over -2": Spelling(turned),
    "per-head loop, concat": Spelling(each_head, "bhsd, joined"),
    "3-D single head": Spelling(lambda q, k, v, g: soft(scores(q, k) / math.sqrt(HEADS * WIDTH), v), "bsd"),
    "2-D single head": Spelling(lambda q, k, v, g: soft(scores(q, k) / math.sqrt(HEADS * WIDTH), v), "sd", 1),
    "Shaw q(k+r)": Spelling(shaw),
    "0-d scale": Spelling(lambda q, k, v, g: soft(scores(q, k) * g["t"], v)),
    "additive f(q,k)": Spelling(additive),
}
"""The 35 spellings of attention."""


class Row(nn.Module):
    """A spelling of a norm or an activation between two linear maps."""

    def __init__(self, formula: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        d = HEADS * WIDTH
        self.formula = formula
        self.before, self.after = nn.Linear(d, d), nn.Linear(d, d)
        self.gain, self.shift = nn.Parameter(torch.rand(d) + 0.5), nn.Parameter(torch.randn(d))

    def forward(self, x: Tensor) -> Tensor:
        """x[batch, seq, d]"""
        return self.after(self.formula(self.before(x), self.gain, self.shift))  # type: ignore[no-any-return]

    def inputs(self, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
        """Random rows."""
        draw = torch.Generator().manual_seed(1)
        return (torch.randn(BATCH, SEQ, HEADS * WIDTH, generator=draw).to(dtype),)


EPS = 1e-12
ROOT = math.sqrt(2 / math.pi)


def mean(x: Tensor) -> Tensor:
    """The mean of each row, kept as an axis of one entry."""
    return x.mean(-1, keepdim=True)


def centred(x: Tensor) -> Tensor:
    """x - μ"""
    return x - mean(x)


def centred_once(x: Tensor, g: Tensor, b: Tensor) -> Tensor:
    """The centred row is computed once and used twice."""
    c = centred(x)
    return c / torch.sqrt(mean(c**2) + EPS) * g + b


def by_sums(x: Tensor, g: Tensor, b: Tensor) -> Tensor:
    """Sums divided by d in place of means."""
    d = x.shape[-1]
    c = x - x.sum(-1, keepdim=True) / d
    return c / torch.sqrt((c**2).sum(-1, keepdim=True) / d + EPS) * g + b


LAYER_NORM: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "pow": lambda x, g, b: centred(x) / torch.sqrt(mean(centred(x).pow(2)) + EPS) * g + b,
    "rsqrt": lambda x, g, b: centred(x) * torch.rsqrt(mean(centred(x).pow(2)) + EPS) * g + b,
    "gamma left": lambda x, g, b: g * (centred(x) / torch.sqrt(mean(centred(x).pow(2)) + EPS)) + b,
    "(x-μ)*(x-μ)": lambda x, g, b: centred(x) / torch.sqrt(mean(centred(x) * centred(x)) + EPS) * g + b,
    "without ε": lambda x, g, b: g * centred(x) / torch.sqrt(mean(centred(x).pow(2))) + b,
    "E[x²]-μ²": lambda x, g, b: centred(x) / torch.sqrt(mean(x.pow(2)) - mean(x).pow(2) + EPS) * g + b,
    "sum/d": by_sums,
    "centred once": centred_once,
}
"""The eight spellings of LayerNorm."""

GELU: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "x*0.5*(1+erf(x/√2))": lambda x, g, b: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "x/2*(1+erf(x*√½))": lambda x, g, b: x / 2 * (1 + torch.erf(x * math.sqrt(0.5))),
    "distributed": lambda x, g, b: 0.5 * x + 0.5 * x * torch.erf(x / math.sqrt(2)),
    "x*Φ(x)": lambda x, g, b: x * ((1 + torch.erf(x / math.sqrt(2))) / 2),
    "tanh, x^3": lambda x, g, b: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x.pow(3)))),
    "tanh, x*x*x": lambda x, g, b: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.044715 * x * x * x))),
    "tanh, factored": lambda x, g, b: 0.5 * x * (1 + torch.tanh(ROOT * x * (1 + 0.044715 * x * x))),
    "as a sigmoid": lambda x, g, b: x / (1 + torch.exp(-2 * ROOT * (x + 0.044715 * x.pow(3)))),
}
"""The eight spellings of the two GELUs."""

SUITES = ("attention", "LayerNorm", "GELU")


def module(suite: str, name: str) -> Block | Row:
    """The spelling as a module with random weights, the same at every call."""
    torch.manual_seed(0)
    if suite == "attention":
        return Block(ATTENTION[name]).eval()
    return Row((LAYER_NORM if suite == "LayerNorm" else GELU)[name]).eval()


def meaning(suite: str, name: str) -> Tensor:
    """The result in float64, by PyTorch as it is written."""
    one = module(suite, name).double()
    with torch.no_grad():
        return one(*one.inputs(torch.float64))  # type: ignore[no-any-return]
