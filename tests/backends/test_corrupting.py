"""Generated corruptions: each backend gives the reference's numbers, bit for bit; what a call may look like; errors."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from click.testing import CliRunner

import transformula
from transformula.backends.numpy import drawing
from transformula.backends.program import Program
from transformula.backends.proving_corruptions import RATES, SIDES, batch, compared
from transformula.backends.torch import drawing as torch_drawing
from transformula.cli import app
from transformula.compiler import draws
from transformula.compiler.corruptions import border, corrupted, names
from transformula.compiler.driver import compile_graph, load_module
from transformula.compiler.reference import allowed_inputs
from transformula.grammar.diagnostics import TransformulaError

Array = npt.NDArray[Any]
BACKENDS = ("numpy", "torch")
EVERY = [
    (spec, name)
    for spec in ("bert", "roberta", "albert", "electra", "bart", "t5")
    for name in names(load_module(spec))
    if spec in ("bert", "bart", "t5") or name not in ("masking",)
]


@cache
def program(spec: str, name: str, backend: str) -> Program:
    return transformula.compile(spec, backend, entry=name)


def tensors(given: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.as_tensor(x) if isinstance(x, np.ndarray) else x for name, x in given.items()}


# --- the law -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "name"), EVERY)
@pytest.mark.parametrize("side", SIDES)
def test_every_backend_is_the_formulas_of_each_text_alone(spec: str, name: str, side: str) -> None:
    made = program(spec, name, "numpy").compiled
    edge = border(made.formula, made.config)
    for seed, rate in enumerate([None, list(RATES.values())[1 + list(SIDES).index(side)]]):
        if rate is not None and not edge.shares:
            continue
        one = batch(made.formula, edge, seed, side, rate)
        wanted = [corrupted(made.formula, text, seed, row) for row, text in enumerate(one.alone)]
        for backend in BACKENDS:
            given = dict(one.given) if backend == "numpy" else tensors(dict(one.given))
            found = program(spec, name, backend).corrupt(**given, seed=seed)
            gap = compared(edge, one.given, wanted, found)
            assert not gap.wrong, f"{backend}: {gap.reason}"
            assert gap.entries or not edge.masks


def test_every_corruption_of_the_page_has_its_place() -> None:
    """The page's, and those of the papers it names, each in the spec whose objective it serves."""
    assert names(load_module("bert")) == ["masking", "next_sentence_pairs"]
    assert names(load_module("roberta")) == ["masking"]
    assert names(load_module("albert")) == ["masking", "sentence_order_pairs"]
    assert names(load_module("electra")) == ["masking", "replaced_tokens"]
    assert names(load_module("bart")) == [
        *("token_masking", "token_deletion", "text_infilling", "sentence_permutation", "document_rotation"),
    ]
    assert names(load_module("t5")) == ["span_corruption"]
    assert names(load_module("marian")) == []


# --- draws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63, 2**64 + 5, -(2**70)])
def test_draws_are_the_same_numbers_in_every_backend(seed: int) -> None:
    for first, sizes in (((), ()), ((3,), (5,)), ((0, 2**40), (3, 4)), ((7,), (0,))):
        site = draws.key(f"site {len(sizes)}")
        places: list[Any] = [*(np.array([one]) for one in first), *sizes]
        wanted = draws.uniform(seed, f"site {len(sizes)}", places).reshape(sizes)
        found = drawing.uniform(seed, site, first, sizes)
        other = torch_drawing.uniform(seed, site, first, sizes, None).numpy()
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(other, wanted)
        assert ((wanted > 0) & (wanted < 1)).all()


def test_the_first_numbers_are_known() -> None:
    """What a seed means never changes: these numbers were written down, by hand with Python's integers."""

    def mix(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    state = mix((42 + draws.GOLDEN) % 2**64) ^ draws.key("here")
    for place in (2, 0):
        state = mix((state + (place + 1) * draws.GOLDEN) % 2**64)
    wanted = ((mix(state) >> 12) + 0.5) / 2**52
    assert drawing.uniform(42, draws.key("here"), (2,), (1,))[0] == wanted
    assert wanted == draws.uniform(42, "here", (3, 1))[2, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_number_loses_a_digit_on_its_way(backend: str) -> None:
    """A rate that is the very number drawn does not hit, the next larger one does: as a default, an input, a part."""
    text = (
        "corruption C(x[seq] as input_ids, rate = {0}) → input_ids[seq] = hits\n"
        "    where u    = uniform[seq](0, 1)\n"
        "          hits = (1 if u < rate else 0) + (10 if u < max(rate, {0}) else 0) + more\n"
        "          more = 100 if max(u, {0}) > {1} else 0\n"
    )
    site = next(one["site"] for one in compile_graph(text.format(0.5, 0.5)).formula.nodes() if one.op == "random")
    (drawn,) = draws.uniform(3, site, (1, 1))[0]
    larger = float(np.nextafter(drawn, 1))
    for rate, wanted in ((drawn, 0), (larger, 111)):
        made = transformula.compile(text.format(repr(float(rate)), repr(float(drawn))), backend)
        assert made.corrupt(input_ids=[[5]], seed=3)["input_ids"].tolist() == [[wanted]]
        assert made.corrupt(input_ids=[[5]], seed=3, rate=float(rate))["input_ids"].tolist() == [[wanted]]


def test_a_new_process_gives_the_same() -> None:
    text = (
        "import transformula as t; print(t.corrupt('bart', 'text_infilling', input_ids=[list(range(9, 40))], "
        "all_special_ids=[9], mask_token_id=3, seed=7)['input_ids'].tolist())"
    )
    root = Path(__file__).resolve().parents[2]
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=root).stdout
    made = transformula.corrupt(
        *("bart", "text_infilling"), input_ids=[list(range(9, 40))], all_special_ids=[9], mask_token_id=3, seed=7
    )
    assert found == f"{made['input_ids'].tolist()}\n"


# --- the module ----------------------------------------------------------------------------------------------


def test_a_module_needs_its_framework_alone() -> None:
    for backend, framework in (("numpy", "numpy"), ("torch", "torch")):
        tree = ast.parse(program("t5", "span_corruption", backend).source)
        found = {one.names[0].name for one in ast.walk(tree) if isinstance(one, ast.Import)}
        found |= {str(one.module) for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
        assert {one.split(".")[0] for one in found} - {"__future__", "typing", "collections"} == {framework}


def test_a_module_stands_by_itself(tmp_path: Path) -> None:
    path = program("t5", "span_corruption", "numpy").save(tmp_path / "spans.py")
    code = (
        "import sys, spans; r = spans.corrupt([[5, 6, 7, 1]], [[0, 0, 0, 1]], 99, noise_density=0.5); "
        "assert 'transformula' not in sys.modules; print(sorted(r))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=path.parent)
    assert found.returncode == 0, found.stderr
    assert found.stdout == "['attention_mask', 'decoder_attention_mask', 'decoder_input_ids', 'input_ids', 'labels']\n"


@pytest.mark.parametrize("backend", BACKENDS)
def test_names_that_python_keeps_for_itself(backend: str) -> None:
    text = (
        "corruption Evil(tokens[seq] as input_ids, class, texts, λ as λ' = 0, uniform' as np) → "
        "input_ids[seq] = tokens + class + 10 * texts + 100 * λ + 1000 * uniform'\n"
    )
    made = transformula.compile(text, backend)
    found = made.corrupt(input_ids=[[4, 5]], **{"λ'": 3, "class": 1, "texts": 2, "np": 4})
    assert found["input_ids"].tolist() == [[4325, 4326]]


# --- the border ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists_of_different_lengths_will_do(backend: str) -> None:
    rows = [[101, 5, 6, 7, 102], [101, 9, 102], []]
    found = transformula.corrupt(
        "bert", "masking", backend, input_ids=rows, all_special_ids=[101, 102], mask_token_id=103, mlm_probability=1,
        random_replace_prob=0.0, mask_replace_prob=1.0,
    )  # fmt: skip
    assert found["input_ids"].tolist() == [[101, 103, 103, 103, 102], [101, 103, 102, 0, 0], [0] * 5]
    assert found["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0], [0] * 5]
    assert found["labels"].tolist() == [[-100, 5, 6, 7, -100], [-100, 9, -100, -100, -100], [-100] * 5]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_text_at_all(backend: str) -> None:
    found = transformula.corrupt("bart", "token_deletion", backend, input_ids=[], special_tokens_mask=[])
    assert found["input_ids"].shape == (0, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_padding_is_the_padding_token_of_the_config(backend: str) -> None:
    given: dict[str, Any] = {"input_ids": [[7, 8, 9], [7]], "special_tokens_mask": [[1, 0, 0], [1]]}
    found = transformula.corrupt("bart", "token_deletion", backend, delete_probability=0, **given)
    assert found["input_ids"].tolist() == [[7, 8, 9], [7, 1, 1]]
    assert found["decoder_input_ids"].tolist() == [[2, 7, 8], [2, 1, 1]]
    other = transformula.corrupt("bart", "token_deletion", backend, pad_token_id=55, delete_probability=0, **given)
    assert other["input_ids"].tolist() == [[7, 8, 9], [7, 55, 55]]
    set_ = transformula.corrupt("bart", "token_deletion", backend, {"pad_token_id": 4}, delete_probability=0, **given)
    assert set_["input_ids"].tolist() == [[7, 8, 9], [7, 4, 4]]


def test_results_of_torch_stay_where_the_texts_are() -> None:
    given = {"input_ids": torch.tensor([[5, 6]]), "special_tokens_mask": torch.zeros(1, 2, dtype=torch.bool)}
    found = program("bart", "token_masking", "torch").corrupt(**given, mask_token_id=3)
    assert all(isinstance(x, torch.Tensor) and x.dtype == torch.int64 and x.device == given["input_ids"].device
               for x in found.values())  # fmt: skip


BASE: dict[str, Any] = {"input_ids": [[5, 6, 7]], "special_tokens_mask": [[0, 0, 0]], "mask_token_id": 3}
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"mlm_probability": 1.5}, "R911", "mlm_probability is a share between 0 and 1, and not 1.5"),
    ({"mlm_probability": -0.1}, "R911", "is a share between 0 and 1"),
    ({"mask_replace_prob": 2}, "R911", "mask_replace_prob is a share"),
    ({"mlm_probability": float("nan")}, "R911", "mlm_probability is a number"),
    ({"mlm_probability": [0.1, 0.2]}, "R911", "mlm_probability is a number, or one for each of 1 texts"),
    ({"mask_token_id": None}, "R902", "masking needs the input `mask_token_id`"),
    ({"special_tokens_mask": None}, "R902", "masking needs the input `special_tokens_mask`"),
    ({"mlm_probabilty": 0.1}, "R901", "Did you mean mlm_probability?"),
    ({"input_ids": [5, 6, 7]}, "R911", "input_ids should be whole numbers [batch, length]"),
    ({"input_ids": np.array([[0.5, 1, 2]])}, "R911", "input_ids should be whole numbers"),
    ({"special_tokens_mask": [[0, 0]]}, "R911", "special_tokens_mask is [1, 2] where input_ids is [1, 3]"),
    ({"attention_mask": [[1, 1]]}, "R911", "attention_mask is [1, 2] where input_ids is [1, 3]"),
    ({"example": -1}, "R911", "the number of an example counts from 0"),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("wrong", "code", "told"), MISTAKES, ids=[str(sorted(one[0])) for one in MISTAKES])
def test_mistakes_are_told(wrong: dict[str, Any], code: str, told: str, backend: str) -> None:
    with pytest.raises(TransformulaError) as caught:
        transformula.corrupt("bert", "masking", backend, **{**BASE, **wrong})
    (one,) = caught.value.diagnostics
    assert one.code == code
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "name", "told"),
    [
        ("bert", "maskin", "Did you mean masking?"),
        ("bert", "shuffle", "It has masking, next_sentence_pairs."),
        ("gpt2", None, "gpt2 has no corruption"),
    ],
)
def test_unknown_corruptions_are_told(spec: str, name: str | None, told: str) -> None:
    with pytest.raises(TransformulaError, match="N235") as caught:
        transformula.corrupt(spec, name, input_ids=[[1]])
    assert told in str(caught.value)


def test_a_model_corrupts_nothing() -> None:
    with pytest.raises(TransformulaError, match="`BertForMaskedLM` is a model and corrupts nothing"):
        _ = transformula.compile("bert", settings={"layers": 1}, entry="BertForMaskedLM").corrupt


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_beyond_all_bounds_is_refused(backend: str) -> None:
    text = "corruption Long(x[seq] as input_ids, n) → input_ids[out] = repeat[seq → out](x, n)\n"
    made = transformula.compile(text, backend)
    assert made.corrupt(input_ids=[[4, 5]], n=2)["input_ids"].tolist() == [[4, 4, 5, 5]]
    assert made.corrupt(input_ids=[[4, 5]], n=-2)["input_ids"].tolist() == [[]]
    with pytest.raises(TransformulaError, match="are the most"):
        made.corrupt(input_ids=[[4, 5]], n=2**40)
    with pytest.raises(TransformulaError, match="are the most"):
        corrupted(compile_graph(text).formula, {"input_ids": [4, 5], "n": 2**40})


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_entry_that_does_not_exist_is_told(backend: str) -> None:
    text = "corruption Past(x[seq] as input_ids, k) → input_ids[seq] = x[seq = index(seq) + k]\n"
    made = transformula.compile(text, backend)
    assert made.corrupt(input_ids=[[4, 5]], k=0)["input_ids"].tolist() == [[4, 5]]
    with pytest.raises(TransformulaError, match="reads an entry that does not exist"):
        made.corrupt(input_ids=[[4, 5]], k=1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_draw_whose_last_digit_decides_is_refused(backend: str) -> None:
    text = "config\n    n = 4\ncorruption C(x[seq] as input_ids) → input_ids[seq] = sample[n](0 * x[→ n])\n"
    with pytest.raises(TransformulaError, match="X992"):
        _ = transformula.compile(text, backend).source


SERVES = [
    ("bert", "masking", "BertForMaskedLM", "mlm"),
    ("bert", "next_sentence_pairs", "BertForPreTraining", "pretraining"),
    ("roberta", "masking", "BertForMaskedLM", "mlm"),
    ("albert", "sentence_order_pairs", "AlbertForPreTraining", "pretraining"),
    ("electra", "replaced_tokens", "ElectraForPreTraining", "detecting"),
    ("bart", "token_masking", "BartForConditionalGeneration", "denoising"),
    ("bart", "token_deletion", "BartForConditionalGeneration", "denoising"),
    ("bart", "text_infilling", "BartForConditionalGeneration", "denoising"),
    ("bart", "sentence_permutation", "BartForConditionalGeneration", "denoising"),
    ("bart", "document_rotation", "BartForConditionalGeneration", "denoising"),
    ("t5", "span_corruption", "T5ForConditionalGeneration", "seq2seq"),
]


@pytest.mark.parametrize(("spec", "name", "model", "objective"), SERVES)
def test_the_model_takes_what_a_corruption_gives(spec: str, name: str, model: str, objective: str) -> None:
    """The results have the names and lengths of the inputs of the objective that they serve."""
    made = program(spec, name, "numpy").compiled
    given = batch(made.formula, border(made.formula, made.config), 1).given
    found = program(spec, name, "numpy").corrupt(**given, seed=1)
    graph = compile_graph(spec, entry=model, settings={"layers": 1}, until="formula")
    (loss,) = (one for one in graph.losses if one.entry == objective)
    taken = {*allowed_inputs(graph.formula), *(one.name for one in loss.formula.inputs)}
    assert set(found) - taken <= {"special_tokens_mask"}
    axes = {one.name: one.axes for one in (*graph.formula.inputs, *loss.formula.inputs)}
    sizes: dict[str, int] = {}
    for one, value in found.items():
        if one in axes and len(axes[one]) == 2:
            assert sizes.setdefault(str(axes[one][1].size), value.shape[1]) == value.shape[1], one


def test_the_page_has_a_row_for_each_corruption() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "corruptions.md").read_text("utf-8")
    for spec, name, _, _ in SERVES:
        assert f"| `{name}` |" in text, f"{spec}: {name}"
    for line in re.findall(r"^    \$ transformula (corrupt .*)$", text, re.MULTILINE):
        told = text.partition(f"    $ transformula {line}\n")[2].partition("\n\n")[0]
        result = CliRunner().invoke(app, shlex.split(line))
        assert result.exit_code == 0, result.output
        shown = [row.strip() for row in told.splitlines() if row.strip() != "…"]
        assert set(shown) <= {row.strip() for row in result.stdout.splitlines()}, result.stdout
