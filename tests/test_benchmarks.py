"""Benchmarks: a case of passes.py runs both modules, as predicted from their operations; masks beside no mask."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import decode, masks, passes, train_step
from tests.compiler import zoo
from transformula.compiler.ir import Length
from transformula.compiler.sizes import Sizes

TINY = passes.Case("tiny", "merge_projections", "bert", "Bert", zoo.BERT, Sizes(3, 8, 0.5))


def test_a_case_is_measured() -> None:
    found = passes.measured(TINY, 3)
    assert found["difference"] < 1e-5
    assert found["predicted"] == 1.0
    assert 0 < found["low"] <= found["ratio"] <= found["high"]


def test_unpadding_is_predicted_from_the_lengths() -> None:
    pytest.importorskip("torch")
    case = replace(TINY, left_out="unpad", backend="torch", layout="packed")
    found = passes.measured(case, 2)
    lengths = TINY.sizes.each(Length("seq"))
    assert found["difference"] < 1e-5
    assert 3 * 8 / sum(lengths) < found["predicted"] < 3 * 64 / sum(n * n for n in lengths)


def test_a_case_without_its_pass_is_left_out_with_a_reason() -> None:
    assert passes.why_not(TINY) == ""
    assert passes.why_not(replace(TINY, left_out="nothing")) == "the compiler has no pass nothing"
    assert passes.why_not(replace(TINY, more={"colour": "red"})) == "compile has no option colour"


@pytest.mark.parametrize("way", ["numpy", "torch packed", "torch padded"])
def test_masks_are_measured_beside_attention_to_everything(way: str) -> None:
    made = masks.contenders(way, ["causal", "window"], 2, 160)
    values = {name: np.asarray(run()["y"]) for name, run in made.items()}
    for mask in ("causal", "window"):
        np.testing.assert_allclose(values[f"{mask} folded"], values[f"{mask} table"], atol=1e-5)
        assert np.abs(values[f"{mask} folded"] - values["none"]).max() > 0.1
    found = masks.measured(made, 1)
    assert list(found) == list(made)
    assert found["none"] == 1
    assert min(found.values()) > 0


@pytest.mark.parametrize("model", decode.MODELS)
def test_decoding_is_measured_for_all_who_are_here(model: str, tmp_path: Path) -> None:
    import transformers

    if model == "gpt2":
        sizes = {"vocab_size": 40, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16}
        transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(tmp_path)
    else:
        sizes = {"vocab_size": 40, "d_model": 12, "num_layers": 2, "num_heads": 3, "d_kv": 4, "d_ff": 16}
        config = transformers.T5Config(**sizes, decoder_start_token_id=0)
        transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    job = decode.Job(model, tmp_path, 2, 5, 4, 1)
    names = ["transformers", "transformula numpy", "transformula torch", "products", "reading"]
    found = decode.measured(dict(decode.prepared(job, names)), 1)
    assert list(found) == names
    assert all(seconds > 0 for times in found.values() for seconds in times)
    weights, size = decode.matrices(job)
    assert size == 4 * sum(one.size for one in weights)


@pytest.mark.slow
def test_a_training_step_of_each_contender_begins_alike() -> None:
    """All foretell as well as chance does, and better after some steps on one batch."""
    found = train_step.contenders(False, 2, 16)
    for name, step in found.items():
        if name != "products alone":
            losses = [float(step()) for _ in range(4)]
            assert abs(losses[0] - np.log(train_step.VOCAB)) < 0.5
            assert losses[-1] < losses[0]
