"""The scalar functions and reductions of the core: one row each, with arity, result kind, meaning and LaTeX.

Adding a function is a row here and one line in each backend's expression table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Kinds = tuple[str, ...]


def _real(kinds: Kinds) -> str:
    return "real"


def _bool(kinds: Kinds) -> str:
    return "bool"


def _int(kinds: Kinds) -> str:
    return "int"


def _number(kinds: Kinds) -> str:
    return "real" if "real" in kinds else "unknown" if "unknown" in kinds else "int"


def _branch(kinds: Kinds) -> str:
    return "bool" if kinds[1:] == ("bool", "bool") else _number(kinds[1:])


@dataclass(frozen=True)
class Function:
    """A scalar function: `meaning` on float64 arrays, `kind` of the result from the kinds of the arguments."""

    name: str
    arity: int
    kind: Callable[[Kinds], str]
    meaning: Callable[..., Any]
    takes: str = "number"


class _Numpy:
    """NumPy's functions by name, imported when one is first called: to check a spec takes no arrays."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def meaning(*args: Any) -> Any:
            import numpy

            return getattr(numpy, name)(*args)

        return meaning


np = _Numpy()


def _exact_erf(x: Any) -> Any:
    return np.frompyfunc(math.erf, 1, 1)(np.asarray(x, float)).astype(float) if np.ndim(x) else np.float64(math.erf(x))


def _power(x: Any, y: Any) -> Any:
    return np.power(np.asarray(x, float), y)


FUNCTIONS: dict[str, Function] = {
    row.name: row
    for row in (
        Function("exp", 1, _real, np.exp),
        Function("log", 1, _real, np.log),
        Function("sqrt", 1, _real, np.sqrt),
        Function("erf", 1, _real, _exact_erf),
        Function("tanh", 1, _real, np.tanh),
        Function("sin", 1, _real, np.sin),
        Function("cos", 1, _real, np.cos),
        Function("abs", 1, _number, np.abs),
        Function("floor", 1, _int, np.floor),
        Function("ceil", 1, _int, np.ceil),
        Function("sign", 1, _number, np.sign),
        Function("neg", 1, _number, np.negative),
        Function("stop", 1, lambda k: k[0], lambda x: x, "any"),
        Function("not", 1, _bool, np.logical_not, "truth"),
        Function("+", 2, _number, np.add),
        Function("-", 2, _number, np.subtract),
        Function("*", 2, _number, np.multiply),
        Function("/", 2, _real, np.true_divide),
        Function("//", 2, _int, np.floor_divide),
        Function("%", 2, _number, np.mod),
        Function("^", 2, lambda k: "real", _power),
        Function("max", 2, _number, np.maximum),
        Function("min", 2, _number, np.minimum),
        Function("<", 2, _bool, np.less),
        Function("<=", 2, _bool, np.less_equal),
        Function(">", 2, _bool, np.greater),
        Function(">=", 2, _bool, np.greater_equal),
        Function("==", 2, _bool, np.equal, "any"),
        Function("!=", 2, _bool, np.not_equal, "any"),
        Function("and", 2, _bool, np.logical_and, "truth"),
        Function("or", 2, _bool, np.logical_or, "truth"),
        Function("where", 3, _branch, np.where, "any"),
    )
}
"""Every scalar function by its name in the graph."""


@dataclass(frozen=True)
class Reduction:
    """A reduction: result kind, and what an empty selection gives."""

    name: str
    kind: Callable[[str], str]
    empty: float


def _same(kind: str) -> str:
    return "int" if kind == "bool" else kind


REDUCTIONS: dict[str, Reduction] = {
    row.name: row
    for row in (
        Reduction("sum", _same, 0.0),
        Reduction("mean", lambda k: "real", 0.0),
        Reduction("prod", _same, 1.0),
        Reduction("max", _same, -math.inf),
        Reduction("min", _same, math.inf),
        Reduction("norm", lambda k: "real", 0.0),
        Reduction("argmax", lambda k: "int", 0.0),
        Reduction("count", lambda k: "int", 0.0),
        Reduction("any", lambda k: "bool", 0.0),
        Reduction("all", lambda k: "bool", 1.0),
    )
}
"""Every reduction by its name in the language."""
