"""loss_and_gradients of NumPy modules, against PyTorch's autograd through the PyTorch module of the same spec."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.compiler import zoo
from tests.compiler.spec_tools import Array, rng, weight_values
from tests.compiler.test_dropout import RELATIVE
from transformula.backends.program import Program, compile
from transformula.backends.torch.loading import fill, weights_of

BERT, PAIR = zoo.BERT, zoo.PAIR
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlm": ("bert", "BertForMaskedLM", BERT),
    "nsp": ("bert", "BertForNextSentencePrediction", BERT),
    "pretraining": ("bert", "BertForPreTraining", BERT),
    "tagging": ("bert", "BertForTokenClassification", BERT),
    "answering": ("bert", "BertForQuestionAnswering", {**BERT, "label": 2}),
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
    return compile(spec, backend, config, entry, settings, gradients=True)


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


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_autograd(name: str) -> None:
    given = labelled(name)
    loss, gradients = model(name).loss_and_gradients(**given)
    wanted, theirs = autograd(name, given)
    assert abs(loss - wanted) < 1e-9
    mine = by_weight(name, gradients)
    assert set(mine) == set(theirs)
    for weight, right in theirs.items():
        np.testing.assert_allclose(mine[weight], right, rtol=1e-9, atol=1e-9, err_msg=weight)
