"""The command diff: exit status as of diff(1), its options, what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from transformula.cli import app

TINY = "spec t\nconfig\n    d = 4\nmodel M(x[seq, d]) → out[seq, d] = {}\n"


def call(*arguments: str | Path, given: str | None = None) -> Result:
    result = CliRunner().invoke(app, ["diff", *map(str, arguments)], input=given)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def specs(tmp_path: Path) -> tuple[Path, Path]:
    paths = (tmp_path / "one.formula", tmp_path / "two.formula")
    for path, value in zip(paths, ("x * 2", "x * 3"), strict=True):
        path.write_text(TINY.format(value), "utf-8")
    return paths


def test_status_is_that_of_diff(specs: tuple[Path, Path]) -> None:
    one, other = specs
    assert call(one, one).exit_code == 0
    assert call(one, other).exit_code == 1
    assert call(one, "nothing-like-this").exit_code == 2
    assert call(one, other, "--only", "nothing").exit_code == 2
    assert call(one, other, "--set-b", "e=3").exit_code == 2
    assert call(one, other, "--no-such-option").exit_code == 2


def test_a_mistake_is_told_without_a_traceback() -> None:
    result = call("bert", "robertta")
    assert result.exit_code == 2
    assert "Did you mean roberta?" in result.stderr


def test_a_formula_is_told_with_both_lines(specs: tuple[Path, Path]) -> None:
    text = call(*specs).stdout
    assert "- out = x * 2" in text
    assert "+ out = x * 3" in text
    assert "one.formula:4 · two.formula:4" in text


def test_quiet_prints_nothing(specs: tuple[Path, Path]) -> None:
    result = call(*specs, "--quiet")
    assert (result.stdout, result.stderr, result.exit_code) == ("", "", 1)


def test_standard_input_is_one_side(specs: tuple[Path, Path]) -> None:
    assert call("-", specs[0], given=TINY.format("2 * x")).exit_code == 0
    result = call("-", "-", given="spec t\n")
    assert result.exit_code == 2
    assert "C678" in result.stderr


def test_another_spelling_is_told_with_all(specs: tuple[Path, Path]) -> None:
    plain = call("-", specs[0], given=TINY.format("2 * x"))
    assert "They are the same." in plain.stdout
    assert "1 formula written differently that means the same" in plain.stdout
    told = call("-", specs[0], "--all", given=TINY.format("2 * x"))
    assert "M is written differently and means the same" in told.stdout
    assert told.exit_code == 0


def test_settings_of_one_side_and_of_both(specs: tuple[Path, Path]) -> None:
    one, _ = specs
    assert call(one, one, "--set", "d=8").exit_code == 0
    result = call(one, one, "--set-b", "d=8")
    assert result.exit_code == 1
    assert "d is 8 instead of 4" in result.stdout


def test_forms(specs: tuple[Path, Path], tmp_path: Path) -> None:
    data = json.loads(call(*specs, "--json").stdout)
    (change,) = (one for one in data["changes"] if one["part"] == "formulas")
    assert change["lines"][0]["before"] == "out = x * 2"
    assert data["cost"][0]["name"] == "parameters"
    assert call(*specs, "--format", "markdown").stdout.startswith("# one.formula → two.formula\n")
    page = tmp_path / "page.html"
    result = call(*specs, "--format", "html", "-o", page)
    assert result.exit_code == 1
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_only_a_part(specs: tuple[Path, Path]) -> None:
    text = call(*specs, "--only", "formulas").stdout
    assert "Formulas" in text
    assert "Cost" not in text
    assert call(*specs, "--only", "weights").exit_code == 0
    cost = call(*specs, "--only", "cost", "--batch", "2", "--length", "16")
    assert "2 examples of 16 tokens" in cost.stdout
