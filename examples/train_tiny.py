"""Three small trainings on two cores: BERT by masked tokens, GPT by the next one, Sentence-BERT by ranking.

    python examples/train_tiny.py              # all three, each in less than two minutes
    python examples/train_tiny.py bert gpt     # some of them

The text is made by stories.py. Each training ends in a folder under build/ that `transformula run`, transformers and
sentence-transformers read.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import transformula

sys.path.insert(0, str(Path(__file__).resolve().parent))
from stories import pairs, story

BUILD = Path(__file__).resolve().parent.parent / "build" / "trained"
console = Console(highlight=False)
SMALL = {"d": 96, "layers": 2, "head": 4}


def trained(
    spec: str, objective: str, text: str, before: Callable[[Path], None] = lambda _: None, **options: Any
) -> Path:
    """Trains into a folder of the objective, tells how the held-out loss went; `before` sees its first weights."""
    out = BUILD / objective
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    data = out / "text.txt"
    data.write_text(text, "utf-8")
    begun = time.perf_counter()

    def tell(one: dict[str, Any]) -> None:
        if one["step"] == 0:
            before(out)
        if one.get("held_out") is not None:
            console.print(f"    step {one['step']:4}  held-out loss {one['held_out']:.3f}")

    console.print(f"[bold]{objective} of {spec}[/bold]")
    options = {"vocabulary": 600, "lr": 3e-3, "save_every": 10**6, **options}
    done = transformula.train(spec, objective, data, out, tell, **options)
    console.print(f"    {done.losses[0]:.3f} → {done.losses[-1]:.3f} in {time.perf_counter() - begun:.0f} s: {out}")
    return out


def bert() -> None:
    """A BERT that fills in masked tokens."""
    settings = {**SMALL, "ffn": 384}
    trained("bert", "mlm", story(6000), settings=settings, length=64, steps=300, eval_every=100, lr=1e-3)


def gpt() -> None:
    """A GPT-2 that goes on with a text."""
    out = trained("gpt2", "causal_lm", story(6000), settings=SMALL, length=64, steps=200, eval_every=50)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    ids = tokenizer.encode("The old miller", add_special_tokens=False).ids
    found = transformula.load(out).generate([ids], max_new_tokens=24)
    console.print(f"    {tokenizer.decode(found[0].tolist())!r}")


def sbert() -> None:
    """A Sentence-BERT that finds the sentence which says the same."""
    settings = {**SMALL, "ffn": 384}
    learn, test = pairs(3000), pairs(200, seed=2)
    lines = "".join(f"{one}\t{other}\n" for one, other in learn)
    options = {"settings": settings, "length": 48, "steps": 200, "batch_size": 32, "eval_every": 50}

    def tell(folder: Path) -> None:
        console.print(f"    the right one of {len(test)} is nearest: {retrieved(folder, test):.0%}")

    tell(trained("sbert", "ranking", lines, tell, **options))


def retrieved(folder: Path, test: list[tuple[str, str]]) -> float:
    """How often the nearest of all second sentences is the one that says the same."""
    model = transformula.load(folder)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=0)
    vectors = []
    for side in (0, 1):
        encoded = tokenizer.encode_batch([pair[side] for pair in test])
        ids, mask = ([getattr(one, kind) for one in encoded] for kind in ("ids", "attention_mask"))
        found = model(ids, mask, outputs=["sentence_embedding"])["sentence_embedding"]
        vectors.append(found / np.linalg.norm(found, axis=1, keepdims=True))
    nearest = (vectors[0] @ vectors[1].T).argmax(axis=1)
    return float((nearest == np.arange(len(test))).mean())


TRAININGS = {"bert": bert, "gpt": gpt, "sbert": sbert}

if __name__ == "__main__":
    for name in sys.argv[1:] or TRAININGS:
        TRAININGS[name]()
