"""`transformula explain`: what it prints, the same as data, and figures for the sizes that were asked for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from transformula.cli import app
from transformula.compiler.units import flops, number, size
from transformula.units import change

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "explained" / "attention.txt"
COSTS = {
    "flops", "product_flops", "bytes", "peak_bytes", "parameters", "parameter_bytes", "load_flops", "load_bytes",
    "rows",
}  # fmt: skip


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["explain", *arguments])


def data(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(*arguments, "--json").stdout)
    return found


def test_what_is_printed(regen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    chosen = [part for name in ("simplify", "recognise", "fold_scales") for part in ("--only", name)]
    told = call("examples/attention.formula", *chosen, "--batch", "2", "--length", "16").stdout
    if regen:
        GOLDEN.write_text(told, "utf-8")
    assert GOLDEN.read_text("utf-8") == told, "write it anew with pytest --regen"


def test_json_has_the_costs_of_every_stage() -> None:
    found = data("bert", "--set", "layers=2")
    assert found["sizes"] == {"batch": 8, "length": 128, "fill": 1.0, "lengths": {}, "chosen": 0.15}
    stages = [found["cost"], *(one["cost_after"] for one in found["chapters"])]
    assert [one["cost_before"] for one in found["chapters"]] == stages[:-1]
    assert all(set(one) == COSTS for one in stages)
    assert sum(found["kinds"].values()) == stages[-1]["flops"]
    products = found["kinds"]["contract"] + found["kinds"]["attention"]
    assert stages[-1]["product_flops"] == pytest.approx(products, rel=0.01)  # a softmax is no product


def test_sizes_are_those_that_were_asked_for() -> None:
    small, more = (data("bert", "--set", "layers=1", "--batch", n, "--length", "32")["cost"] for n in ("2", "6"))
    assert more["flops"] == 3 * small["flops"]
    assert more["parameters"] == small["parameters"]
    half = data("bert", "--set", "layers=1", "--fill", "0.5")
    unpad = next(one for one in half["chapters"] if one["name"] == "unpad")
    assert 1.9 < unpad["cost_before"]["flops"] / unpad["cost_after"]["flops"] < 2.2
    assert "8 examples of 128 tokens, 50% of them real" in call("bert", "--fill", "0.5").stdout


@pytest.mark.parametrize("option", [["--fill", "0"], ["--fill", "1.5"], ["--batch", "0"], ["--length", "x"]], ids=str)
def test_sizes_that_nothing_has_are_refused(option: list[str]) -> None:
    assert call("bert", *option).exit_code == 2


def test_objectives_have_a_story_of_their_own() -> None:
    told = call("bert", "--entry", "BertForMaskedLM").stdout
    head, tail = told.split("\nmlm  objective of these results")
    assert re.search(r"cross_entropy: \d+ operations are one cross_entropy", tail)
    assert "cross_entropy:" not in head
    (loss,) = data("bert", "--entry", "BertForMaskedLM")["losses"]
    assert loss["entry"] == "mlm"
    assert {one["name"] for one in loss["chapters"] if one["fired"]} >= {"recognise"}
    assert loss["cost"]["flops"] > loss["cost"]["parameters"] == 0
    assert data("bert")["losses"] == []


def test_units() -> None:
    assert [flops(n) for n in (0, 999, 1000, 22_460_000_000, 999_960)] == [
        "0 FLOP", "999 FLOP", "1.0 kFLOP", "22.5 GFLOP", "1.0 MFLOP",
    ]  # fmt: skip
    assert [size(n) for n in (12, 1024, 437_900_000)] == ["12 B", "1.0 KiB", "417.6 MiB"]
    assert [number(n) for n in (7, 109_482_240)] == ["7", "109.5 M"]


def test_only_what_reads_differently_is_a_change() -> None:
    from transformula.compiler.explain import Figures

    before = Figures(1000, 900, 4096, 2048, 10, 40, 0, 40, 7)
    assert change(before, before) == ""
    assert change(before, Figures(1000, 900, 2048, 2048, 10, 40, 5, 40, 7)) == (
        "4.0 KiB → 2.0 KiB moved, 0 FLOP → 5 FLOP once, at load"
    )


def test_decoding_is_told_with_its_proof_and_its_cost() -> None:
    sizes = ("--batch", "1", "--length", "128")
    found = data("gpt2", "--entry", "GPT2LMHeadModel", *sizes)["decoding"]
    assert {one["rule"] for one in found["fired"]} == {"causal", "append"}
    assert not found["refused"]
    kept = [(row["name"], row["steps"], row["bytes"], row["once"]) for row in found["kept"]]
    assert kept == [("K", [12], 12 * 768 * 4, False), ("V", [12], 12 * 768 * 4, False)]
    assert 2 * 123_000_000 < found["step"]["flops"] < 2.2 * 124_439_808  # each weight of the step once
    assert found["step"]["rows"] < found["first"]["rows"] / 50
    told = call("gpt2", "--entry", "GPT2LMHeadModel", *sizes).stdout
    assert "72.0 KiB are kept of each token" in told
    assert "one token more: 252.5 MFLOP" in told


def test_a_model_that_looks_ahead_is_told_at_its_line() -> None:
    found = data("bert", "--entry", "BertForMaskedLM", "--set", "layers=1")["decoding"]
    (refused,) = found["refused"]
    assert refused["place"].startswith("bert.formula:")
    assert found["step"] is None
    assert data("bert", "--set", "layers=1")["decoding"] is None


def test_without_derive_cache_there_is_no_step() -> None:
    assert data("gpt2", "--entry", "GPT2LMHeadModel", "--without", "derive_cache")["decoding"] is None
