"""specs/electra.formula against the library's ELECTRA, and its joint objective against the library's two losses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import transformula
from tests.specs.configs import TINY, labels, unusual
from tests.specs.peers import LENGTH, Array, agree, batch, names_match, network, saved
from transformula.backends.checkpoint_table import checkpoint_table
from transformula.backends.numpy.weights import assemble
from transformula.compiler import lower, reference
from transformula.compiler.checkpoint import checkpoint_rows
from transformula.compiler.config import Config
from transformula.compiler.driver import compile_graph, load_module

HEADS = (
    "ElectraModel",
    "ElectraForPreTraining",
    "ElectraForMaskedLM",
    "ElectraForSequenceClassification",
    "ElectraForTokenClassification",
    "ElectraForQuestionAnswering",
)
NARROW = {**TINY, "embedding_size": 5}


def folder_of(path: Path, kind: str, **more: Any) -> Path:
    return saved(path, kind, transformers.ElectraConfig(**{**NARROW, **more}))


@pytest.mark.parametrize("kind", HEADS)
def test_heads(tmp_path: Path, kind: str) -> None:
    """Masked head and classifier have a GELU, the detector the activation of the layers."""
    folder = folder_of(tmp_path, kind, hidden_act="relu", **labels(kind, 0))
    names_match(folder)
    agree(folder, kind, batch(31, 2))


@pytest.mark.parametrize("number", range(10))
def test_unusual(tmp_path: Path, number: int) -> None:
    kind = HEADS[number % len(HEADS)]
    config = unusual(number, LENGTH, **labels(kind, number))
    config["embedding_size"] = config["hidden_size"] if number % 3 == 0 else (1, 5, 40)[number % 3]
    agree(folder_of(tmp_path, kind, **config), kind, batch(config["vocab_size"], config["type_vocab_size"]))


def test_no_projection_where_the_widths_are_equal(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "ElectraModel", embedding_size=TINY["hidden_size"])
    names_match(folder)
    names = [one.name for one in transformula.load(folder).program.graph.weights]
    assert "embed.M" not in names
    assert "embed.b" not in names


# --- the joint objective ------------------------------------------------------------------------------------

SIZES = {**NARROW, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24}
SMALL = {**SIZES, "hidden_size": 4, "num_attention_heads": 1, "intermediate_size": 6}


def networks() -> tuple[Any, Any]:
    """A generator of a quarter of the width, and a discriminator; they share the tables of the embedding."""
    generator = network("ElectraForMaskedLM", transformers.ElectraConfig(**SMALL), 1).double()
    discriminator = network("ElectraForPreTraining", transformers.ElectraConfig(**SIZES), 2).double()
    for name in ("word_embeddings", "token_type_embeddings", "position_embeddings"):
        getattr(generator.electra.embeddings, name).weight = getattr(discriminator.electra.embeddings, name).weight
    generator.tie_weights()
    return generator, discriminator


def weights_of(entry: str, config: dict[str, Any], network: Any) -> dict[str, Array]:
    """The library's weights by the names of one model of the spec, stacked."""
    module = load_module("electra")
    settled = Config(module, config)
    graph = lower.lower_entry(lower.choose_entry(module, entry), settled)
    stored = {name: value.detach().numpy() for name, value in network.state_dict().items()}
    found = assemble(stored, checkpoint_table(checkpoint_rows(module, entry, graph, settled)))
    return {name: np.asarray(value) for name, value in found.items()}


def joint_weights(generator: Any, discriminator: Any) -> dict[str, Array]:
    small = weights_of("BertForMaskedLM", SMALL, generator)
    large = weights_of("ElectraForPreTraining", SIZES, discriminator)
    models = {"generator": small, "discriminator": large}
    return {f"{part}.{name}": value for part, own in models.items() for name, value in own.items()}


def test_joint_objective() -> None:
    """L_G + 50 L_D as trained: a mean over masked places, and one over all real tokens, with 1 for a replaced one."""
    generator, discriminator = networks()
    draw = np.random.default_rng(0)
    mask = (np.arange(LENGTH) < np.array([[7], [4], [1], [6]])).astype(int)
    original = draw.integers(0, 31, mask.shape)
    masked = (draw.random(mask.shape) < 0.5) & (mask == 1)
    graph = compile_graph("electra", SIZES, "joint", until="formula").formula
    assert not {one.name for one in graph.weights} & {f"generator.bert.embed.{table}" for table in "ESP"}
    ids = np.where(masked, 3, original)
    given = {"input_ids": ids, "labels": original, "masked": masked, "attention_mask": mask}
    found = reference.run(graph, joint_weights(generator, discriminator), given, seed=5)
    corrupted = np.where(mask == 1, found["corrupted"], 0).astype(int)
    replaced = torch.from_numpy((corrupted != original)[mask == 1]).double()
    see = torch.from_numpy(mask)
    with torch.no_grad():
        labels = torch.from_numpy(np.where(masked, original, -100))
        wanted_g = float(generator(torch.from_numpy(ids), see, labels=labels).loss)
        logits = discriminator(torch.from_numpy(corrupted), see).logits[see == 1]
        wanted_d = float(torch.nn.functional.binary_cross_entropy_with_logits(logits, replaced))
    assert abs(float(found["generator_loss"]) - wanted_g) < 1e-10
    assert abs(float(found["discriminator_loss"]) - wanted_d) < 1e-10
    assert abs(float(found["loss"]) - (wanted_g + 50 * wanted_d)) < 1e-8
    assert (corrupted == original)[(mask == 1) & ~masked].all()
    assert (corrupted != original)[masked].any()
