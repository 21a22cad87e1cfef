"""Recognition is by meaning: every spelling of a formula ends as one node, and what differs is left alone."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tests.compiler import zoo
from transformula.compiler import kernels
from transformula.compiler.driver import compile_graph
from transformula.compiler.ir import Node, walk_all
from transformula.compiler.modules import read_source
from transformula.compiler.passes import probe

POINT = """spec t
from functions import sigmoid, gelu, gelu_tanh
config
    d = 5
    ε = 1e-12
model M(x[seq, d] as x) → y[seq, d] = {formula}
"""


def point(formula: str, where: str = "") -> str:
    """A spec of one formula of x[seq, d], with gain γ and shift β if it names them."""
    parts = "".join(
        f"    {'where' if i == 0 else '     '} {one}\n" for i, one in enumerate(where.split("; ")) if one
    )
    weights = [name for name in ("γ", "β") if name in formula]
    used = [name for name in ("sigmoid", "gelu_tanh", "gelu(") if name in formula + where]
    imports = ", ".join(name.strip("(") for name in used)
    text = POINT.replace(
        "from functions import sigmoid, gelu, gelu_tanh\n",
        f"from functions import {imports}\n" if used else "",
    )
    return (
        text.replace("{formula}", formula)
        + parts
        + (f"    weights {', '.join(weights)} : [d]\n" if weights else "")
    )


@cache
def result(text: str) -> Node:
    """The node of the result, after a check that module and formula agree."""
    made = zoo.whole(text)
    draw = np.random.default_rng(3)
    masked = {
        "input_ids": draw.integers(0, 20, (3, 4)),
        "attention_mask": np.array([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1]]),
    }
    given = masked if "input_ids" in text else {"x": draw.normal(size=(3, 4, 5)) * 3}
    found, wanted = zoo.model(made)(**given), zoo.reference_results(made.compiled.formula, given)
    assert zoo.difference(found, wanted) < 1e-12
    return made.graph.outputs[0].node


def names(root: Node) -> Counter[str]:
    """Kernels by name, and `core` for other work (weights are prepared, numbers cost nothing)."""
    found: Counter[str] = Counter()
    for one in walk_all([root]):
        if one.op == "kernel":
            found[one["name"]] += 1
        elif one.op in ("map", "reduce", "contract"):
            found["core"] += 1
    return found


def reasons(text: str) -> list[str]:
    return [
        line.reason
        for line in zoo.whole(text).ledger.lines
        if line.pass_name == "recognise" and not line.fired
    ]


def is_one(text: str, name: str) -> Node:
    """Asserts that the whole formula is one kernel node of x itself."""
    root = result(text)
    assert names(root) == {name: 1}, f"{names(root)}: {reasons(text)}"
    assert root.op == "kernel"
    assert root.args[0].op == "input"
    return root


# --- functions of one value -----------------------------------------------------------------------------------

SOFTMAX = [
    ("exp(x) / sum[d](exp(x))", ""),
    ("e / Z", "e = exp(x); Z = sum[d](e)"),
    ("exp(x - max[d](x)) / sum[d](exp(x - max[d](x)))", ""),
    ("e / sum[d](e)", "e = exp(x - top); top = max[d](x)"),
    ("exp(x - 3) / sum[d](exp(x - 3))", ""),
    ("exp(x - mean[d](x)) / sum[d](exp(x - mean[d](x)))", ""),
    ("exp(x) * (1 / sum[d](exp(x)))", ""),
    ("1 / sum[d](exp(x)) * exp(x)", ""),
    ("exp(x) ⊙ sum[d](exp(x))^(-1)", ""),
    ("exp(x - log(sum[d](exp(x))))", ""),
]
LOG_SOFTMAX = [
    ("log(exp(x) / sum[d](exp(x)))", ""),
    ("x - log(sum[d](exp(x)))", ""),
    ("x - top - log(sum[d](exp(x - top)))", "top = max[d](x)"),
    ("x - (top + log(sum[d](exp(x - top))))", "top = max[d](x)"),
    ("-log(sum[d](exp(x)) / exp(x))", ""),
    ("log(p)", "p = exp(x) / sum[d](exp(x))"),
]
MEAN, SQUARES = "μ = mean[d](x)", "mean[d]((x - μ)²)"
LAYER_NORM = [
    (f"γ ⊙ (x - μ) / √({SQUARES} + ε) + β", MEAN),
    (f"γ ⊙ ((x - μ) / √({SQUARES} + ε)) + β", MEAN),
    (f"(x - μ) / √({SQUARES} + ε) ⊙ γ + β", MEAN),
    ("β + (x - μ) ⊙ γ / √(mean[d]((x - μ) ⊙ (x - μ)) + ε)", MEAN),
    (f"(x - μ) / √({SQUARES} + ε)", MEAN),
    (f"(x - μ) / √({SQUARES})", MEAN),
    (f"γ ⊙ (x - μ) / √({SQUARES} + ε)", MEAN),
    (f"(x - μ) / √({SQUARES} + ε) + β", MEAN),
    ("γ ⊙ (x - μ) / √(sum[d]((x - μ)²) / d + ε) + β", MEAN),
    ("γ ⊙ (x - μ) / √(sum[d]((x - μ)²) / d + ε) + β", "μ = sum[d](x) / d"),
    (f"γ ⊙ (x - μ) * ({SQUARES} + ε)^(-1/2) + β", MEAN),
    (f"γ ⊙ (x - μ) / ({SQUARES} + ε)^0.5 + β", MEAN),
    (f"γ ⊙ (x - μ) * (1 / √({SQUARES} + ε)) + β", MEAN),
    ("γ ⊙ c / σ + β", f"c = x - {MEAN[4:]}; σ = √(mean[d](c²) + ε)"),
    ("√d * (x - μ) / ‖x - μ‖[d]", MEAN),
    ("γ ⊙ (x - μ) / σ + β", "μ = 1 / d * sum[d](x); σ = √(1 / d * sum[d]((x - μ)²))"),
    # Equal in exact arithmetic; near cancellation the stable form is the better value, so it is taken on purpose.
    ("(x - μ) / √(mean[d](x²) - μ² + ε)", MEAN),
]
RMS_NORM = [
    ("x / √(mean[d](x²) + ε) ⊙ γ", ""),
    ("γ ⊙ x * (mean[d](x²) + ε)^(-1/2)", ""),
    ("x / √(sum[d](x²) / d + ε)", ""),
    ("γ ⊙ (x / √(mean[d](x ⊙ x) + ε))", ""),
    ("γ ⊙ x / √(mean[d](x²))", ""),
    ("x / ‖x‖[d] * √d", ""),
    ("x / RMS ⊙ γ", "RMS = √(1 / d * sum[d](x²))"),
]
GELU = [
    ("x * (1 + erf(x / √2)) / 2", ""),
    ("0.5 * x * (1 + erf(x / √2))", ""),
    ("x / 2 * (1 + erf(x / √2))", ""),
    ("x * 0.5 * (1 + erf(x * √0.5))", ""),
    ("x ⊙ Φ", "Φ = (1 + erf(x / √2)) / 2"),
    ("x * (1 / 2 * (1 + erf(x / √2)))", ""),
    ("x * (1 - (1 + erf(-x / √2)) / 2)", ""),
    ("0.5 * (x + x * erf(x / √2))", ""),
    ("x * (0.5 + 0.5 * erf(x * 2^(-1/2)))", ""),
    ("x - x * (1 - erf(x / √2)) / 2", ""),
    ("(x + |x| * erf(|x| / √2)) / 2", ""),
]
GELU_TANH = [
    ("0.5 * x * (1 + tanh(√(2 / π) * (x + 0.044715 * x³)))", ""),
    ("x / 2 * (1 + tanh(√(2 / π) * x * (1 + 0.044715 * x²)))", ""),
    ("x / (1 + exp(-2 * √(2 / π) * (x + 0.044715 * x³)))", ""),
    ("0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))", ""),
    ("x * sigmoid(2 * √(2 / π) * (x + 0.044715 * x³))", ""),
]
SILU = [
    ("x * sigmoid(x)", ""),
    ("x / (1 + exp(-x))", ""),
    ("x * exp(x) / (1 + exp(x))", ""),
    ("x * (1 + tanh(x / 2)) / 2", ""),
]
SIGMOID = [
    ("1 / (1 + exp(-x))", ""),
    ("exp(x) / (1 + exp(x))", ""),
    ("(1 + tanh(x / 2)) / 2", ""),
    ("1 - 1 / (1 + exp(x))", ""),
]
RELU = [
    ("max(x, 0)", ""),
    ("max(0, x)", ""),
    ("x if x > 0 else 0", ""),
    ("0 if x ≤ 0 else x", ""),
    ("(x + |x|) / 2", ""),
    ("-min(-x, 0)", ""),
]
QUICK_GELU = [
    ("x * sigmoid(1.702 * x)", ""),
    ("x / (1 + exp(-1.702 * x))", ""),
    ("x * (1 + tanh(0.851 * x)) / 2", ""),
]
LEAKY_RELU = [
    ("max(x, 0.01 * x)", ""),
    ("x if x > 0 else 0.01 * x", ""),
    ("max(x, 0) + 0.01 * min(x, 0)", ""),
    ("0.01 * x + 0.99 * max(x, 0)", ""),
    ("x if x ≥ 0 else x / 100", ""),
]
UNIT = [
    ("x / ‖x‖[d]", ""),
    ("x / √(sum[d](x²))", ""),
    ("x * sum[d](x ⊙ x)^(-1/2)", ""),
    ("x / max(‖x‖[d], ε)", ""),
    ("x / max(√(sum[d](x²)), ε)", ""),
]
SUITES = {
    "quick_gelu": QUICK_GELU,
    "leaky_relu": LEAKY_RELU,
    "l2_normalize": UNIT,
    "softmax": SOFTMAX,
    "log_softmax": LOG_SOFTMAX,
    "layer_norm": LAYER_NORM,
    "rms_norm": RMS_NORM,
    "gelu": GELU,
    "gelu_tanh": GELU_TANH,
    "silu": SILU,
    "sigmoid": SIGMOID,
    "relu": RELU,
}
SPELLINGS = [(name, *one) for name, suite in SUITES.items() for one in suite]


@pytest.mark.parametrize(("name", "formula", "where"), SPELLINGS)
def test_spelling(name: str, formula: str, where: str) -> None:
    root = is_one(point(formula, where), name)
    if name.endswith("norm"):
        assert root["eps"] == (Fraction(1, 10**12) if "ε" in formula + where else 0)
        assert set(root["roles"]) == {"x"} | ({"gain"} if "γ" in formula else set()) | (
            {"shift"} if "β" in formula else set()
        )


@pytest.mark.parametrize("name", SUITES)
def test_equal_meanings_are_one_node(name: str) -> None:
    """Nodes are interned: spellings with the same weights and ε end as the very same object."""
    found: dict[tuple[object, ...], set[Node]] = {}
    for formula, where in SUITES[name]:
        root = result(point(formula, where))
        key = (root["roles"], root.get("eps"), root.get("least"))
        found.setdefault(key, set()).add(root)
    assert {len(same) for same in found.values()} == {1}


@pytest.mark.parametrize(("name", "text"), [("gelu_tanh", "gelu_tanh(x)"), ("gelu", "gelu(x)")])
def test_values_of_the_two_gelus(name: str, text: str) -> None:
    """BL-14: the largest gap between the two is 4.73e-4."""
    right = {
        "gelu": [-0.004049694, -0.158655254, 0.345731231, 0.841344746, 1.954499736, 2.995950306],
        "gelu_tanh": [-0.003637392, -0.158808009, 0.345714010, 0.841191991, 1.954597694, 2.996362608],
    }
    x = np.array([-3, -1, 0.5, 1, 2, 3.0])
    made = zoo.whole(point(text).replace("d = 5", "d = 6"))
    for dtype, tolerance in (("float64", 1e-9), ("float32", 1e-6)):
        np.testing.assert_allclose(
            zoo.model(made, dtype)(x=x[None, None])["y"][0, 0], right[name], atol=tolerance
        )


# --- what is not the same -------------------------------------------------------------------------------------

OTHERS = {
    "tanh-GELU with another number": ("0.5 * x * (1 + tanh(√(2 / π) * (x + 0.044714 * x³)))", ""),
    "tanh-GELU with a rounded root": ("0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x³)))", ""),
    "GELU with a rounded root": ("x * (1 + erf(x / 1.4142)) / 2", ""),
    "quick GELU with a rounded number": ("x / (1 + exp(-1.7 * x))", ""),
    "leaky ReLU that is bent twice": ("max(max(x, 0.01 * x), -1)", ""),
    "leaky ReLU, moved": ("max(x, 0.01 * x + 1e-6)", ""),
    "ReLU bounded": ("min(max(x, 0), 1000)", ""),
    "ReLU lifted": ("max(x, 1e-30)", ""),
    "softmax with a term below": ("exp(x) / (sum[d](exp(x)) + 1e-6)", ""),
    "softmax of two bases": ("2^x / sum[d](exp(x))", ""),
    "softmax, a millionth larger": ("exp(x) / sum[d](exp(x)) * (1 + 1e-6)", ""),
    "LayerNorm, a millionth larger": (f"(x - μ) / √({SQUARES} + ε) * (1 + 1e-6)", MEAN),
    "LayerNorm with ε outside the root": (f"(x - μ) / (√({SQUARES}) + 1e-6)", MEAN),
    "LayerNorm with a tiny ε outside the root": (f"(x - μ) / (√({SQUARES}) + 1e-30)", MEAN),
    "LayerNorm with a bound instead of ε": (f"(x - μ) / √(max({SQUARES}, ε))", MEAN),
    "LayerNorm with d - 1": ("(x - μ) / √(sum[d]((x - μ)²) / (d - 1) + ε)", MEAN),
    "LayerNorm of another mean": (f"(x - 2 * μ) / √({SQUARES} + ε)", MEAN),
    "vectors of sum 1": ("x / sum[d](|x|)", ""),
    "unit vectors with ε inside": ("x / √(sum[d](x²) + ε)", ""),
    "unit vectors with ε added": ("x / (‖x‖[d] + ε)", ""),
    "unit vectors with a bound of the square": ("x / √(max(sum[d](x²), ε))", ""),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_is_left_alone(name: str) -> None:
    found = names(result(point(*OTHERS[name])))
    assert found["core"], found


@pytest.mark.parametrize("eps", ["1e-5", "1e-6", "1e-12", "1e-30", "0.5"])
def test_the_eps_is_the_one_that_is_written(eps: str) -> None:
    for formula, where in ((f"(x - μ) / √({SQUARES} + {eps})", MEAN), (f"x / √(mean[d](x²) + {eps})", "")):
        root = result(point(formula, where))
        assert root["eps"] == Fraction(eps)
        zeros = zoo.model(zoo.whole(point(formula, where)))(x=np.zeros((1, 1, 5)))
        assert not zeros["y"].any()


def test_a_bound_before_the_function_stays() -> None:
    root = result(point("gelu(min(max(x, -1000), 1000))"))
    assert names(root) == {"gelu": 1, "core": 2}


def test_a_norm_over_another_axis_is_of_that_axis() -> None:
    text = point(f"(x - μ) / √({SQUARES} + ε)", MEAN)
    other = text.replace("[d]((", "[seq]((").replace("mean[d](x)", "mean[seq](x)")
    root = result(other)
    assert str(root["axis"]) == "seq"
    mixed = result(text.replace("mean[d](x)", "mean[seq](x)"))
    assert names(mixed)["core"]


def test_gain_and_shift_keep_their_places() -> None:
    """A gain that is added and a shift that multiplies are not exchanged by name."""
    root = result(point(f"β ⊙ (x - μ) / √({SQUARES} + ε) + γ", MEAN))
    at = kernels.parts(root)
    assert (at["gain"]["name"], at["shift"]["name"]) == ("β", "γ")


@pytest.mark.parametrize("values", [[1000, 1000, 0], [-1000, -1001, -1e4], [1e4, -1e4, 0]])
def test_the_literal_softmax_is_the_stable_one(values: list[float]) -> None:
    """BL-15: exp/sum as it stands on the page, and log of a named softmax, on scores that overflow."""
    x = np.array(values)
    right = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
    for dtype in ("float64", "float32"):
        soft = zoo.model(zoo.whole(point("exp(x) / sum[d](exp(x))").replace("d = 5", "d = 3")), dtype)
        np.testing.assert_allclose(soft(x=x[None, None])["y"][0, 0], right, rtol=1e-6)
        text = point("log(p)", "p = exp(x) / sum[d](exp(x))").replace("d = 5", "d = 3")
        logs = zoo.model(zoo.whole(text), dtype)(x=x[None, None])["y"][0, 0]
        np.testing.assert_allclose(logs, x - x.max() - np.log(np.exp(x - x.max()).sum()), rtol=1e-6)


# --- what is known of a form ---------------------------------------------------------------------------------


def told(text: str) -> tuple[Counter[str], list[str]]:
    made = compile_graph(text)
    found = Counter(str(one["name"]) for one in walk_all(made.graph.roots) if one.op == "kernel")
    return found, [str(line) for line in made.ledger.lines]


@pytest.mark.parametrize("name", ["norms", "meanings", "shares", "cls", "kinds", "similarities"])
def test_what_was_probed_before_changes_no_verdict(name: str) -> None:
    text = zoo.ZOO.get(name) or read_source(zoo.SHIPPED[name][0]).text
    probe._decided.cache_clear()
    first = told(text)
    known = probe._decided.cache_info()
    assert told(text) == first
    again = probe._decided.cache_info()
    assert again.misses == known.misses, "a form that is known was probed again"
    assert again.hits > known.hits


def test_forms_that_differ_in_a_number_a_size_or_an_axis_are_probed_each() -> None:
    text = zoo.ZOO["norms"]
    told(text)
    for old, new in (("1e-5", "1e-4"), ("d = 12", "d = 15"), ("layer_norm[d]", "layer_norm[seq]")):
        known = probe._decided.cache_info().misses
        other = text.replace(old, new)
        assert other != text
        compile_graph(other.replace("layer_norm[seq](u + r, γ, β, 1e-5)", "layer_norm[seq](u + r, ε = 1e-5)"))
        assert probe._decided.cache_info().misses > known
