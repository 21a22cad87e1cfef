"""docs/errors.md has a row for each code that the source uses, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
CODE = re.compile(r"[ACDIMNPRSTUXK]\d{3}")


def codes(path: Path) -> Iterator[str]:
    """The codes among the arguments of calls, and those in tables of codes."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
            yield node.value


def used() -> set[str]:
    folders = ("grammar", "compiler", "backends", "transformula")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if not path.is_symlink()]
    return {code for path in paths for code in codes(path)}


def documented() -> list[str]:
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    return re.findall(r"^\| ([A-Z]\d{3}) \|", page, flags=re.MULTILINE)


def test_each_code_has_a_row() -> None:
    assert used() - set(documented()) == set()


def test_each_row_has_a_code() -> None:
    assert set(documented()) - used() == set()


def test_rows_are_sorted_and_single() -> None:
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    for section in page.split("\n## ")[1:]:
        here = re.findall(r"^\| ([A-Z]\d{3}) \|", section, flags=re.MULTILINE)
        assert here == sorted(set(here))
    assert all(len(re.split(r"(?<!\\)\|", row)) == 6 for row in page.splitlines() if row.startswith("|"))
