"""transformula: the formulas of a transformer in, a readable NumPy or PyTorch module out.

A public name is imported when first used, so that `import transformula` is quick and imports no framework.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends.corrupt import corrupt
    from .backends.difference import diff
    from .backends.load import load
    from .backends.program import Program, compile
    from .compiler.driver import check
    from .grammar.diagnostics import TransformulaError
    from .summarising import summary
    from .training.api import train

__version__ = "0.1.0"

__all__ = [
    "Program", "TransformulaError", "__version__", "check", "compile", "corrupt", "diff", "load", "summary", "train",
]  # fmt: skip

_HOME = {
    "Program": ".backends.program",
    "TransformulaError": ".grammar.diagnostics",
    "check": ".compiler.driver",
    "compile": ".backends.program",
    "corrupt": ".backends.corrupt",
    "diff": ".backends.difference",
    "load": ".backends.load",
    "load_ipython_extension": ".notebook",
    "summary": ".summarising",
    "train": ".training.api",
}


if not TYPE_CHECKING:  # a type checker would take this for "every name exists"

    def __getattr__(name: str) -> Any:
        """Import a public name from its home when it is first asked for, and keep it here."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOME[name], __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
