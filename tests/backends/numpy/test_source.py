"""The text of generated modules: only numpy, loops that stay loops, exact literals, and no text that becomes code."""

from __future__ import annotations

import ast
import io
import keyword
import math
import re
import sys
import tokenize
import unicodedata
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler import zoo
from tests.compiler.spec_tools import rng
from transformula.backends.numpy import copying
from transformula.backends.numpy.literals import number
from transformula.backends.numpy.mangling import Names, comment
from transformula.backends.program import compile
from transformula.grammar.diagnostics import TransformulaError


def method(source: str, name: str) -> ast.FunctionDef:
    """The method of the module's class."""
    for part in ast.walk(ast.parse(source)):
        if isinstance(part, ast.FunctionDef) and part.name == name:
            return part
    raise AssertionError(f"no {name}")


def code_words(source: str) -> set[str]:
    """Every name outside comments and strings."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


@pytest.mark.parametrize("name", zoo.NAMES)
def test_imports_numpy_and_the_standard_library_only(name: str) -> None:
    tree = ast.parse(zoo.whole(name).source)
    found = set()
    for part in ast.walk(tree):
        if isinstance(part, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in part.names}
        elif isinstance(part, ast.ImportFrom):
            assert part.level == 0
            found.add((part.module or "").partition(".")[0])
        assert not (
            isinstance(part, ast.Call)
            and isinstance(part.func, ast.Name)
            and part.func.id in ("eval", "exec")
        )
    assert found <= {"numpy", *sys.stdlib_module_names}


@pytest.mark.parametrize("name", zoo.NAMES)
def test_text_is_valid_quiet_and_tidy(name: str) -> None:
    source = zoo.whole(name).source
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zoo.compile_source.__wrapped__(source)  # anew: one who compiled it before heard the warnings
    assert source.endswith("\n")
    assert not source.endswith("\n\n")
    lines = source.split("\n")
    assert all(line == line.rstrip() and "\t" not in line for line in lines)
    assert "\n\n\n\n" not in source
    assert re.match(r'""".+: .+ as a NumPy module', source)


@pytest.mark.parametrize("name", zoo.NAMES)
def test_nothing_unused_is_copied(name: str) -> None:
    """Every function of the run-time library that stands in the module is mentioned by something else."""
    source = zoo.whole(name).source
    words = re.findall(r"\w+", source)
    for part in ast.parse(source).body:
        if isinstance(part, ast.FunctionDef):
            assert words.count(part.name) > 1, part.name


@pytest.mark.parametrize("name", ["gpt", "rope", "bert", "history", "shift"])
def test_same_source_twice(name: str) -> None:
    text, entry, options = zoo.SHIPPED.get(name, (zoo.ZOO.get(name, ""), None, {}))
    assert compile(text, entry=entry, settings=options).source == zoo.whole(name).source


# --- loops ---------------------------------------------------------------------------------------------------

STACKS = {
    "gpt": 1,
    "rope": 1,
    "history": 1,
    "two_states": 1,
    "crossed": 1,
    "nested": 2,
    "bert": 1,
    "sbert": 1,
    "page": 0,
}


@pytest.mark.parametrize("name", STACKS)
def test_one_for_per_stack(name: str) -> None:
    found = [part for part in ast.walk(method(zoo.whole(name).source, "rows")) if isinstance(part, ast.For)]
    assert len(found) == STACKS[name]


def test_scan_over_a_length_is_one_loop() -> None:
    found = [
        part for part in ast.walk(method(zoo.whole("scan").source, "example")) if isinstance(part, ast.For)
    ]
    assert len(found) == 1


def test_a_thousand_layers_do_not_grow_the_text() -> None:
    """BL-46."""
    made = [
        compile("bert", entry="Bert", settings={**zoo.BERT, "layers": layers}).source for layers in (12, 1000)
    ]
    without_numbers = [re.sub(r"[\d,]+", "#", text) for text in made]
    assert without_numbers[0] == without_numbers[1]
    zoo.compile_source(made[1])


def test_a_long_sum_needs_no_recursion() -> None:
    terms = " + ".join(f"{i} * u" for i in range(1, 600))
    text = zoo.spec("", f"{zoo.IDS}h[seq, d] = {terms}\n    where u = E[vocab = tokens]\n{zoo.EMBED}")
    found = zoo.model(zoo.whole(text))(input_ids=[[1, 2]])["h"]
    E = zoo.weight_values(zoo.whole(text).compiled.formula)["E"]
    np.testing.assert_allclose(found[0], E[[1, 2]] * sum(range(1, 600)), rtol=1e-12)


def test_no_length_of_a_batch_in_the_text() -> None:
    """BL-40: the text exists before any batch; what it says of sizes are the config's."""
    source = compile("bert", entry="Bert", settings={**zoo.BERT, "d": 21, "ffn": 33}).source
    body = ast.walk(method(source, "rows"))
    numbers = {
        part.value for part in body if isinstance(part, ast.Constant) and isinstance(part.value, int | float)
    }
    assert numbers <= {0, 1, 2, 3, 7, 21, 33, 63, 1e-12}


# --- literals ------------------------------------------------------------------------------------------------


@given(st.one_of(st.floats(), st.fractions(), st.integers(), st.booleans()))
def test_number_reads_back_exactly(value: Any) -> None:
    """BL-45."""
    exact = Fraction(value) if isinstance(value, int) and not isinstance(value, bool) else value
    text = number(exact)
    found = eval(text, {"np": np, "__builtins__": {}})
    if isinstance(value, bool):
        assert found is value
    elif isinstance(value, float) and math.isnan(value):
        assert math.isnan(found)
    elif isinstance(exact, Fraction) and exact.denominator == 1 and abs(exact) < 2**63:
        assert found == value
        assert isinstance(found, int)
    else:
        assert float(found).hex() == float(value).hex()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-12", 1e-12), ("1e400", math.inf), ("-1e400", -math.inf), ("0.044715", 0.044715),
        ("√(2 / π)", math.sqrt(2 / math.pi)),
        ("5e-324", 5e-324), ("1e-320", 1e-320), ("1 / 3", 1 / 3), ("2^62", 2.0**62), ("2^80", 2.0**80), ("-7", -7.0),
        ("∞", math.inf), ("0.1 + 0.2", 0.3),
    ],
)  # fmt: skip
def test_constant_of_a_spec_is_exact(text: str, value: float) -> None:
    body = f"{zoo.IDS}h[seq] = {text} + 0 * tokens, least[seq] = max({text}, 0 * tokens)\n"
    found = zoo.model(zoo.whole(zoo.spec("", body)))(input_ids=[[1, 2]])
    assert found["h"][0, 0] == value
    assert found["least"][0, 1] == max(value, 0.0)


# --- names ---------------------------------------------------------------------------------------------------

AWKWARD = [
    "lambda", "class", "None", "True", "def", "print", "len", "float", "range", "np", "torch", "self",
    "forward", "x", "x_", "λ", "ℒ", "L", "x'", "x_2", "results", "starts", "work", "part", "rows", "made",
    "name", "value", "wanted", "given", "shape", "where_", "n", "lengths", "hidden", "positions", "example",
    "count_", "queries", "keys", "INPUTS", "OUTPUTS", "CHECKPOINT", "Model", "dtype", "threads", "scratch",
    "pack", "linear", "rows_of", "load", "keep", "finished", "NDArray", "Any", "Path", "math", "os",
    "__class__", "ValueError", "mask", "at", "size_", "t", "y", "heads", "visible_seq",
]  # fmt: skip
KERNEL_NAMES = sorted(name for name in copying.names() if name.isidentifier() and not name.startswith("_"))


def agrees(text: str, given: dict[str, Any] | None = None, packed: bool = True) -> dict[str, Any]:
    """The results, after a check against the formula; `packed` says which way the module should be written."""
    given = zoo.inputs("any") if given is None else given
    made = zoo.whole(text)
    found: dict[str, Any] = zoo.model(made)(**given)
    assert zoo.difference(found, zoo.reference_results(made.compiled.formula, given)) < 1e-12
    assert ("def rows(" in made.source) == packed
    return found


def rows_or_example(packed: bool) -> str:
    """A term that makes the module compute rows, or one example at a time."""
    return "u" if packed else "u[seq = seq - 1 - index(seq)]"


@pytest.mark.parametrize("packed", [True, False])
def test_awkward_weights(packed: bool) -> None:
    names = [
        name for name in dict.fromkeys([*AWKWARD, *KERNEL_NAMES]) if name not in ("u", "E", "softmax", "rank")
    ]
    sums = " + ".join(names)
    text = f"{zoo.IDS}h_[seq, d] = {rows_or_example(packed)} ⊙ ({sums})\n    where u = E[vocab = tokens]\n"
    agrees(
        zoo.spec("", f"{text}    weights E : [vocab, d]\n            {', '.join(names)} : [d]\n"),
        packed=packed,
    )


@pytest.mark.parametrize("packed", [True, False])
def test_awkward_values(packed: bool) -> None:
    names = [name for name in AWKWARD if name not in ("u",)]
    lines = [
        f"{name} = {before} + {i}" for i, (name, before) in enumerate(zip(names, ["u", *names], strict=False))
    ]
    where = "".join(f"          {line}\n" for line in lines)
    text = f"{zoo.IDS}h_[seq, d] = {rows_or_example(packed)} ⊙ ({' + '.join(names)})\n    where u = E[vocab = tokens]\n"
    agrees(zoo.spec("", text + where + zoo.EMBED), packed=packed)


@pytest.mark.parametrize("packed", [True, False])
def test_awkward_outputs(packed: bool) -> None:
    outputs = ", ".join(f"{name}[seq, d] = u + {i}" for i, name in enumerate(AWKWARD))
    text = f"{zoo.IDS}{outputs}, h_[seq, d] = {rows_or_example(packed)}\n    where u = E[vocab = tokens]\n"
    assert list(agrees(zoo.spec("", text + zoo.EMBED), packed=packed)) == [*AWKWARD, "h_"]


@pytest.mark.parametrize("packed", [True, False])
def test_awkward_inputs(packed: bool) -> None:
    """Python cannot say `model(lambda=…)`, but `model(**{"lambda": …})` it can."""
    names = [name for name in AWKWARD if name != "E"]
    sums = " + ".join(names)
    heads = ", ".join(f"{name}[seq]" for name in names)
    text = f"model M(tokens[seq] as input_ids, {heads}) → h_[seq, d] = ({sums}) * {rows_or_example(packed)}\n"
    given = {
        **zoo.inputs("any"),
        **{name: rng(i).normal(size=zoo.MASK.shape) for i, name in enumerate(names)},
    }
    agrees(zoo.spec("", f"{text}    where u = E[vocab = tokens]\n{zoo.EMBED}"), given, packed)


@pytest.mark.parametrize("packed", [True, False])
def test_awkward_names_of_the_ecosystem(packed: bool) -> None:
    names = [*AWKWARD, *(name for name in KERNEL_NAMES if name not in AWKWARD)]
    heads = ", ".join(f"a{i}[seq] as {name} = 0" for i, name in enumerate(names))
    sums = " + ".join(f"a{i}" for i in range(len(names)))
    text = f"model M(tokens[seq] as input_ids, {heads}) → h_[seq, d] = ({sums}) * {rows_or_example(packed)}\n"
    given = {
        **zoo.inputs("any"),
        **{name: rng(i).normal(size=zoo.MASK.shape) for i, name in enumerate(names)},
    }
    whole = zoo.spec("", f"{text}    where u = E[vocab = tokens]\n{zoo.EMBED}")
    agrees(whole, given, packed)
    with pytest.raises(ValueError, match="there is no input 'nonsense'"):
        zoo.model(zoo.whole(whole))(**given, nonsense=1)


@pytest.mark.parametrize("name", [*AWKWARD, "attention", "gelu", "layer_norm", "INPUTS", "assemble", "M"])
def test_awkward_models(name: str) -> None:
    text = (
        f"model {name}(tokens[seq] as input_ids) → h_[seq, d] = u @ W + u\n    where u = E[vocab = tokens]\n"
    )
    made = zoo.spec("", f"{text}    weights E : [vocab, d]\n            W : [d → d]\n")
    agrees(made)
    assert hasattr(zoo.module(zoo.whole(made).source)["Model"], "load")


def test_awkward_names_inside_a_mask() -> None:
    more = "queries = index(seq)\nkeys = index(key)\nlengths[seq, key] = (keys - queries) / 7"
    text = zoo.attention_spec("attention[key if keys ≤ queries](Q, K, V, lengths)", more=more)
    agrees(text)


def test_an_input_cannot_take_the_place_of_the_choice_of_results() -> None:
    text = zoo.spec("", "model M(tokens[seq] as outputs) → h[seq] = tokens\n")
    with pytest.raises(TransformulaError, match="outputs"):
        assert zoo.whole(text).source


def test_an_optional_input_may_come_first() -> None:
    text = "model M(kind[seq] as token_type_ids = 0, tokens[seq] as input_ids) → h[seq, d] = E[vocab = tokens] + kind\n"
    agrees(zoo.spec("", text + zoo.EMBED))
    turned = text.replace("= E", "= u[seq = seq - 1 - index(seq)] + E").replace(
        "kind\n", "kind\n    where u = E[vocab = tokens]\n"
    )
    agrees(zoo.spec("", turned + zoo.EMBED), packed=False)


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), unique=True, max_size=8))
def test_mangling_is_injective_and_safe(wishes: list[str]) -> None:
    names = Names(["taken"])
    made = [names.name(wish, wish) for wish in wishes]
    assert len(set(made)) == len(made)
    for one in made:
        assert one.isidentifier()
        assert not keyword.iskeyword(one)
        assert one not in ("taken", "np", "self", "print")
        assert unicodedata.normalize("NFKC", one) == one, "Python compares names in this form"


# --- hostile text --------------------------------------------------------------------------------------------


@given(st.text(st.characters(), max_size=200))
def test_a_comment_stays_a_comment(text: str) -> None:
    made = f"x = 1  # {comment(text)}\ny = 2\n"
    made = made.encode("utf-8", "replace").decode("utf-8")
    assert [type(part) for part in ast.parse(made).body] == [ast.Assign, ast.Assign]


BENIGN = zoo.ZOO["gpt"]
HOSTILE_FILES = [
    '"""',
    "'''",
    '"""\nimport os\n"""',
    "a\\",
    'x"; import os; "',
    "# coding: latin-1",
    "{{ title }}",
    "%s {0}",
]


@pytest.mark.parametrize("stem", HOSTILE_FILES)
def test_a_file_s_name_is_only_text(tmp_path: Path, stem: str) -> None:
    path = tmp_path / f"{stem.replace('/', '_')}.formula"
    path.write_text(re.sub(r"^spec t\n", "", BENIGN), "utf-8")
    made, plain = compile(path).source, zoo.whole(BENIGN).source
    assert stripped(made) == stripped(plain)


def stripped(source: str) -> str:
    """The module without its docstring and comments."""
    tree = ast.parse(source)
    tree.body = tree.body[1:]
    return ast.unparse(tree)


HOSTILE_LINES = [
    '# """ import os',
    "# '''",
    "# \\",
    "# {{ name }} {% raw %}",
    "# \u202eimport os",
    "# x\x0b\x1c\x85",
    "# # noqa \r",
]


@pytest.mark.parametrize("line", HOSTILE_LINES, ids=ascii)
def test_a_spec_s_comment_is_only_text(line: str) -> None:
    text = BENIGN.replace("x[l] + attn[l](x[l])", f"x[l] + attn[l](x[l])  {line}")
    assert text != BENIGN
    try:
        made = compile(text).source
    except TransformulaError:
        return  # refused is as good
    assert stripped(made) == stripped(zoo.whole(BENIGN).source)


STRINGS = ["it's", "a{l}b", "x.weight", "{{ name }}", "\\n", "%s", "λ", "'''", "a b", "$(touch x)"]


@pytest.mark.parametrize("stored", STRINGS)
def test_a_checkpoint_s_strings_are_only_text(stored: str) -> None:
    text = zoo.spec("", zoo.IDS + "h[seq, d] = E[vocab = tokens]\n" + zoo.EMBED)
    try:
        made = compile(f'{text}\ncheckpoint huggingface of M\n    E : "{stored}"\n').source
    except TransformulaError:
        return
    table = zoo.module(made)["CHECKPOINT"]
    assert stored in repr(table).encode().decode("unicode_escape", "replace") or stored in str(table)
    plain = compile(f'{text}\ncheckpoint huggingface of M\n    E : "e"\n').source
    assert code_words(made) == code_words(plain)


def test_every_word_of_code_is_known() -> None:
    """A spec with speaking names: they appear as names of values, nothing else of its text does."""
    text = BENIGN.replace("logits", "zzresult").replace("tokens", "zzids").replace("attn", "zzattn")
    words = code_words(zoo.whole(text).source) - code_words(zoo.whole(BENIGN).source)
    assert all(word.startswith(("zz", "self")) for word in words), words
