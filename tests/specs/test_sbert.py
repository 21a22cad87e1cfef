"""specs/sbert.formula over other encoders than BERT: folders of sentence-transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

import transformula
from tests.specs.configs import TINY
from tests.specs.peers import alone, batch, saved
from transformula.compiler.driver import load_module

ENCODERS = {
    "Bert": "sbert",
    "XLMRoberta": "sbert over roberta",
    "Electra": "sbert over electra",
    "Albert": "sbert over albert",
    "Deberta": "sbert over deberta",
    "DebertaV2": "sbert over deberta_v2",
    "MPNet": "sbert over mpnet",
    "DistilBert": "sbert over distilbert",
    "ModernBert": "sbert over modernbert",
}
MORE = {"ModernBert": {"pad_token_id": 0, "local_attention": 4}}


@pytest.mark.usefixtures("no_islands")
@pytest.mark.parametrize("mode", ["mean", ["cls", "max"]], ids=str)
@pytest.mark.parametrize("family", ENCODERS)
def test_sentences(tmp_path: Path, family: str, mode: Any) -> None:
    """The sentence models of sbert.formula are taken over the encoder that the folder holds."""
    config = getattr(transformers, f"{family}Config")(**TINY, **MORE.get(family, {}))
    folder = saved(tmp_path, f"{family}Model", config)
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    (folder / "modules.json").write_text(json.dumps([{"path": path, "type": f"models.{kind}"} for path, kind in kinds]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": mode}))
    given = batch(9)
    wanted = alone(folder, f"{family}Model", given)
    for backend in ("reference", "numpy"):
        model = transformula.load(folder, backend=backend, dtype="float64")
        assert (model.spec_name, model.entry) == (ENCODERS[family], "SentenceBert")
        found = model(**given)["sentence_embedding"]
        for row, (place, results) in enumerate(wanted):
            u = results["last_hidden_state"][given["attention_mask"][row, place] != 0]
            s = u.mean(axis=0) if mode == "mean" else np.concatenate([u[0], u.max(axis=0)])
            np.testing.assert_allclose(found[row], s / np.linalg.norm(s), rtol=0, atol=1e-10)


@pytest.mark.parametrize("spec", [name.rpartition(" ")[2] for name in ENCODERS.values() if " over " in name])
def test_no_name_of_an_encoder_means_another_thing(spec: str) -> None:
    """What sbert.formula adds to BERT hides nothing that the encoder's own formulas read."""
    ours, bert, encoder = load_module("sbert"), load_module("bert"), load_module(spec)
    added = {*ours.options, *ours.uses, *ours.entries} - {*bert.options, *bert.uses, *bert.entries}
    asked_for = {name for name, entry in ours.entries.items() if entry.definition.kind == "objective"}
    assert added
    assert not (added - asked_for) & ({*encoder.options, *encoder.uses, *encoder.entries} - {*encoder.imported})
    load_module("sbert", ("bert", spec))
