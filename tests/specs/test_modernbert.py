"""specs/modernbert.formula against the library's ModernBERT."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

import transformula
from tests.specs.peers import agree, batch, change_config, names_match, saved
from tests.specs.test_losses import BACKENDS, close, theirs
from transformula import TransformulaError
from transformula.compiler.ir import walk_all
from transformula.compiler.kernels import parts

pytestmark = pytest.mark.usefixtures("no_islands")
TINY: dict[str, Any] = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "local_attention": 4,
    "pad_token_id": 1,
    "bos_token_id": None,
    "eos_token_id": None,
    "cls_token_id": None,
    "sep_token_id": None,
}
MODELS: dict[str, dict[str, Any]] = {
    "ModernBertModel": {},
    "ModernBertForMaskedLM": {},
    "ModernBertForSequenceClassification": {"num_labels": 5},
    "ModernBertForTokenClassification": {"num_labels": 1},
    "ModernBertForQuestionAnswering": {},
}
FULL, LOCAL = "full_attention", "sliding_attention"


def kinds(*names: str) -> dict[str, Any]:
    return {"layer_types": list(names), "num_hidden_layers": len(names)}


BIASED = {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True}
UNUSUAL: list[tuple[str, dict[str, Any]]] = [
    ("MaskedLM", {"tie_word_embeddings": False, "hidden_activation": "gelu_new", "classifier_activation": "relu"}),
    ("MaskedLM", {"decoder_bias": False, **BIASED}),
    ("MaskedLM", {"tie_word_embeddings": False, "decoder_bias": False, "norm_eps": 0.5}),
    ("SequenceClassification", {"classifier_pooling": "mean", **BIASED}),
    ("SequenceClassification", {"classifier_pooling": "mean", "num_labels": 1, **kinds(LOCAL)}),
    ("SequenceClassification", {"num_hidden_layers": 1, "hidden_size": 4, "num_attention_heads": 2}),
    ("MaskedLM", kinds(LOCAL, FULL, FULL, LOCAL, FULL)),
    ("MaskedLM", {"local_attention": 1, **kinds(LOCAL, LOCAL)}),
    ("MaskedLM", {"local_attention": 3, "intermediate_size": 1}),
    ("TokenClassification", {"local_attention": 0, "norm_bias": True}),
    ("TokenClassification", {"num_attention_heads": 1, "hidden_size": 6, "vocab_size": 3, "norm_eps": 1e-30}),
    (
        "MaskedLM",
        {
            "rope_parameters": {
                FULL: {"rope_type": "default", "rope_theta": 20.0},
                LOCAL: {"rope_type": "default", "rope_theta": 1.5},
            }
        },
    ),
]


def config(**more: Any) -> Any:
    return transformers.ModernBertConfig(**{**TINY, **more})


@pytest.mark.parametrize("kind", MODELS)
def test_models(tmp_path: Path, kind: str) -> None:
    folder = saved(tmp_path, kind, config(**MODELS[kind]))
    names_match(folder)
    agree(folder, kind, batch(31))


@pytest.mark.parametrize(("head", "more"), UNUSUAL, ids=str)
def test_unusual(tmp_path: Path, head: str, more: dict[str, Any]) -> None:
    made, kind = config(**more), f"ModernBertFor{head}"
    agree(saved(tmp_path, kind, made), kind, batch(made.vocab_size))


def test_older_keys_of_rotation_and_windows(tmp_path: Path) -> None:
    """Published files say global_rope_theta, local_rope_theta and global_attn_every_n_layers."""
    rotation = {FULL: {"rope_type": "default", "rope_theta": 30.0}, LOCAL: {"rope_type": "default", "rope_theta": 2.0}}
    folder = saved(tmp_path, "ModernBertModel", config(rope_parameters=rotation, **kinds(FULL, LOCAL, FULL)))
    given = batch(31)
    wanted = transformula.load(folder)(**given)["last_hidden_state"]
    keys = json.loads((folder / "config.json").read_text())
    del keys["rope_parameters"], keys["layer_types"]
    keys |= {"global_rope_theta": 30.0, "local_rope_theta": 2.0, "global_attn_every_n_layers": 2, "cls_token_id": 2}
    (folder / "config.json").write_text(json.dumps(keys))
    model = transformula.load(folder)
    np.testing.assert_array_equal(model(**given)["last_hidden_state"], wanted)
    assert model.unused_config_keys == []


WRONG: list[tuple[dict[str, Any], str]] = [
    (kinds(FULL, "chunked_attention"), '"chunked_attention" is not a known layer_kind'),
    ({"layer_types": [FULL]}, "layer_types has 1 value, but layers is 4"),
    ({"classifier_pooling": "max"}, '"max" is not a known pooled_by'),
    ({"hidden_size": 9}, "half = 1.5 is a size and must be a whole number"),
    ({"rope_parameters": {FULL: {"rope_type": "linear", "factor": 2}}}, "full_attention.factor = 2 is not supported"),
    ({"rope_parameters": {LOCAL: {"rope_type": "linear"}}}, '"linear" is not a known rotation'),
    ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling.factor = 2.0 is not supported"),
]


@pytest.mark.parametrize(("more", "told"), WRONG, ids=str)
def test_what_cannot_be(tmp_path: Path, more: dict[str, Any], told: str) -> None:
    folder = saved(tmp_path, "ModernBertModel", config())
    change_config(folder, **more)
    with pytest.raises(TransformulaError, match=told):
        transformula.load(folder)


def test_sparse_prediction(tmp_path: Path) -> None:
    """The loss of the labelled tokens alone, whatever number marks the others; the logits stay those of all tokens."""
    given = {name: value[:2] for name, value in batch(31).items()}
    marked = (given["attention_mask"] != 0) & (given["input_ids"] % 3 != 0)
    folder = saved(tmp_path, "ModernBertForMaskedLM", config(sparse_prediction=True, sparse_pred_ignore_index=-7))
    labels = np.where(marked, given["input_ids"], -7)
    wanted = theirs(folder, "ModernBertForMaskedLM", {**given, "labels": labels}).loss
    for backend in BACKENDS:
        found = transformula.load(folder, backend=backend, dtype="float64")(**given, labels=labels)
        close(found["loss"], wanted, backend)
        assert found["logits"].shape == (2, 7, 31)


def test_what_the_passes_find(tmp_path: Path) -> None:
    """Each kind of layer has its fused attention: a full one has no mask, a local one the bounds of its keys."""
    kind = "ModernBertForMaskedLM"
    program = transformula.load(saved(tmp_path, kind, config(**kinds(FULL, LOCAL, LOCAL, FULL)))).program
    nodes = list(walk_all(program.graph.roots))
    found = [parts(one) for one in nodes if one.op == "kernel" and one["name"] == "attention"]
    of_masks = sorted(sorted({"first", "stop", "see"} & set(one)) for one in found)
    assert of_masks == [[], [], ["first", "stop"]]  # of the first layer, and of both kinds in the loop
    assert {"layer_norm", "gelu", "merge"} <= {line.rule for line in program.ledger.lines if line.fired}
    assert "chosen = (False, True, True, False)" in program.source
