"""Tiny encoder-decoders of the library, and a comparison of all that a shipped spec makes of their folders."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.specs.peers import Array, found_by_all
from tests.specs.peers import network as network

SOURCE = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 1, 1, 1],
        [1, 0, 1, 1, 0, 1, 1],
        [0, 0, 0, 0, 0, 1, 0],
        [1, 1, 0, 0, 0, 0, 0],
    ]
)
TARGET = np.array(
    [
        [0, 1, 1, 1, 0],
        [1, 1, 1, 1, 1],
        [0, 0, 0, 1, 1],
        [1, 1, 0, 1, 0],
        [1, 1, 1, 1, 0],
        [0, 0, 1, 0, 0],
    ]
)
"""Whole, padded on the right, on the left, with holes, and a single token: each with another one beside it."""


def saved(folder: Path, kind: str, config: Any) -> Path:
    """A folder of a network in which no number is zero or one, the biases that are no parameters included."""
    made = network(kind, config, keep="embed_positions" if kind.startswith("Marian") else "")
    with torch.no_grad():
        for name, value in made.named_buffers():
            if name == "final_logits_bias":
                value.add_(torch.randn_like(value))
    made.save_pretrained(folder)
    return folder


def change(folder: Path, **tensors: Any) -> None:
    """Other tensors in the file; None takes one away."""
    path = folder / "model.safetensors"
    kept = {name: value for name, value in {**load_file(path), **tensors}.items() if value is not None}
    save_file(kept, path, metadata={"format": "pt"})


def pairs(vocab: int, low: int = 0, seed: int = 0) -> dict[str, Array]:
    """Ids and masks of sources and targets."""
    draw = np.random.default_rng(seed)
    return {
        "input_ids": draw.integers(low, vocab, SOURCE.shape),
        "attention_mask": SOURCE,
        "decoder_input_ids": draw.integers(low, vocab, TARGET.shape),
        "decoder_attention_mask": TARGET,
    }


def places(given: dict[str, Array], row: int) -> dict[str, slice]:
    """For each mask where an example stands in its row."""
    found: dict[str, slice] = {}
    for mask in ("attention_mask", "decoder_attention_mask"):
        if mask in given:
            real = np.flatnonzero(given[mask][row])
            found[mask] = slice(real[0], real[-1] + 1)
    return found


def mask_of(name: str) -> str:
    """The mask that an input or a result stands under."""
    source = ("input_ids", "inputs_embeds", "attention_mask", "encoder_last_hidden_state")
    return "attention_mask" if name in source else "decoder_attention_mask"


def alone(model: Any, given: dict[str, Array], row: int) -> dict[str, Array]:
    """The library's results for one example by itself."""
    place = places(given, row)
    example = {}
    for name, value in given.items():
        own = np.array(value)[row : row + 1]
        example[name] = torch.from_numpy(own[:, place.get(mask_of(name), slice(None))] if own.ndim > 1 else own)
    with torch.inference_mode():
        made = model(**example)
    return {name: one.numpy()[0] for name, one in made.items() if isinstance(one, torch.Tensor)}


def library(folder: Path, kind: str, attention: str = "eager") -> Any:
    """The library's model in float64."""
    made = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float64, attn_implementation=attention)
    return made.eval()


def agree(folder: Path, kind: str, given: dict[str, Array], tolerance: float = 1e-10) -> None:
    """Every result, of the formulas and of the generated modules, in both precisions, at each real token."""
    model = library(folder, kind)
    wanted = [alone(model, given, row) for row in range(len(given["input_ids"]))]
    largest = {name: max(np.abs(one[name]).max() for one in wanted) for name in wanted[0]}
    for told, dtype, found in found_by_all(folder, given, ("padded",)):  # two lengths have no packed rows
        assert set(found) == set(largest)
        for name, value in found.items():
            bound = tolerance if dtype == "float64" else 1e-4 * largest[name]
            mask = mask_of(name) if kind != "T5EncoderModel" else "attention_mask"
            for row, results in enumerate(wanted):
                ours, theirs = value[row], results[name]
                if ours.ndim == 2:
                    place = places(given, row)[mask]
                    real = given[mask][row, place] != 0
                    ours, theirs = ours[place][real], theirs[real]
                what = f"{name} of example {row}, {told}, {dtype}"
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound, err_msg=what)
