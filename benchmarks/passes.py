"""What a pass gains: each module beside the one with the pass left out, in one interleaved run, on one thread.

    python benchmarks/passes.py
    python benchmarks/passes.py --runs 15 --only unpad

The ratio of the operations that both should make (compiler/cost.py) stands beside the ratio of the times measured.
Every round runs both modules, in a new order; ratios are taken round by round, and the median is told. A case whose
pass the compiler has not is left out, with the reason.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.threads import use_threads
from transformula.backends.program import Program
from transformula.backends.program import compile as compile_program
from transformula.compiler import cost, pipeline
from transformula.compiler.ir import Graph, Length, Weight
from transformula.compiler.sizes import Sizes
from transformula.compiler.wanted import PLACES

Array = NDArray[Any]
Run = Callable[[], Mapping[str, Any]]

MINILM = {"vocab": 30522, "d": 384, "layers": 6, "head": 12, "ffn": 1536}
NEAR = 0.10
CAUSAL = """spec causal_attention
from functions import attention, causal
config
    d = 384
    head = 12
    dk = d / head
    layers = 2

block Attn(x[seq, d]) → [seq, d] = attention[key if causal](Q, K, V) @ W_O
    where Q = x @ W_Q
          K = (x @ W_K)[seq → key]
          V = (x @ W_V)[seq → key]
    weights W_Q, W_K, W_V : [d → head dk]
            W_O : [head dk → d]

model Causal(x[seq, d] as inputs_embeds) → h[seq, d] = y[layers]
    where y[0] = x
          for l in layers:
              y[l + 1] = y[l] + attn[l](y[l])
    uses attn[layers] : Attn
"""


@dataclass(frozen=True)
class Case:
    """A model and the pass that is left out of its second module; `more` are options of `compile`.

    A PyTorch module has its padded and its packed layout instead of the pass `unpad`. `beyond` says what operations
    do not count, where the time saved is not as they predict.
    """

    name: str
    left_out: str
    spec: str
    entry: str | None
    settings: Mapping[str, Any]
    sizes: Sizes
    backend: str = "numpy"
    layout: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Callable[[Sizes], Array]] = field(default_factory=dict)
    beyond: str = ""


def merging(d: int, batch: int, length: int) -> Case:
    """An encoder's layers at a number of rows: what one product for Q, K and V is worth there."""
    settings = {**MINILM, "vocab": 100, "d": d, "ffn": 4 * d, "layers": 4}
    sizes = Sizes(batch, length)
    return Case(f"merge, d={d}, {batch * length} rows", "merge_projections", "bert", "Bert", settings, sizes)


def masked_places(sizes: Sizes) -> Array:
    """15 % of the places of each example."""
    draw = np.random.default_rng(1)
    wanted = max(1, round(sizes.chosen * sizes.length))
    return np.stack([np.sort(draw.permutation(sizes.length)[:wanted]) for _ in range(sizes.batch)])


def masked(name: str, settings: Mapping[str, Any], sizes: Sizes) -> Case:
    """A head over the vocabulary, of which 15 % of the places are wanted."""
    more, given = {"rows": {"logits": "positions"}}, {PLACES: masked_places}
    told = "exps, norms and sums of the layers take more of the time than of the operations, so the head takes less"
    settings = {"vocab": MINILM["vocab"], **settings}
    return Case(name, "push_picks", "bert", "BertForMaskedLM", settings, sizes, more=more, given=given, beyond=told)


FULL = Sizes(16, 128)
CASES = (
    Case("unpad, 46 % fill", "unpad", "bert", "Bert", MINILM, Sizes(32, 128, 0.46), "torch", "packed"),
    Case("unpad, 100 % fill", "unpad", "bert", "Bert", MINILM, FULL, "torch", "packed"),
    Case("rows of CLS, 6 layers", "push_picks", "bert", "BertForSequenceClassification", MINILM, FULL),
    Case("rows of CLS, 2 layers", "push_picks", "bert", "BertForSequenceClassification", {**MINILM, "layers": 2}, FULL),
    masked("MLM head at 15 %, BERT-base", {}, Sizes(4, 128)),
    masked("MLM head at 15 %, MiniLM", MINILM, FULL),
    Case(
        "causal flag, 1024 tokens", "fold_masks", CAUSAL, None, {}, Sizes(1, 1024),
        beyond="an exp that is left out counts as one operation and takes as long as some 40 of a product",
    ),
    *(merging(d, batch, length) for d in (384, 768) for batch, length in ((1, 1), (1, 32), (8, 128))),
)  # fmt: skip
"""What is measured by default."""


def sizes_of(weight: Weight) -> list[int]:
    """The shape of a weight."""
    return [size for size in weight.shape if isinstance(size, int)]


def random_weights(graph: Graph) -> dict[str, Any]:
    """Small weights in the spec's layout; stacks are lists, as a checkpoint gives them."""
    draw = np.random.default_rng(0)

    def nested(array: Array, depth: int) -> Any:
        return [nested(one, depth - 1) for one in array] if depth else array

    return {
        one.name: nested(draw.standard_normal(sizes_of(one), np.float32) * np.float32(0.02), len(one.stack))
        for one in graph.weights
    }


def inputs(graph: Graph, case: Case) -> dict[str, Array]:
    """A padded batch of the case's lengths: ids, or random numbers for what is no id."""
    draw = np.random.default_rng(0)
    sizes = case.sizes
    axes = [axis for one in graph.inputs for axis in one.axes if one.name not in case.given and axis.owner is not None]
    length = next(axis.size for axis in axes if isinstance(axis.size, Length))
    lengths = np.array(sizes.each(length))
    made: dict[str, Array] = {"attention_mask": (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)}
    for one in graph.inputs:
        if not one.required or one.name in case.given:
            continue
        shape = [int(sizes.extent(axis)) for axis in one.axes]
        if one.name.endswith("_ids"):
            made[one.name] = draw.integers(1, case.settings["vocab"], shape)
        else:
            made[one.name] = draw.standard_normal(shape, np.float32)
    return made | {name: make(sizes) for name, make in case.given.items()}


def runner(program: Program, weights: dict[str, Any], given: dict[str, Array]) -> Run:
    """The generated module on one batch."""
    if program.backend == "torch":
        return torch_runner(program, weights, given)
    from transformula.backends.numpy.loading import forward

    _, model = forward(program, weights, "float32", 1, None)
    return lambda: model(**given)


def torch_runner(program: Program, weights: dict[str, Any], given: dict[str, Array]) -> Run:
    """The generated nn.Module on tensors."""
    import torch

    from transformula.backends.torch.loading import forward

    _, module = forward(program, weights, "float32", None, None)
    tensors = {name: torch.from_numpy(value) for name, value in given.items()}

    def run() -> Mapping[str, Any]:
        with torch.inference_mode():
            return {name: np.asarray(value) for name, value in module(**tensors).items()}

    return run


def why_not(case: Case) -> str:
    """Why a case cannot run here, nothing if it can."""
    if case.left_out not in {row.name for row in pipeline.table()}:
        return f"the compiler has no pass {case.left_out}"
    unknown = [name for name in case.more if name not in compile_program.__annotations__]
    return f"compile has no option {unknown[0]}" if unknown else ""


def measured(case: Case, runs: int) -> dict[str, Any]:
    """The figures of a case. Raises AssertionError if both modules do not agree."""
    options = {"entry": case.entry, "settings": case.settings, "layout": case.layout, **case.more}
    packs = case.backend == "torch" and case.left_out == "unpad"
    fewer = {"layout": "padded"} if packs else {"without": (case.left_out,)}
    programs = [compile_program(case.spec, case.backend, **(options | more)) for more in ({}, fewer)]
    graphs = [replace(program.graph, plan=program.graph.plan | packed(program)) for program in programs]
    weights, given = random_weights(programs[0].compiled.formula), inputs(programs[0].compiled.formula, case)
    contenders = [runner(program, weights, given) for program in programs]
    gap = difference(contenders[0](), contenders[1]())
    assert gap < 1e-3, f"{case.name}: the results differ by {gap}"
    times = rounds(contenders, runs)
    ratios = [without / made for made, without in zip(*times, strict=True)]
    quarters = statistics.quantiles(ratios, n=4)
    predicted = cost.flops(graphs[1], case.sizes) / cost.flops(graphs[0], case.sizes)
    ratio = statistics.median(ratios)
    return {
        "with_ms": statistics.median(times[0]) * 1e3,
        "without_ms": statistics.median(times[1]) * 1e3,
        "ratio": ratio,
        "low": quarters[0],
        "high": quarters[2],
        "predicted": predicted,
        "near": abs(ratio / predicted - 1) <= NEAR,
        "difference": gap,
    }


def packed(program: Program) -> frozenset[str]:
    """What a layout of PyTorch does to lengths, as the plan says it."""
    return frozenset({"unpad"} if program.layout == "packed" else ())


def difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """The largest difference of any result, relative to its size."""
    return max(
        float(np.abs(np.asarray(first[name]) - np.asarray(second[name])).max() / (np.abs(second[name]).max() + 1e-9))
        for name in second
    )


def rounds(contenders: list[Run], runs: int) -> list[list[float]]:
    """Seconds of the processor for each contender in each round; short ones are repeated within a round."""
    start = time.process_time()
    for run in contenders:
        run()
    repeat = max(1, round(0.02 / (time.process_time() - start + 1e-9)))
    times: list[list[float]] = [[] for _ in contenders]
    for number in range(runs):
        for place in random.Random(number).sample(range(len(contenders)), len(contenders)):
            start = time.process_time()
            for _ in range(repeat):
                contenders[place]()
            times[place].append((time.process_time() - start) / repeat)
    return times


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=15)
    options.add_argument("--only", action="append", metavar="TEXT", help="cases with this in their name")
    options.add_argument("--fill", type=float, help="of the case with 46 %%")
    options.add_argument("--json", action="store_true", help="the figures as JSON")
    chosen = options.parse_args()
    use_threads(1)
    table = {}
    if not chosen.json:
        print(f"one thread, {chosen.runs} rounds; times are the processor's, ratios the pass left out : the pass run")
        print(f"{'':34}{'left out':>10}{'run':>10}{'ratio':>8}{'quartiles':>15}{'FLOPs':>8}  within {NEAR:.0%}")
    for case in CASES:
        if chosen.only and not any(text in case.name for text in chosen.only):
            continue
        if chosen.fill and "46 %" in case.name:
            case = replace(case, sizes=replace(case.sizes, fill=chosen.fill), name=f"unpad, {chosen.fill:.0%} fill")
        reason = why_not(case)
        if reason:
            print(f"left out: {case.name} ({reason})", file=sys.stderr)
            continue
        row = table[case.name] = measured(case, chosen.runs)
        if not chosen.json:
            spread = f"{row['low']:.2f}–{row['high']:.2f}"
            print(f"{case.name:34}{row['without_ms']:8.2f}ms{row['with_ms']:8.2f}ms{row['ratio']:8.2f}", end="")
            told = "yes" if row["near"] else f"no: {case.beyond}" if case.beyond else "no"
            print(f"{spread:>15}{row['predicted']:8.2f}  {told}", flush=True)
    if chosen.json:
        print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
