"""tie_word_embeddings = false: the decoder of a masked-LM head has a table (and a bias) of its own."""

from pathlib import Path

import pytest
import torch
import transformers

import transformula
from tests.specs.peers import agree, batch, names_match, saved
from tests.specs.test_losses import CONFIGS, WITHOUT_SEGMENTS, config_of

pytestmark = pytest.mark.usefixtures("no_islands")
CASES = [*((kind, "ForMaskedLM") for kind in CONFIGS), ("Bert", "ForPreTraining"), ("Albert", "ForPreTraining")]


@pytest.mark.parametrize(("kind", "head"), CASES, ids=lambda one: one)
def test_untied(tmp_path: Path, kind: str, head: str) -> None:
    folder = saved(tmp_path / "there", kind + head, config_of(kind, head, tie_word_embeddings=False))
    given = batch(31, 0 if kind in WITHOUT_SEGMENTS else 2, 2 if kind in ("Roberta", "MPNet") else 0)
    agree(folder, kind + head, given)
    model = transformula.load(folder)
    names = [one.name for one in model.program.graph.weights]
    assert "lm_head.D" in names
    back = model.save_pretrained(tmp_path / "back")
    first, second = (getattr(transformers, kind + head).from_pretrained(one) for one in (folder, back))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("kind", CONFIGS)
def test_tied(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path, f"{kind}ForMaskedLM", config_of(kind))
    names_match(folder)
    assert "lm_head.D" not in [one.name for one in transformula.load(folder).program.graph.weights]
