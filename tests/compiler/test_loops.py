"""Recurrences: several states, earlier states, nesting, scans over a length, deep stacks."""

import sys
import time

import numpy as np
import pytest

from tests.compiler.spec_tools import Array, close, codes, lowered, rng, run, value, weight_values

X = rng(1).normal(size=(2, 3, 4))  # [batch, seq, d]
LAYER = (
    "config\n    d = 4\n    layers = 3\n    groups = 2\n"
    "    inner = 2\n    steps = 2\n"
    "block Layer(x[d]) → [d] = x + tanh(x @ W)\n"
    "    weights W : [d → d]\n"
)
PLAIN = """\
model M(x[seq, d]) → [seq, d] = {result}
    where
        h[0] = x
        for l in layers:
            h[l + 1] = layer[l](h[l])
    uses layer[layers] : Layer
"""


def states(text: str, count: int = 3) -> list[Array]:
    w = weight_values(lowered(text))["layer[layers].W"]
    found = [X]
    for number in range(count):
        found.append(found[-1] + np.tanh(found[-1] @ w[number]))
    return found


@pytest.mark.parametrize(
    ("result", "number"),
    [("h[layers]", 3), ("h[0]", 0), ("h[layers - 1]", 2), ("h[1]", 1), ("h[3]", 3), ("h[layers // 2]", 1)],
)
def test_any_state_may_be_read(result: str, number: int) -> None:
    text = LAYER + PLAIN.format(result="h[layers]")
    close(value(LAYER + PLAIN.format(result=result), x=X), states(text)[number])


def test_a_sum_of_states() -> None:
    text = LAYER + PLAIN.format(result="h[layers] + 2 * h[layers - 1] + h[0]")
    found = states(text)
    close(value(text, x=X), found[3] + 2 * found[2] + found[0])


def test_states_that_do_not_exist() -> None:
    assert codes(LAYER + PLAIN.format(result="h[4]")) == {"I804"}
    assert codes(LAYER + PLAIN.format(result="h[layers / 2]")) == {"I802"}
    assert codes(LAYER + PLAIN.format(result="h")) == {"N208"}
    assert codes(LAYER + PLAIN.format(result="h[layers]").replace("        h[0] = x\n", "")) == {"N214"}


def test_the_step_is_a_number() -> None:
    text = LAYER + PLAIN.format(result="h[layers]").replace(
        "layer[l](h[l])", "h[l] * (l + 1) + layers - l"
    ).replace("    uses layer[layers] : Layer\n", "")
    h = X
    for number in range(3):
        h = h * (number + 1) + 3 - number
    close(value(text, x=X), h)


def test_several_states() -> None:
    text = LAYER + (
        "model M(x[seq, d]) → [seq, d] = a[layers] + b[layers]\n"
        "    where\n        a[0] = x\n        b[0] = 2 * x\n"
        "        for l in layers:\n            a[l + 1] = b[l] + c\n"
        "            b[l + 1] = a[l] - c\n"
        "            c = a[l] * b[l] / 10\n"
    )
    a, b = X, 2 * X
    for _ in range(3):
        c = a * b / 10
        a, b = b + c, a - c
    close(value(text, x=X), a + b)


def test_a_step_may_use_the_new_state_of_another() -> None:
    text = LAYER + (
        "model M(x[seq, d]) → [seq, d] = b[layers]\n    where\n        a[0] = x\n        b[0] = 2 * x\n"
        "        for l in layers:\n            b[l + 1] = a[l + 1] - b[l]\n            a[l + 1] = a[l] / 2\n"
    )
    a, b = X, 2 * X
    for _ in range(3):
        a = a / 2
        b = a - b
    close(value(text, x=X), b)


def test_a_value_residual_reads_the_first_state_of_another_recurrence() -> None:
    text = LAYER + (
        "model M(x[seq, d]) → [seq, d] = h[layers]\n    where\n        h[0] = x\n        v[0] = x\n"
        "        for l in layers:\n"
        "            v[l + 1] = tanh(h[l])\n"
        "            h[l + 1] = h[l] + v[l + 1] + (v[1] if l > 0 else 0)\n"
    )
    h, first = X, np.zeros_like(X)
    for number in range(3):
        v = np.tanh(h)
        if number > 0:
            h = h + v + first
        else:
            h, first = h + v, v
    close(value(text, x=X), h)


def test_fibonacci_reads_two_states_back() -> None:
    text = (
        "config\n    n = 10\nmodel M(x[seq]) → [seq] = f[n]\n    where\n        f[0] = x\n        f[1] = x\n"
        "        for l in 1..n:\n            f[l + 1] = f[l] + f[l - 1]\n"
    )
    close(value(text, x=np.ones((1, 2))), np.full((1, 2), 89.0))


def test_a_loop_from_one() -> None:
    text = LAYER + (
        "model M(x[seq, d]) → [seq, d] = h[layers]\n    where\n        h[0] = x\n        h[1] = 2 * h[0]\n"
        "        for l in 1..layers:\n            h[l + 1] = layer[l](h[l])\n    uses layer[layers] : Layer\n"
    )
    w, h = weight_values(lowered(text))["layer[layers].W"], 2 * X
    for number in (1, 2):
        h = h + np.tanh(h @ w[number])
    close(value(text, x=X), h)
    first = text.replace("= h[layers]\n", "= h[layers] + h[0] + h[1] + h[2]\n")
    two = 2 * X + np.tanh(2 * X @ w[1])
    close(value(first, x=X), h + X + 2 * X + two)


def test_skips_as_in_a_u_net() -> None:
    """The second half adds the states of the first half, the nearest last."""
    text = (
        "config\n    d = 4\n    layers = 6\nblock Layer(x[d]) → [d] = tanh(x @ W)\n    weights W : [d → d]\n"
        "model M(x[seq, d]) → [seq, d] = h[layers]\n    where\n        h[0] = x\n        for l in layers:\n"
        "            h[l + 1] = layer[l](h[l] + (h[layers - l] if l ≥ layers / 2 else 0))\n"
        "    uses layer[layers] : Layer\n"
    )
    w, found = weight_values(lowered(text))["layer[layers].W"], [X]
    for number in range(6):
        skip = found[6 - number] if number >= 3 else 0
        found.append(np.tanh((found[-1] + skip) @ w[number]))
    close(value(text, x=X), found[-1])


ALBERT = LAYER.replace("layers = 3", "layers = 5") + (
    "model M(x[seq, d]) → [seq, d] = x_[layers]\n    where\n        x_[0] = x\n        for l in layers:\n"
    "            h[0] = x_[l]\n            for k in inner:\n"
    "                h[k + 1] = layer[l * groups // layers, k](h[k])\n"
    "            x_[l + 1] = h[inner]\n    uses layer[groups, inner] : Layer\n"
)


def test_bl_24_nested_loops_and_groups() -> None:
    w, h = weight_values(lowered(ALBERT))["layer[groups, inner].W"], X
    assert w.shape == (2, 2, 4, 4)
    for number in range(5):
        for k in range(2):
            h = h + np.tanh(h @ w[number * 2 // 5, k])
    close(value(ALBERT, x=X), h)


@pytest.mark.parametrize(
    ("layers", "groups", "wanted"),
    [(12, 4, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]), (5, 2, [0, 0, 0, 1, 1]), (22, 22, list(range(22)))],
)
def test_bl_24_which_group_a_layer_uses(layers: int, groups: int, wanted: list[int]) -> None:
    text = (
        "config\n    layers = 1\n    groups = 1\n"
        "block Add(x[seq]) → [seq] = x * 100 + g\n"
        "    weights g : []\n"
        "model M(x[seq]) → [layers, seq] = [h[layers]][→ layers]\n"
    )
    text = (
        "config\n    layers = 1\n    groups = 1\n"
        "block Add(x[seq, layers], l) → [seq, layers] = g if index(layers) == l else x\n"
        "    weights g : []\n"
        "model M(x[seq, layers]) → [seq, layers] = h[layers]\n"
        "    where\n        h[0] = x\n        for l in layers:\n"
        "            h[l + 1] = add[l * groups // layers](h[l], l)\n"
        "    uses add[groups] : Add\n"
    )
    found = value(
        text,
        {"add[groups].g": np.arange(groups)},
        x=np.zeros((1, 1, layers)),
        settings={"layers": layers, "groups": groups},
    )
    assert found[0, 0].tolist() == wanted


def test_bl_24_one_shared_weight() -> None:
    text = (
        "config\n    layers = 3\nblock Times(x[seq]) → [seq] = w * x\n    weights w : []\n"
        "model M(x[seq]) → [seq] = h[layers]\n    where\n"
        "        h[0] = x\n        for l in layers:\n"
        "            h[l + 1] = layer(h[l])\n"
        "    uses layer : Times\n"
    )
    graph = lowered(text)
    assert [one.shape for one in graph.weights] == [()]
    close(value(graph, {"layer.w": 2}, x=np.ones((1, 1))), [[8.0]])


def test_one_shared_instance_is_not_numbered() -> None:
    assert codes(LAYER + PLAIN.format(result="h[layers]").replace("layer[layers] :", "layer :")) == {"U701"}
    assert codes(LAYER + PLAIN.format(result="h[layers]").replace("layer[l](", "layer(")) == {"U703"}


def test_a_number_outside_the_stack() -> None:
    text = LAYER + "model M(x[seq, d]) → [seq, d] = layer[3](x)\n    uses layer[layers] : Layer\n"
    assert codes(text) == {"I801"}
    w = weight_values(lowered(text.replace("layer[3]", "layer[2]")))["layer[layers].W"]
    close(value(text.replace("layer[3]", "layer[2]"), x=X), X + np.tanh(X @ w[2]))


def test_a_state_keeps_its_axes() -> None:
    text = (
        "config\n    d = 4\n    layers = 2\n"
        "model M(x[d]) → [seq, d] = h[layers]\n    where\n"
        "        h[0] = x\n        for l in layers:\n"
        "            h[l + 1] = h[l] + y\n"
    )
    assert codes(text.replace("M(x[d])", "M(x[d], y[seq, d])")) == {"A125"}


def test_what_does_not_depend_on_the_step_is_computed_outside() -> None:
    text = LAYER + PLAIN.format(result="h[layers]").replace(
        "layer[l](h[l])", "layer[l](h[l]) + sum[d](exp(x))"
    )
    graph = lowered(text)
    (loop,) = [one for one in graph.nodes() if one.op == "loop"]
    assert not [one for one in loop["body"][0].args if one.op == "reduce" and loop["loop"] in one.free]
    found = X
    w = weight_values(graph)["layer[layers].W"]
    for number in range(3):
        found = found + np.tanh(found @ w[number]) + np.exp(X).sum(-1, keepdims=True)
    close(value(graph, x=X), found)


# --------------------------------------------------------------------------------------- over a length

SCAN = """\
model M(x[seq]) → [] = s[seq], at_two[] = s[2]
    where
        s[0] = 0 * x[seq = 0]
        for t in seq:
            s[t + 1] = s[t] / 2 + x[seq = t]
"""


def test_a_scan_over_a_length() -> None:
    x = rng(2).normal(size=(2, 5))
    s = [np.zeros(2)]
    for t in range(5):
        s.append(s[-1] / 2 + x[:, t])
    found = run(SCAN, x=x)
    close(found["output"], s[-1])
    close(found["at_two"], s[2])


@pytest.mark.parametrize("left", [False, True])
def test_a_scan_over_examples_of_different_lengths(left: bool) -> None:
    x, counts = rng(2).normal(size=(3, 5)), [5, 2, 3]
    mask = np.array([[i >= 5 - n if left else i < n for i in range(5)] for n in counts])
    found = run(SCAN, x=np.where(mask, x, 99.0), attention_mask=mask)
    for row, _ in enumerate(counts):
        alone = run(SCAN, x=x[row : row + 1, mask[row]])
        close(found["output"][row], alone["output"][0])
        close(found["at_two"][row], alone["at_two"][0])


def test_the_running_sum_of_a_scan_may_be_read_everywhere() -> None:
    text = (
        "model M(x[seq]) → [seq] = s[index(seq) + 1]\n    where\n"
        "        s[0] = 0 * x[seq = 0]\n        for t in seq:\n"
        "            s[t + 1] = s[t] + x[seq = t]\n"
    )
    x = rng(2).normal(size=(2, 5))
    close(value(text, x=x), np.cumsum(x, 1))


# --------------------------------------------------------------------------------------- depth


def test_bl_46_the_graph_does_not_grow_with_depth() -> None:
    counts = [len(lowered(LAYER + PLAIN.format(result="h[layers]"), layers=n).nodes()) for n in (3, 1000)]
    assert counts[0] == counts[1]


def test_bl_46_a_thousand_layers() -> None:
    text, limit = LAYER + PLAIN.format(result="h[layers]"), sys.getrecursionlimit()
    begin = time.perf_counter()
    graph = lowered(text, layers=1000)
    lowering = time.perf_counter() - begin
    found = value(graph, {"layer[layers].W": np.zeros((1000, 4, 4))}, x=X)
    close(found, X)
    assert lowering < 2
    assert sys.getrecursionlimit() == limit


def test_bl_46_a_long_sum() -> None:
    text = "model M(x[seq]) → [seq] = " + " + ".join(["x"] * 5000) + "\n"
    close(value(text, x=np.ones((1, 2))), np.full((1, 2), 5000.0))


def test_bl_46_a_long_chain_of_equations() -> None:
    lines = ["x0 = x", *(f"x{i} = x{i - 1} + 1" for i in range(1, 1000))]
    text = "model M(x[seq]) → [seq] = x999\n    where\n" + "".join(f"        {line}\n" for line in lines)
    close(value(text, x=np.zeros((1, 2))), np.full((1, 2), 999.0))
