"""What is wanted of a model: some results only, some rows of them; the same numbers, less work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import transformula
from tests.backends.test_load import saved
from tests.compiler import zoo
from tests.compiler.spec_tools import Array
from transformula import TransformulaError
from transformula.backends.program import Program, compile
from transformula.backends.torch.loading import fill
from transformula.compiler import reference

PLACES = np.array([[0, 3, 8], [4, -1, -1], [1, 2, 5], [3, 4, 0], [-1, -1, -1], [0, -1, -1]])
ROWS = {
    ("BertForMaskedLM", "logits"): ("first", "last", "positions"),
    ("Bert", "last_hidden_state"): ("first", "last", "positions"),
    ("BertForQuestionAnswering", "start_logits"): ("last", "positions"),
}
CASES = [(entry, name, way) for (entry, name), ways in ROWS.items() for way in ways]


def given(way: str) -> dict[str, Array]:
    found = zoo.inputs("bert")
    return {**found, "at_positions": PLACES} if way == "positions" else found


def chosen(value: Array, way: str) -> Array:
    """The rows of a result of all tokens, padded as zoo.MASK is."""
    made: list[Array] = []
    for example, mask in zip(value, zoo.MASK, strict=True):
        seen = np.flatnonzero(mask)
        own = example[seen[0] : seen[-1] + 1] if len(seen) else example[:0]
        nothing = np.zeros(value.shape[2:])
        if way == "positions":
            made.append(np.array([own[at] if at >= 0 else nothing for at in PLACES[len(made)]]))
        else:
            made.append(nothing if not len(own) else own[0 if way == "first" else -1])
    return np.array(made)


def ran(made: Program, inputs: dict[str, Array], layout: str) -> dict[str, Array]:
    formula = made.compiled.formula
    values = zoo.weight_values(formula)
    if made.backend == "numpy":
        model = zoo.module(made.source)[made.name](zoo.nested(formula, values), dtype="float64", threads=1)
        found: dict[str, Array] = model(**inputs)
        return found
    module: Any = zoo.module(made.source)["Model"](dtype=torch.float64)
    fill(made, module, values)
    with torch.no_grad():
        results = module.eval()(**{name: torch.from_numpy(value) for name, value in inputs.items()})
    return {name: value.numpy() for name, value in results.items()}


@pytest.mark.parametrize("layout", ["packed rows", "one by one", "padded", "packed"])
@pytest.mark.parametrize(("entry", "name", "way"), CASES)
def test_rows_are_those_of_the_whole(entry: str, name: str, way: str, layout: str) -> None:
    backend = "torch" if layout in ("padded", "packed") else "numpy"
    options: dict[str, Any] = {"layout": layout} if backend == "torch" else {}
    options |= {"without": ("unpad",)} if layout == "one by one" else {}
    made = compile("bert", backend, entry=entry, settings=zoo.BERT, rows={name: way}, **options)
    whole = compile("bert", entry=entry, settings=zoo.BERT).compiled.formula
    full = reference.run(whole, zoo.weight_values(whole), zoo.inputs("bert"))
    full[name] = chosen(full[name], way)
    assert zoo.difference(ran(made, given(way), layout), full) < 1e-12


@pytest.mark.parametrize("backend", ["numpy", "torch", "reference"])
def test_a_loaded_model_computes_what_is_wanted(backend: str, tmp_path: Any) -> None:
    folder = saved(tmp_path)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]])
    text = {"input_ids": np.array([[3, 4, 5, 0], [6, 7, 0, 0]]), "attention_mask": mask}
    whole = transformula.load(folder, backend=backend)(**text)
    name = "pooler_output"
    alone = transformula.load(folder, backend=backend, results=(name,))
    found = alone(**text)
    assert list(found) == [name]
    np.testing.assert_allclose(np.asarray(found[name]), np.asarray(whole[name]), atol=1e-6)
    with pytest.raises(TransformulaError, match="no result"):
        alone(**text, outputs=[next(one for one in whole if one != name)])


def test_a_place_that_an_example_does_not_have_is_an_error() -> None:
    made = compile("bert", entry="BertForMaskedLM", settings=zoo.BERT, rows={"logits": "positions"})
    wrong = PLACES.copy()
    wrong[1, 0] = 5  # of five tokens
    with pytest.raises(ValueError, match="entry that does not exist"):
        ran(made, {**zoo.inputs("bert"), "at_positions": wrong}, "packed rows")
    formula = made.compiled.formula
    with pytest.raises(TransformulaError, match="entry that does not exist"):
        reference.run(formula, zoo.weight_values(formula), {**zoo.inputs("bert"), "at_positions": wrong})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"results": ["logits"]}, "Bert has no result `logits`"),
        ({"rows": {"last_hidden": "last"}}, "last_hidden_state"),
        ({"rows": {"last_hidden_state": "end"}}, "none of first, last, positions"),
        ({"rows": {"pooler_output": "last"}}, "has no rows to choose from"),
        ({"results": ["pooler_output"], "rows": {"last_hidden_state": "last"}}, "not among the wanted results"),
    ],
)
def test_what_cannot_be_wanted(options: dict[str, Any], told: str) -> None:
    with pytest.raises(TransformulaError) as caught:
        compile("bert", settings=zoo.BERT, **options)
    assert told in str(caught.value)


def test_weights_of_left_out_results_are_still_known() -> None:
    """The module reads the same files: a pooler that nobody wants is no left-over tensor."""
    made = compile("bert", settings=zoo.BERT, results=["last_hidden_state"])
    assert "pooler.dense.weight" in made.source
    assert "self.pool_W" not in made.source
