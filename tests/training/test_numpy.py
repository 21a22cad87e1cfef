"""Training with NumPy: gradients of objectives, steps, parts of a batch and resumption, beside PyTorch."""

from __future__ import annotations

import shutil
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tests.compiler.differentiation.slopes import evaluated
from tests.specs.objectives import class_of, gradients, random_weights, same_gradients, tensors, torch_module
from tests.training.test_trainer import PAIRS, TEXT, TINY
from transformula.backends.limits import mask_rows
from transformula.backends.numpy.fitting import Fit as NumpyFit
from transformula.backends.objectives import label_rows
from transformula.backends.optimising import AdamW
from transformula.backends.program import Program, compile
from transformula.backends.torch.fitting import Fit as TorchFit
from transformula.cli import app
from transformula.compiler import reference
from transformula.compiler.differentiation import gradient_of
from transformula.compiler.graphs import restricted
from transformula.compiler.objectives import COUNT
from transformula.training.schedule import Schedule

Array = Any
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "resid_pdrop", "embd_pdrop", "attn_pdrop")
STILL = dict.fromkeys((*RATES, "dropout_rate", "dropout"), 0.0)
SIZES = {"vocab": 20, "d": 6, "ffn": 8, "head": 2, "dk": 3, "layers": 2, "steps": 2}
BERT = {"d": 6, "ffn": 8, "head": 2, "layers": 2}
OTHERS = (
    *(("bert", name) for name in ("labelling", "all_labelling", "choosing", "tagging", "answering")),
    *(("albert", name) for name in ("sop", "mlm", "choosing")),
    *(("gpt2", name) for name in ("labelling", "tagging")),
    *(("electra", name) for name in ("causal_lm", "labelling")),
)
QUICK = (("bert", "choosing"), ("bert", "answering"), ("albert", "sop"), ("gpt2", "labelling"))


@cache
def program(spec: str, entry: str, backend: str) -> Program:
    """An objective at small sizes, without dropout; for NumPy with gradients."""
    names = compile(spec, "numpy", entry=entry, validate=False).compiled.module.options
    settings = {name: size for name, size in SIZES.items() if name in names}
    return compile(spec, backend, STILL, entry, settings, validate=False, gradients=True)


def given(made: Program, seed: int = 0, mask: Array = MASK) -> dict[str, Array]:
    """A batch of an objective: tokens, and labels of which a share does not count where that is known."""
    draw, graph = np.random.default_rng(seed), made.compiled.formula
    limits = {name: (limit, marker) for name, limit, marker in label_rows(graph)}
    groups = (len(mask) // 2, 2)
    found: dict[str, Array] = {}
    for one in graph.inputs:
        if not one.required and one.name != "decoder_input_ids":
            continue
        of_texts = graph.groups is not None and graph.groups[0] not in one.axes
        shape: list[int] = []
        for axis in one.axes:
            if isinstance(axis.size, int):
                shape.append(axis.size)
            elif axis.owner is None:
                shape += groups if of_texts else [groups[0] if graph.groups else len(mask)]
            else:
                shape.append(groups[1] if graph.groups and axis == graph.groups[1] else mask.shape[1])
        limit, marker = limits.get(one.name, (2 if one.name.startswith("label") else 20, None))
        found[one.name] = draw.random(shape) if one.kind == "real" else draw.integers(0, limit, shape)
        if marker is not None:
            found[one.name] = np.where(draw.random(shape) < 0.4, marker, found[one.name])
    masks = {name for name, _ in mask_rows(graph)}
    shaped = mask.reshape(*groups, -1) if graph.groups else mask
    return {**found, **{name: shaped for name in masks if name.endswith("attention_mask")}}


@pytest.mark.parametrize(
    ("spec", "entry"), [pytest.param(*one, marks=() if one in QUICK else pytest.mark.slow) for one in OTHERS]
)
def test_gradients_are_those_of_autograd(spec: str, entry: str) -> None:
    """Objectives of models with heads; those of the formula page: tests/specs/objectives.py."""
    made, batch = program(spec, entry, "torch"), given(program(spec, entry, "torch"))
    weights = random_weights(made)
    module = torch_module(made, weights)
    theirs = gradients(made, module, batch)
    loss, slopes = class_of(program(spec, entry, "numpy"))(weights, dtype="float64").loss_and_gradients(**batch)
    assert abs(loss - module(**tensors(batch))["loss"].item()) < 1e-10
    assert max(np.abs(one).max() for one in theirs.values()) > 1e-4
    same_gradients(program(spec, entry, "numpy"), slopes, theirs)


@pytest.mark.parametrize(
    ("spec", "model"),
    [("bert", "BertForMultipleChoice"), pytest.param("albert", "BertForMultipleChoice", marks=pytest.mark.slow)],
)
def test_a_model_of_several_texts_has_the_gradients_of_its_objective(spec: str, model: str) -> None:
    """Labels given to the model itself, whose results stand beside the loss."""
    alone = program(spec, "choosing", "numpy")
    settings = {name: size for name, size in SIZES.items() if name in alone.compiled.module.options}
    made = compile(spec, "numpy", STILL, model, settings, validate=False, gradients=True)
    batch, weights = given(alone), random_weights(alone)
    first, second = (class_of(one)(weights, dtype="float64") for one in (alone, made))
    loss, slopes = first.loss_and_gradients(**batch)
    again, mine = second.loss_and_gradients(**batch)
    assert again == pytest.approx(loss, abs=1e-14)
    assert again == pytest.approx(float(second(**batch)["loss"]), abs=1e-12)
    assert set(mine) == set(slopes)
    assert any(np.abs(one).max() > 1e-4 for one in slopes.values())
    for name, one in slopes.items():
        np.testing.assert_allclose(mine[name], one, rtol=0, atol=1e-14, err_msg=name)


def test_the_graph_is_the_module() -> None:
    """Selected rows, the slopes of a loss in pieces and totals by what they mean, in float64."""
    made = program("bert", "mlm", "numpy")
    assert made.compiled.gradients is not None
    batch, weights = given(made), random_weights(made)
    right = evaluated(made.compiled.gradients[0].graph, weights, batch)
    loss, slopes = class_of(made)(weights, dtype="float64").loss_and_gradients(**batch)
    assert abs(loss - float(right["loss"])) < 1e-10
    same_gradients(made, slopes, {name: right[gradient_of(name)] for name in weights})


def fits(spec: str, entry: str, **options: Any) -> tuple[NumpyFit, TorchFit]:
    """Both backends with the same weights."""
    made = program(spec, entry, "numpy")
    weights = random_weights(made)
    chosen = AdamW(**{"decay": 0.1, "clip": 0.5, **options})
    first = NumpyFit(made, weights, "float64", chosen, None, 0)
    return first, TorchFit(program(spec, entry, "torch"), weights, "float64", chosen, None, 0)


def totals(made: Program, parts: list[dict[str, Array]]) -> Array:
    """The counts of all parts."""
    counting = restricted(made.compiled.formula, [COUNT])
    return np.sum([reference.run(counting, {}, part)[COUNT] for part in parts], axis=0)


@pytest.mark.parametrize(
    ("spec", "entry"), [("bert", "mlm"), ("gpt2", "causal_lm"), ("t5", "seq2seq"), ("sbert", "ranking")]
)
def test_twenty_steps_are_those_of_torch(spec: str, entry: str) -> None:
    """AdamW with decay, clipping, warm-up and a falling rate: the losses of the steps, and of a batch held out."""
    made, plan = program(spec, entry, "numpy"), Schedule(1e-2, 4, 20)
    found: list[list[float]] = []
    for fit in fits(spec, entry):
        losses = []
        for step in range(20):
            batch = given(made, step % 5, np.tile(MASK, (3, 1)))
            own = None if entry == "ranking" else totals(made, [batch])
            losses.append(fit.accumulate(batch, own, step, 0))
            losses.append(fit.update(plan.rate(step + 1)))
        sums, counts = fit.value(given(made, 7))
        found.append([*losses, *sums, *counts])
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-8)
    assert found[0][30] < found[0][0]  # the first batch again: it learns


def test_parts_of_a_batch_are_the_whole_batch() -> None:
    """Two terms with counts of their own; parts with other numbers of labels, one of them with none of the masked."""
    made = program("bert", "pretraining", "numpy")
    whole = given(made)
    whole["labels"][3] = -100
    parts = [{name: value[cut] for name, value in whole.items()} for cut in (slice(0, 1), slice(1, 3), slice(3, 4))]
    fit, again = fits("bert", "pretraining")[0], fits("bert", "pretraining")[0]
    counts = totals(made, [whole])
    assert list(counts) == list(totals(made, parts))
    one = fit.accumulate(whole, counts, 1, 0)
    loss = sum(again.accumulate(part, counts, 1, place) for place, part in enumerate(parts))
    assert loss == pytest.approx(one, abs=1e-12)
    assert one == pytest.approx(fit.model.loss_and_gradients(**whole)[0], abs=1e-12)
    for name, value in fit.gradients.items():
        np.testing.assert_allclose(again.gradients[name], value, rtol=0, atol=1e-12, err_msg=name)


def test_a_part_without_labels_adds_nothing() -> None:
    fit, batch = fits("bert", "mlm")[0], given(program("bert", "mlm", "numpy"))
    counts = totals(program("bert", "mlm", "numpy"), [batch])
    assert fit.accumulate({**batch, "labels": np.full_like(batch["labels"], -100)}, counts, 1, 0) == 0
    assert not any(one.any() for one in fit.gradients.values())


def test_what_cannot_be_cut_is_a_mean_of_its_parts() -> None:
    batch, halves = given(program("sbert", "ranking", "numpy")), {}
    for fit in fits("sbert", "ranking"):
        whole, half = (fit.accumulate(batch, np.full(1, parts), 1, 0) for parts in (1.0, 2.0))
        assert half == pytest.approx(whole / 2, abs=1e-12)
        halves[type(fit).__module__] = half
    assert len(set(halves)) == 2
    fit = fits("sbert", "ranking")[0]
    with pytest.raises(ValueError, match="no sum over examples"):
        fit.model.loss_and_gradients(**batch, totals=np.ones(1))


def test_totals_are_as_many_as_terms() -> None:
    fit, batch = fits("bert", "mlm")[0], given(program("bert", "mlm", "numpy"))
    for wrong in (np.ones(2), [np.nan]):
        with pytest.raises(ValueError, match="totals should be 1 numbers"):
            fit.accumulate(batch, np.asarray(wrong), 1, 0)


def test_biases_and_norms_do_not_decay() -> None:
    made = fits("bert", "mlm")[0].optimiser
    kept = set(made.tensors) - made.decays
    assert "bert.embeddings.word_embeddings.weight" in made.decays
    assert "bert.encoder.layer.1.output.dense.weight" in made.decays
    assert all(name.endswith("bias") or "LayerNorm" in name for name in kept)


def test_the_head_sees_the_labelled_rows_and_no_more_logits_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """4000 words and 640 tokens: all logits are 2.6 million numbers, those of labels 0.3, a piece 0.1."""
    made = compile("bert", "numpy", STILL, "mlm", {**BERT, "vocab": 4000}, validate=False, gradients=True)
    model = class_of(made)(random_weights(made))
    space = model.loss_and_gradients.__func__.__globals__
    draw, seen = np.random.default_rng(0), []
    ids = draw.integers(0, 4000, (5, 128))
    labels = np.where(draw.random(ids.shape) < 0.12, ids, -100)
    real = space["product_cross_entropy_slope"]

    def watched(x: Array, *rest: Array, **more: Any) -> Any:
        seen.append(len(x))
        return real(x, *rest, **more)

    monkeypatch.setitem(space, "KEPT_LOGITS", 100_000)
    monkeypatch.setitem(space, "product_cross_entropy_slope", watched)
    model.loss_and_gradients(input_ids=ids, labels=labels)
    assert seen == [int((labels != -100).sum())]
    x, table = draw.normal(size=(640, 6)), draw.normal(size=(4000, 6))
    tracemalloc.start()
    try:
        real(x, table, None, ids.reshape(-1), np.ones(640))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * (100_000 + 3 * table.size + 2 * x.size + 40_000)  # 20 MB would be all logits


def asked(data: Path, out: Path, *more: str) -> list[str]:
    sizes = [f"--set={name}={size}" for name, size in TINY.items()]
    kind = ["sbert", "--objective", "ranking"] if data.suffix == ".tsv" else ["bert", "--objective", "mlm"]
    own = ["--backend", "numpy", "--length", "24", "--batch-size", "4", "--eval-every", "3", "--save-every", "3"]
    return ["train", *kind, "--data", str(data), "--out", str(out), *sizes, *own, *more]


@pytest.mark.parametrize("name", ["text.txt", "pairs.tsv"])
def test_going_on_changes_no_bit(tmp_path: Path, name: str) -> None:
    """What is saved after three steps ends as six in one go do; the usual rates drop out by step and part."""
    data = tmp_path / name
    data.write_text(PAIRS if name == "pairs.tsv" else TEXT, "utf-8")
    whole = CliRunner().invoke(app, asked(data, tmp_path / "whole", "--steps", "6"))
    assert whole.exit_code == 0, whole.output
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    shutil.rmtree(tmp_path / "parts" / "checkpoint-6")
    parts = CliRunner().invoke(app, asked(data, tmp_path / "parts", "--steps", "6", "--resume"))
    assert parts.exit_code == 0, parts.output
    for file in ("model.safetensors", "optimizer.safetensors", "trainer_state.json"):
        first, second = (tmp_path / run / "checkpoint-6" / file for run in ("whole", "parts"))
        assert first.read_bytes() == second.read_bytes(), file
