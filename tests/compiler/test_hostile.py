"""Specs made to hang, crash or escape: each gets an answer within seconds, a result or an error, never a traceback."""

import time
from collections.abc import Callable

import pytest

from transformula import TransformulaError, check
from transformula.compiler.driver import compile_graph

SECONDS = 10.0  # a generous bound for a slow machine; each takes well under one


def answer(text: str, work: Callable[[str], object] = check) -> str:
    """What a check says: nothing, or its errors."""
    start = time.perf_counter()
    try:
        work(text)
        said = ""
    except TransformulaError as fault:
        said = str(fault)
    assert time.perf_counter() - start < SECONDS
    return said


def nested_calls(depth: int) -> str:
    return "f(x) = " + "exp(" * depth + "x" + ")" * depth + "\n"


def chain_of_formulas(length: int) -> str:
    lines = ["f0(x) = x + 1", *(f"f{n}(x) = f{n - 1}(x) + 1" for n in range(1, length))]
    return "\n".join(lines) + "\n"


def doubling(length: int) -> str:
    """Each formula calls the one before twice: 2^length calls if nothing is bounded."""
    lines = ["f0(x) = x + 1", *(f"f{n}(x) = f{n - 1}(f{n - 1}(x))" for n in range(1, length))]
    return "\n".join(lines) + "\n"


def chain_of_parts(length: int, backwards: bool) -> str:
    lines = [f"          a{n} = a{n - 1} + x" for n in range(1, length)]
    lines = ["          a0 = x", *lines]
    if backwards:
        lines.reverse()
    lines[0] = "    where " + lines[0].strip()
    return f"f(x) = a{length - 1}\n" + "\n".join(lines) + "\n"


def long_loop(steps: str) -> str:
    head = f"f(x[d]) = h[{steps}]\n    where\n        h[0] = x\n"
    return f"{head}        for l in {steps}:\n            h[l + 1] = h[l] * 2\n"


def many_definitions(count: int) -> str:
    return "\n".join(f"f{n}(x[d]) = sum[d](x * {n}) + {n}" for n in range(count)) + "\n"


BOUNDED = {
    "deeply nested calls": nested_calls(90),
    "a sum of many terms": "f(x) = " + " + ".join(["x"] * 4000) + "\n",
    "a product of many factors": "f(x) = " + " * ".join(["x"] * 4000) + "\n",
    "a very long line": "f(x) = x " + "+ 1 " * 10_000 + "\n",
    "many definitions": many_definitions(2000),
    "many parts": chain_of_parts(2000, backwards=False),
    "many parts, last first": chain_of_parts(1000, backwards=True),
    "a long name": f"{'a' * 100_000}(x) = x\n",
    "a huge exponent": "f(x) = x * 2^(10^9)\n",
    "a tower of exponents": "f(x) = x * 9^9^9^9\n",
    "a huge root": "f(x) = x * √(10^399) * (10^399)^(1 / 3)\n",
    "a long loop": long_loop("10^12"),
    "many config entries": "config\n" + "\n".join(f"    a{n + 1} = a{n} + 1" for n in range(2000)) + "\n    a0 = 1\n",
    "names of the machine": "config\n    __class__ = 3\n\n__import__(x) = x * __class__\n\neval(__dict__) = __dict__\n",
}

REFUSED = {
    "too deeply nested calls": (nested_calls(5000), "P316"),
    "a chain of formulas": (chain_of_formulas(600), "U705"),
    "an exploding chain of calls": (doubling(40), "U709"),
    "a size beyond all measure": ("axes a = 10^30\n\nf(x[a]) = sum[a](x)\n", "C604"),
    "an exponent in config": ("axes a = 10^10^10^10\n\nf(x[a]) = sum[a](x)\n", "C6"),
    "a number of many digits": (f"f(x) = x * {'9' * 5000}\n", "P309"),
    "a part that is a builtin of elsewhere": ("f(x) = x + __builtins__\n", "N201"),
    "a path as a file": ("from .. import x\n\nf(y) = x(y)\n", "P"),
    "a very long unknown name": (f"f(x) = {'b' * 20_000}\n", "N201"),
    "thousands of mistakes": ("\n".join(f"f{n}(x) = y{n}" for n in range(1500)) + "\n", "N201"),
    "a circle of many parts": (
        "f(x) = a0\n    where a0 = a1\n"
        + "".join(f"          a{n} = a{(n + 1) % 500}\n" for n in range(1, 500)),
        "N204",
    ),
    "a circle of many formulas": ("\n".join(f"f{n}(x) = f{(n + 1) % 500}(x)" for n in range(500)) + "\n", "U705"),
    "a circle of many config entries": (
        "config\n" + "".join(f"    a{n} = a{(n + 1) % 500} + 1\n" for n in range(500)),
        "C603",
    ),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded(name: str) -> None:
    answer(BOUNDED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, code = REFUSED[name]
    said = answer(text)
    assert f"error[{code}" in said
    assert len(said) < 2_000_000


@pytest.mark.parametrize("name", ["a long loop", "many parts, last first", "a sum of many terms"])
def test_compiled(name: str) -> None:
    """The same as a model: no step on the way to the graph hangs."""
    head, _, body = BOUNDED[name].partition(" = ")
    axes = "[d]" if "[d]" in head else ""
    model = f"axes d = 3\n\nmodel M(x{axes}) → {axes or '[]'} = {body}"
    assert answer(model, lambda text: compile_graph(text, until="formula")) == ""
