"""Options of the whole test suite."""

from collections import Counter

import pytest

FEW = 2
"""How many cases of each comparison with a library run by default; `make slow` runs the others."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--regen` writes golden files anew instead of comparing with them; read the diff before keeping it."""
    parser.addoption("--regen", action="store_true", help="write golden files anew")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of many configurations of one comparison in tests/specs, all but the first few are slow."""
    seen: Counter[str] = Counter()
    for item in items:
        function = item.nodeid.partition("[")[0]
        if "tests/specs/" in function and "[" in item.nodeid:
            seen[function] += 1
            if seen[function] > FEW:
                item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _unproved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests compile a thousand models: those that are not about proofs leave them out, to take minutes and not hours.

    tests/compiler/test_validate.py proves the zoo and every shipped spec.
    """
    if request.node.get_closest_marker("proved") is None:
        monkeypatch.setattr("transformula.compiler.validation.prove_quickly", lambda made: None)


@pytest.fixture
def regen(request: pytest.FixtureRequest) -> bool:
    """Are golden files to be written anew?"""
    return bool(request.config.getoption("--regen"))
