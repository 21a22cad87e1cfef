"""specs/deberta_v2.formula against the library's DeBERTa v2, which v3 is, too."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import transformula
from tests.compiler.spec_tools import lowered
from tests.specs.peers import agree, batch, network, saved
from transformula.compiler import reference

pytestmark = pytest.mark.usefixtures("no_islands")

TINY = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 9,
}
HUB = {"relative_attention": True, "pos_att_type": "p2c|c2p", "position_biased_input": False}
V2 = {**HUB, "share_att_key": True, "position_buckets": 4, "norm_rel_ebd": "layer_norm"}
"""What the authors' files say, and what a config of the library leaves out."""


def v2(**more: Any) -> Any:
    return transformers.DebertaV2Config(**{**TINY, **more})


def given(config: Any) -> dict[str, Any]:
    return batch(config.vocab_size, config.type_vocab_size)


MODELS: dict[str, dict[str, Any]] = {
    "DebertaV2Model": {},
    "DebertaV2ForMaskedLM": {"hidden_act": "relu", "embedding_size": 5},
    "DebertaV2ForSequenceClassification": {"num_labels": 5, "pooler_hidden_act": "tanh", "pooler_dropout": 0.5},
    "DebertaV2ForTokenClassification": {"num_labels": 1},
    "DebertaV2ForQuestionAnswering": {},
}
UNUSUAL: list[dict[str, Any]] = [
    {},
    {"pos_att_type": ["c2p"], "relative_attention": True},
    {"pos_att_type": ["p2c"], "relative_attention": True, "max_relative_positions": 3},
    {"pos_att_type": ["p2c", "c2p"], "relative_attention": True, "position_buckets": 2},
    {"pos_att_type": [], "relative_attention": True},
    {"pos_att_type": "c2p|p2c", "relative_attention": False},
    {**V2, "pos_att_type": "c2p", "type_vocab_size": 2, "position_biased_input": True},
    {**V2, "norm_rel_ebd": "none", "max_relative_positions": 6, "position_buckets": 7},
    {**V2, "position_buckets": -1, "max_relative_positions": 4},
    {**V2, "embedding_size": 5, "type_vocab_size": 3, "num_attention_heads": 1},
    {**V2, "num_hidden_layers": 1, "conv_kernel_size": 3, "conv_act": "gelu"},
    {**V2, "num_hidden_layers": 3, "conv_kernel_size": 5, "conv_groups": 4},
    {**V2, "conv_kernel_size": 1, "embedding_size": 30, "layer_norm_eps": 0.5},
    {**V2, "hidden_size": 7, "num_attention_heads": 7, "hidden_act": "silu", "max_position_embeddings": 7},
]


@pytest.mark.parametrize("kind", MODELS)
def test_version_2(tmp_path: Path, kind: str) -> None:
    made = v2(**{**V2, **MODELS[kind]})
    agree(saved(tmp_path, kind, made), kind, given(made))


@pytest.mark.parametrize("more", UNUSUAL, ids=str)
def test_unusual_version_2(tmp_path: Path, more: dict[str, Any]) -> None:
    made = v2(**more)
    agree(saved(tmp_path, "DebertaV2Model", made), "DebertaV2Model", given(made))


def test_mask_head_of_the_authors(tmp_path: Path) -> None:
    made = v2(**V2, legacy=False)
    agree(saved(tmp_path, "DebertaV2ForMaskedLM", made), "DebertaV2ForMaskedLM", given(made))


PAGE = """
spec page extends deberta_v2
model Scores(Q[seq, dk], K[seq, dk], Q_r[rel, dk], K_r[rel, dk]) → out[seq, key] = Q @[dk] k + c_p + p_c
    where k   = K[seq → key]
          at  = δ(index(seq), index(key))
          c_p = (Q @[dk] K_r)[rel = at]
          p_c = (k @[dk] Q_r)[rel = at]
"""


def test_rows_of_the_page() -> None:
    """BL-23: both terms read row δ(i, j); the paper's third term would read δ(j, i)."""
    column = [np.array(one, float)[:, None] for one in ([1, 2, 3], [1, 1, 2], [1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4])]
    inputs = dict(zip(("Q", "K", "Q_r", "K_r"), (one[None] for one in column), strict=True))
    graph = lowered(PAGE, "Scores", d=1, head=1, farthest=2)
    found = reference.run(graph, {}, inputs)["out"]
    np.testing.assert_allclose(found[0], [[4.3, 3.2, 4.1], [6.8, 5.6, 8.4], [8.2, 8.2, 12.9]], rtol=0, atol=1e-12)


def of_the_authors(folder: Path) -> Any:
    """A folder as the authors publish it: heads by their names, places that only the mask decoder reads."""
    model = network("DebertaV2ForMaskedLM", v2(**V2, legacy=False))
    model.save_pretrained(folder)
    stored = load_file(folder / "model.safetensors")
    stored["deberta.embeddings.position_embeddings.weight"] = torch.randn(9, 12)
    for name, value in list(stored.items()):
        if name.startswith("lm_predictions.lm_head.LayerNorm"):
            stored[name.replace("lm_predictions.lm_head", "mask_predictions")] = value.clone()
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    path = folder / "config.json"
    kept = {key: value for key, value in json.loads(path.read_text()).items() if key not in ("legacy", "architectures")}
    path.write_text(json.dumps(kept))
    return model.double(), stored["deberta.embeddings.position_embeddings.weight"].double()


def test_files_of_the_authors(tmp_path: Path) -> None:
    model, _ = of_the_authors(tmp_path)
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, 31, (2, 7)))
    base = transformula.load(tmp_path, backend="reference")
    assert base.unused_config_keys == []
    wanted = model.deberta(ids).last_hidden_state.detach().numpy()
    np.testing.assert_allclose(base(ids.numpy())["last_hidden_state"], wanted, rtol=0, atol=1e-10)
    found = transformula.load(tmp_path, backend="reference", entry="BertForMaskedLM")(ids.numpy())["logits"]
    np.testing.assert_allclose(found, model(ids).logits.detach().numpy(), rtol=0, atol=1e-10)


def test_enhanced_mask_decoder(tmp_path: Path) -> None:
    """The last layer twice over the states before it, with absolute places in the first queries."""
    model, places = of_the_authors(tmp_path)
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, 31, (2, 7)))
    encoder = model.deberta.encoder
    before = model.deberta(ids, output_hidden_states=True).hidden_states[-2]
    query = before + places[:7]
    for _ in range(2):
        query, _ = encoder.layer[-1](
            before,
            encoder.get_attention_mask(torch.ones(2, 7)),
            query_states=query,
            relative_pos=encoder.get_rel_pos(before),
            rel_embeddings=encoder.get_rel_embedding(),
        )
    wanted = model.lm_predictions(query, model.deberta.embeddings.word_embeddings).detach().numpy()
    for backend in ("reference", "numpy"):
        made = transformula.load(tmp_path, backend=backend, dtype="float64", entry="EnhancedMaskedLM")
        np.testing.assert_allclose(made(ids.numpy())["logits"], wanted, rtol=0, atol=1e-10)


def test_segments_that_have_no_table_are_let_be(tmp_path: Path) -> None:
    folder = saved(tmp_path, "DebertaV2Model", v2(**V2))
    model = transformula.load(folder)
    ids = np.arange(5)[None]
    found = model(input_ids=ids, token_type_ids=ids * 0)["last_hidden_state"]
    np.testing.assert_array_equal(found, model(input_ids=ids)["last_hidden_state"])


def test_buckets_of_far_keys(tmp_path: Path) -> None:
    """Logarithmic buckets beyond the largest distance, in float64, from the library's float32 logarithms."""
    made = v2(**{**V2, "position_buckets": 32, "max_relative_positions": 64, "num_attention_heads": 1})
    folder = saved(tmp_path, "DebertaV2Model", made)
    ids = np.random.default_rng(0).integers(0, 31, (1, 150))
    made.max_position_embeddings = 150
    made.save_pretrained(folder)
    model = transformers.DebertaV2Model.from_pretrained(folder, dtype=torch.float64)
    wanted = model(torch.from_numpy(ids)).last_hidden_state.detach().numpy()
    found = transformula.load(folder, dtype="float64")(ids)["last_hidden_state"]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)
