"""Rotary positions of every rope_type against the library: its formulas, its keys old and new, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformula
from tests.specs.peers import agree, batch, change_config, saved

pytestmark = pytest.mark.usefixtures("no_islands")
TINY = {
    "vocab_size": 31,
    "hidden_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "intermediate_size": 5,
    "head_dim": 16,
    "max_position_embeddings": 6,
}
SHORT, LONG = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 8.0], [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
FACTORS = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}
SCALES = {"mscale": 0.7, "mscale_all_dim": 1.2, "beta_fast": 3, "beta_slow": 2}
BANDS = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 20}
KINDS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 2.5},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "yarn, scales": {"rope_type": "yarn", "factor": 4.0, **SCALES},
    "yarn, exact": {"rope_type": "yarn", "factor": 4.0, "truncate": False, "original_max_position_embeddings": 99},
    "yarn, grown": {"rope_type": "yarn", "factor": 0.5, "attention_factor": 1.7},
    "yarn, by length": {"rope_type": "yarn", "factor": None, "original_max_position_embeddings": 2},
    "longrope": {**FACTORS, "original_max_position_embeddings": 5},
    "longrope, stretched": {**FACTORS, "factor": 8.0, "original_max_position_embeddings": 4},
    "longrope, grown": {**FACTORS, "attention_factor": 0.5, "original_max_position_embeddings": 6},
    "llama3": {"rope_type": "llama3", "factor": 8.0, **BANDS},
}
"""dynamic: the library keeps a grown base until a text is shorter than the table of positions, which the texts of
`batch` are in turn."""


def config(**more: Any) -> Any:
    return transformers.LlamaConfig(**{**TINY, **more})


@pytest.mark.parametrize("name", KINDS)
def test_kinds(tmp_path: Path, name: str) -> None:
    rotation = {"rope_theta": 50.0, **KINDS[name]}
    agree(saved(tmp_path, "LlamaModel", config(rope_parameters=rotation)), "LlamaModel", batch(31))


OLDER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"rope_theta": 7.5}, {"rope_type": "default", "rope_theta": 7.5}),
    (
        {"rope_theta": 7.5, "rope_scaling": {"type": "linear", "factor": 3.0}},
        {"rope_type": "linear", "rope_theta": 7.5, "factor": 3.0},
    ),
    (
        {"rope_scaling": {"rope_type": "dynamic", "type": "linear", "factor": 3.0}},
        {"rope_type": "dynamic", "factor": 3.0},
    ),
    (
        {"rope_theta": 7.5, "rope_scaling": {"type": "yarn", "factor": 3.0, "rope_theta": 9.0}},
        {"rope_type": "yarn", "factor": 3.0, "rope_theta": 9.0},
    ),
    ({"rope_scaling": None, "rope_theta": None}, {"rope_type": "default"}),
]


@pytest.mark.parametrize(("older", "newer"), OLDER, ids=str)
def test_older_keys_mean_the_same(tmp_path: Path, older: dict[str, Any], newer: dict[str, Any]) -> None:
    """rope_scaling and rope_theta at the top of config.json, `type` for rope_type."""
    folder = saved(tmp_path, "LlamaModel", config())
    given, found = batch(31), []
    for keys in ({"rope_parameters": None, **older}, {"rope_parameters": newer, **dict.fromkeys(older)}):
        change_config(folder, **keys)
        model = transformula.load(folder, backend="reference")
        assert model.unused_config_keys == (["rope_theta"] if keys.get("rope_theta") and "yarn" in str(keys) else [])
        found.append(model(**given)["last_hidden_state"])
    np.testing.assert_array_equal(*found)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"rope_type": "spiral"}, 'rope_parameters.rope_type = "spiral" is not a known rotation'),
    ({"rope_teta": 5}, r"rope_parameters.rope_teta = 5 is not supported[\s\S]*Did you mean rope_theta"),
    ({"partial_rotary_factor": 0.5}, "rope_parameters.partial_rotary_factor = 0.5 is not supported"),
    ({"full_attention": {"rope_type": "default"}}, "rope_parameters.full_attention = .* is not supported"),
    ({"rope_type": "linear"}, r"factor is required here[\s\S]*Give `rope_parameters.factor` in config.json a value"),
    ({"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0}, "high is required here"),
    ({"rope_type": "longrope", "short_factor": [1.0] * 8}, "long is required here"),
    ({"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.0] * 4}, "has 4 values, but half is 8"),
]


@pytest.mark.parametrize(("rotation", "told"), REFUSED, ids=str)
def test_unknown_kinds_and_options_are_refused_by_name(tmp_path: Path, rotation: dict[str, Any], told: str) -> None:
    folder = saved(tmp_path, "LlamaModel", config())
    change_config(folder, rope_parameters=rotation)
    with pytest.raises(transformula.TransformulaError, match=told):
        transformula.load(folder, backend="reference")


def test_the_message_has_the_name_that_the_file_has(tmp_path: Path) -> None:
    folder = saved(tmp_path, "LlamaModel", config())
    change_config(folder, rope_scaling={"type": "spiral"})
    with pytest.raises(transformula.TransformulaError, match=r'rope_scaling\.type = "spiral"'):
        transformula.load(folder, backend="reference")


@pytest.mark.parametrize("name", ["linear", "dynamic", "longrope, stretched", "llama3"])
def test_given_positions_beyond_the_table(tmp_path: Path, name: str) -> None:
    """position_ids, not the length of the text, decide how far it reaches."""
    folder = saved(tmp_path, "LlamaModel", config(rope_parameters={"rope_theta": 50.0, **KINDS[name]}))
    ids, places = np.arange(4)[None], np.array([[3, 4, 11, 12]])
    peer = transformers.LlamaModel.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    with torch.inference_mode():
        mask = torch.ones(1, 4, dtype=torch.long)  # without one the library takes a break for another text
        given = {"input_ids": torch.from_numpy(ids), "position_ids": torch.from_numpy(places), "attention_mask": mask}
        wanted = peer(**given).last_hidden_state.numpy()
    for backend in ("reference", "numpy", "torch"):
        model = transformula.load(folder, backend=backend, dtype="float64")
        found = np.asarray(model(input_ids=ids, position_ids=places)["last_hidden_state"])
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10, err_msg=backend)
