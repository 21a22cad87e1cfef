"""The forms of a comparison: nothing from a spec, a config or a file becomes markup; folders and what they hold."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import transformula
from transformula.backends.difference import Difference, diff
from transformula.backends.difference.markdown import code, escaped
from transformula.backends.difference.reading import read_side, tensors_of
from transformula.compiler.difference.change import Change, Differences, Figure, Line
from transformula.compiler.difference.tensors import between
from transformula.grammar.diagnostics import TransformulaError

EVIL = '<script>alert(1)</script>`|*[x](javascript:alert(1))"\'&\n# \x1b[31m</td>'
TINY = {"vocab_size": 40, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": 2}


def hostile() -> Difference:
    """A comparison in which every text is an attack."""
    change = Change("formulas", "changed", EVIL, EVIL, EVIL, EVIL, (Line(EVIL, EVIL, EVIL),), quotes=(EVIL,))
    figures = (Figure(EVIL, "count", 1, 2),)
    return Difference(Differences((EVIL, EVIL + "b"), (EVIL, EVIL + "b"), (EVIL, EVIL), (change,), figures, (), EVIL))


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("found", [hostile(), None], ids=["hostile", "real"])
def test_pages_hold_no_script_and_nothing_from_outside(found: Difference | None) -> None:
    made = found or diff("bert", "roberta", only=("structure", "formulas", "weights"))
    for text in (made.html(), made._repr_html_()):
        page = Tags()
        page.feed(text)
        assert page.open == []
        assert not {"script", "img", "iframe", "link", "object"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("href", "src")]
        assert "http" not in text
        assert "url(" not in text


def test_markdown_of_hostile_texts_is_text() -> None:
    text = hostile().markdown()
    for line in text.splitlines():
        bare = re.sub(r"(`+) .*? \1", "", line)  # code says what it likes
        assert not re.search(r"(?<!\\)[<\[`]", bare), line
    assert "\x1b" not in text


def test_a_terminal_is_not_steered() -> None:
    assert "\x1b" not in str(hostile())
    assert str(hostile()).count("\n# ") == 0


@pytest.mark.parametrize("text", ["a", "`", "``x`", "|", "a | b"])
def test_code_is_closed(text: str) -> None:
    made = code(text)
    fence = re.match("`+", made)
    assert fence is not None
    assert made.endswith(fence.group())
    assert fence.group() not in made[len(fence.group()) : -len(fence.group())]
    assert "|" not in made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("*_<", r"\*\_\<"),
        ("- x", r"\- x"),
        ("1. x", r"1\. x"),
        ("1.5 and a-b", "1.5 and a-b"),
        ("===", r"\==="),
        ("https://a www.b", r"https\://a www\.b"),
        ("a (b): c", "a (b): c"),
    ],
)
def test_only_what_may_be_markup_is_escaped(text: str, made: str) -> None:
    assert escaped(text) == made


def test_a_difference_is_a_truth_value_and_data() -> None:
    found = transformula.diff("bert", "roberta", only=["structure"])
    assert found
    assert repr(found).startswith("<Difference bert → roberta")
    data = json.loads(json.dumps(found.data()))
    assert (data["differ"], data["a"]) == (True, "bert")
    assert {one["part"] for one in data["changes"]} <= {"facts", "structure", "config"}
    assert not transformula.diff("bert", "bert", only=["structure"])


def test_an_unknown_part_names_the_known_ones() -> None:
    with pytest.raises(TransformulaError, match="C677") as caught:
        diff("bert", "roberta", only=("formula",))
    assert "formulas" in str(caught.value)


# --- configs and folders --------------------------------------------------------------------------


def folder(path: Path, keys: dict[str, Any], tensors: dict[str, tuple[int, ...]]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(keys))
    save_file({name: np.zeros(shape, np.float32) for name, shape in tensors.items()}, path / "model.safetensors")
    return path


def test_two_configs(tmp_path: Path) -> None:
    paths = []
    for name, layers in (("one", 2), ("two", 3)):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "config.json")
        kind = {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
        paths[-1].write_text(json.dumps({**TINY, **kind, "num_hidden_layers": layers}))
    found = diff(paths[0], paths[1])
    assert found.found.labels == ("one/config.json", "two/config.json")
    assert found.found.models == ("BertForMaskedLM", "BertForMaskedLM")
    assert [one.say for one in found.changes] == ["layers is 3 instead of 2 (num_hidden_layers)"]


def test_a_config_of_an_unknown_model(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for keys, said in (({}, "has no model_type"), ({"model_type": "brt"}, "Did you mean bert?")):
        path.write_text(json.dumps(keys))
        with pytest.raises(TransformulaError, match="C675") as caught:
            diff(path, "bert")
        assert said in str(caught.value)


def test_folders_tell_what_they_hold(tmp_path: Path) -> None:
    keys = {**TINY, "model_type": "bert", "architectures": ["BertModel"]}
    names = {"embeddings.word_embeddings.weight": (40, 8), "strange.0.x": (2,), "strange.1.x": (2,)}
    one = folder(tmp_path / "one", keys, names)
    other = folder(tmp_path / "two", keys, {"embeddings.word_embeddings.weight": (41, 8)})
    changes = diff(one, other, only=("weights",)).changes
    told = [one.say for one in changes if one.part == "tensors"]
    assert "embeddings.word_embeddings.weight is F32 [41, 8] instead of F32 [40, 8]" in told
    assert "no tensors strange.{…}.x (×2): F32 [2]" in told
    assert any("one holds 2 tensors that its spec does not read: strange.{…}.x" in say for say in told)
    assert any(say.startswith("two lacks") and "embeddings.LayerNorm.weight" in say for say in told)


def test_a_folder_beside_its_spec_alone(tmp_path: Path) -> None:
    keys = {**TINY, "model_type": "bert", "architectures": ["BertModel"]}
    made = folder(tmp_path / "one", keys, {"odd": (1,)})
    told = [one.say for one in diff("bert", made, config_a=TINY, only=("weights",)).changes]
    assert any(say.startswith("one holds 1 tensor that its spec does not read: odd") for say in told)


def test_tensors_by_name() -> None:
    one = {"a": ("F32", (2,)), "b": ("F16", (3,))}
    assert list(between(one, one)) == []
    (gone,) = between(one, {"a": ("F32", (2,))})
    assert (gone.kind, gone.say) == ("removed", "no tensor b: F16 [3]")


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}", b'\x0b\0\0\0\0\0\0\0{"a": [1]}!'])
def test_a_header_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    if content.endswith(b"{}"):
        assert tensors_of(tmp_path) == {}
        return
    with pytest.raises(TransformulaError, match="C676"):
        tensors_of(tmp_path)


def test_labels_say_what_is_set() -> None:
    assert read_side("bert", settings={"layers": 2, "tied": False}).label == "bert with layers=2, tied=false"
    assert read_side("spec s\nmodel M(x[seq]) → [seq] = x\n").label == "text"


def test_a_spec_beside_a_config_is_compared_by_its_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": ["BertForMaskedLM"]}))
    for sides in (("bert", tmp_path / "config.json"), (tmp_path / "config.json", "bert")):
        found = diff(sides[0], sides[1], only=("structure", "formulas", "weights"))
        assert found.found.models == ("BertForMaskedLM", "BertForMaskedLM")
        assert not found


def test_a_model_inside_the_other_is_compared_with_that_part() -> None:
    found = diff("bert", "bert", entry_b="BertForMaskedLM")
    said = [one.say for one in found.changes]
    assert said[0] == "Bert is a part of the second model, bert"
    assert not [one for one in found.changes if one.part in ("formulas", "weights", "names", "config")]
    assert next(one for one in found.found.blocks if one.name == "layer[layers]").equal
    back = diff("bert", "bert", entry_a="BertForMaskedLM").changes
    assert back[0].say == "Bert is a part of the first model, bert"
    assert {one.kind for one in back} == {"changed", "added", "removed"}
