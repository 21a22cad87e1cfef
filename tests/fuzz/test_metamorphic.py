"""Relations between results of one module: they need no reference, and hold for every model."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
import torch

from tests.compiler import zoo
from tests.compiler.spec_tools import Array, rng
from tests.fuzz import oracle
from tests.fuzz.strategies import run, specs
from tests.fuzz.torch_side import module
from transformula.backends.program import Program
from transformula.compiler import pipeline, reference
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.ledger import Ledger

IDS = [name for name in zoo.NAMES if name not in (*zoo.TWO, "no_length", "similarities")]
BACKENDS = ["numpy", "torch padded", "torch packed"]
MASK = np.array([[0, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0], [1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]])
Results = dict[str, Array]


def compiled(name: str) -> Compiled:
    """A model of the zoo in all its stages."""
    return zoo.whole(name).compiled


def lengths(made: Compiled, name: str) -> list[int]:
    """The dimensions of a result that are the length of the text."""
    (out,) = [one for one in made.formula.outputs if one.name == name]
    return [place for place, axis in enumerate(out.axes) if axis.ragged and axis != made.formula.batch]


def at(made: Compiled, found: Results, columns: Array) -> Results:
    """The results at some columns of the text."""
    kept = {}
    for name, value in found.items():
        for place in lengths(made, name):
            value = np.take(value, columns, axis=place)
        kept[name] = value
    return kept


def close(found: Results, right: Results) -> None:
    """Asserts that results agree to the rounding of another order."""
    assert zoo.difference(found, right) < 1e-11


def holds_for(made: Compiled, compute: oracle.Run, given: Results) -> None:
    """The laws of batches: the order of examples, what stands at padding, how much of it, and being alone."""
    whole, mask = compute(given), given["attention_mask"]
    order = rng(5).permutation(len(mask))
    close(compute({key: value[order] for key, value in given.items()}), {n: v[order] for n, v in whole.items()})
    real = np.array([np.logical_or.accumulate(row) & np.logical_or.accumulate(row[::-1])[::-1] for row in mask != 0])
    close(compute({**given, "input_ids": np.where(real, given["input_ids"], 10**6)}), whole)
    tokens = [key for key, value in given.items() if value.shape == mask.shape]  # what else there is has no padding
    wide = {**given, **{key: np.pad(given[key], ((0, 0), (2, 3))) for key in tokens}}
    close(at(made, compute(wide), np.arange(2, 2 + mask.shape[1])), whole)
    for row, places in enumerate(map(np.flatnonzero, real)):
        if len(places):
            one = {key: value[row : row + 1] for key, value in given.items()}
            one |= {key: one[key][:, places] for key in tokens}
            kept = {n: value[row : row + 1] for n, value in whole.items()}
            close(compute(one), at(made, kept, places))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", IDS)
def test_laws_of_batches(name: str, backend: str) -> None:
    program = dict(oracle.programs(compiled(name)))[backend]
    holds_for(compiled(name), oracle.runner(program), zoo.inputs(name, MASK))


def test_laws_of_batches_for_random_specs() -> None:
    counts: Counter[str] = Counter()

    def body(text: str) -> None:
        made = compile_graph(text)
        given = oracle.inputs(made.formula, MASK, 3)
        if oracle.wanted(made.formula, given) is None:
            return
        for name, program in oracle.programs(made):
            if oracle.expressed(program) and counts["torch packed"] < 12:
                holds_for(made, oracle.runner(program), given)
                counts[name] += 1

    run(specs(), body, 21, 20)
    assert min(counts[name] for name in BACKENDS) >= 12


# --- along the text --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["gpt", "page", "rope", "running"])
def test_the_future_changes_nothing(name: str, backend: str) -> None:
    """Other tokens after i leave every result up to i as it is, and so does leaving them out."""
    made = compiled(name)
    compute = oracle.runner(dict(oracle.programs(made))[backend])
    ids = rng(1).integers(0, 20, (2, 7))
    whole = compute({"input_ids": ids})
    for i in range(1, 7):
        other = ids.copy()
        other[:, i:] = rng(i).integers(0, 20, other[:, i:].shape)
        before = at(made, whole, np.arange(i))
        close(at(made, compute({"input_ids": other}), np.arange(i)), before)
        close(compute({"input_ids": ids[:, :i]}), before)
    other = ids.copy()
    other[:, 0] = (ids[:, 0] + 1) % 20
    assert zoo.difference(compute({"input_ids": other}), whole) > 1e-6  # the past does


# --- inside the model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["gpt", "page", "window", "alibi", "maps"])
def test_heads_in_another_order(name: str, backend: str) -> None:
    """Heads exchanged in W_Q, W_K, W_V and W_O (and in a bias along heads: a slope of each) are the same model."""
    if name == "alibi":  # the slope of a head is its place's: equal slopes for all
        made = zoo.whole(zoo.ZOO[name].replace("2^(-8 * (h + 1) / head)", "2^(-8 + 0 * h)")).compiled
    else:
        made = compiled(name)
    program = dict(oracle.programs(made))[backend]
    order = np.array([2, 0, 1])
    values = zoo.weight_values(made.formula)
    moved = {}
    for one in made.formula.weights:
        places = [place for place, axis in enumerate(one.axes) if axis.name == "head"]
        moved[one.name] = np.take(values[one.name], order, axis=places[0]) if places else values[one.name]
    given = zoo.inputs(name)
    found = with_weights(program, moved, given)
    right = with_weights(program, values, given)
    if "w" in found:  # the maps have their heads in the new order
        right["w"] = right["w"][..., order]
    close(found, right)
    (query,) = [key for key in values if key.endswith("W_Q")]  # of the query alone is another model
    assert zoo.difference(with_weights(program, {**values, query: moved[query]}, given), right) > 1e-6


def with_weights(program: Program, values: Results, given: Results) -> Results:
    """The results of a module with these weights."""
    if program.backend == "numpy":
        made = zoo.module(program.source)["Model"](zoo.nested(program.compiled.formula, values), dtype="float64")
        return dict(made(**given))
    from transformula.backends.torch.loading import fill

    torch_module = module(program)
    fill(program, torch_module, values)
    with torch.no_grad():
        found = torch_module(**{key: torch.from_numpy(np.array(value)) for key, value in given.items()})
    return {key: value.numpy() for key, value in found.items()}


TWINS = zoo.spec(
    "layer_norm",
    """block Tower(x[d]) → [d] = layer_norm[d](tanh(x @ W), γ)
    weights W : [d → d]
            γ : [d]
model M(tokens[seq] as input_ids, targets[tgt] as decoder_input_ids) → near = u @[d] v, far[d] = |u - v|
    where u = tower(mean[seq](E[vocab = tokens]))
          v = tower(mean[tgt](E[vocab = targets]))
    uses tower : Tower
    weights E : [vocab, d]
""",
)


@pytest.mark.parametrize("backend", BACKENDS)
def test_twin_towers_exchanged(backend: str) -> None:
    made = zoo.whole(TWINS).compiled
    compute = oracle.runner(dict(oracle.programs(made))[backend])
    first, second = rng(1).integers(0, 20, (3, 5)), rng(2).integers(0, 20, (3, 4))
    close(
        compute({"input_ids": first, "decoder_input_ids": second}),
        compute({"input_ids": second, "decoder_input_ids": first}),
    )


DROPS = zoo.attention_spec("attention[key](Q, K, V, drop = 0)").replace("attn(E", "attn(dropout(E").replace(
    "tokens]) @[d] E", "tokens], 0)) @[d] E"
)  # fmt: skip


def test_dropping_nothing_is_evaluation() -> None:
    """At a rate of 0 training and evaluation are the same, in the reference and in a module; at 0.5 they are not."""
    given = zoo.inputs("gpt")
    for text, equal in ((DROPS, True), (DROPS.replace("], 0)", "], 0.5)"), False)):
        assert text.count("dropout(") == 1
        graph = zoo.whole(text).compiled.formula
        values = zoo.weight_values(graph)
        both = [reference.run(graph, values, given, training=training) for training in (True, False)]
        assert (zoo.difference(*both) == 0) == equal
        trained = module(dict(oracle.programs(zoo.whole(text).compiled))["torch padded"]).train()
        with torch.no_grad():
            found = trained(**{key: torch.from_numpy(value) for key, value in given.items()})["logits"].numpy()
        assert (zoo.difference({"logits": found}, both[1]) < 1e-11) == equal


# --- the order of passes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt", "rope", "norms", "post_norm", "deberta", "bert"])
def test_passes_after_recognition_in_any_order(name: str) -> None:
    """Each order of what follows `recognise` keeps every result: their places are a matter of what they find."""
    stages = {one.name: one.graph for one in compiled(name).stages}
    rows = [row for row in pipeline.table() if row.name in ("fold_scales", "merge_projections", "fuse")]
    given = zoo.inputs(name)
    for order in permutations(rows):
        graph = stages["recognise"]
        for row in order:
            graph = row.run(graph, Ledger())
        close(zoo.reference_results(graph, given), zoo.wanted(name))
