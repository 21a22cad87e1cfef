"""The packed layout: what is its own beside test_module.py, where most tests run over both layouts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import transformula
from tests.backends.test_load import batch, expected, saved
from tests.backends.torch.test_module import model, program, results, tensors
from tests.compiler import zoo
from tests.compiler.spec_tools import Array, rng
from transformula import TransformulaError
from transformula.backends.program import compile
from transformula.backends.torch.packing import Packing

PADDED = {
    "shaw": "a value has two lengths of one example outside attention",
    "deberta": "a value has two lengths of one example outside attention",
    "maps": "a value has two lengths of one example outside attention",
    "gemma2": "a value has two lengths of one example outside attention",
    "shift": "a pick along a length by numbers of tokens",
    "scan": "a loop over a length",
    "meanings": "a pick by numbers that differ along other axes",
    "runs": "a pick by numbers that differ along other axes",
    **dict.fromkeys(zoo.TWO, "the inputs have no length, or several"),
    "no_length": "the inputs have no length, or several",
    "similarities": "the inputs have no length, or several",
    "gpt2_crossed": "the inputs have no length, or several",
    "bert_crossed": "the inputs have no length, or several",
}
"""Models of the zoo that rows cannot express, with the reason that the ledger tells."""


def gradients(module: nn.Module, given: dict[str, Array]) -> dict[str, Array]:
    torch.autograd.backward([v.square().sum() for v in module(**tensors(given)).values() if v.requires_grad])
    return {n: p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}


def mixed(lengths: list[int], seed: int = 0) -> dict[str, Array]:
    """A batch of examples of these lengths, padded right and left by turns."""
    mask = np.zeros((len(lengths), max(lengths)), int)
    for row, length in enumerate(lengths):
        mask[row, : length or None] = length > 0
        mask[row] = mask[row, :: 1 - 2 * (row % 2)]
    return {"input_ids": rng(seed).integers(0, 20, mask.shape), "attention_mask": mask}


@pytest.mark.parametrize("name", zoo.NAMES)
def test_a_model_is_packed_or_the_ledger_says_why_not(name: str) -> None:
    made = program(name, "packed")
    assert ("Packing(" in made.source) == (name not in PADDED)
    told = [line.reason for line in made.ledger.lines if line.rule == "packed"]
    assert told == [PADDED.get(name, "")]
    assert "np." not in made.source


@pytest.mark.parametrize("name", ["bert", "sbert", "gpt", "alibi", "rope", "pools", "shares", "attention_pool"])
def test_parts_are_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows are computed at a time, and in whatever order examples come."""
    given = mixed([3, 7, 7, 0, 1, 9, 3, 2, 9, 9, 1, 4])
    wanted = zoo.reference_results(program(name).compiled.formula, given)
    module = model(name, layout="packed")
    for rows in (1, 8, 20, 10**6):
        monkeypatch.setitem(module.forward.__globals__, "ROWS", rows)
        assert zoo.difference(results(module, given), wanted) < 1e-11


@pytest.mark.parametrize("masked", [True, False])
def test_a_full_batch_is_gathered_nowhere(masked: bool) -> None:
    ids = torch.arange(12).reshape(3, 4)
    packing = Packing(ids, torch.ones_like(ids) if masked else None)
    assert packing.where is None
    assert packing.rows(ids).data_ptr() == packing.padded([packing.rows(ids)]).data_ptr() == ids.data_ptr()
    assert packing.each(ids) is packing.batched([ids]) is ids
    (part,) = packing.parts()
    assert part.runs == [(0, 3, 4)]
    assert part.hidden is None


def test_parts_have_whole_examples_longest_first() -> None:
    mask = torch.arange(400) < torch.tensor([400, 3, 0, 400, 399, 399, 399, 2, 3])[:, None]
    parts = Packing(mask, mask).parts()
    assert [part.runs for part in parts] == [[(0, 2, 400), (800, 1, 399)], [(0, 2, 399), (798, 2, 3), (804, 1, 2)]]
    assert [part.n for part in parts] == [1199, 806]
    assert torch.cat([part.index for part in parts])[-2:].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["bert", "sbert", "gpt", "alibi", "rope", "pools", "norms", "attention_pool"])
def test_gradients_are_those_of_the_padded_layout(name: str) -> None:
    found, wanted = (gradients(model(name, layout=layout), zoo.inputs(name)) for layout in ("packed", "padded"))
    assert list(found) == list(wanted)
    largest = max(float(np.abs(value).max()) for value in wanted.values())
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-12 * largest)


@pytest.mark.parametrize("name", ["bert", "rope", "alibi"])
def test_both_layouts_have_the_same_parameters(name: str) -> None:
    padded, packed = model(name, layout="padded"), zoo.module(program(name, "packed").source)["Model"]()
    packed = packed.double()
    packed.load_state_dict(padded.state_dict())
    assert zoo.difference(results(packed.eval(), zoo.inputs(name)), zoo.wanted(name)) < 1e-11


def test_a_change_of_the_weights_is_seen_at_once() -> None:
    packed, padded = (model("bert", layout=layout) for layout in ("packed", "padded"))
    given = zoo.inputs("bert")
    results(packed, given)
    with torch.no_grad():
        for one, other in zip(packed.parameters(), padded.parameters(), strict=True):
            one.mul_(1.5)
            other.mul_(1.5)
    assert zoo.difference(results(packed, given), results(padded, given)) < 1e-11


@pytest.mark.parametrize("given", [False, True])
def test_an_input_of_each_example_follows_it(given: bool) -> None:
    inputs = mixed([2, 5, 0, 5]) | ({"weight": rng(1).normal(size=(4, 12))} if given else {})
    wanted = zoo.reference_results(program("turned").compiled.formula, inputs)
    assert zoo.difference(results(model("turned", layout="packed"), inputs), wanted) < 1e-11


def test_load_packs_and_compile_pads(tmp_path: Path) -> None:
    folder, given = saved(tmp_path), batch()
    loaded = transformula.load(folder, backend="torch", dtype="float64")
    padded = transformula.load(folder, backend="torch", dtype="float64", layout="padded")
    assert (loaded.program.layout, padded.program.layout) == ("packed", "padded")
    assert hasattr(loaded.module, "rows")
    assert not hasattr(padded.module, "rows")
    assert "Packing(" not in compile("bert", "torch").source
    wanted = expected(folder, "BertModel", given)["last_hidden_state"]
    for one in (loaded, padded):
        np.testing.assert_allclose(one(**given)["last_hidden_state"].numpy(), wanted, rtol=0, atol=1e-10)


def test_the_file_needs_torch_alone(tmp_path: Path) -> None:
    made = compile("sbert", "torch", entry="SentenceBert", settings=zoo.BERT, layout="packed")
    path = made.save(tmp_path / "sbert.py")
    script = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); import sbert; "
        "out = sbert.Model()(torch.tensor([[1, 2, 3]])); "
        "print(tuple(out['sentence_embedding'].shape), 'transformula' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path.parent)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1, 12) False"


@pytest.mark.parametrize(("backend", "layout"), [("numpy", "packed"), ("torch", "paked")])
def test_a_layout_that_is_not_there_is_told(backend: str, layout: str) -> None:
    with pytest.raises(TransformulaError, match=f"{backend} has no layout `{layout}`"):
        compile("bert", backend, layout=layout)
