"""The table of signs and letters: how each is written in LaTeX, and which names have a sign of their own."""

from __future__ import annotations

# ------------------------------------------------------------------------------------------------- letters

GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "ς": "varsigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma",
    "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Υ": "Upsilon", "Φ": "Phi",
    "Ψ": "Psi", "Ω": "Omega", "ϕ": "phi", "ϑ": "vartheta", "ϵ": "epsilon",
}  # fmt: skip
LETTER = {char: f"\\{word}" for char, word in GREEK.items()} | {
    "ℓ": r"\ell",
    "ℒ": r"\mathcal{L}",
    "ℝ": r"\mathbb{R}",
    "∞": r"\infty",
    "∂": r"\partial",
    "∇": r"\nabla",
}
BY_NAME = {word: char for char, word in reversed(GREEK.items())} | {"pi": "π", "inf": "∞"}

# What the house calls its axes and papers write another way.
WRITTEN = {"dk": "d_k", "dv": "d_v"}

# A single letter that counts: as the name of an axis its size is n.
COUNTERS = "ijklmpqrst"

# ------------------------------------------------------------------------------------------------- signs

SIGN = {
    "+": "+",
    "-": "-",
    "−": "-",
    "·": r"\cdot",
    "⊙": r"\odot",
    "×": r"\times",
    "=": "=",
    "≠": r"\neq",
    "<": "<",
    ">": ">",
    "≤": r"\leq",
    "≥": r"\geq",
    "≈": r"\approx",
    "→": r"\to",
    "∈": r"\in",
    "¬": r"\neg",
    "∧": r"\wedge",
    "∨": r"\vee",
    ",": ",",
    ";": ";",
    ":": ":",
    ".": ".",
    "…": r"\ldots",
    "⊤": r"\top",
    "′": r"\prime",
    "/": "/",
    "mod": r"\bmod",
}
COMPARED = {"<": "<", "<=": "≤", ">": ">", ">=": "≥", "==": "=", "!=": "≠"}

DELIMITER = {
    "(": "(",
    ")": ")",
    "[": "[",
    "]": "]",
    "{": r"\{",
    "}": r"\}",
    "|": "|",
    "‖": r"\|",
    "⌊": r"\lfloor",
    "⌋": r"\rfloor",
    "⌈": r"\lceil",
    "⌉": r"\rceil",
}
BIG = {"∑": r"\sum", "∏": r"\prod", "⋁": r"\bigvee", "⋀": r"\bigwedge", "max": r"\max", "min": r"\min"}

MARK = {
    "\u0300": r"\grave",
    "\u0301": r"\acute",
    "\u0302": r"\hat",
    "\u0303": r"\tilde",
    "\u0304": r"\bar",
    "\u0306": r"\breve",
    "\u0307": r"\dot",
    "\u0308": r"\ddot",
    "\u030c": r"\check",
    "\u20d7": r"\vec",
}
# The same as characters that stand by themselves, for MathML.
ABOVE = {
    "\u0300": "`",
    "\u0301": "´",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "¯",
    "\u0306": "˘",
    "\u0307": "˙",
    "\u0308": "¨",
    "\u030c": "ˇ",
    "\u20d7": "→",
}

# Characters of running text that mean something to TeX.
ESCAPED = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": "'",
    '"': "''",
    "“": "``",
    "”": "''",
    "–": "--",
    "…": r"\ldots{}",
}
ESCAPED_COMMANDS = tuple(one.removesuffix("{}") for one in ESCAPED.values() if one.startswith("\\"))

# --------------------------------------------------------------------------------- functions of the language

# Names that LaTeX has a command for; every other function is a word.
FUNCTION = frozenset(("exp", "log", "sin", "cos", "tanh", "max", "min"))

# Functions that stand around their argument.
AROUND = {"abs": ("|", "|"), "floor": ("⌊", "⌋"), "ceil": ("⌈", "⌉")}

# Reductions: the sign that is written, None for those that have a form of their own (expressions.py).
REDUCTION: dict[str, str | None] = {
    "sum": "∑",
    "prod": "∏",
    "mean": None,
    "max": "max",
    "min": "min",
    "any": "⋁",
    "all": "⋀",
    "argmax": "arg max",
    "count": None,
    "norm": None,
}
