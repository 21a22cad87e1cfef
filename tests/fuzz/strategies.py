"""Strategies of whole specs, and what runs them: seeds decide everything, nothing is remembered between runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.author import Author
from tests.fuzz.making import Draw
from tests.fuzz.respell import RULES, respelled
from tests.fuzz.tree import Spec, spec_text

T = TypeVar("T")
LOSES = {
    "summed": "a sum over what a mask lets through may not read the rest, a product may",
    "by_reciprocal": "(e^s @ V) * (1 / Σ e^s) is not seen as shares",
    "difference": "n[t] - -x is not seen as a sum",
}
"""Respellings that hide a meaning at times, and why: they still keep every value."""


@st.composite
def trees(draw: Any) -> Spec:
    """A random spec as a tree."""
    return Author(Draw(draw)).spec()


def specs() -> st.SearchStrategy[str]:
    """The text of a random spec."""
    return trees().map(spec_text)


@st.composite
def pairs(draw: Any, *names: str) -> tuple[str, str]:
    """A random spec, and the same by some rules wherever they fit (or by all, here and there)."""
    chooses = Draw(draw)
    spec = Author(chooses).spec()
    rules = tuple(RULES[name] for name in names or RULES)
    return spec_text(spec), spec_text(respelled(spec, chooses, rules, 60 if names else 12))


def run(
    strategy: st.SearchStrategy[T], body: Callable[[T], None], number: int, count: int, shrink: bool = True
) -> None:
    """The body on `count` examples that the number decides; a failing one is made as small as it goes."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(strategy)
    def each(example: T) -> None:
        body(example)

    each()
