"""extends, change and remove: single equations, weights, instances and results of another spec."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.spec_tools import close, rng, value, weight_values
from transformula.compiler.driver import check, check_session, compile_graph
from transformula.compiler.ir import Graph
from transformula.grammar.diagnostics import TransformulaError

X = rng(1).normal(size=(2, 3, 4))
BASE = """\
spec base
from functions import relu

config
    d = 4
    layers = 2
    act = relu

block Layer(x[d]) → [d] = y + b
    where y = act(z)
          z = x @ W
    weights W : [d → d]
            b : [d] ~ 0

model M(x[seq, d]) → [seq, d] = h[layers]
    where
        h[0] = x
        for l in layers:
            h[l + 1] = layer[l](h[l])
    uses layer[layers] : Layer
"""


class Folder:
    """A folder of specs, one of which is called `base`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "base.formula").write_text(BASE, "utf-8")

    def file(self, text: str) -> Path:
        path = self.path / "own.formula"
        path.write_text("spec own extends base\n" + text, "utf-8")
        return path

    def graph(self, text: str, **settings: Any) -> Graph:
        return compile_graph(self.file(text), settings=settings, until="formula").formula

    def codes(self, text: str) -> set[str]:
        with pytest.raises(TransformulaError) as caught:
            check(self.file(text))
        return {one.code for one in caught.value.diagnostics}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def run_with(graph: Graph, step: Any) -> None:
    w, h = weight_values(graph), X
    for number in range(graph.weights[0].shape[0]):  # type: ignore[arg-type]
        h = step(h, {name.removeprefix("layer[layers]."): w[name][number] for name in w})
    close(value(graph, x=X), h)


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def test_extending_alone_changes_nothing(folder: Folder) -> None:
    run_with(folder.graph(""), lambda h, w: relu(h @ w["W"]) + w["b"])


def test_config_entries_are_replaced_and_added(folder: Folder) -> None:
    graph = folder.graph("config\n    layers = 3\n    act = tanh\n")
    assert graph.weights[0].shape == (3, 4, 4)
    run_with(graph, lambda h, w: np.tanh(h @ w["W"]) + w["b"])


def test_a_single_equation_changes(folder: Folder) -> None:
    run_with(
        folder.graph("change Layer\n    where z = 2 * x @ W\n"), lambda h, w: relu(2 * h @ w["W"]) + w["b"]
    )


def test_a_new_equation_may_be_added_if_something_uses_it(folder: Folder) -> None:
    text = "change Layer\n    where z = t @ W\n          t = x + 1\n"
    run_with(folder.graph(text), lambda h, w: relu((h + 1) @ w["W"]) + w["b"])


def test_a_new_equation_that_nothing_uses_is_an_error(folder: Folder) -> None:
    assert folder.codes("change Layer\n    where zz = t @ W\n          t = x + 1\n") & {"N203", "X901"}


def test_the_result_changes(folder: Folder) -> None:
    run_with(folder.graph("change Layer = x + y + b\n"), lambda h, w: h + relu(h @ w["W"]) + w["b"])


def test_weights_change_and_are_added(folder: Folder) -> None:
    text = "change Layer = (y + b) @ V\n    weights V : [d → d]\n"
    run_with(folder.graph(text), lambda h, w: (relu(h @ w["W"]) + w["b"]) @ w["V"])


def test_weights_are_removed(folder: Folder) -> None:
    graph = folder.graph("change Layer = y\n    remove b\n")
    assert [one.name for one in graph.weights] == ["layer[layers].W"]
    run_with(graph, lambda h, w: relu(h @ w["W"]))


def test_a_removed_weight_that_is_still_used_is_an_error(folder: Folder) -> None:
    assert folder.codes("change Layer\n    remove b\n") == {"N201"}


def test_instances_change(folder: Folder) -> None:
    text = (
        "block Other(x[d]) → [d] = x @ U\n    weights U : [d → d]\n"
        "change M\n    uses layer[layers] : Other\nremove Layer\n"
    )
    run_with(folder.graph(text), lambda h, w: h @ w["U"])


def test_a_step_of_a_loop_changes(folder: Folder) -> None:
    text = "change M\n    where\n        for l in layers:\n            h[l + 1] = layer[l](h[l]) + h[l]\n"
    run_with(folder.graph(text), lambda h, w: relu(h @ w["W"]) + w["b"] + h)


def test_the_first_state_changes_and_the_loop_stays(folder: Folder) -> None:
    graph = folder.graph("change M\n    where h[0] = 2 * x\n")
    w, h = weight_values(graph), 2 * X
    for number in range(2):
        h = relu(h @ w["layer[layers].W"][number]) + w["layer[layers].b"][number]
    close(value(graph, x=X), h)


def test_a_definition_is_replaced_as_a_whole(folder: Folder) -> None:
    text = "block Layer(x[d]) → [d] = x @ U\n    weights U : [d → d]\n"
    run_with(folder.graph(text), lambda h, w: h @ w["U"])


def test_a_choice_of_the_base_sees_the_latest_version_of_a_name(tmp_path: Path) -> None:
    """Its rows are made of config and formulas, which the extending spec may change."""
    base = (
        'spec base\nconfig\n    w = 2\n    act : kinds = f as act\nchoice kinds\n    "f" = f\n    "w" = g\n'
        "f(x) = x + w\ng(x) = x * w\nmodel M(x[seq]) → [seq] = act(x)\n"
    )
    (tmp_path / "base.formula").write_text(base, "utf-8")
    own = tmp_path / "own.formula"
    own.write_text("spec own extends base\nconfig\n    w = 5\ng(x) = x - w\n", "utf-8")
    x = np.array([[1.0, 2.0]])
    for given, wanted in (({}, x + 5), ({"act": "f"}, x + 5), ({"act": "w"}, x - 5)):
        graph = compile_graph(own, config=given, until="formula").formula
        close(value(graph, x=x), wanted)


def test_what_stands_on_a_removed_model_goes_for_later_specs_too(tmp_path: Path) -> None:
    base = (
        "spec base\nconfig\n    d = 2\nuses m : M\nmodel M(x[seq, d]) → h[seq, d] = x\n"
        "model Head of m → s[d] = mean[seq](h)\n"
        "objective loss of Head(y[batch, d]) → loss = mean[batch](sum[d](s * y))\n"
    )
    (tmp_path / "base.formula").write_text(base, "utf-8")
    (tmp_path / "middle.formula").write_text("spec middle extends base\nremove Head\n", "utf-8")
    own = tmp_path / "own.formula"
    own.write_text("spec own extends middle\nconfig\n    d = 3\n", "utf-8")
    assert check(own) == []
    assert compile_graph(own, entry="M").losses == ()


def test_a_definition_of_the_base_sees_the_latest_version_of_a_name(folder: Folder) -> None:
    """M of the base uses what the extending spec calls Layer and relu."""
    text = "relu(x) = 3 * x\nconfig\n    act = relu\n"
    run_with(folder.graph(text), lambda h, w: 3 * (h @ w["W"]) + w["b"])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("change Layr = y\n", "X902"),
        ("remove Layr\n", "X903"),
        ("change Layer\n    remove c\n", "X904"),
    ],
)
def test_each_target_must_exist(folder: Folder, text: str, code: str) -> None:
    assert folder.codes(text) == {code}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Layer", "config\n    Layer = 3\n"),
        ("layers", "layers(x) = x\n"),
        ("layers", "block Own(x[d]) → [d] = x\nuses layers : Own\n"),
        ("M", "block Own(x[d]) → [d] = x\nuses M : Own\n"),
    ],
)
def test_a_name_stays_the_kind_of_thing_that_it_is(folder: Folder, name: str, text: str) -> None:
    """Formulas of the base read it, unless it is removed."""
    assert folder.codes(text) == {"N218"}
    session = check_session(folder.file(f"remove {name}\n{text}"))
    assert "N218" not in {one.code for one in session.diagnostics.found}


def test_only_a_spec_that_extends_another_may_change_it() -> None:
    with pytest.raises(TransformulaError, match="X902"):
        compile_graph(BASE + "change Layer = y\n")


def test_a_change_of_a_change(folder: Folder) -> None:
    (folder.path / "own.formula").write_text(
        "spec own extends base\nchange Layer\n    where z = 2 * x @ W\n", "utf-8"
    )
    third = folder.path / "third.formula"
    third.write_text("spec third extends own\nchange Layer\n    where y = tanh(z)\n", "utf-8")
    run_with(compile_graph(third, until="formula").formula, lambda h, w: np.tanh(2 * h @ w["W"]) + w["b"])


def test_specs_may_not_extend_themselves(folder: Folder) -> None:
    (folder.path / "base.formula").write_text("spec base extends own\n", "utf-8")
    assert folder.codes("") == {"N210"}


def test_unknown_files_and_names(folder: Folder) -> None:
    assert folder.codes("from nowhere import x\n") == {"N211"}
    assert folder.codes("from functions import softmaxx\n") == {"N206"}


def test_a_file_is_found_beside_the_spec_before_a_shipped_one(folder: Folder) -> None:
    (folder.path / "functions.formula").write_text("relu(x) = 5 * x\n", "utf-8")
    run_with(folder.graph(""), lambda h, w: 5 * (h @ w["W"]) + w["b"])


def test_a_file_of_functions_sees_no_config_of_the_spec(folder: Folder) -> None:
    (folder.path / "other.formula").write_text("f(x) = x * layers\n", "utf-8")
    assert "N201" in folder.codes("from other import f\nchange Layer = f(y) + b\n")
