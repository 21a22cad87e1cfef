"""specs/transformer.formula against torch.nn.Transformer with the same weights."""

import json
import math
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import transformula
from tests.specs.peers import Array
from tests.specs.seq2seq import SOURCE, TARGET, places
from transformula import TransformulaError

SHAPES: list[dict[str, Any]] = [
    {},
    {"final_norm": False},
    {"bias": False},
    {"final_norm": False, "bias": False},
    {"d_model": 5, "nhead": 1, "num_encoder_layers": 1, "num_decoder_layers": 3},
    {"d_model": 14, "nhead": 7, "dim_feedforward": 1, "num_encoder_layers": 3, "num_decoder_layers": 1},
    {"layer_norm_eps": 0.5},
    {"d_model": 7, "nhead": 7, "dim_feedforward": 33, "layer_norm_eps": 1e-30},
]
BACKENDS = [("reference", "float64"), *((one, dtype) for one in ("numpy", "torch") for dtype in ("float64", "float32"))]
MASKS = {"attention_mask": SOURCE, "decoder_attention_mask": TARGET}
VOCAB = 17


class Text(torch.nn.Module):
    """Embeddings times √d and sinusoids, in a loop over entries as the paper prints them, the blocks, and logits."""

    def __init__(self, width: int, transformer: torch.nn.Transformer) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCAB, width)
        self.transformer = transformer

    def embedded(self, ids: torch.Tensor) -> torch.Tensor:
        width = self.embedding.embedding_dim
        table = torch.zeros(ids.shape[1], width, dtype=torch.float64)
        for position in range(ids.shape[1]):
            for place in range(width):
                angle = position / 10000 ** (2 * (place // 2) / width)
                table[position, place] = math.sin(angle) if place % 2 == 0 else math.cos(angle)
        made: torch.Tensor = self.embedding(ids) * math.sqrt(width) + table.to(self.embedding.weight.dtype)
        return made

    def forward(self, source: torch.Tensor, target: torch.Tensor, hidden: Any, gone: Any) -> torch.Tensor:
        states = blocks(self.transformer, self.embedded(source), self.embedded(target), hidden, gone)
        return states @ self.embedding.weight.T


def blocks(made: Any, source: torch.Tensor, target: torch.Tensor, hidden: Any, gone: Any) -> torch.Tensor:
    """PyTorch's forward pass, causal in the target, with hidden places of both."""
    see = torch.triu(torch.ones(target.shape[1], target.shape[1], dtype=torch.bool), diagonal=1)
    found: torch.Tensor = made(
        source,
        target,
        tgt_mask=see,
        src_key_padding_mask=hidden,
        tgt_key_padding_mask=gone,
        memory_key_padding_mask=hidden,
    )
    return found


def network(whole: bool, **shape: Any) -> tuple[Any, dict[str, Any]]:
    """PyTorch's blocks, alone or between embeddings and logits, in which no weight is zero or one; and their config."""
    sizes: dict[str, Any] = {"d_model": 12, "nhead": 3, "dim_feedforward": 20, "num_encoder_layers": 2, "bias": True}
    sizes |= {"num_decoder_layers": 2, "final_norm": True, **shape}
    torch.manual_seed(0)
    options = {name: value for name, value in sizes.items() if name != "final_norm"}
    with warnings.catch_warnings(action="ignore"):  # of nested tensors, which an odd number of heads cannot have
        made: Any = torch.nn.Transformer(batch_first=True, **options)
    if not sizes["final_norm"]:
        made.encoder.norm = made.decoder.norm = None
    made = Text(sizes["d_model"], made) if whole else made
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    config = {**sizes, "attention_bias": sizes["bias"], "vocab_size": VOCAB, "decoder_start_token_id": 2}
    return made.eval().double(), config


def saved(folder: Path, made: torch.nn.Module, config: dict[str, Any]) -> Path:
    save_file({name: value.clone() for name, value in made.state_dict().items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def load(folder: Path, entry: str, backend: str, dtype: str = "float64", validate: bool = True) -> Any:
    return transformula.load(folder, backend, dtype, entry, spec="transformer", validate=validate)


def agree(folder: Path, entry: str, given: dict[str, Array], name: str, wanted: Array) -> None:
    """Each backend, in both precisions, at each real token."""
    real = TARGET != 0
    for backend, dtype in BACKENDS:
        model = load(folder, entry, backend, dtype, dtype == "float64")
        assert model.unused_config_keys == []
        found = np.asarray(model(**given, **MASKS)[name])
        bound = 1e-10 if dtype == "float64" else 1e-5 * float(np.abs(wanted).max())
        np.testing.assert_allclose(found[real], wanted[real], rtol=0, atol=bound, err_msg=f"{backend}, {dtype}")
        if backend == "numpy":
            made = types.ModuleType("made")
            exec(compile(model.program.source, "<made>", "exec"), made.__dict__)
            found = made.__dict__["Model"].load(folder, dtype="float64")(**given, **MASKS)[name]
            np.testing.assert_allclose(found[real], wanted[real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_blocks(tmp_path: Path, shape: dict[str, Any]) -> None:
    """A whole batch, padded on either side, with holes: the blocks know no positions."""
    made, config = network(False, **shape)
    draw, width = np.random.default_rng(0), config["d_model"]
    source, target = draw.normal(size=(*SOURCE.shape, width)), draw.normal(size=(*TARGET.shape, width))
    hidden = [torch.from_numpy(mask == 0) for mask in (SOURCE, TARGET)]
    with torch.inference_mode():
        wanted = blocks(made, torch.from_numpy(source), torch.from_numpy(target), *hidden).numpy()
    agree(saved(tmp_path, made, config), "Stacks", {"src": source, "tgt": target}, "last_hidden_state", wanted)


@pytest.mark.parametrize("shape", SHAPES[:2] + SHAPES[4:5], ids=str)
def test_a_text(tmp_path: Path, shape: dict[str, Any]) -> None:
    """Each example of a padded batch gives what it gives alone: positions begin at its first token."""
    made, config = network(True, **shape)
    draw = np.random.default_rng(0)
    source, target = draw.integers(0, VOCAB, SOURCE.shape), draw.integers(0, VOCAB, TARGET.shape)
    wanted = np.zeros((*TARGET.shape, VOCAB))
    for row in range(len(SOURCE)):
        here, there = places(MASKS, row).values()
        hidden = torch.from_numpy(SOURCE[row : row + 1, here] == 0)
        gone = torch.from_numpy(TARGET[row : row + 1, there] == 0)
        ids = torch.from_numpy(source[row : row + 1, here]), torch.from_numpy(target[row : row + 1, there])
        with torch.inference_mode():
            wanted[row, there] = made(*ids, hidden, gone)[0].numpy()
    given = {"input_ids": source, "decoder_input_ids": target}
    agree(saved(tmp_path, made, config), "Transformer", given, "logits", wanted)


def test_translation_is_learnt(tmp_path: Path) -> None:
    """The target is read one place later behind its start; the loss and its gradient are PyTorch's."""
    made, config = network(True)
    draw = np.random.default_rng(1)
    source, labels = draw.integers(0, VOCAB, (2, 4)), draw.integers(0, VOCAB, (2, 3))
    labels[1, 2] = -100
    target = np.concatenate([[[2], [2]], np.where(labels == -100, 0, labels)[:, :-1]], axis=1)
    logits = made(torch.from_numpy(source), torch.from_numpy(target), None, None)
    wanted: Any = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.from_numpy(labels).flatten())
    wanted.backward()
    folder = saved(tmp_path, made, config)
    for backend in ("reference", "numpy", "torch"):
        model = load(folder, "Transformer", backend)
        assert abs(float(model(input_ids=source, labels=labels)["loss"]) - float(wanted.detach())) < 1e-12
    model.module(input_ids=torch.from_numpy(source), labels=torch.from_numpy(labels))["loss"].backward()
    torch.testing.assert_close(model.module.E.grad, made.embedding.weight.grad, rtol=0, atol=1e-10)
    (folder / "config.json").write_text(json.dumps({**config, "decoder_start_token_id": None}))
    with pytest.raises(TransformulaError, match="made of labels, and config has no decoder_start_token_id"):
        load(folder, "Transformer", "numpy")(input_ids=source, labels=labels)


def test_weights_go_back(tmp_path: Path) -> None:
    """The fused projections of PyTorch are taken apart and put together again."""
    made, config = network(True)
    model = load(saved(tmp_path, made, config), "Transformer", "torch")
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(2)
    new = load_file(model.save_pretrained(tmp_path / "after") / "model.safetensors")
    old = made.state_dict()
    assert new.keys() == old.keys()
    assert all(torch.equal(new[name], 2 * old[name]) for name in old)


def test_by_its_defaults_it_is_the_papers_base_model() -> None:
    """No bias in the projections, no norm behind the stacks, one table: 6 + 6 layers."""
    d, ffn = 512, 2048
    feed = 2 * d * ffn + ffn + d
    layers = 6 * (4 * d * d + feed + 4 * d) + 6 * (8 * d * d + feed + 6 * d)
    assert f"{37000 * d + layers:,} parameters" in transformula.compile("transformer").source
