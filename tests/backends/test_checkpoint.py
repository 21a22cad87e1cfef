"""Stored tensors: reading files and folders, finding weights by a table, one error for all that is wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from transformula.backends.numpy.files import read_stored
from transformula.backends.numpy.weights import (
    Table,
    assemble,
    left_over,
    merges,
    missing_weights,
    other_names,
    several,
    told_shape,
)
from transformula.backends.saving import back_in_place

Tensors = dict[str, NDArray[Any]]

# Two layers: a fused tensor, a merged bias, a table with a second home, a square map, a stack in a tensor.
TABLE: Table = (
    (
        ("E", "base.embed.weight", (), ((("word", 5),), (("d", 4),)), (), ()),
        ("E", "head.weight", (), ((("word", 5),), (("d", 4),)), (), ()),
        ("W[l]", "base.{l}.w.weight", (("l", 2),), ((("d'", 4),), (("d", 4),)), (1, 0), ()),
        ("b[l]", "base.{l}.w.bias", (("l", 2),), ((("head", 2),), (("dk", 2),)), (), ()),
        (
            "Q[l]",
            "base.{l}.qk",
            (("l", 2),),
            ((("d", 4),), (("head", 2), ("dk", 2))),
            (0, 1, 2),
            (1, 0, 6, 0),
        ),
        ("K[l]", "base.{l}.qk", (("l", 2),), ((("d", 4),), (("dk", 2),)), (0, 1), (1, 0, 6, 4)),
        ("P[l]", "base.pile", (("", 2),), ((("d", 4),), (("l", 2),), (("f", 3),)), (1, 2, 0), ()),
    ),
    ("base.{l}.mask",),
    ("base.",),
    (("d", "4 (hidden_size)"), ("head", "2 (heads)")),
    (),
)


def tensors(prefix: str = "base.") -> Tensors:
    draw = np.random.default_rng(0).standard_normal
    made = {f"{prefix}embed.weight": draw((5, 4)), f"{prefix}pile": draw((4, 2, 3))}
    for layer in range(2):
        made[f"{prefix}{layer}.w.weight"] = draw((4, 4))
        made[f"{prefix}{layer}.w.bias"] = draw(4)
        made[f"{prefix}{layer}.qk"] = draw((4, 6))
    return {name: value.astype(np.float32) for name, value in made.items()}


def refused(stored: Tensors, strict: bool = True) -> str:
    with pytest.raises(ValueError, match="nothing was loaded") as caught:
        assemble(stored, TABLE, strict)
    return str(caught.value)


# --- weights from tensors -----------------------------------------------------------------------------------


def test_weights_have_their_own_axes() -> None:
    stored = tensors()
    weights = assemble(stored, TABLE)
    assert set(weights) == {"E", "W[l]", "b[l]", "Q[l]", "K[l]", "P[l]"}
    np.testing.assert_array_equal(weights["W[l]"][1], stored["base.1.w.weight"].T)
    np.testing.assert_array_equal(weights["b[l]"][0], stored["base.0.w.bias"].reshape(2, 2))
    np.testing.assert_array_equal(weights["Q[l]"][0], stored["base.0.qk"][:, :4].reshape(4, 2, 2))
    np.testing.assert_array_equal(weights["K[l]"][1], stored["base.1.qk"][:, 4:])
    np.testing.assert_array_equal(weights["P[l]"][1], stored["base.pile"][:, 1].T)


def test_square_map_is_turned() -> None:
    """[out, in] on disk: x @ W for x = [1, 0] is the first column of what is stored."""
    table: Table = ((("W", "w", (), ((("d'", 2),), (("d", 2),)), (1, 0), ()),), (), (), (), ())
    found = assemble({"w": np.array([[1.0, 2.0], [3.0, 4.0]])}, table)["W"]
    np.testing.assert_array_equal(np.array([1.0, 0.0]) @ found, [1, 3])


def test_weights_are_views() -> None:
    stored = tensors()
    weights = assemble(stored, TABLE)
    assert np.shares_memory(weights["W[l]"][0], stored["base.0.w.weight"])
    assert np.shares_memory(weights["Q[l]"][0], stored["base.0.qk"])
    assert np.shares_memory(weights["E"], stored["base.embed.weight"])


@pytest.mark.parametrize("prefix", ["base.", ""])
@pytest.mark.parametrize("old", [False, True])
def test_other_names(prefix: str, old: bool) -> None:
    stored = tensors(prefix)
    if old:
        renamed = {".w.weight": ".w.gamma", ".w.bias": ".w.beta"}
        for new, name in renamed.items():
            stored = {one.replace(new, name): value for one, value in stored.items()}
    weights = assemble(stored, TABLE)
    np.testing.assert_array_equal(weights["E"], stored[f"{prefix}embed.weight"])
    assert left_over(stored, TABLE) == []


def test_other_names_are_few_and_begin_with_the_own() -> None:
    assert other_names("base.x.bias", ["base."]) == ["base.x.bias", "x.bias", "base.x.beta", "x.beta"]
    assert other_names("x", ["base."]) == ["x", "base.x"]


def test_half_precision_is_widened() -> None:
    stored = {name: value.astype(np.float16) for name, value in tensors().items()}
    weights = assemble(stored, TABLE)
    assert weights["E"].dtype == weights["Q[l]"][1].dtype == np.float32


def test_stray_keys() -> None:
    stored = tensors()
    stored["base.1.mask"] = np.ones((2, 2), np.float32)
    stored["embed.position_ids"] = np.arange(5)[None]
    assemble(stored, TABLE)
    stored["other.position_ids"] = np.ones(3, np.float32)
    assert "left over: 'other.position_ids' [3]" in refused(stored), "real numbers are no buffer"


def test_skips_are_no_patterns() -> None:
    table: Table = ((), ("a.b(c", "x.{l}.y"), (), (), ())
    skipped = {"a.b(c": np.zeros(1), "x.12.y": np.zeros(1)}
    assert left_over(skipped, table) == []
    assert left_over({"axb(c": np.zeros(1), "x.a.y": np.zeros(1), "x..y": np.zeros(1)}, table) == [
        "axb(c",
        "x.a.y",
        "x..y",
    ]


def test_another_models_head_is_let_be() -> None:
    bare: Table = ((("W", "w", (), ((("d", 2),),), (), ()),), (), ("base.",), (), ())
    assert set(assemble({"base.w": np.zeros(2), "classifier.weight": np.zeros(3)}, bare)) == {"W"}
    with pytest.raises(ValueError, match=r"left over: 'classifier\.weight'"):
        assemble({"w": np.zeros(2), "classifier.weight": np.zeros(3)}, bare)
    with pytest.raises(ValueError, match=r"left over: 'base.v'"):
        assemble({"base.w": np.zeros(2), "base.v": np.zeros(3)}, bare)


# --- duplicates ---------------------------------------------------------------------------------------------


def test_equal_duplicates_are_one_weight() -> None:
    stored = tensors()
    stored["head.weight"] = stored["base.embed.weight"].copy()
    assert assemble(stored, TABLE)["E"].shape == (5, 4)
    del stored["base.embed.weight"]
    assert assemble(stored, TABLE)["E"].shape == (5, 4), "either home will do"


def test_different_duplicates_are_refused_by_both_names() -> None:
    stored = tensors()
    stored["head.weight"] = stored["base.embed.weight"] + 1
    assert "'base.embed.weight' and 'head.weight' are both E" in refused(stored)
    stored = tensors()
    stored["embed.weight"] = stored["base.embed.weight"] + 1
    assert "'base.embed.weight' and 'embed.weight' are both E" in refused(stored)


def test_what_may_be_absent_has_its_number() -> None:
    table: Table = (*TABLE[:4], (("b[l]", 0.5),))
    stored = tensors()
    del stored["base.1.w.bias"]
    assert missing_weights(stored, TABLE) == {"b[l]"}
    assert missing_weights(stored, table) == set()
    first, second = assemble(stored, table)["b[l]"]
    np.testing.assert_array_equal(first.reshape(-1), stored["base.0.w.bias"])
    np.testing.assert_array_equal(second, np.full((2, 2), 0.5))
    del stored["base.0.w.weight"]
    with pytest.raises(ValueError, match="1 missing"):
        assemble(stored, table)


def test_what_was_absent_is_written_once_it_is_another_number() -> None:
    table: Table = (*TABLE[:4], (("b[l]", 0.5),))
    stored = tensors()
    del stored["base.0.w.bias"], stored["base.1.w.bias"]
    weights = assemble(stored, table)
    assert back_in_place(stored, table, weights).keys() == stored.keys()
    weights["b[l]"] = [weights["b[l]"][0], np.array([[1.0, 2.0], [3.0, 4.0]])]
    made = back_in_place(stored, table, weights)
    np.testing.assert_array_equal(made["base.0.w.bias"], np.full((2, 2), 0.5))
    np.testing.assert_array_equal(made["base.1.w.bias"], weights["b[l]"][1])


def test_weights_that_a_file_holds_twice() -> None:
    stored = tensors()
    stored["head.weight"] = stored["base.embed.weight"].copy()
    assert several(stored, TABLE) == set()
    stored["head.weight"][0, 0] += 1
    assert several(stored, TABLE) == {"E"}


# --- one error for all --------------------------------------------------------------------------------------


def test_all_problems_in_one_error() -> None:
    stored = tensors()
    del stored["base.embed.weight"]
    stored["base.0.w.weight"] = np.zeros((4, 5), np.float32)
    stored["base.1.qk"] = np.zeros((4, 7), np.float32)
    stored["base.pile"] = np.zeros((4, 2, 3), np.int64)
    stored["extra"] = np.zeros(3, np.float32)
    text = refused(stored)
    assert text.startswith("the weights do not fit: 1 missing, 4 misshapen, 1 left over; nothing was loaded")
    assert "missing: 'base.embed.weight', for E : [word, d] = [5, 4]" in text
    assert "'base.0.w.weight' is [4, 5], W[l] wants [d', d] = [4, 4]" in text
    assert "'base.1.qk' is [4, 7], Q[l] wants [d, (parts head dk)] = [4, 6]" in text
    assert "'base.pile' holds int64, P[l] wants real numbers" in text
    assert "left over: 'extra' [3]" in text
    assert "d = 4 (hidden_size)" in text, "where the size came from"
    assert "left over" not in refused(stored, strict=False)


def test_a_row_that_is_missing_everywhere_is_one_line() -> None:
    stored = {name: value for name, value in tensors().items() if "bias" not in name}
    assert "missing: 'base.{l}.w.bias' in all 2 entries, for b[l] : [head, dk] = [2, 2]" in refused(stored)
    assert missing_weights(stored, TABLE) == {"b[l]"}


def test_long_lists_are_cut() -> None:
    stored = {**tensors(), **{f"x{i}": np.zeros(1) for i in range(100)}}
    text = refused(stored)
    assert "100 left over" in text
    assert "and 60 more" in text


def test_absurd_stacks_end_quickly() -> None:
    huge: Table = ((("W[l]", "w.{l}", (("l", 1 << 40),), ((("d", 2),),), (0,), ()),), (), (), (), ())
    with pytest.raises(ValueError, match="1099511627776 entries"):
        assemble({"w.0": np.zeros(2)}, huge)


@pytest.mark.parametrize(
    ("shape", "wanted", "well"),
    [
        ((6,), (2, 3), True), ((2, 3), (2, 3), True), ((3, 2), (2, 3), False), ((2, 3, 1), (2, 3), False),
        ((6, 4), (2, 3, 4), True), ((2, 12), (2, 3, 4), True), ((4, 6), (2, 3, 4), False), ((), (), True),
        ((1, 8), (1, 8), True), ((8,), (1, 8), True), ((8,), (8, 1), True), ((1,), (), False),
        ((24,), (2, 3, 4), True),
    ],
)  # fmt: skip
def test_only_neighbours_merge(shape: tuple[int, ...], wanted: tuple[int, ...], well: bool) -> None:
    assert merges(shape, wanted) is well


def test_layouts_are_told_with_names() -> None:
    assert told_shape(TABLE[0][4]) == "[d, (parts head dk)] = [4, 6]"
    assert told_shape(("W", "w", (), ((("a", 2), ("b", 3)), ()), (0, 1), ())) == "[(a b), 1] = [6, 1]"


# --- files --------------------------------------------------------------------------------------------------


def test_one_file_a_folder_and_an_archive(tmp_path: Path) -> None:
    stored = tensors()
    save_file(stored, tmp_path / "model.safetensors")
    np.savez(tmp_path / "model.npz", **stored)  # type: ignore[arg-type]
    for path in (tmp_path, tmp_path / "model.safetensors", tmp_path / "model.npz"):
        found = read_stored(path)
        assert set(found) == set(stored)
        np.testing.assert_array_equal(found["base.pile"], stored["base.pile"])


def shards(folder: Path, homes: Any = None) -> Tensors:
    stored = tensors()
    names = sorted(stored)
    save_file({name: stored[name] for name in names[:4]}, folder / "model-1.safetensors")
    save_file({name: stored[name] for name in names[4:]}, folder / "model-2.safetensors")
    plain = {name: f"model-{1 + (i >= 4)}.safetensors" for i, name in enumerate(names)}
    index = {"metadata": {}, "weight_map": plain if homes is None else homes(plain)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return stored


def test_shards(tmp_path: Path) -> None:
    stored = shards(tmp_path)
    found = read_stored(tmp_path)
    assert set(found) == set(stored)
    assert set(assemble(found, TABLE)) == {row[0] for row in TABLE[0]}


@pytest.mark.parametrize(
    ("homes", "told"),
    [
        (lambda plain: plain | {"x": "../other.safetensors"}, "which is no .safetensors file of this folder"),
        (lambda plain: plain | {"x": "/etc/passwd"}, "which is no .safetensors file of this folder"),
        (lambda plain: plain | {"x": "model.bin"}, "which is no .safetensors file of this folder"),
        (lambda plain: plain | {"x": 3}, "which is no .safetensors file of this folder"),
        (
            lambda plain: plain | {"x": "model-3.safetensors"},
            "the shard model-3.safetensors, which does not exist",
        ),
        (lambda plain: plain | {"x": "model-1.safetensors"}, "model-1.safetensors does not hold 'x'"),
        (lambda plain: [], "is no index"),
        (lambda plain: 3, "is no index"),
    ],
)
def test_unsound_indices(tmp_path: Path, homes: Any, told: str) -> None:
    shards(tmp_path, homes)
    with pytest.raises(ValueError, match=told.replace("(", r"\(")):
        read_stored(tmp_path)


def test_a_name_in_two_shards(tmp_path: Path) -> None:
    stored = shards(tmp_path)
    save_file(stored, tmp_path / "model-2.safetensors")
    with pytest.raises(ValueError, match="is in two shards"):
        read_stored(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"weight_map": null}', "[" * 100_000])
def test_indices_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ValueError, match="is no index"):
        read_stored(tmp_path)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickles_are_refused_with_advice(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x80\x02")
    with pytest.raises(ValueError, match="transformula convert"):
        read_stored(tmp_path)
    with pytest.raises(ValueError, match="transformula convert"):
        read_stored(tmp_path / name)


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
def test_half_written_files(tmp_path: Path, keep: int) -> None:
    save_file(tensors(), tmp_path / "model.safetensors")
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:keep])
    with pytest.raises(ValueError, match=r"model\.safetensors"):
        read_stored(tmp_path)


def test_no_weights_at_all(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"neither model\.safetensors nor"):
        read_stored(tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        read_stored(tmp_path / "nothing")


def test_archives_hold_no_objects(tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", x=np.array([{}], object))
    with pytest.raises(ValueError, match=r"model\.npz"):
        read_stored(tmp_path / "model.npz")
