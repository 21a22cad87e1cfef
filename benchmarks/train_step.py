"""One step of masked-LM training: forward, backward and AdamW of a BERT with 4 layers of width 256, 16 × 128 tokens.

    python benchmarks/train_step.py --runs 9
    python benchmarks/train_step.py --compile               # transformers under torch.compile, too
    python benchmarks/train_step.py --fill 0.5              # texts of other lengths, half of the batch is padding

15 % of the tokens, out of 30522, are foretold. The generated modules are what `transformula compile bert --entry mlm`
writes for `--backend torch`, and for `--backend numpy --gradients`; the step by hand has a head that sees the selected
rows only; the products alone are those of that step, forward and backward, on the real tokens. Every round runs each
contender once, in a new order; the ratios to the products are taken round by round. All begin with random weights of
the same size, without dropout, so their losses are alike.
"""

import argparse
import json
import sys
import time
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import transformula
from benchmarks.rounds import measure, show, summary
from benchmarks.threads import use_threads
from transformula.backends.numpy.kernels import cores
from transformula.compiler.ir import Length
from transformula.compiler.sizes import Sizes

Array = NDArray[Any]
LAYERS, D, HEADS, FFN, VOCAB, BATCH, SEQ, SHARE = 4, 256, 4, 1024, 30522, 16, 128, 0.15
CONFIG = {
    "vocab_size": VOCAB,
    "hidden_size": D,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": FFN,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def texts(batch: int = BATCH, seq: int = SEQ, fill: float = 1.0, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """input_ids, labels and attention_mask[batch, seq]: labels are -100 but at 15 % of the tokens.

    The longest text has `seq` tokens, all together `fill` of the batch.
    """
    draw = np.random.default_rng(seed)
    ids = draw.integers(1000, VOCAB, (batch, seq))
    lengths = Sizes(batch, seq, fill).each(Length("seq"))
    mask = np.arange(seq) < np.asarray(lengths)[:, None]
    labels = np.where(mask & (draw.random(ids.shape) < SHARE), ids, -100)
    return torch.from_numpy(np.where(mask, ids, 0)), torch.from_numpy(labels), torch.from_numpy(mask.astype(np.int64))


class ByHand(nn.Module):
    """BERT as one would write it for this step: the head on the rows that have a label."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, D), nn.Embedding(512, D)
        self.kinds, self.norm = nn.Embedding(2, D), nn.LayerNorm(D, 1e-12)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.head, self.head_norm = nn.Linear(D, D), nn.LayerNorm(D, 1e-12)
        self.bias = nn.Parameter(torch.zeros(VOCAB))
        for one in (self.words, self.places, self.kinds):
            nn.init.normal_(one.weight, 0.0, 0.02)

    def forward(self, input_ids: Tensor, labels: Tensor, mask: Tensor | None) -> Tensor:
        """The mean of -log p over the places with a label."""
        see = None if mask is None else mask[:, None, None, :] != 0
        x = self.words(input_ids) + self.kinds.weight[0] + self.places.weight[: input_ids.shape[1]]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, see)
        chosen = labels != -100
        h = self.head_norm(F.gelu(self.head(x[chosen])))
        return F.cross_entropy(F.linear(h, self.words.weight, self.bias), labels[chosen])


class Layer(nn.Module):
    """Post-norm, Q, K and V as one product."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, FFN), nn.Linear(FFN, D)
        self.norm_1, self.norm_2 = nn.LayerNorm(D, 1e-12), nn.LayerNorm(D, 1e-12)

    def forward(self, x: Tensor, see: Tensor | None) -> Tensor:
        """[batch, seq, d] → [batch, seq, d]"""
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(q, k, v, see).transpose(1, 2).flatten(-2)
        x = self.norm_1(x + self.out(heads))
        normed: Tensor = self.norm_2(x + self.down(F.gelu(self.up(x))))
        return normed


def products(labels: Tensor, mask: Tensor) -> Callable[[], None]:
    """All matrix products of the step, forward and backward, of real tokens, and nothing else."""
    rows, chosen = int(mask.sum()), int((labels != -100).sum())
    shapes = [(rows, D, 3 * D), (rows, D, D), (rows, D, FFN), (rows, FFN, D)] * LAYERS
    shapes += [(chosen, D, D), (chosen, D, VOCAB)]
    sides = {(n, i, o): (torch.randn(n, i), torch.randn(i, o), torch.randn(n, o)) for n, i, o in shapes}
    pairs = []
    for length in mask.sum(dim=1).tolist():
        pairs.append((torch.randn(HEADS, length, D // HEADS), torch.randn(HEADS, length, length)))
    if len({q.shape for q, _ in pairs}) == 1:  # all at once
        pairs = [(torch.stack([q for q, _ in pairs]), torch.stack([scores for _, scores in pairs]))]

    def run() -> None:
        for shape in shapes:
            x, weight, y = sides[shape]
            x @ weight
            y @ weight.T
            x.T @ y
        for q, scores in pairs * LAYERS * 3:
            q @ q.transpose(-1, -2)
            scores @ q

    return run


def generated() -> nn.Module:
    """The module of the objective, written by transformula."""
    made = types.ModuleType("mlm")
    source = transformula.compile("bert", "torch", CONFIG, "mlm").source
    exec(compile(source, "<mlm>", "exec"), made.__dict__)
    module: nn.Module = made.__dict__["Model"](dtype=torch.float32)
    return module


def numpy_step(batch: dict[str, Array], threads: int | None) -> Callable[[], Array]:
    """The step of the NumPy module, which has its gradients and its AdamW in its file."""
    made = types.ModuleType("mlm")
    program = transformula.compile("bert", "numpy", CONFIG, "mlm", gradients=True)
    exec(compile(program.source, "<mlm>", "exec"), made.__dict__)
    model = made.__dict__["Model"](_drawn(program.compiled.formula.weights), threads=threads)
    optimiser = made.__dict__["AdamW"](model.tensors, threads=threads)

    def run() -> Array:
        loss, gradients = model.loss_and_gradients(**batch)
        optimiser.update(gradients, 1e-4)
        return np.asarray(loss)

    return run


def _drawn(weights: Iterable[Any]) -> dict[str, Array]:
    """Weights as a model begins with: normal maps and tables, norms that change nothing."""
    draw = np.random.default_rng(0)
    return {one.name: _first(draw, one.name, [int(size) for size in one.shape]) for one in weights}


def _first(draw: np.random.Generator, name: str, shape: list[int]) -> Array:
    if name.endswith("γ"):
        return np.ones(shape)
    matrix = len(shape) > 1 and name.rpartition(".")[2][0] in "WESP"
    return draw.normal(0, 0.02, shape) if matrix else np.zeros(shape)


def theirs() -> nn.Module:
    """The library's model, with its fused attention."""
    from transformers import BertConfig, BertForMaskedLM

    model: nn.Module = BertForMaskedLM._from_config(BertConfig(**CONFIG), attn_implementation="sdpa")
    return model


def step(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], Array]:
    """A training step that gives its loss."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def run() -> Array:
        optimiser.zero_grad(set_to_none=True)
        found = loss()
        found.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return np.asarray(found.detach())

    return run


def contenders(
    compiled: bool, batch: int = BATCH, seq: int = SEQ, threads: int | None = None, fill: float = 1.0
) -> dict[str, Callable[[], Any]]:
    """Each contender's step."""
    ids, labels, mask = texts(batch, seq, fill)
    given = {"input_ids": ids, "labels": labels} | ({"attention_mask": mask} if fill < 1 else {})
    arrays = {name: one.numpy() for name, one in given.items()}
    hand, ours, library = ByHand().train(), generated().train(), theirs().train()
    found: dict[str, Callable[[], Any]] = {
        "products alone": products(labels, mask),
        "handwritten": step(hand, lambda: hand(ids, labels, given.get("attention_mask"))),
        "transformula torch": step(ours, lambda: ours(**given)["loss"]),
        "transformula numpy": numpy_step(arrays, threads),
        "transformers sdpa": step(library, lambda: library(**given).loss),
    }
    if compiled:
        again = theirs().train()
        fast = torch.compile(again)
        found["transformers compiled"] = step(again, lambda: fast(**given).loss)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=9)
    options.add_argument("--threads", type=int, default=min(2, cores()))
    options.add_argument("--compile", action="store_true", help="transformers under torch.compile, too")
    options.add_argument("--cpu", action="store_true", help="processor time on one thread, not time on the clock")
    options.add_argument("--fill", type=float, default=1.0, help="the share of the batch that is no padding")
    options.add_argument("--json", action="store_true", help="the figures as JSON")
    chosen = options.parse_args()
    chosen.threads = 1 if chosen.cpu else chosen.threads
    use_threads(chosen.threads)
    torch.manual_seed(0)
    found = contenders(chosen.compile, threads=chosen.threads, fill=chosen.fill)
    results = {name: run() for name, run in found.items()}
    clock = time.process_time if chosen.cpu else time.perf_counter
    table = summary(measure(found, chosen.runs, clock), results)
    if chosen.json:
        print(json.dumps(table, indent=1))
        return
    losses = {name: f"{float(one):.4f}" for name, one in results.items() if one is not None}
    title = f"{BATCH} x {SEQ} tokens, {chosen.fill:.0%} of them real, {chosen.threads} threads, {chosen.runs} rounds"
    show(title, table, "first loss", lambda name: losses.get(name, ""))


if __name__ == "__main__":
    main()
