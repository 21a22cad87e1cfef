"""loss_and_gradients of NumPy modules, against PyTorch's autograd through the PyTorch module of the same spec."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.compiler import zoo
from tests.compiler.differentiation.slopes import evaluated, gap, with_loss, without_stops
from tests.compiler.spec_tools import Array, rng, weight_values
from tests.compiler.test_dropout import RELATIVE
from tests.fuzz import oracle
from tests.fuzz.strategies import run, specs
from transformula.backends.program import Program, compile
from transformula.backends.torch.loading import fill, weights_of
from transformula.compiler.differentiation import differentiate, gradient_of
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.ir import Graph
from transformula.compiler.pipeline import Stage

BERT, PAIR = zoo.BERT, zoo.PAIR
POOLED = """
spec pooled extends sbert

objective fit of SentenceBert(wanted[batch] as labels) → loss = mean[batch]((sum[width](sentence_embedding) - wanted)²)
"""
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlm": ("bert", "BertForMaskedLM", BERT),
    "nsp": ("bert", "BertForNextSentencePrediction", BERT),
    "pretraining": ("bert", "BertForPreTraining", BERT),
    "tagging": ("bert", "BertForTokenClassification", BERT),
    "answering": ("bert", "BertForQuestionAnswering", {**BERT, "label": 2}),
    "pooled": (POOLED, "SentenceBert", {**BERT, "pool_tokens": "mean"}),
    "electra": ("electra", "ElectraForPreTraining", {**BERT, "emb": 6}),
    "albert": ("albert", "AlbertForPreTraining", {**BERT, "emb": 6, "layers": 4, "groups": 2, "inner": 2}),
    "roberta": ("roberta", "BertForMaskedLM", {**BERT, "segment": 1, "pad": 1}),
    "deberta": ("deberta_v2", "BertForMaskedLM", {**BERT, "segment": 0, "tap": 3, "buckets": 2, "farthest": 6}),
    "gpt2": ("gpt2", "GPT2LMHeadModel", {**zoo.GPT, "ffn": 10, "by_layer": True}),
    "gpt2_texts": ("gpt2", "GPT2ForSequenceClassification", {**zoo.GPT, "ffn": 10, "pad": 3}),
    "llama": ("llama", "LlamaForCausalLM", zoo.LLAMA),
    "qwen3": ("qwen3", "LlamaForCausalLM", {**zoo.LLAMA, "slides": True, "width": 3, "upper": 1}),
    "gemma2": ("gemma2", "LlamaForCausalLM", {**zoo.LLAMA, "w": 3, "cap": 2}),
    "gpt_neox": ("gpt_neox", "LlamaForCausalLM", zoo.NEOX),
    "modernbert": ("modernbert", "BertForMaskedLM", zoo.MODERNBERT),
    "t5": zoo.SHIPPED["t5"],
    "bart": zoo.SHIPPED["bart"],
}


@cache
def program(name: str, backend: str) -> Program:
    """The model of a case; for NumPy with gradients."""
    spec, entry, settings = CASES[name]
    config = RELATIVE if spec == "deberta_v2" else {}
    return compile(spec, backend, config, entry, settings, gradients=True, validate=False)


@cache
def model(name: str, dtype: str = "float64") -> Any:
    """The NumPy module with the zoo's weights."""
    made = program(name, "numpy")
    graph = made.compiled.formula
    return zoo.module(made.source)["Model"](zoo.nested(graph, weight_values(graph)), dtype=dtype)


def labelled(name: str, mask: Array = zoo.MASK, ignored: float = 0.4, objective: int = 0) -> dict[str, Array]:
    """Inputs of a case and labels of one of its objectives; a share of them is left out, where they can be."""
    found = zoo.module(program(name, "numpy").source)
    draw = rng(7)
    sizes = {"batch": len(mask), "seq": mask.shape[1], "src": mask.shape[1], "tgt": 4}
    given: dict[str, Array] = {"attention_mask": mask}
    limits = {own: (limit, marker) for own, limit, marker in found["LOSSES"][objective][3]}
    for own, kind, dims, needed in (*found["INPUTS"], *found["LOSSES"][objective][1]):
        if needed is True or own in limits or isinstance(needed, str):
            shape = tuple(sizes.get(axis, 0) or int(axis) for axis in dims)
            limit, marker = limits.get(own, (2 if kind == "real" or len(dims) == 1 else 20, None))
            given[own] = draw.integers(0, limit, shape)
            if marker is not None:
                given[own] = np.where(draw.random(shape) < ignored, marker, given[own])
    return given


def autograd(name: str, given: dict[str, Array]) -> tuple[float, dict[str, Array]]:
    """The loss and its gradients by weights, by PyTorch."""
    made = program(name, "torch")
    module: torch.nn.Module = zoo.module(made.source)["Model"](dtype=torch.float64)
    fill(made, module, weight_values(made.compiled.formula))
    module.eval()
    loss = module(**{key: torch.from_numpy(np.array(value)) for key, value in given.items()})["loss"]
    loss.backward()
    with torch.no_grad():
        for one in module.parameters():
            one.copy_(torch.zeros_like(one) if one.grad is None else one.grad)
    return float(loss.detach()), weights_of(made, module)


def by_weight(name: str, gradients: dict[str, Array]) -> dict[str, Array]:
    """Gradients by stored names as they are by weights; each storage once."""
    found = zoo.module(program(name, "numpy").source)
    return {key: np.asarray(value) for key, value in found["assemble"](gradients, found["CHECKPOINT"]).items()}


QUICK = ("mlm", "pretraining", "pooled", "electra", "albert", "deberta", "gpt2", "llama", "t5")


def from_losses(text: str, stage: str, given: dict[str, Array], trained: bool = False) -> float:
    """How far a module's gradients of every entry of every result are from the reference's, relatively.

    Of two modules: one that writes over what is read no more, and one that does not.
    """
    made = compile_graph(text) if text not in zoo.NAMES else zoo.whole(text).compiled
    graph = with_loss(without_stops(next(one.graph for one in made.stages if one.name == stage)))
    done = differentiate(graph)
    values = weight_values(made.formula)
    right = evaluated(done, values, given, trained)
    gaps = []
    for plan in (frozenset[str](), frozenset({"schedule"})):
        number, gradients, found = module_of(made, graph, replace(done, plan=plan), given, trained)
        mine = found["weight_views"](gradients, found["CHECKPOINT"])
        gaps.append(abs(number - float(right["loss"])) / max(1, abs(number)))
        for weight in graph.weights:
            wanted = right[gradient_of(weight.name)]
            size = max(1.0, float(np.abs(wanted).max(initial=0)))
            gaps.append(float(np.abs(np.asarray(mine[weight.name]) - wanted).max(initial=0)) / size)
    return float(max(gaps))


def module_of(
    made: Compiled, graph: Graph, done: Graph, given: dict[str, Array], trained: bool
) -> tuple[float, dict[str, Array], dict[str, Any]]:
    """The loss and the gradients of a differentiated graph, by its module; and the module."""
    loss = replace(made, entry="all", stages=(Stage("formula", graph), Stage("differentiate", done)))
    found = zoo.module(Program(replace(made, gradients=(loss,), losses=()), "numpy").source)
    one = found["Model"](zoo.nested(made.formula, weight_values(made.formula)), dtype="float64")
    number, gradients = one._gradients_all({k: np.asarray(v) for k, v in given.items()}, 0 if trained else None)
    return number, gradients, found


RECURRENT = """
spec recurrent
config
    vocab = 20
    d = 3
model M(tokens[seq] as input_ids) → y[d] = s[seq]
    where s[0] = 0 * w
          for t in seq:
              s[t + 1] = tanh(s[t] @ W + w * E[vocab = tokens][seq = t])
    weights E : [vocab, d]
            W : [d → d]
            w : [d]
"""


def test_a_recurrent_network() -> None:
    """Weights inside a loop over a length: each text adds what its own steps do, and no more."""
    graph = with_loss(compile_graph(RECURRENT).formula)
    assert gap(graph, zoo.inputs("gpt")) < 1e-7
    assert from_losses(RECURRENT, "formula", zoo.inputs("gpt")) < 1e-9


@pytest.mark.parametrize("name", ["scan", "nested", "crossed", "pools", "shift", "kinds", "modules", "two"])
def test_every_entry_of_every_result(name: str) -> None:
    """Loops over lengths and in loops, poolings, shifts, several texts: what no objective reads so."""
    for stage in ("formula", "recognise"):
        assert from_losses(name, stage, zoo.inputs(name)) < 1e-9


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_dropout_draws_what_the_reference_draws(name: str) -> None:
    """The same numbers forwards, by seed, site, step and place; and the same mask backwards."""
    assert from_losses(name, "formula", zoo.inputs(name), trained=True) < 1e-9


def test_dropout_of_some_rows() -> None:
    """Of the last block one row is computed, and it drops what it would among all rows."""
    (made,) = program("nsp", "numpy").compiled.gradients or ()
    assert any(one.op == "random" and one.get("picked") is not None for one in made.graph.nodes())
    given = labelled("nsp")
    right = evaluated(made.graph, weight_values(made.graph), given, training=True)
    loss, gradients = model("nsp").loss_and_gradients(**given, seed=0)
    assert abs(loss - float(right["loss"])) < 1e-12
    for weight, mine in by_weight("nsp", gradients).items():
        np.testing.assert_allclose(mine, right[gradient_of(weight)], atol=1e-12, err_msg=weight)
    assert abs(loss - model("nsp").loss_and_gradients(**given)[0]) > 1e-6


def test_random_specs() -> None:
    counts: Counter[str] = Counter()

    def body(text: str) -> None:
        counts["specs"] += 1
        formula = compile_graph(text, until="formula").formula
        given = oracle.inputs(formula, oracle.MIXED, counts["specs"])
        if oracle.wanted(formula, given) is not None:
            assert from_losses(text, ("formula", "recognise")[counts["specs"] % 2], given) < 1e-8, text
            counts["checked"] += 1

    run(specs(), body, 4, 10)
    assert counts["checked"] >= 9


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in CASES])
def test_gradients_are_those_of_autograd(name: str) -> None:
    given = labelled(name)
    loss, gradients = model(name).loss_and_gradients(**given)
    wanted, theirs = autograd(name, given)
    assert abs(loss - wanted) < 1e-9
    mine = by_weight(name, gradients)
    assert set(mine) == set(theirs)
    for weight, right in theirs.items():
        np.testing.assert_allclose(mine[weight], right, rtol=1e-9, atol=1e-9, err_msg=weight)


def test_all_labels_ignored() -> None:
    """A mean over nothing is 0, and so is each gradient."""
    for name in ("mlm", "gpt2"):
        loss, gradients = model(name).loss_and_gradients(**labelled(name, ignored=1.1))
        assert loss == 0
        assert not any(gradient.any() for gradient in gradients.values())


def test_the_loss_is_that_of_a_call() -> None:
    given = labelled("pretraining")
    assert abs(model("pretraining").loss_and_gradients(**given)[0] - model("pretraining")(**given)["loss"]) < 1e-12


def test_padding_and_order_change_no_gradient() -> None:
    """An example's gradient is its own: a batch gives what its examples give, weighed by their labels."""
    given = labelled("mlm")
    _, whole = model("mlm").loss_and_gradients(**given)
    counts = [int(((row != -100) & (mask != 0)).sum()) for row, mask in zip(given["labels"], zoo.MASK, strict=True)]
    summed = {name: np.zeros_like(value) for name, value in whole.items()}
    for place, mask in enumerate(zoo.MASK):
        alone = {name: value[place : place + 1] for name, value in given.items()}
        if mask.any():  # without padding around it
            first, last = np.flatnonzero(mask)[[0, -1]]
            alone = {name: value[:, first : last + 1] for name, value in alone.items()}
        _, own = model("mlm").loss_and_gradients(**alone)
        for name, value in own.items():
            summed[name] += value * counts[place] / sum(counts)
    for name, value in whole.items():
        np.testing.assert_allclose(summed[name], value, atol=1e-12, err_msg=name)


def test_an_empty_batch_and_an_empty_text() -> None:
    given = labelled("pretraining", np.zeros((2, 3), int))
    loss, gradients = model("pretraining").loss_and_gradients(**given)
    assert np.isfinite(loss)
    assert all(np.isfinite(value).all() for value in gradients.values())
    assert not gradients["bert.embeddings.word_embeddings.weight"].any()


def test_half_the_digits() -> None:
    """float32 modules give float32 gradients, close to those of float64."""
    given = labelled("mlm")
    _, wanted = model("mlm").loss_and_gradients(**given)
    _, found = model("mlm", "float32").loss_and_gradients(**given)
    for name, value in wanted.items():
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], value, rtol=2e-3, atol=2e-6, err_msg=name)


def test_weights_are_trained_in_place() -> None:
    """`tensors` are the weights: a step against the gradient lowers the loss, and calls see it after `refresh`."""
    made = program("gpt2", "numpy")
    graph = made.compiled.formula
    one = zoo.module(made.source)["Model"](zoo.nested(graph, weight_values(graph)), dtype="float64")
    given = labelled("gpt2")
    before, gradients = one.loss_and_gradients(**given)
    assert set(gradients) == set(one.tensors)
    assert "transformer.h.0.attn.c_attn.weight" in gradients  # three weights in one tensor
    for name, value in gradients.items():
        assert value.shape == one.tensors[name].shape
        one.tensors[name] -= 0.05 * value
    after, _ = one.loss_and_gradients(**given)
    assert after < before
    one.refresh()
    assert abs(one(**given)["loss"] - after) < 1e-12


def test_a_call_without_labels_is_told() -> None:
    with pytest.raises(ValueError, match="a loss needs labels"):
        model("mlm").loss_and_gradients(input_ids=np.ones((1, 2), int))


def test_a_plain_module_has_no_gradients() -> None:
    source = compile("bert", entry="BertForMaskedLM", settings=BERT, validate=False).source
    assert "loss_and_gradients" not in source
    assert "self.tensors" not in source
