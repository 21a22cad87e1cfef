"""specs/transformer_encoder.formula against torch.nn.TransformerEncoder with the same weights."""

import json
import math
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import transformula
from tests.specs.peers import MASK, Array

SHAPES: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"d_model": 5, "nhead": 1, "num_layers": 1},
    {"d_model": 14, "nhead": 7, "dim_feedforward": 1, "num_layers": 3},
    {"layer_norm_eps": 0.5},
]
BACKENDS = [("reference", "float64"), *((one, dtype) for one in ("numpy", "torch") for dtype in ("float64", "float32"))]


class Text(torch.nn.Module):
    """Embeddings times √d and sinusoids, in a loop over entries as the paper prints them, then the encoder."""

    def __init__(self, vocab: int, width: int, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(vocab, width)
        self.encoder = encoder

    def forward(self, ids: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        width = self.embedding.embedding_dim
        table = torch.zeros(ids.shape[1], width, dtype=torch.float64)
        for position in range(ids.shape[1]):
            for place in range(width):
                angle = position / 10000 ** (2 * (place // 2) / width)
                table[position, place] = math.sin(angle) if place % 2 == 0 else math.cos(angle)
        made: torch.Tensor = self.encoder(
            self.embedding(ids) * math.sqrt(width) + table.to(self.embedding.weight.dtype), src_key_padding_mask=hidden
        )
        return made


def network(whole: bool, **shape: Any) -> tuple[torch.nn.Module, dict[str, Any]]:
    """PyTorch's encoder, alone or behind its embeddings, in which no weight is zero or one; and its config."""
    sizes: dict[str, Any] = {"d_model": 12, "nhead": 3, "dim_feedforward": 20, "num_layers": 2, "bias": True, **shape}
    options = {name: value for name, value in sizes.items() if name != "num_layers"}
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(activation="relu", norm_first=False, batch_first=True, **options)
    made: torch.nn.Module = torch.nn.TransformerEncoder(layer, sizes["num_layers"], enable_nested_tensor=False)
    made = Text(17, sizes["d_model"], made) if whole else made
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made.eval(), {**sizes, "vocab_size": 17, "attention_bias": sizes["bias"]}


def saved(folder: Path, made: torch.nn.Module, config: dict[str, Any]) -> Path:
    save_file(made.state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def agree(folder: Path, entry: str, given: dict[str, Array], wanted: Array) -> None:
    """Each backend, in both precisions, at each real token."""
    real = MASK != 0
    for backend, dtype in BACKENDS:
        model = transformula.load(folder, spec="transformer_encoder", entry=entry, backend=backend, dtype=dtype)
        assert model.unused_config_keys == []
        found = np.asarray(model(**given, attention_mask=MASK)["last_hidden_state"])
        bound = 1e-10 if dtype == "float64" else 1e-5 * float(np.abs(wanted).max())
        np.testing.assert_allclose(found[real], wanted[real], rtol=0, atol=bound, err_msg=f"{backend}, {dtype}")
    made = types.ModuleType("made")
    source = transformula.load(folder, spec="transformer_encoder", entry=entry).program.source
    exec(compile(source, "<made>", "exec"), made.__dict__)
    found = made.__dict__["Model"].load(folder, dtype="float64")(**given, attention_mask=MASK)["last_hidden_state"]
    np.testing.assert_allclose(found[real], wanted[real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_blocks(tmp_path: Path, shape: dict[str, Any]) -> None:
    """A whole batch, padded on either side, with holes: the blocks know no positions."""
    made, config = network(False, **shape)
    folder = saved(tmp_path, made, config)
    x = np.random.default_rng(0).normal(size=(*MASK.shape, config["d_model"]))
    with torch.inference_mode():
        wanted = made.double()(torch.from_numpy(x), src_key_padding_mask=torch.from_numpy(MASK == 0)).numpy()
    agree(folder, "Encoder", {"src": x}, wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_text(tmp_path: Path, shape: dict[str, Any]) -> None:
    """Each example of a padded batch gives what it gives alone: positions begin at its first token."""
    made, config = network(True, **shape)
    folder = saved(tmp_path, made, config)
    ids = np.random.default_rng(0).integers(0, 17, MASK.shape)
    wanted = np.zeros((*MASK.shape, config["d_model"]))
    made = made.double()
    for row, mask in enumerate(MASK):
        real = np.flatnonzero(mask)
        place = slice(real[0], real[-1] + 1)
        hidden = torch.from_numpy(mask[None, place] == 0)
        with torch.inference_mode():
            wanted[row, place] = made(torch.from_numpy(ids[row : row + 1, place]), hidden)[0].numpy()
    agree(folder, "Transformer", {"input_ids": ids}, wanted)


def test_weights_go_back(tmp_path: Path) -> None:
    """The fused projection of PyTorch is taken apart and put together again."""
    made, config = network(True)
    folder = saved(tmp_path, made, config)
    model = transformula.load(folder, spec="transformer_encoder", entry="Transformer", backend="torch")
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(2)
    new = load_file(model.save_pretrained(tmp_path / "after") / "model.safetensors")
    old = made.state_dict()
    assert new.keys() == old.keys()
    assert all(torch.equal(new[name], 2 * old[name]) for name in old)


def test_by_its_defaults_it_is_the_papers_base_model() -> None:
    """No bias in the projections; 6 layers of 4 d² + 2 d ffn, the biases of the feed-forward, the gains and shifts."""
    d, ffn = 512, 2048
    layer = 4 * d * d + 2 * d * ffn + ffn + d + 4 * d
    source = transformula.compile("transformer_encoder").source
    assert f"{37000 * d + 6 * layer:,} parameters" in source
