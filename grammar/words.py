"""Terminals, characters and habits from elsewhere, in words for people."""

from __future__ import annotations

import unicodedata

OPERATORS = {
    "PLUS": "+",
    "MINUS": "-",
    "STAR": "*",
    "SLASH": "/",
    "DOUBLE_SLASH": "//",
    "PERCENT": "%",
    "AT": "@",
    "CARET": "^",
    "LESS": "<",
    "MORE": ">",
    "LESS_EQUAL": "≤",
    "MORE_EQUAL": "≥",
    "EQUAL": "==",
    "UNEQUAL": "≠",
    "AND": "and",
    "OR": "or",
}

# What begins a value; NAME is the one that tells whether a value may stand somewhere.
STARTS = {
    "NUMBER",
    "INFINITY",
    "SUM_SIGN",
    "PRODUCT_SIGN",
    "BAR",
    "DOUBLE_BAR",
    "ROOT",
    "NOT",
    "LPAR",
    "LSQB",
    "STRING",
    "MINUS",
}

SIGNS = {
    "_ARROW": "`→`",
    "ASSIGN": "`=`",
    "BAR": "`|`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "DOT": "`.`",
    "DOUBLE_BAR": "`‖`",
    "LPAR": "`(`",
    "LSQB": "`[`",
    "RANGE": "`..`",
    "ROOT": "`√`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "SEMICOLON": "`;`",
    "TILDE": "`~`",
    "TRANSPOSED": "`ᵀ`",
    "SUM_SIGN": "`∑`",
    "PRODUCT_SIGN": "`∏`",
    "INFINITY": "`∞`",
    "SUPERSCRIPT": "a power such as `²`",
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": 'a text in `"…"`',
    "_NL": "the end of the line",
    "_INDENT": "indented lines",
    "_DEDENT": "the end of the block",
    "$END": "the end of the file",
}


def word(kind: str) -> str:
    """A terminal as people call it."""
    if kind in OPERATORS:
        return f"`{OPERATORS[kind]}`"
    return SIGNS.get(kind) or f"`{kind.lower()}`"


def expected(kinds: set[str]) -> str:
    """`a value`, `an operator or the end of the line`: a set of terminals, shortened."""
    kinds = set(kinds)
    parts = []
    if "NAME" in kinds and {"NUMBER", "LPAR"} <= kinds:
        parts.append("a value")
        kinds -= {"NAME", *STARTS}
    if len(kinds & OPERATORS.keys()) > 3:
        parts.append("an operator")
        kinds -= {*OPERATORS, "TRANSPOSED", "SUPERSCRIPT", "DOT", "IF"}
        if "RPAR" in kinds or "RSQB" in kinds or "_NL" in kinds:
            kinds -= {"LPAR", "LSQB"}
    parts += sorted(word(kind) for kind in kinds)
    if len(parts) > 7:
        parts = [*parts[:6], "…"]
    return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


# How a line looks that begins with this word, or stands under it.
FORMS = {
    "SPEC": "`spec name extends other`",
    "FROM": "`from functions import softmax, gelu`",
    "CONFIG": "`name = default as key`",
    "CHOICE": '`"text", "other text" = formula`',
    "AXES": "`axes half = dk / 2, two = 2`",
    "TIE": "`tie a.W = b.W`",
    "REMOVE": "`remove name, name`",
    "CHANGE": "`change Block` or `change f = value`, and what differs under it",
    "CHECKPOINT": '`path : "stored name" [layout]`',
    "WEIGHTS": "`W : [a → b] ~ initial value`",
    "USES": "`name : Block` or `name[layers] : Block`",
    "SHOWS": "`hidden_states[seq, d] = x`, a recurrence, or `name[axes] = layer.attn.A`, a part of an instance",
    "FOR": "`for l in layers:`, with the equations of a step on the next lines",
}

# Characters that are no part of the language, and what to write for them.
ADVICE = {
    "{": "cases stand on lines of their own, `value if condition`; parts are joined as [u; v]",
    "}": "cases stand on lines of their own, `value if condition`; parts are joined as [u; v]",
    "&": "write `and`",
    "∧": "write `and`",
    "∨": "write `or`",
    "!": "write `not x`; `a ≠ b` or `a != b` compares",
    "¬": "write `not x`",
    "∈": "write `for l in layers:`",
    "?": "a choice is written `a if c else b`",
    "$": "no dollar signs: a file holds formulas only",
    "'": 'texts stand in double quotes "…"; a prime stands at the end of a name: W\'',
    "`": 'texts stand in double quotes "…"',
    "“": 'write straight quotes: "…"',
    "”": 'write straight quotes: "…"',
    "„": 'write straight quotes: "…"',
    "‘": "a prime is written '",
    "’": "a prime is written '",
    "–": "a minus is written -",
    "—": "a minus is written -",
    "÷": "write a / b",
    "⁄": "write a / b",
    "½": "write 1 / 2",
    "←": "a definition is written with =",
    "≔": "a definition is written with =",
    "≈": "an equation is exact here: write =",
    "⇒": "a rename is written x[a → b]",
    "↦": "a map is written W : [a → b]",
    "∂": "gradients are derived by the compiler",
    "ⁿ": "write x^n",
    "ⁱ": "write x^i",
    "\r": "save the file with LF or CRLF line ends",
}

LATEX = {
    "frac": "a / b",
    "sqrt": "√x",
    "sum": "sum[j](x)",
    "prod": "prod[j](x)",
    "cdot": "a * b",
    "times": "a * b",
    "odot": "a ⊙ b",
    "leq": "a ≤ b",
    "le": "a ≤ b",
    "geq": "a ≥ b",
    "ge": "a ≥ b",
    "neq": "a ≠ b",
    "infty": "∞",
    "exp": "exp(x)",
    "log": "log(x)",
    "top": "xᵀ",
    "mathbf": "the plain name",
    "text": "the plain name",
    "mathrm": "the plain name",
    "left": "( or [",
    "right": ") or ]",
    "varepsilon": "ε",
    "varphi": "φ",
}

# First words of lines in other languages.
FOREIGN = {
    "def": "a formula is `f(x) = …`, a block `block B(x[seq, d]) → [seq, d] = …`",
    "fn": "a formula is `f(x) = …`",
    "function": "a formula is `f(x) = …`",
    "let": "a definition needs no word in front: `a = …`",
    "var": "a definition needs no word in front: `a = …`",
    "class": "a layer with weights is `block B(x[seq, d]) → [seq, d] = …`",
    "return": "the result stands in the head: `f(x) = result`, its parts under `where`",
    "lambda": "a local function is an equation under `where`: `g(x) = …`",
    "import": "write `from functions import softmax`",
    "while": "a loop runs over an axis or a size: `for l in layers:`",
    "elif": "choices are chained: `a if c else b if d else e`",
    "print": "a spec computes and prints nothing; every named part can be looked at in the program",
    "assert": "a spec states equations; declared axes are checked",
    "self": "weights have names of their own, without `self.`",
    "given": "values come in as parameters: `block B(x[seq, d], bias[key] = 0)`",
}


def name_of(character: str) -> str:
    """`MINUS SIGN (U+2212)`."""
    name = unicodedata.name(
        character, "a control character" if ord(character) < 160 else "an unnamed character"
    )
    return f"{name} (U+{ord(character):04X})"


def latex(command: str) -> str:
    """What to write for a LaTeX command without its backslash, if we know."""
    if command in LATEX:
        return LATEX[command]
    case = "CAPITAL" if command[:1].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {command.upper()}")
    except KeyError:
        return ""
