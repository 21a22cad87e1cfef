"""Notebooks: `%load_ext transformula` shows specs, graphs and differences, and brings the cell magic `%%formula`.

    %%formula attention --set d=32 --draw svg
    attend[key](Q[dk], K[key, dk], V[key]) = …

compiles the cell, prints the axes of its equations and puts the program into the namespace under its name. A mistake is
shown as on the command line, with its line and caret, and fails the cell. Programs, pictures and summaries show
themselves without the extension (backends/display.py).
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from shlex import split
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import UsageError
from IPython.display import HTML, Markdown, display

from .grammar.diagnostics import Source, TransformulaError, error

if TYPE_CHECKING:
    from .backends.program import Program
    from .compiler.modules import Module

HTML_OF = {
    ("transformula.compiler.modules", "Module"): ("backends.display", "module_html"),
    ("transformula.compiler.graphs", "Graph"): ("backends.display", "graph_html"),
    ("transformula.compiler.driver", "Compiled"): ("backends.display", "compiled_html"),
}
"""Objects that know nothing of notebooks, and what makes HTML of each."""
DRAWN = ("none", "svg", "mermaid")
FORMULA = "Compile the formulas of a cell: the program is there under its name, the axes are printed."


class Mistake(TransformulaError):
    """A mistake of a cell: a notebook shows its text alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return str(self).splitlines()


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext transformula`: registers the magic, and how objects are shown."""

    def formula(line: str, cell: str) -> None:
        run_cell(shell, line, cell)

    formula.__doc__ = _Options().format_help()
    shell.register_magic_function(formula, "cell", "formula")
    plain, html, latex = (shell.display_formatter.formatters[f"text/{kind}"] for kind in ("plain", "html", "latex"))
    for (home, name), (module, function) in HTML_OF.items():
        html.for_type_by_name(home, name, _later(module, function))
        if home.startswith("transformula.compiler."):
            plain.for_type_by_name(home, name, _short)
    latex.for_type_by_name("transformula.compiler.modules", "Module", module_latex)


def _later(module: str, function: str) -> Callable[[Any], str]:
    """The function of one of our modules, imported when something is shown."""

    def shown(value: Any) -> str:
        return str(getattr(import_module(f".{module}", __package__), function)(value))

    return shown


def _short(value: Any, printer: Any, cycle: bool) -> None:
    """A line for what is a page in full: <Graph Attention>"""
    printer.text(f"<{type(value).__name__} {getattr(value, 'entry', None) or value.name}>")


def module_latex(module: Module) -> str:
    """The mathematics of a spec."""
    from .backends.tex import typeset

    return typeset(module, "snippet")


# ------------------------------------------------------------------------------------------------------ the magic


class _Options(ArgumentParser):
    """What may stand behind %%formula; a mistake there is told as IPython tells its own."""

    def __init__(self) -> None:
        super().__init__("%%formula", description=FORMULA, add_help=False)
        self.add_argument("name", help="What the program is called in the notebook.")
        self.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE")
        self.add_argument("--config", metavar="FILE", help="A config.json with the model's sizes.")
        self.add_argument("--entry", metavar="NAME", help="The model or objective; by default the cell's first model.")
        self.add_argument("--backend", default="numpy", help="numpy (the default) or torch.")
        self.add_argument("--draw", default="none", choices=DRAWN, help="Show the picture, too.")
        self.add_argument("--depth", type=int, help="How many levels of blocks the picture opens.")
        self.add_argument("--quiet", action="store_true", help="Print no axes.")

    def error(self, message: str) -> NoReturn:
        """Ends the cell with the message alone."""
        raise UsageError(message)


def run_cell(shell: Any, line: str, cell: str) -> None:
    """`%%formula`: compiles a cell, prints its axes, puts the program into the namespace, and draws it if asked."""
    try:
        asked = _Options().parse_args(split(line))
    except ValueError as fault:  # a quotation that does not end
        raise UsageError(str(fault)) from None
    try:
        program = compiled_cell(cell, vars(asked))
        told = "" if asked.quiet else axes_of(cell, asked.name, asked.config)
    except TransformulaError as fault:
        raise Mistake(fault.diagnostics) from None
    if told:
        print(told)
    shell.push({asked.name: program})
    _draw(program, asked.draw, asked.depth)


def compiled_cell(cell: str, asked: Mapping[str, Any]) -> Program:
    """The program of a cell's text. Raises `TransformulaError` with every mistake found."""
    from .backends.program import Program, check_backend, passes_left_out, proved
    from .compiler.driver import compile_graph, load_module
    from .reading import read_config_file, read_settings

    if not str(asked["name"]).isidentifier() or iskeyword(asked["name"]):
        advice = "The first word after %%formula is a name of Python: %%formula attention"
        raise error("C671", f"a program cannot be called `{asked['name']}` in a notebook", help=advice)
    check_backend(asked["backend"])
    config = read_config_file(Path(asked["config"]) if asked["config"] else None)
    module = load_module(Source(_called(asked["name"]), cell))
    settings = read_settings(tuple(asked["settings"]))
    left = passes_left_out(asked["backend"])
    made = compile_graph(module, config, asked["entry"], settings, left)
    return Program(proved(made), asked["backend"])


def axes_of(cell: str, name: str, config: str | None = None) -> str:
    """Each equation of a cell with its axes, as `transformula check --axes` tells them, and warnings."""
    from .compiler.driver import check_session
    from .compiler.listing import listing
    from .reading import read_config_file

    session = check_session(Source(_called(name), cell), read_config_file(Path(config) if config else None), True)
    session.diagnostics.check()
    told = [f"{one}\n" for one in session.diagnostics.warnings]
    rows = listing(session)
    wide = len(str(rows[-1].line)) if rows else 1
    for row in rows:
        told.append(f"{row.line:>{wide}} | {row.text}")
        told += [f"{' ' * wide} |     {shape}" for shape in row.shapes]
    return "\n".join(told)


def _called(name: str) -> str:
    """How mistakes call a cell."""
    return f"<{name}>"


def _draw(program: Program, form: str, depth: int | None) -> None:
    """Shows the picture of a program."""
    from .backends.display import picture_html, small_picture
    from .backends.draw import mermaid

    if form == "none":
        return
    made = small_picture(program.compiled, depth=depth)
    if form == "svg":
        display(HTML(picture_html(made)))  # type: ignore[no-untyped-call]
    else:
        display(Markdown(f"```mermaid\n{mermaid.write(made)}\n```"))  # type: ignore[no-untyped-call]
