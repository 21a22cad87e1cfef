"""Attention within bounds in generated modules: the formula's values, and no table of queries and keys."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.compiler import zoo
from tests.compiler.masked import BIAS, CROSSED, MODELS, SLOPES, attending
from tests.compiler.spec_tools import Array, rng
from transformula.backends.program import Program, compile
from transformula.backends.torch.loading import fill
from transformula.compiler import reference

ALL = {**MODELS, **{f"two texts, {name}": text for name, text in CROSSED.items()}}
WAYS = ("numpy", "padded", "packed")
BLOCKS: dict[str, dict[str, Any]] = {
    "numpy": {"QUERIES": 2, "SCORES": 40},
    "packed": {"QUERIES": 2, "ROWS": 8},
    "padded": {"BAND": (2, 4), "EVEN": 1},
}
"""Blocks so small that ordinary test arrays need several."""


@cache
def program(name: str, way: str, without: tuple[str, ...] = ()) -> Program:
    text = ALL.get(name, name)
    if way == "numpy":
        return compile(text, without=without)
    return compile(text, "torch", layout=way, without=without)


def module(name: str, way: str, without: tuple[str, ...] = (), dtype: torch.dtype = torch.float64) -> Any:
    made = program(name, way, without)
    if way == "numpy":
        return zoo.model(made)
    one: nn.Module = zoo.module(made.source)["Model"](dtype=dtype)
    fill(made, one, zoo.weight_values(made.compiled.formula))
    return one.eval()


def called(one: Any, given: dict[str, Array]) -> dict[str, Array]:
    if not isinstance(one, nn.Module):
        found: dict[str, Array] = one(**given)
        return found
    with torch.no_grad():
        return {key: made.numpy() for key, made in one(**tensors(given)).items()}


def tensors(given: dict[str, Array]) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(np.array(array)) for key, array in given.items()}


def names_of(one: Any) -> dict[str, Any]:
    """The names of the generated module that the model belongs to."""
    method: Any = one.forward if isinstance(one, nn.Module) else one.__call__
    found: dict[str, Any] = method.__func__.__globals__
    return found


def inputs(name: str, mask: Array = zoo.MASK) -> dict[str, Array]:
    return zoo.inputs("two" if name.startswith("two texts") else name, mask)


@cache
def wanted(name: str) -> dict[str, Array]:
    return zoo.reference_results(program(name, "numpy").compiled.formula, inputs(name))


# --- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ALL)
def test_the_values_are_those_of_the_formula(name: str, way: str) -> None:
    """Whole, padded on either side, with a hole, empty and of length 1 in one batch; in blocks that cut them, too."""
    one = module(name, way)
    assert zoo.difference(called(one, inputs(name)), wanted(name)) < 1e-11
    names = names_of(one)
    names.update({key: size for key, size in BLOCKS[way].items() if key in names})
    assert zoo.difference(called(one, inputs(name)), wanted(name)) < 1e-11


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["causal", "window", "ahead", "good keys, near", "prefix", "two texts, near"])
def test_any_batch_and_length(name: str, way: str) -> None:
    one, formula = module(name, way), program(name, way).compiled.formula
    for shape in ((0, 5), (2, 1), (2, 2), (3, 0), (1, 9)):
        given = inputs(name, np.ones(shape, int))
        assert zoo.difference(called(one, given), zoo.reference_results(formula, given)) < 1e-11, shape


LONG = ["causal", "sliding", "blocks", "causal with a bias", "good keys, causal", "later"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LONG)
def test_long_examples_need_several_blocks(name: str, way: str) -> None:
    """Beyond every block size, lengths mixed; in float64 beside the same module without the pass."""
    mask = np.arange(300) < np.array([300, 1, 299, 130, 0, 64])[:, None]
    mask[2], mask[3, 50] = mask[2, ::-1], False
    given = {"input_ids": rng(1).integers(0, 20, mask.shape), "attention_mask": mask.astype(int)}
    dense = called(module(name, "numpy", ("fold_masks", "unpad")), given)
    assert zoo.difference(called(module(name, way), given), dense) < 1e-11


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["causal", "sliding"])
def test_large_scores(name: str, way: str) -> None:
    """The shift of the scores, and the coordinate that hides keys: shares stay shares."""
    made, given = program(name, way), inputs(name)
    graph = next(stage.graph for stage in made.compiled.stages if stage.name == "recognise")  # the stable form
    for size in (1e2, 1e4):
        values = zoo.weight_values(made.compiled.formula)
        values |= {n: w * size**0.5 for n, w in values.items() if n.endswith(("W_Q", "W_K"))}
        if way == "numpy":
            stored = zoo.nested(made.compiled.formula, values)
            one = zoo.module(made.source)["Model"](stored, dtype="float64", threads=1)
        else:
            one = zoo.module(made.source)["Model"](dtype=torch.float64).eval()
            fill(made, one, values)
        assert zoo.difference(called(one, given), reference.run(graph, values, given)) < 1e-9


@pytest.mark.parametrize("way", ["padded", "packed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["causal", "sliding", "strictly earlier", "good keys, causal"])
def test_narrow_types(name: str, dtype: torch.dtype, way: str) -> None:
    """Values that nobody may see are finite, and as good as the type's few digits."""
    with torch.no_grad():
        found = module(name, way, (), dtype)(**tensors(inputs(name)))
    for key, value in wanted(name).items():
        assert torch.isfinite(found[key]).all()
        off = np.abs(found[key].double().numpy() - value).max() / max(1.0, float(np.abs(value).max()))
        assert off < {torch.float32: 1e-4, torch.bfloat16: 0.1, torch.float16: 0.02}[dtype]


# --- what torch asks of a module ------------------------------------------------------------------------------

FORMED = ["causal", "layers", "groups", "no heads", "window", "sliding", "wide window", "ahead", "good keys, causal"]


@pytest.mark.parametrize("name", ["layers", "groups", "window", "good keys, causal"])
def test_compiles_as_one_graph(name: str) -> None:
    compiled = torch.compile(module(name, "padded"), fullgraph=True, backend="aot_eager")
    assert zoo.difference(called(compiled, inputs(name)), wanted(name)) < 1e-11


@pytest.mark.parametrize("name", ["causal", "wide window", "good keys, near"])
def test_exports_with_any_batch_and_length(name: str) -> None:
    one, given = module(name, "padded"), tensors(inputs(name))
    sizes = {0: torch.export.Dim("batch", min=2, max=64), 1: torch.export.Dim("seq", min=2, max=512)}
    shapes = {"input_ids": sizes, "attention_mask": sizes}
    exported = torch.export.export(one, (), given, dynamic_shapes=shapes).module()
    for batch, seq in ((2, 2), (5, 63), (3, 300)):
        other = {"input_ids": torch.randint(0, 20, (batch, seq)), "attention_mask": torch.rand(batch, seq) < 0.7}
        with torch.no_grad():
            for key, value in one(**other).items():
                torch.testing.assert_close(exported(**other)[key], value)


@pytest.mark.parametrize("way", ["padded", "packed"])
@pytest.mark.parametrize("name", [*FORMED, "strictly earlier", "causal with a bias", "prefix"])
def test_gradients_are_those_of_the_table(name: str, way: str) -> None:
    found, dense = (gradients(module(name, way, without), inputs(name)) for without in ((), ("fold_masks",)))
    largest = max(float(np.abs(value).max()) for value in dense.values())
    assert list(found) == list(dense)
    for key, value in dense.items():
        np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-12 * largest)


def gradients(one: nn.Module, given: dict[str, Array]) -> dict[str, Array]:
    torch.autograd.backward([v.square().sum() for v in one(**tensors(given)).values()])
    return {n: p.grad.numpy() for n, p in one.named_parameters() if p.grad is not None}


FORMS = {
    "causal": "",
    "layers": "",
    "sliding": "",
    "good keys, causal": "",
    "causal with a bias": "its bias is a table of queries and keys",
    "every other": "a part of the mask is no bound",
    "prefix": "its bounds are no window of a fixed width around each query",
    "blocks": "its bounds are no window of a fixed width around each query",
    "strictly earlier": "its bounds are no window of a fixed width around each query",
    "two texts, top-left": "its bounds are no window of a fixed width around each query",
}


@pytest.mark.parametrize("name", FORMS)
def test_the_ledger_says_why_a_padded_batch_needs_a_table(name: str) -> None:
    made = program(name, "padded")
    assert ("scaled_dot_product_attention(" in made.source.split("run-time functions")[0]) == bool(FORMS[name])
    lines = [line for line in made.ledger.lines if line.rule == "padded"]
    assert [(line.fired, line.reason) for line in lines] == [(not FORMS[name], FORMS[name])]


# --- what is computed -----------------------------------------------------------------------------------------

SEQ = 1024


class Products:
    """NumPy with a count of the scores and sums that its matrix products make."""

    def __init__(self) -> None:
        self.made = 0

    def __getattr__(self, name: str) -> Any:
        return self.matmul if name == "matmul" else getattr(np, name)

    def matmul(self, a: Array, b: Array, out: Array | None = None) -> Array:
        self.made += a.size * b.shape[-1]
        result: Array = np.matmul(a, b, out=out)
        return result


def products(name: str, without: tuple[str, ...] = (), seq: int = SEQ) -> int:
    one, count = module(name, "numpy", without), Products()
    names_of(one)["np"] = count
    called(one, {"input_ids": rng(0).integers(0, 20, (1, seq))})
    return count.made


def linear(seq: int = SEQ) -> int:
    """Products of the projections, which no mask changes."""
    return seq * 12 * (36 + 12 + 20)


def test_causal_attention_makes_half_of_the_products() -> None:
    dense = products("causal", ("fold_masks",)) - linear()
    assert dense == 2 * SEQ * SEQ * 12
    assert 0.5 < (products("causal") - linear()) / dense < 0.54
    assert 0.5 < (products("later") - linear()) / dense < 0.54


def test_a_window_makes_a_band_of_products() -> None:
    dense = products("sliding", ("fold_masks",)) - linear()
    assert (products("sliding") - linear()) / dense < 0.07
    assert (products("blocks") - linear()) / dense < 0.07
    assert products("nothing") == linear(), "where nothing is seen nothing is computed"
    long = products("sliding", (), 2 * SEQ) - linear(2 * SEQ)
    assert long < 2.1 * (products("sliding") - linear()), "twice the length is twice the work"


def test_a_short_prefix_is_all_that_is_looked_at() -> None:
    assert products("short prefix") - linear() == 2 * SEQ * 2 * 12


@contextmanager
def peak() -> Iterator[Callable[[], int]]:
    """The largest amount of memory that NumPy held at once, in bytes, beside what it had."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    yield lambda: tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()


TABLELESS = ["causal", "sliding", "blocks", "prefix", "causal with a bias", "good keys, causal", "every other"]


def held(name: str, given: dict[str, Array], without: tuple[str, ...] = ()) -> int:
    """The memory that a NumPy module takes for some texts, with few scores at a time."""
    one = module(name, "numpy", without)
    names_of(one)["SCORES"] = 1 << 15
    with peak() as most:
        called(one, given)
        return most()


@pytest.mark.parametrize("name", TABLELESS)
def test_numpy_makes_no_table_of_queries_and_keys(name: str) -> None:
    """Nothing like [seq, key], be it of truth values: one such table has seq² bytes."""
    seq = 2 * SEQ
    assert held(name, {"input_ids": rng(0).integers(0, 20, (1, seq))}) < seq * seq / 1.5


def test_the_pass_is_what_saves_numpy_the_table() -> None:
    assert held("causal", {"input_ids": rng(0).integers(0, 20, (1, SEQ))}, ("fold_masks",)) > SEQ * SEQ


@pytest.mark.parametrize("name", ["two texts, top-left", "two texts, bottom-right"])
def test_numpy_makes_no_table_for_one_example_at_a_time(name: str) -> None:
    seq = 2 * SEQ
    given = {"input_ids": rng(0).integers(0, 20, (1, seq)), "decoder_input_ids": rng(0).integers(0, 20, (1, seq))}
    assert held(name, given) < seq * seq / 1.5


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The largest number of entries of any tensor that an operation of torch makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            if isinstance(one, torch.Tensor):
                self.entries = max(self.entries, one.untyped_storage().nbytes() // one.element_size())
        return made


@pytest.mark.parametrize("padding", ["none", "left and a hole"])
@pytest.mark.parametrize("way", ["padded", "packed"])
@pytest.mark.parametrize("name", ["causal", "layerless", "sliding", "wide window", "good keys, causal"])
def test_torch_makes_no_table_of_queries_and_keys(name: str, way: str, padding: str) -> None:
    """float32, as the CPU's fused kernel has it; what the kernel holds inside is a block."""
    name = "page" if name == "layerless" else name
    mask = torch.ones((1, SEQ), dtype=torch.int64)
    if padding != "none":
        mask[:, :5] = mask[:, 300] = 0
    given = {"input_ids": torch.randint(0, 20, (1, SEQ)), "attention_mask": mask}
    found = {}
    for without in ((), ("fold_masks",)):
        with torch.no_grad(), Largest() as largest:
            module(name, way, without, torch.float32)(**given)
        found[without] = largest.entries
    assert found[("fold_masks",)] >= (SEQ - 5) ** 2
    assert found[()] < SEQ * SEQ / 3


def test_packed_blocks_of_torch_take_a_bias_in_blocks() -> None:
    text = attending("j ≤ i", "attention", BIAS, SLOPES)
    with torch.no_grad(), Largest() as largest:
        module(text, "packed", (), torch.float32)(input_ids=torch.randint(0, 20, (1, SEQ)))
    assert largest.entries < SEQ * SEQ / 2
