"""What every backend that writes text needs of Jinja, and of a page's white space."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


@cache
def module_template(backend: str, kind: str = "module") -> Template:
    """backends/NAME/templates/module.py.j2, or that of another kind of file; a value that is missing is an error."""
    made = Environment(
        loader=PackageLoader(f"transformula.backends.{backend}"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return made.get_template(f"{kind}.py.j2")


@cache
def page_template(backend: str, name: str) -> Template:
    """backends/NAME/templates/ and the name; texts are escaped in what ends in .html, as in a part of such a page."""
    made = Environment(
        loader=PackageLoader(f"transformula.backends.{backend}"),
        autoescape=name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return made.get_template(name)


def tidy(text: str) -> str:
    """No spaces at line ends, at most two empty lines, one newline at the end."""
    kept: list[str] = []
    for line in (line.rstrip() for line in text.split("\n")):
        if line or len(kept) < 2 or kept[-1] or kept[-2]:
            kept.append(line)
    return "\n".join(kept).strip("\n") + "\n"
