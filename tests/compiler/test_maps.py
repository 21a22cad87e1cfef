"""Weights as maps: what is consumed, aligned and brought; tables; picks, renames and turned maps."""

import numpy as np

from tests.compiler.spec_tools import close, codes, lowered, rng, value, weight_values

X = rng(1).normal(size=(2, 3, 4))  # [batch, seq, d]
C = "config\n    d = 4\n    head = 2\n    dk = 3\n    expert = 2\n    vocab = 5\n    qkv = 3\n"


def block(result: str, body: str, weights: str, axes: str = "seq, d") -> str:
    weights = weights.replace("; ", "\n            ")
    return (
        f"{C}block B(x[{axes}]) → [{result}] = {body}\n"
        f"    weights {weights}\n"
        f"model M(x[{axes}]) → [{result}] = b(x)\n    uses b : B\n"
    )


def weights_of(text: str) -> dict[str, np.ndarray]:
    return {name.removeprefix("b."): w for name, w in weight_values(lowered(text)).items()}


def test_a_map_consumes_its_in_axes_and_brings_its_out_axes() -> None:
    text = block("seq, head, dk", "x @ W", "W : [d → head dk]")
    close(value(text, x=X), np.einsum("bsd,dhk->bshk", X, weights_of(text)["W"]))


def test_concat_of_heads_and_output_projection_is_one_map() -> None:
    text = block("seq, d", "(x @ W) @ W_O", "W : [d → head dk]; W_O : [head dk → d]")
    w = weights_of(text)
    heads = np.einsum("bsd,dhk->bshk", X, w["W"]).reshape(2, 3, 6)
    close(value(text, x=X), heads @ w["W_O"].reshape(6, 4))


def test_a_map_from_an_axis_to_itself() -> None:
    text = block("seq, d", "x @ W + x @ Wᵀ", "W : [d → d]")
    w = weights_of(text)["W"]
    close(value(text, x=X), X @ w + X @ w.T)


def test_a_map_among_heads_leaves_the_rest() -> None:
    text = block("seq, head, dk", "(x @ W) @ T", "W : [d → head dk]; T : [head → head]")
    w = weights_of(text)
    close(value(text, x=X), np.einsum("bsd,dhk,hg->bsgk", X, w["W"], w["T"]))


def test_two_square_maps_in_a_row() -> None:
    text = block("seq, d", "tanh(x @ W) @ V", "W, V : [d → d]")
    w = weights_of(text)
    close(value(text, x=X), np.tanh(X @ w["W"]) @ w["V"])


def test_a_map_with_a_carried_axis() -> None:
    text = block("seq, expert, d", "(x @ W) @ V", "W : [expert, d → dk]; V : [expert, dk → d]")
    w = weights_of(text)
    close(value(text, x=X), np.einsum("bsd,edk,ekm->bsem", X, w["W"], w["V"]))


def test_a_carried_axis_of_the_value_is_aligned() -> None:
    text = block("seq, head, dk", "(x @ W) @ R", "W : [d → head dk]; R : [head, dk → dk]")
    w = weights_of(text)
    close(value(text, x=X), np.einsum("bsd,dhk,hkm->bshm", X, w["W"], w["R"]))


def test_the_value_may_stand_on_the_right() -> None:
    text = block("seq, dk", "W @ x", "W : [d → dk]")
    close(value(text, x=X), X @ weights_of(text)["W"])


def test_a_turned_map() -> None:
    text = block("seq, d", "x @ W @ Wᵀ", "W : [d → head dk]")
    w = weights_of(text)["W"].reshape(4, 6)
    close(value(text, x=X), X @ w @ w.T)


def test_a_pick_of_a_carried_axis_is_a_map() -> None:
    text = block("seq, dk", "x @ W[qkv = 0] + x @ W[qkv = 2]", "W : [qkv, d → dk]")
    w = weights_of(text)["W"]
    close(value(text, x=X), X @ w[0] + X @ w[2])


def test_a_rename_of_a_map_is_a_map() -> None:
    text = block("seq, r", "x @ W[dk → r]", "W : [d → dk]")
    close(value(text, x=X), X @ weights_of(text)["W"])


def test_a_table_is_picked_or_used_with_named_axes() -> None:
    text = block("seq, vocab", "E[vocab = floor(x)] @[d] E", "E : [vocab, d]", "seq")
    e, t = weights_of(text)["E"], np.array([[0.0, 4, 2]])
    close(value(text, x=t), e[t.astype(int)] @ e.T)


def test_a_bare_product_with_a_table_of_two_common_axes_is_refused() -> None:
    assert codes(block("seq, dk", "(x @ W) @ T", "W : [d → head dk]; T : [head, dk]")) == {"A103"}


def test_a_map_that_does_not_find_its_axis() -> None:
    assert codes(block("seq, d", "x @ W", "W : [dk → d]")) == {"A101"}


def test_a_map_may_not_bring_an_axis_twice() -> None:
    text = (
        f"{C}block B(x[dk, d]) → [dk] = x @ W\n"
        "    weights W : [d → dk]\nmodel M(x[dk, d]) → [dk] = b(x)\n"
        "    uses b : B\n"
    )
    assert codes(text) == {"A112"}


def test_a_square_table_is_refused() -> None:
    assert "A128" in codes(block("seq, d", "x + W", "W : [d, d]"))


def test_only_a_map_can_be_turned() -> None:
    assert codes("model M(x[seq, d]) → [seq, d] = xᵀ\n") == {"A111"}


def test_a_weight_needs_sizes() -> None:
    assert codes(
        "block B(x[d]) → [d] = x * g\n    weights g : [d]\n"
        "model M(x[seq, d]) → [seq, d] = b(x)\n    uses b : B\n"
    ) == {"C615"}


def test_a_scalar_weight() -> None:
    text = block("seq, d", "x * g", "g : []")
    close(value(text, x=X), X * weights_of(text)["g"])


def test_a_weight_without_sequence_axes_is_never_lifted() -> None:
    """Stacked instances have their stack's axis first; each is one map."""
    text = (
        f"{C}    layers = 3\nblock B(x[d]) → [d] = x @ W + b\n    weights W : [d → d]\n            b : [d]\n"
        "model M(x[seq, d]) → [seq, d] = h[layers]\n    where\n"
        "        h[0] = x\n        for l in layers:\n"
        "            h[l + 1] = b[l](h[l])\n"
        "    uses b[layers] : B\n"
    )
    graph = lowered(text)
    w = weight_values(graph)
    assert {one.name: one.shape for one in graph.weights} == {"b[layers].W": (3, 4, 4), "b[layers].b": (3, 4)}
    h = X
    for number in range(3):
        h = h @ w["b[layers].W"][number] + w["b[layers].b"][number]
    close(value(graph, x=X), h)


def test_a_map_passed_as_a_parameter_keeps_its_reading() -> None:
    text = (
        f"{C}project(x[d], W[d → dk]) = x @ W\n"
        "block B(x[d]) → [dk] = project(x, W)\n"
        "    weights W : [d → dk]\n"
        "model M(x[seq, d]) → [seq, dk] = b(x)\n    uses b : B\n"
    )
    close(value(text, x=X), X @ weights_of(text)["W"])


def test_weights_that_config_leaves_out() -> None:
    text = block("seq, dk", "x @ W + b", "W : [d → dk]; b : [dk] ~ 0 if bias").replace(
        "config\n", "config\n    bias = true\n"
    )
    graph = lowered(text, bias=False)
    assert [one.name for one in graph.weights] == ["b.W"]
    close(value(graph, x=X), X @ weight_values(graph)["b.W"])
    assert len(lowered(text).weights) == 2


def test_a_gain_that_config_leaves_out_is_one() -> None:
    text = block("seq, d", "x * g", "g : [d] ~ 1 if gain").replace("config\n", "config\n    gain = false\n")
    close(value(text, x=X), X)


def test_a_weight_that_config_leaves_out_may_be_passed_where_axes_are_needed() -> None:
    text = block("seq, d", "add(x, b)", "b : [d] ~ 0 if there") + "add(x[d], b[d]) = x + b\n"
    text = text.replace("config\n", "config\n    there = false\n")
    close(value(text, x=X), X)
    close(value(text.replace("there = false", "there = true"), {"b.b": np.ones(4)}, x=X), X + 1)


def test_a_weight_that_config_leaves_out_without_a_constant_is_an_error_where_used() -> None:
    text = block("seq, d", "x @ W", "W : [d → d] if there").replace("config\n", "config\n    there = false\n")
    assert codes(text) == {"C614"}


def test_the_paths_and_initialisers_of_weights() -> None:
    text = block("seq, dk", "x @ W + b", "W : [d → dk] ~ normal(0.02); b : [dk] ~ 0")
    found = {
        one.name: (one.init, [a.name for a in one.ins], one.outs is None) for one in lowered(text).weights
    }
    assert found == {"b.W": ("normal(0.02)", ["d"], False), "b.b": ("0", [], True)}


def test_config_makes_the_numbers_of_an_initialiser() -> None:
    text = block("seq, dk", "x @ W", "W : [d → dk] ~ normal(0.02 / √(2 * layers))")
    text = text.replace("config\n", "config\n    layers = 8\n")
    assert [one.init for one in lowered(text).weights] == ["normal(0.005)"]
    assert [one.init for one in lowered(text, layers=2).weights] == ["normal(0.01)"]
    assert codes(text.replace("2 * layers", "2 * lairs")) == {"N201"}
    assert codes(text, layers=0) == {"C610"}
