"""How long 64 tokens take after a prompt of 64: a decoder of GPT-2's shape, or T5-small, every contender in one run.

    python benchmarks/decode.py                     # one text, one thread
    python benchmarks/decode.py --batch 8
    python benchmarks/decode.py --model t5          # T5-small, 32 tokens after a source of 64
    python benchmarks/decode.py --prefill 512       # a prompt of 512 tokens alone

Every round runs each contender once, in a new order; a number is the median over the rounds, and its ratio to
transformers that of the same round. `products` are the products with weights of each step alone (the bound of one
processor), `reading` the weights' bytes at the speed of one copy (the bound of memory). CTranslate2 and ONNX Runtime
run where they are installed. Weights are random: which tokens come does not matter, their number does.
"""

import argparse
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

from benchmarks.threads import use_threads

Array = NDArray[Any]
Contender = Callable[[], Any]
MODELS = ("gpt2", "t5")


def folder(model: str, place: Path) -> Path:
    """A folder with random weights of the model's usual sizes."""
    import torch
    import transformers

    torch.manual_seed(0)
    if model == "gpt2":
        made: Any = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    else:
        made = transformers.T5ForConditionalGeneration(transformers.T5Config(decoder_start_token_id=0))
    made.save_pretrained(place)
    tokenizer(made.config.vocab_size).save_pretrained(place)
    return place


def tokenizer(size: int) -> Any:
    """A word for each id, its number: CTranslate2 wants a vocabulary, transformers and we read none."""
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = Tokenizer(WordLevel({str(number): number for number in range(size)}, unk_token="0"))
    special = {"unk_token": "0", "pad_token": "0", "bos_token": "1", "eos_token": "1"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special)


class Job:
    """What is asked of every contender: so many new tokens after these ids."""

    def __init__(self, model: str, path: Path, batch: int, prompt: int, new: int, threads: int) -> None:
        self.model, self.path, self.new, self.threads = model, path, new, threads
        vocabulary = json.loads((path / "config.json").read_text("utf-8"))["vocab_size"]
        self.ids = np.random.default_rng(0).integers(2, vocabulary, (batch, prompt))
        self.first = np.zeros((batch, 1), np.int64) if model == "t5" else self.ids

    def decoder(self, module: Any, kind: Callable[[Array], Any]) -> Any:
        """An object with `feed`, for the module of a backend."""
        more = [kind(self.ids)] if self.model == "t5" else []
        room = self.first.shape[1] + self.new
        if not more and kind is np.asarray:
            return module.decoder(len(self.ids), room=room)
        return module.decoder(*more, room=room)


def numpy_module(job: Job) -> Contender:
    """The generated NumPy module."""
    import transformula

    module = transformula.load(job.path, threads=job.threads, validate=False).module

    def run() -> None:
        decoder = job.decoder(module, np.asarray)
        logits = decoder.feed(job.first)
        for _ in range(job.new - 1):
            logits = decoder.feed(logits.argmax(-1)[:, None])

    return run


def torch_module(job: Job) -> Contender:
    """The generated PyTorch module."""
    import torch

    import transformula

    module = transformula.load(job.path, backend="torch", validate=False).module

    def run() -> None:
        decoder = job.decoder(module, torch.from_numpy)
        logits = decoder.feed(torch.from_numpy(job.first))
        for _ in range(job.new - 1):
            logits = decoder.feed(logits.argmax(-1)[:, None])

    return run


def transformers_module(job: Job) -> Contender:
    """transformers' generate with its cache."""
    import torch
    import transformers

    kind = transformers.AutoModelForCausalLM if job.model == "gpt2" else transformers.AutoModelForSeq2SeqLM
    model: Any = kind.from_pretrained(job.path).eval()
    ids = torch.from_numpy(job.ids)
    options = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}

    def run() -> None:
        with torch.inference_mode():
            model.generate(ids, max_new_tokens=job.new, min_new_tokens=job.new, **options)

    return run


def ctranslate2_module(job: Job) -> Contender:
    """CTranslate2's generator or translator in float32, on the converted folder."""
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    place = tempfile.mkdtemp()
    TransformersConverter(str(job.path)).convert(place, force=True)
    kind = ctranslate2.Generator if job.model == "gpt2" else ctranslate2.Translator
    model = kind(place, compute_type="float32", intra_threads=job.threads)
    texts = [[str(number) for number in row] for row in job.ids]

    def run() -> None:
        if job.model == "gpt2":
            model.generate_batch(texts, max_length=job.new, min_length=job.new, include_prompt_in_result=False)
        else:
            model.translate_batch(texts, max_decoding_length=job.new, min_decoding_length=job.new, beam_size=1)

    return run


def onnxruntime_module(job: Job) -> Contender:
    """ONNX Runtime on a step of GPT-2 that is written by hand, in float32."""
    from benchmarks.onnx_decoder import decoder

    if job.model != "gpt2":
        raise ImportError("the step by hand is GPT-2's")
    return decoder(job.path, job.ids, job.new, job.threads)


def matrices(job: Job) -> tuple[list[Array], int]:
    """The weights of one step as [in, out], and their bytes; the encoder's are no part of it."""
    from transformula.backends.numpy.files import read_stored

    found = []
    for name, value in read_stored(job.path).items():
        if value.ndim == 2 and "encoder." not in name and "wpe" not in name and "relative" not in name:
            turned = job.model == "gpt2" and "wte" not in name
            found.append(np.ascontiguousarray(value if turned else value.T))
    return found, sum(one.nbytes for one in found)


def products_alone(job: Job) -> Contender:
    """The products of each step with weights, and those of the prompt."""
    weights, _ = matrices(job)
    rows = [np.ones((len(job.ids), one.shape[0]), np.float32) for one in weights]
    prompt = [np.ones((job.first.size, one.shape[0]), np.float32) for one in weights[1:]]

    def run() -> None:
        if job.first.shape[1] > 1:
            for x, w in zip(prompt, weights[1:], strict=True):
                np.matmul(x, w)
        for _ in range(job.new - 1):
            for x, w in zip(rows, weights, strict=True):
                np.matmul(x, w)

    return run


def reading_alone(job: Job) -> Contender:
    """The weights' bytes once a step, at the speed of a copy (which reads and writes: half of what it moves)."""
    size = matrices(job)[1] // 8
    source, target = np.ones(size // 2), np.empty(size // 2)

    def run() -> None:
        for _ in range(job.new):
            np.copyto(target, source)

    return run


CONTENDERS: dict[str, Callable[[Job], Contender]] = {
    "transformers": transformers_module,
    "transformula numpy": numpy_module,
    "transformula torch": torch_module,
    "ctranslate2": ctranslate2_module,
    "onnx runtime": onnxruntime_module,
    "products": products_alone,
    "reading": reading_alone,
}


def prepared(job: Job, names: list[str]) -> Iterator[tuple[str, Contender]]:
    """Those that are installed, each run once."""
    for name in names:
        try:
            run = CONTENDERS[name](job)
        except ImportError as missing:
            print(f"{name}: left out, {missing}", file=sys.stderr)
            continue
        run()
        yield name, run


def measured(contenders: dict[str, Contender], rounds: int) -> dict[str, list[float]]:
    """Seconds of each contender in each round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name in random.Random(number).sample(list(contenders), len(contenders)):
            begun = time.perf_counter()
            contenders[name]()
            times[name].append(time.perf_counter() - begun)
    return times


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--new", type=int, help="64, or 32 for T5")
    parser.add_argument("--prefill", type=int, help="only the first token after so many")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(CONTENDERS))
    chosen = parser.parse_args(arguments)
    use_threads(chosen.threads)
    new = 1 if chosen.prefill else chosen.new or {"gpt2": 64, "t5": 32}[chosen.model]
    with tempfile.TemporaryDirectory() as place:
        path = folder(chosen.model, Path(place))
        job = Job(chosen.model, path, chosen.batch, chosen.prefill or chosen.prompt, new, chosen.threads)
        contenders = dict(prepared(job, chosen.only))
        times = measured(contenders, chosen.runs)
    print(f"{chosen.model}: {chosen.batch} × {job.ids.shape[1]} tokens, {new} new, {chosen.threads} threads")
    peer = times.get("transformers")
    for name, seconds in times.items():
        low, middle, high = (1000 * kind(seconds) for kind in (min, statistics.median, max))
        told = f"{name:<20} {middle:8.0f} ms   {low:.0f} … {high:.0f}"
        if peer:
            ratios = [one / other for one, other in zip(seconds, peer, strict=True)]
            told += f"   {statistics.median(ratios):.2f} of transformers"
        print(told)


if __name__ == "__main__":
    main()
