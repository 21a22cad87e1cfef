"""Picture → one page: the SVG with pan and zoom, and the lines of the spec that a click on a box shows."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from ...grammar.diagnostics import Source
from . import svg
from .picture import Picture


def write(picture: Picture) -> str:
    """The picture as a page that needs no other file."""
    return _template().render(
        title=picture.name,
        picture=Markup(svg.write(picture)),
        sources=[_numbered(source) for source in _sources(picture)],
    )


@lru_cache(maxsize=1)
def _template() -> Template:
    loader = PackageLoader("transformula.backends.draw", "templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("page.html.j2")


def _sources(picture: Picture) -> list[Source]:
    """The files whose lines the picture shows, the model's own first."""
    spans = [one.span for one in picture.top.clusters()] + [one.span for one in picture.top.boxes()]
    return list(dict.fromkeys(span.source for span in spans if span))


def _numbered(source: Source) -> dict[str, object]:
    return {"name": source.name, "lines": list(enumerate(source.text.rstrip("\n").split("\n"), 1))}
