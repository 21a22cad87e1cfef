"""Options of the whole test suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--regen` writes golden files anew instead of comparing with them; read the diff before keeping it."""
    parser.addoption("--regen", action="store_true", help="write golden files anew")


@pytest.fixture
def regen(request: pytest.FixtureRequest) -> bool:
    """Are golden files to be written anew?"""
    return bool(request.config.getoption("--regen"))
