"""Inputs that are made of others where a call leaves them out: compiler/defaults.py, and how backends make them."""

import types
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.compiler import zoo
from transformula import TransformulaError
from transformula.backends.defaults import default_rows, inputs_of, makers
from transformula.backends.program import Program, compile
from transformula.compiler import lower, reference
from transformula.compiler.config import Config
from transformula.compiler.driver import check, load_module

Array = NDArray[Any]
SPEC = """spec pairs
from functions import shift, nll

config
    vocab = 7
    d     = 3
    start = 5
    pad   = 1

later[j](y[j], first) = shift[j](pad if y == -100 else y, -1, first)

uses net : Net

model Net(
    tokens[seq] as input_ids,
    targets[tgt] as decoder_input_ids = later[seq](tokens, start)
) → states[tgt, d] = E[vocab = targets] * (1 + sum[seq](tokens))
    weights E : [vocab, d]

model Writer of net → logits[tgt, vocab] = states @[d] net.E

objective written of Writer(
    labels[batch, tgt],
    targets[batch, tgt] as decoder_input_ids = WHEN later[tgt](labels, start)
) → loss = mean[batch, tgt if labels ≠ -100](nll[vocab](logits, labels))
"""
WITH, NEVER = SPEC.replace("WHEN ", ""), SPEC.replace("WHEN ", "none if start == 5 else ")
IDS = np.array([[2, 3, 4, 0], [0, 6, 2, 0], [0, 0, 3, 4]])
MASK = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 1, 1]])
LABELS = np.array([[2, -100, 4], [6, 0, 3], [0, 4, 4]])
TARGET_MASK = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1]])
OF_SOURCE = [[5, 2, 3, 4], [0, 5, 6, 0], [0, 0, 5, 3]]
OF_LABELS = [[5, 2, 1], [5, 6, 0], [0, 5, 4]]


def made(program: Program, number: int, **given: Any) -> list[list[int]]:
    found: list[list[int]] = makers(program.compiled)[number](given).tolist()
    return found


def module(program: Program) -> Any:
    """The generated module with weights, alone."""
    text = types.ModuleType("made")
    exec(compile_source(program.source), text.__dict__)
    weights = zoo.weight_values(program.compiled.formula)
    if program.backend == "numpy":
        return text.__dict__["Model"](weights, dtype="float64")
    model = text.__dict__["Model"](dtype=torch.float64)
    model.load_state_dict({"E": torch.from_numpy(weights["net.E"])})
    return torch.no_grad()(lambda **given: model(**{name: torch.from_numpy(value) for name, value in given.items()}))


def compile_source(source: str) -> types.CodeType:
    return zoo.compile_source(source)


def test_of_another_text_and_of_labels() -> None:
    """Each example is moved by itself: its first token is the start, whatever stands at padding."""
    writer = compile(WITH, entry="Writer")
    labels, source = ("decoder_input_ids", "written", ("labels",), ""), ("decoder_input_ids", "", ("input_ids",), "")
    assert default_rows(writer.compiled) == (labels, source)
    assert made(writer, 0, labels=LABELS, decoder_attention_mask=TARGET_MASK) == OF_LABELS
    assert made(writer, 0, labels=LABELS) == [[5, 2, 1], [5, 6, 0], [5, 0, 4]]
    assert made(writer, 1, input_ids=IDS, attention_mask=MASK) == OF_SOURCE
    assert default_rows(compile(WITH, entry="Net").compiled) == (source,)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_modules_make_them(backend: str) -> None:
    """Where nothing is given, of labels if there are any; the text that is made has the mask of its source."""
    program = compile(WITH, backend, entry="Writer")
    model = module(program)
    masks = {"attention_mask": MASK, "decoder_attention_mask": TARGET_MASK}
    for given, ids, mask in (
        ({"attention_mask": MASK}, OF_SOURCE, MASK),
        ({**masks, "labels": LABELS}, OF_LABELS, TARGET_MASK),
        ({"labels": LABELS}, [[5, 2, 1], [5, 6, 0], [5, 0, 4]], None),
        ({"decoder_input_ids": LABELS % 7}, LABELS % 7, None),
    ):
        here = dict(given, decoder_input_ids=np.array(ids))
        here = here if mask is None else {**here, "decoder_attention_mask": mask}
        found, wanted = model(input_ids=IDS, **given), model(input_ids=IDS, **here)
        assert set(found) == set(wanted) == {"logits", *(["loss"] if "labels" in given else [])}
        for name, value in wanted.items():
            np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value))


def test_a_whole_objective_reads_its_own_labels() -> None:
    """Compiled by itself, its default is a part of the graph."""
    module_ = load_module(WITH)
    graph = lower.lower_entry(lower.choose_entry(module_, "written"), Config(module_))
    weights = zoo.weight_values(graph)
    given = {"input_ids": IDS, "labels": LABELS}
    ids = np.array([[5, 2, 1], [5, 6, 0], [5, 0, 4]])
    first, second = (reference.run(graph, weights, {**given, **more}) for more in ({}, {"decoder_input_ids": ids}))
    assert first["loss"] == second["loss"]


def test_a_default_that_config_leaves_out() -> None:
    rows = default_rows(compile(NEVER, entry="Writer").compiled)
    assert [row[3] for row in rows] == ["and config wants it to be given", ""]
    lacking = NEVER.replace("start = 5", "start = none as first_token").replace("start == 5", "start == none")
    lacking = lacking.replace("= later[seq](tokens, start)", "")
    program = compile(lacking, entry="Writer")
    assert [row[3] for row in default_rows(program.compiled)] == ["and config has no first_token"]
    with pytest.raises(ValueError, match="it would be made of labels, and config has no first_token"):
        module(program)(input_ids=IDS, labels=LABELS)
    there = compile(lacking, entry="Writer", config={"first_token": 3})
    assert made(there, 0, labels=LABELS)[0] == [3, 2, 1]


def test_masks_by_the_lengths_of_the_model() -> None:
    """A function of the second text alone has one length: its mask is that of the second one."""
    writer = compile(WITH, entry="Writer").compiled
    given = {"labels": LABELS, "attention_mask": MASK, "decoder_attention_mask": TARGET_MASK, "other": 0}
    graph = writer.defaults[0].graph
    assert graph is not None
    assert inputs_of(writer.formula, graph, given).keys() == {"labels", "attention_mask"}
    assert inputs_of(writer.formula, graph, given)["attention_mask"] is TARGET_MASK


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("later[seq](tokens, start)", "later[seq](token, start)", "unknown name `token`"),
        ("WHEN later[tgt](labels, start)", "later[tgt](label, start)", "unknown name `label`"),
    ],
)
def test_mistakes_are_found_by_a_check(old: str, new: str, told: str) -> None:
    with pytest.raises(TransformulaError, match=told):
        check(SPEC.replace(old, new).replace("WHEN ", ""))
