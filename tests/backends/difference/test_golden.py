"""What a reader is told, in full: three pairs as text and as Markdown. `--regen` writes them anew; read the diff."""

from __future__ import annotations

from pathlib import Path

import pytest

from transformula.backends.difference import diff

GOLDEN = Path(__file__).parent / "golden"
PAIRS = {
    "bert_roberta": {"a": "bert", "b": "roberta"},
    "bert_distilbert": {"a": "bert", "b": "distilbert"},
    "bert_24_layers": {"a": "bert", "b": "bert", "settings_b": {"layers": 24, "d": 1024, "head": 16, "ffn": 4096}},
}


@pytest.mark.parametrize("name", PAIRS)
def test_told(name: str, regen: bool) -> None:
    found = diff(**PAIRS[name])  # type: ignore[arg-type]
    for path, text in ((GOLDEN / f"{name}.txt", str(found)), (GOLDEN / f"{name}.md", found.markdown())):
        if regen:
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8"), f"{path.name} is written anew by --regen; read the diff"


def test_bert_and_roberta_as_the_paper_says_it() -> None:
    """Short, the paper's differences, no word of what is the same."""
    text = str(diff("bert", "roberta"))
    for said in (
        "positions: a learned table at places that follow input_ids instead of a learned table at 0, 1, 2, …",
        "behind the row of padding",
        "vocab is 50265 instead of 30522",
        "no objective nsp of BertForNextSentencePrediction",
        "5 weights of lm_head are stored as lm_head.… instead of cls.predictions.…",
        "GELU, whatever activation the layers have.",
    ):
        assert said in " ".join(text.split())
    assert len(text.splitlines()) < 70
    for same in ("FeedForward", "LN_1", "attn", "encoder.layer"):
        assert same not in text
