"""The heads of specs/bert.formula against the library's BERT."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

import transformula
from tests.specs.configs import TINY, labels, unusual
from tests.specs.peers import LENGTH, agree, alone, batch, names_match, saved
from transformula import TransformulaError
from transformula.compiler.driver import compile_graph

HEADS = (
    "BertModel",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
)


def folder_of(path: Path, kind: str, **more: Any) -> Path:
    return saved(path, kind, transformers.BertConfig(**{**TINY, **more}))


@pytest.mark.parametrize("kind", HEADS)
def test_heads(tmp_path: Path, kind: str) -> None:
    folder = folder_of(tmp_path, kind, **labels(kind, 0))
    names_match(folder)
    agree(folder, kind, batch(31, 2))


@pytest.mark.parametrize("number", range(10))
def test_unusual(tmp_path: Path, number: int) -> None:
    kind = HEADS[number % len(HEADS)]
    config = unusual(number, LENGTH, **labels(kind, number))
    agree(folder_of(tmp_path, kind, **config), kind, batch(config["vocab_size"], config["type_vocab_size"]))


def test_without_pooler(tmp_path: Path) -> None:
    """A BertModel may be saved without its pooler: then the token states are all that there is."""
    config = transformers.BertConfig(**TINY)
    transformers.BertModel(config, add_pooling_layer=False).eval().save_pretrained(tmp_path)
    model = transformula.load(tmp_path, backend="reference", strict=False)
    given = batch(31, 2)
    found = model(**given)
    assert set(found) == {"last_hidden_state"}
    for row, (place, results) in enumerate(alone(tmp_path, "BertModel", given)):
        real = given["attention_mask"][row, place] != 0
        wanted = results["last_hidden_state"][real]
        np.testing.assert_allclose(found["last_hidden_state"][row, place][real], wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("keys", "label"), [({}, 2), ({"num_labels": 4}, 4), ({"id2label": {"0": "a"}}, 1)], ids=str)
def test_number_of_labels(tmp_path: Path, keys: dict[str, Any], label: int) -> None:
    """It is the length of id2label; old files may have num_labels instead, and two is the default."""
    folder = folder_of(tmp_path, "BertForSequenceClassification", num_labels=label)
    path = folder / "config.json"
    config = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("id2label", "label2id")}
    path.write_text(json.dumps({**config, **keys}))
    assert transformula.load(folder, backend="reference")([[1, 2]])["logits"].shape == (1, label)


@pytest.mark.parametrize(("rate", "wanted"), [(None, 0.1), (0.25, 0.25), (0, 0)], ids=str)
def test_dropout_before_the_classifier(rate: float | None, wanted: float) -> None:
    """classifier_dropout, else hidden_dropout_prob."""
    config = {**TINY, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.0, "classifier_dropout": rate}
    for kind in ("BertForSequenceClassification", "BertForTokenClassification"):
        graph = compile_graph("bert", config, kind, until="formula").formula
        sites = [one for one in graph.nodes() if one.op == "random"]
        rates = [float(one.args[1]["value"]) for one in sites]
        assert rates == [0.1] * 3 + [wanted] * (wanted > 0)


def test_a_head_of_another_kind_is_told(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "BertForSequenceClassification")
    path = folder / "config.json"
    path.write_text(path.read_text().replace("BertForSequenceClassification", "BertForSomethingElse"))
    with pytest.raises(TransformulaError, match="no model for the architecture BertForSomethingElse"):
        transformula.load(folder)


def test_base_model_of_a_head(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "BertForSequenceClassification")
    found = transformula.load(folder, entry="Bert", dtype="float64")(**batch(31, 2))
    wanted = transformula.load(folder, backend="reference", entry="Bert")(**batch(31, 2))
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-10)
