"""Config: exact numbers, sizes, choices, nested and nullable keys, vectors, presence."""

from typing import Any

import numpy as np
import pytest

from tests.compiler.spec_tools import close, codes, lowered, rng, value, weight_values
from transformula.compiler.config import Config, read_config
from transformula.compiler.driver import check, load_module
from transformula.compiler.ir import walk_all
from transformula.grammar.diagnostics import TransformulaError

X = rng(1).normal(size=(2, 3, 4))  # [batch, seq, d]
END = "model M(x[seq]) → [seq] = x\n"
ACTIVATION = """\
from functions import relu, silu

config
    act : activation = relu as act

choice activation
    "relu"          = relu
    "silu", "swish" = silu
    "tanh"          = tanh

model M(x[seq]) → [seq] = act(x)
"""


def entry(text: str, name: str, config: dict[str, Any] | None = None, **settings: Any) -> Any:
    return Config(load_module(text), config or {}, settings).effective()[name]


def message(text: str, config: dict[str, Any] | None = None) -> str:
    with pytest.raises(TransformulaError) as caught:
        lowered(text, None, config)
    return str(caught.value)


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("1 / 3 * 3", 1),
        ("(1 / 3 + 2 / 3) * 5", 5),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("2^3^2", 512),
        ("-3^2", -9),
        ("10 / -1", -10),
        ("5 - 3 - 1", 1),
        ("12 / 3 / 2", 2),
        ("√16", 4),
        ("√(9 / 4)", 1.5),
        ("2²", 4),
        ("max(3, 4, 2)", 4),
        ("floor(7 / 2)", 3),
        ("ceil(7 / 2)", 4),
        ("floor(15 / 22 * 22)", 15),
        ("|-3|", 3),
        ("8 * head // 3", 5),
        ("4 if head == 2 else 5", 4),
        ("1 < head ≤ 2", True),
        ("not (head == 2 and true)", False),
        ("10^-2", 0.01),
    ],
)
def test_numbers_are_exact(formula: str, wanted: Any) -> None:
    assert entry(f"config\n    head = 2\n    n = {formula}\n{END}", "n") == wanted


def test_order_does_not_matter() -> None:
    assert entry(f"config\n    a = b + 1\n    b = 2\n{END}", "a") == 3


def test_config_may_not_go_in_a_circle() -> None:
    assert codes("config\n    a = b + 1\n    b = a\nmodel M(x[seq]) → [seq] = x * a\n") == {"C603"}


DIVIDED = (
    "config\n    d = 12 as hidden_size\n"
    "    head = 2 as num_attention_heads\n    dk = d / head\n"
    "model M(x[seq, d]) → [seq, head, dk] = x[d → head dk]\n"
)


def test_a_size_that_does_not_divide_names_both_values() -> None:
    told = message(DIVIDED, {"hidden_size": 770, "num_attention_heads": 12})
    for part in ("C601", "770", "12", "dk", "d", "head"):
        assert part in told


def test_a_size_is_a_whole_number_that_is_not_negative() -> None:
    assert codes("config\n    d = -2\nmodel M(x[seq, d]) → [seq, d] = x\n") == {"C604"}
    assert codes("config\n    d = 5 / 2\nmodel M(x[seq, d]) → [seq, d] = x\n") == {"C601"}


def test_a_quotient_that_is_no_size_may_be_any_number() -> None:
    close(value("config\n    d = 5\nmodel M(x[seq]) → [seq] = x * (d / 2)\n", x=np.ones((1, 1))), [[2.5]])


def test_bl_19_a_head_width_of_its_own() -> None:
    text = (
        "config\n    d = 6 as hidden_size\n    head = 2 as heads\n    dk = d / head as head_dim\n"
        "block A(x[d]) → [d] = (x @ W) * (1 / √dk) @ W_O\n"
        "    weights W : [d → head dk]\n"
        "            W_O : [head dk → d]\n"
        "model M(x[seq, d]) → [seq, d] = a(x)\n    uses a : A\n"
    )
    assert [one.shape for one in lowered(text).weights] == [(6, 2, 3), (2, 3, 6)]
    assert [one.shape for one in lowered(text, None, {"head_dim": 4}).weights] == [(6, 2, 4), (2, 4, 6)]
    graph = lowered(text, None, {"head_dim": 4})
    x, w = rng(2).normal(size=(1, 2, 6)), weight_values(graph)
    close(value(graph, x=x), x @ w["a.W"].reshape(6, 8) / 2 @ w["a.W_O"].reshape(8, 6))


def test_keys_of_the_file_and_settings() -> None:
    text = f"config\n    d = 6 as hidden_size, n_embd\n    twice = 2 * d\n{END}"
    assert entry(text, "twice") == 12
    assert entry(text, "twice", {"hidden_size": 5}) == 10
    assert entry(text, "twice", {"n_embd": 4}) == 8
    assert entry(text, "twice", {"n_embd": 4}, d=3) == 6
    assert codes(text, None, None, e=3) == {"C616"}


def test_nested_keys() -> None:
    text = f"config\n    θ = 10000 as rope_parameters.rope_theta, rope_theta\n{END}"
    assert entry(text, "θ", {"rope_parameters": {"rope_theta": 5}}) == 5
    assert entry(text, "θ", {"rope_theta": 7}) == 7
    assert entry(text, "θ", {"rope_parameters": None}) == 10000


def test_nullable_entries() -> None:
    text = "config\n    w = none as sliding_window\nmodel M(x[seq]) → [seq] = x if w == none else x * w\n"
    close(value(text, x=np.ones((1, 1))), [[1.0]])
    close(value(text, x=np.ones((1, 1)), config={"sliding_window": 3}), [[3.0]])
    close(value(text, x=np.ones((1, 1)), config={"sliding_window": None}), [[1.0]])
    assert entry(f"config\n    ffn = 4 * d as n_inner\n    d = 3\n{END}", "ffn", {"n_inner": None}) == 12


def test_null_may_mean_something_else_than_a_missing_key() -> None:
    text = f"config\n    head = 6\n    w = 4096 as window or none\n    kv = 2 as a, b.kv or head / 2\n{END}"
    for given, window, kv in (
        ({}, 4096, 2),
        ({"window": None, "a": None}, None, 3),
        ({"window": 5, "a": 4}, 5, 4),
        ({"b": {"kv": None}}, 4096, 3),
    ):
        assert (entry(text, "w", given), entry(text, "kv", given)) == (window, kv)


REQUIRED = (
    "config\n    d = 4\n    kind = \"plain\" as rope.kind\n    factor = required as rope.factor\n"
    "    each[i: d] = required as rope.each\n    twice = 2 * factor\n"
    "model M(x[d]) → [d] = x if kind == \"plain\" else x * twice + each\n"
)


def test_an_entry_that_only_the_file_can_give() -> None:
    """It need not be given where nothing needs it; a check of the file alone takes some number."""
    x = np.ones((1, 4))
    close(value(REQUIRED, x=x), x)
    given = {"rope": {"kind": "other", "factor": 3, "each": [1, 2, 3, 4]}}
    close(value(REQUIRED, x=x, config=given), [[7.0, 8.0, 9.0, 10.0]])
    assert check(REQUIRED) == []
    assert entry(REQUIRED, "twice") is None
    assert entry(REQUIRED, "twice", given) == 6
    told = message(REQUIRED, {"rope": {"kind": "other"}})
    assert "error[C617]: config: factor is required here" in told
    assert "Give `rope.factor` in config.json a value." in told
    del given["rope"]["each"]
    assert "each is required here" in message(REQUIRED, given)


def test_parts_of_an_object_are_all_known() -> None:
    """Of an object that a spec reads parts of, it reads all: what nothing reads would make another model."""
    assert "rope.facto = 3 is not supported" in message(REQUIRED, {"rope": {"facto": 3}})
    assert "Did you mean factor?" in message(REQUIRED, {"rope": {"facto": 3}})
    assert codes(REQUIRED, None, {"rope": [1]}) == {"C605"}
    for harmless in ({"rope": {"facto": None}}, {"rope": None}, {"other": {"facto": 3}}):
        close(value(REQUIRED, x=np.ones((1, 4)), config=harmless), np.ones((1, 4)))


def test_older_names_of_the_options_of_rotation() -> None:
    """Those of the older name count where a file has both; messages have the name that the file has."""
    text = (
        "config\n    factor = 1 as rope_parameters.factor\n    kind : kinds = 1 as rope_parameters.rope_type\n"
        'choice kinds\n    "a" = 1\n    "b" = 2\nmodel M(x[seq]) → [seq] = x * kind * factor\n'
    )
    older = {"rope_scaling": {"type": "b", "factor": 3}, "rope_parameters": {"rope_type": "a", "factor": 2}}
    assert (entry(text, "kind", older), entry(text, "factor", older)) == (2, 3)
    assert entry(text, "factor", {**older, "rope_scaling": None}) == 2
    assert 'rope_scaling.type = "c"' in message(text, {"rope_scaling": {"type": "c"}})
    assert 'rope_scaling.rope_type = "c"' in message(text, {"rope_scaling": {"rope_type": "c"}})
    assert Config(load_module(text), older).unread() == []


def test_bl_20_keys_that_nothing_reads_are_known() -> None:
    module = load_module(f"config\n    d = 6 as hidden_size\n{END}")
    assert Config(module, {"hidden_size": 3, "foo": 1, "bar": None}).unread() == ["foo"]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"d": "a"}, "C605"),
        ({"d": [1]}, "C605"),
        ({"d": 2.5}, "C601"),
        ({"act": "mish"}, "C602"),
        ({"act": 3}, "C605"),
    ],
)
def test_values_of_the_wrong_kind(given: dict[str, Any], code: str) -> None:
    text = ACTIVATION.replace("config\n", "config\n    d = 6 as d\n").replace("[seq]", "[seq, d]")
    assert codes(text, None, given) == {code}


def test_choice_tables() -> None:
    text = ACTIVATION
    x = rng(2).normal(size=(1, 5))
    close(value(text, x=x), np.maximum(x, 0))
    close(value(text, x=x, config={"act": "swish"}), x / (1 + np.exp(-x)))
    close(value(text, x=x, settings={"act": "tanh"}), np.tanh(x))


def test_choice_tables_are_imported() -> None:
    """Their rows mean what they mean in their own file; a spec that extends this one has them, too."""
    text = "from functions import activation\nconfig\n    act : activation = \"relu\" as act\n"
    text += "model M(x[seq]) → [seq] = act(x)\n"
    x = rng(2).normal(size=(1, 5))
    close(value(text, x=x), np.maximum(x, 0))
    close(value(text, x=x, config={"act": "swish"}), x / (1 + np.exp(-x)))
    assert codes(text, None, {"act": "swoosh"}) == {"C602"}
    assert codes(text.replace("activation", "activations")) == {"N206"}


def test_choices_are_compared() -> None:
    text = (
        'config\n    act : kind = "a" as act\nchoice kind\n    "a" = 1\n    "b" = 2\n'
        "model M(x[seq]) → [seq] = x * act\n"
    )
    close(value(text, x=np.ones((1, 1)), config={"act": "b"}), [[2.0]])
    plain = 'config\n    mode = "a" as mode\nmodel M(x[seq]) → [seq] = x if mode == "a" else 2 * x\n'
    close(value(plain, x=np.ones((1, 1)), config={"mode": "b"}), [[2.0]])


VECTOR = (
    "config\n    layers = 4\n    local[l: layers] = {} as layer_types\n"
    "model M(x[seq]) → [seq] = h[layers]\n    where\n"
    "        h[0] = x\n        for l in layers:\n"
    "            h[l + 1] = {}\n"
)


def test_a_vector_by_formula() -> None:
    close(
        value(VECTOR.format("l % 2 == 0", "2 * h[l] if local[layers = l] else h[l] + 1"), x=np.ones((1, 1))),
        [[((1 * 2) + 1) * 2 + 1.0]],
    )


def test_a_vector_from_the_file() -> None:
    text = VECTOR.format("l % 2 == 0", "2 * h[l] if local[layers = l] else h[l] + 1")
    close(value(text, x=np.ones((1, 1)), config={"layer_types": [False, False, True, True]}), [[12.0]])
    numbers = VECTOR.format("l", "h[l] * local[layers = l]")
    close(value(numbers, x=np.ones((1, 1)), config={"layer_types": [1, 2, 3, 0.5]}), [[3.0]])


def test_a_vector_may_be_read_with_plain_brackets() -> None:
    close(value(VECTOR.format("l + 1", "h[l] * local[l]"), x=np.ones((1, 1))), [[24.0]])


def test_a_vector_of_texts() -> None:
    text = VECTOR.format('"full"', "2 * h[l] if local[layers = l] else h[l] + 1").replace(
        "local[l: layers] = ", "local[l: layers] : kind = "
    )
    text += 'choice kind\n    "sliding" = true\n    "full" = false\n'
    close(
        value(text, x=np.ones((1, 1)), config={"layer_types": ["sliding", "full", "full", "sliding"]}),
        [[8.0]],
    )


def test_a_vector_of_the_wrong_length() -> None:
    text = VECTOR.format("l", "h[l] * local[layers = l]")
    assert codes(text, None, {"layer_types": [1, 2]}) == {"C609"}


def test_a_bool_vector_chooses_at_run_time_but_both_sides_stay_one_loop() -> None:
    graph = lowered(VECTOR.format("l % 2 == 0", "2 * h[l] if local[layers = l] else h[l] + 1"))
    assert len([one for one in graph.nodes() if one.op == "loop"]) == 1


def test_a_vector_that_config_knows_is_a_table() -> None:
    for formula, wanted in (("l % 2 == 0", (True, False, True, False)), ("2 * l / 4", (0, 0.5, 1, 1.5))):
        graph = lowered(VECTOR.format(formula, "h[l] * (1 if local[l] == local[0] else 2)"))
        (made,) = {one for one in walk_all(graph.roots) if one.op == "table"}
        assert made["values"] == wanted
        assert not [one for one in walk_all(graph.roots) if one.op == "index"]


def test_an_entry_that_a_number_chooses_is_config_s() -> None:
    """So it decides what exists: the other branch is not looked at."""
    text = VECTOR.format("l % 2 == 0", "h[l]").replace("= h[layers]", "= h[layers] if local[2] else nothing(x)")
    close(value(text, x=np.ones((1, 1))), [[1.0]])
    assert codes(text, None, None, layers=2) == {"I801"}
    given = text.replace("= l % 2 == 0 as", "= true as")
    close(value(given, x=np.ones((1, 1)), config={"layer_types": [False, False, True, False]}), [[1.0]])


def test_presence_of_instances() -> None:
    text = (
        "config\n    d = 4\n    gated = false\nblock Gate(x[d]) → [d] = x @ W\n    weights W : [d → d]\n"
        "model M(x[seq, d]) → [seq, d] = gate(x) if gated else x\n    uses gate : Gate if gated\n"
    )
    assert [one.name for one in lowered(text).weights] == []
    assert [one.name for one in lowered(text, gated=True).weights] == ["gate.W"]
    assert codes(text.replace(" if gated else x", "")) == {"C614"}


def test_the_branch_that_config_rejects_is_not_looked_at() -> None:
    text = "config\n    tied = true\nmodel M(x[seq]) → [seq] = x if tied else nothing(x)\n"
    close(value(text, x=np.ones((1, 1))), [[1.0]])


@pytest.mark.parametrize("content", ["", "[1]", "{", "nonsense"])
def test_files_that_are_no_config(tmp_path: Any, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(TransformulaError) as caught:
        read_config(path)
    assert caught.value.diagnostics[0].code == "C608"


def test_a_missing_file(tmp_path: Any) -> None:
    with pytest.raises(TransformulaError, match="C607"):
        read_config(tmp_path / "none.json")


def test_an_instance_has_a_number_that_is_no_size() -> None:
    """A size of an instance is an axis of its own; any other number is just that."""
    text = (
        "config\n    d = 2\n    ε = 1e-12\n    shift = 3\n"
        "block Moved(x[d]) → [d] = x + shift + ε\n"
        "model M(x[d]) → [d] = moved(x)\n    uses moved : Moved(ε = 0.25, shift = -4)\n"
    )
    close(value(text, x=np.array([[1.0, 2.0]])), [[-2.75, -1.75]])
