"""specs/gpt_neox.formula against the library's GPT-NeoX."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from safetensors.numpy import load_file, save_file

import transformula
from tests.specs.peers import agree, batch, change_config, names_match, saved
from tests.specs.test_dropout import both
from tests.specs.test_losses import BACKENDS, close, theirs
from transformula import TransformulaError

pytestmark = pytest.mark.usefixtures("no_islands")
TINY: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 6,
}
MODELS: dict[str, dict[str, Any]] = {
    "GPTNeoXModel": {},
    "GPTNeoXForCausalLM": {},
    "GPTNeoXForSequenceClassification": {"num_labels": 5, "pad_token_id": 4},
    "GPTNeoXForTokenClassification": {"num_labels": 1},
    "GPTNeoXForQuestionAnswering": {"attention_bias": False},
}


def turned(share: float, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": share, **more}}


UNUSUAL: list[dict[str, Any]] = [
    {"use_parallel_residual": False, "hidden_act": "gelu_new"},
    {"attention_bias": False, "tie_word_embeddings": True, **turned(0.0)},
    {"attention_bias": False, "use_parallel_residual": False, **turned(1.0)},
    {"num_hidden_layers": 5, "layer_norm_eps": 0.5, "intermediate_size": 1, "hidden_act": "silu", **turned(1 / 3)},
    {"num_attention_heads": 1, "num_hidden_layers": 1, "hidden_act": "relu", **turned(0.3, rope_theta=1.5)},
    {"hidden_size": 14, "num_attention_heads": 2, **turned(0.8)},
    {"hidden_size": 3, "num_attention_heads": 3, **turned(0.9)},
    {"vocab_size": 3, "layer_norm_eps": 1e-30, "num_hidden_layers": 0},
    {"hidden_dropout": 0.5, "attention_dropout": 0.5, "tie_word_embeddings": True, **turned(0.95)},
    turned(0.5, rope_type="linear", factor=2.5),
    turned(0.3, rope_type="dynamic", factor=3.0),
    turned(0.5, rope_type="yarn", factor=4.0, beta_fast=3, beta_slow=2),
    turned(0.4, rope_type="longrope", short_factor=[1.0, 2.5], long_factor=[3.0, 1.5], factor=3.0),
    turned(0.8, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0),
]


def config(**more: Any) -> Any:
    return transformers.GPTNeoXConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path, kind, config(**MODELS[kind]))
    agree(folder, kind, batch(31))
    names_match(folder)


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, more: dict[str, Any]) -> None:
    """Odd numbers of turning entries among them: 12 · 0.3 are 3, whose last has a partner, 7 · 0.8 are 5."""
    made = config(**more)
    agree(saved(tmp_path, "GPTNeoXForCausalLM", made), "GPTNeoXForCausalLM", batch(made.vocab_size))


def loss_and_states(folder: Path, kind: str) -> None:
    """The loss of a causal model, its states and the weights of its attention, on every backend."""
    given = {name: value[:2] for name, value in batch(31).items()}
    labels = np.where(given["attention_mask"] * (given["input_ids"] > 4) != 0, given["input_ids"], -100)
    wanted = theirs(folder, kind, {**given, "labels": labels}, output_hidden_states=True, output_attentions=True)
    for backend in BACKENDS:
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = model(**given, labels=labels, output_hidden_states=True, output_attentions=True)
        close(found["loss"], wanted.loss, backend)
        for name in ("hidden_states", "attentions"):
            assert len(found[name]) == len(wanted[name])
            for ours, other in zip(found[name], wanted[name], strict=True):
                for row, length in enumerate((7, 4)):
                    place = (row, ..., slice(length), slice(length if name == "attentions" else None))
                    np.testing.assert_allclose(np.asarray(ours)[place], other.numpy()[place], rtol=0, atol=1e-10)


@pytest.mark.parametrize("tied", [True, False])
def test_loss_and_states(tmp_path: Path, tied: bool) -> None:
    folder = saved(tmp_path, "GPTNeoXForCausalLM", config(tie_word_embeddings=tied))
    loss_and_states(folder, "GPTNeoXForCausalLM")


def test_files_of_pythia(tmp_path: Path) -> None:
    """Older names of options, buffers of masks and frequencies, and the table again as the head that is tied to it."""
    folder = saved(tmp_path, "GPTNeoXForCausalLM", config(tie_word_embeddings=True, **turned(0.5, rope_theta=9.0)))
    given = batch(31)
    wanted = transformula.load(folder)(**given)["logits"]
    keys = json.loads((folder / "config.json").read_text())
    del keys["rope_parameters"]
    keys |= {"rotary_pct": 0.5, "rotary_emb_base": 9, "is_decoder": True}
    (folder / "config.json").write_text(json.dumps(keys))
    path = folder / "model.safetensors"
    stored = load_file(path)
    for layer in range(2):
        stored[f"gpt_neox.layers.{layer}.attention.bias"] = np.tril(np.ones((1, 1, 9, 9), np.float32))
        stored[f"gpt_neox.layers.{layer}.attention.masked_bias"] = np.array(-1e9, np.float32)
        stored[f"gpt_neox.layers.{layer}.attention.rotary_emb.inv_freq"] = np.ones(1, np.float32)
    stored["embed_out.weight"] = stored["gpt_neox.embed_in.weight"]
    save_file(stored, path, {"format": "pt"})
    model = transformula.load(folder)
    np.testing.assert_array_equal(model(**given)["logits"], wanted)
    assert model.unused_config_keys == []


def test_the_weights_lie_per_head(tmp_path: Path) -> None:
    folder = saved(tmp_path, "GPTNeoXModel", config())
    stored = load_file(folder / "model.safetensors")
    weights = transformula.load(folder, backend="reference").weights
    fused = stored["layers.1.attention.query_key_value.weight"].reshape(2, 3, 12, 24)
    np.testing.assert_array_equal(np.asarray(weights["layer[layers].attn.W_K"][1]), fused[:, 1].transpose(2, 0, 1))


def test_what_cannot_be(tmp_path: Path) -> None:
    """A whole head of odd width has no pairs, and a dynamic base no exponent for a single pair."""
    folder = saved(tmp_path, "GPTNeoXModel", config(hidden_size=14, **turned(0.5)))
    change_config(folder, **turned(1.0))
    with pytest.raises(TransformulaError, match="pass = -1 is no size"):
        transformula.load(folder)
    change_config(folder, **turned(0.3, rope_type="dynamic", factor=2.0))
    with pytest.raises(TransformulaError, match="division by zero"):
        transformula.load(folder)
    change_config(folder, **turned(0.5, rope_type="proportional"))
    with pytest.raises(TransformulaError, match='"proportional" is not a known rotation'):
        transformula.load(folder)


def test_what_the_recogniser_finds(tmp_path: Path) -> None:
    program = transformula.load(saved(tmp_path, "GPTNeoXForCausalLM", config())).program
    fired = {line.rule for line in program.ledger.lines if line.fired}
    assert fired >= {"attention", "layer_norm", "gelu", "bounds"}


@pytest.mark.parametrize("kind", ["GPTNeoXModel", "GPTNeoXForCausalLM", "GPTNeoXForTokenClassification"])
@pytest.mark.parametrize("beside", [True, False])
def test_dropout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, beside: bool) -> None:
    rates = {"hidden_dropout": 0.125, "attention_dropout": 0.25, "classifier_dropout": 0.375}
    found, wanted = both(monkeypatch, tmp_path, kind, {**TINY, **rates, "use_parallel_residual": beside})
    assert found == wanted
    assert len(wanted) == 1 + 2 * 3 + (kind == "GPTNeoXForTokenClassification")
