"""Colours of pictures: readable on whatever they stand on, and no kind of thing told by its colour alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from transformula.backends.draw.layout import Frame
from transformula.backends.draw.palette import DARK, KINDS, LIGHT, TEXTS, style
from transformula.backends.draw.picture import Box
from transformula.backends.draw.svg import _box

THEMES = [LIGHT, DARK]
GROUNDS = ("paper", "cluster", "odd")


def rgb(theme: Mapping[str, str], kind: str, what: str = "fill") -> tuple[float, float, float]:
    """The linear red, green and blue of a colour."""
    found = re.search(rf"{what}:#([0-9a-f]{{6}})", theme[kind])
    assert found, (kind, what)
    parts = [int(found[1][i : i + 2], 16) / 255 for i in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return red, green, blue


def luminance(colour: tuple[float, float, float]) -> float:
    return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    """The contrast of WCAG 2.2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# Who lacks one kind of cone: Machado, Oliveira and Fernandes 2009, severity 1, on linear colours.
SIGHTS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def lab(colour: tuple[float, float, float], sight: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """CIELAB of a colour as somebody sees it."""
    seen = np.clip(np.array(SIGHTS[sight]) @ np.array(colour), 0, 1)
    xyz = np.array(TO_XYZ) @ seen / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_readable_in_boxes_and_heads(theme: Mapping[str, str], text: str) -> None:
    for ground in (*KINDS, *GROUNDS):
        assert contrast(rgb(theme, text), rgb(theme, ground)) >= 4.5, ground


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
def test_labels_counts_and_lines_are_readable(theme: Mapping[str, str]) -> None:
    assert contrast(rgb(theme, "count"), rgb(theme, "badge")) >= 4.5
    for ground in GROUNDS:
        assert contrast(rgb(theme, "label"), rgb(theme, ground)) >= 4.5
        assert contrast(rgb(theme, "edge", "stroke"), rgb(theme, ground)) >= 3
        for kind in KINDS:
            assert contrast(rgb(theme, kind, "stroke"), rgb(theme, ground)) >= 3


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_kinds_differ_by_shape_and_most_by_colour_too(theme: Mapping[str, str], sight: str) -> None:
    """Each pair differs by shape; borders of at least seven of ten pairs by ΔE 10 (CIE 1976) for each sight."""
    shapes = {}
    for kind in KINDS:
        drawn = _box(Box("b", "equation" if kind == "box" else kind, "x"), Frame(0, 0, 90, 40))
        rules = re.findall(rf"\.{kind}{{([^}}]*)}}", style("light"))
        lines = [rule for rule in rules if "fill" not in rule]
        shapes[kind] = (re.sub(r'class="\w+"', "", drawn), *lines)
    assert len(set(shapes.values())) == len(KINDS)
    far = [
        float(np.linalg.norm(lab(rgb(theme, a, "stroke"), sight) - lab(rgb(theme, b, "stroke"), sight)))
        for a, b in combinations(KINDS, 2)
    ]
    assert sum(distance >= 10 for distance in far) >= 7, far


def test_light_and_dark_name_the_same_things() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert "prefers-color-scheme" in style()
    assert "prefers-color-scheme" not in style("dark") + style("light")
