"""How long an architecture is: the lines of each shipped spec beside those of the library's modeling file.

    python benchmarks/spec_lines.py

Lines with nothing but blanks or a comment are not counted on either side; docstrings count for the library. A spec
that extends another says only what differs, as the library's files mostly do not.
"""

import importlib.util
from pathlib import Path

SPECS = Path(__file__).resolve().parent.parent / "specs"
FILES = {
    "bert": "bert",
    "roberta": "roberta",
    "data2vec_text": "data2vec.modeling_data2vec_text",
    "electra": "electra",
    "albert": "albert",
    "distilbert": "distilbert",
    "mpnet": "mpnet",
    "deberta": "deberta",
    "deberta_v2": "deberta_v2",
}
"""Shipped spec → the library's file."""


def lines_of(path: Path) -> int:
    """Lines that say something."""
    rows = (row.strip() for row in path.read_text("utf-8").splitlines())
    return sum(1 for row in rows if row and not row.startswith("#"))


def library_file(name: str) -> Path:
    """The modeling file of transformers for a model type."""
    module = name if "." in name else f"{name}.modeling_{name}"
    spec = importlib.util.find_spec(f"transformers.models.{module}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def main() -> None:
    """Prints the table."""
    print(f"{'spec':<15}{'spec lines':>12}{'library':>10}{'ratio':>8}")
    for name, file in FILES.items():
        own, theirs = lines_of(SPECS / f"{name}.formula"), lines_of(library_file(file))
        print(f"{name:<15}{own:>12}{theirs:>10}{theirs / own:>7.1f}×")


if __name__ == "__main__":
    main()
