"""Mistakes of characters, lines and habits: what no lexer could read, indentation, and other languages."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from .diagnostics import Diagnostic, similar
from .lexing import ITEMS, LINE_WORDS, MAX_BLOCKS, MAX_BRACKETS, SECTIONS, Token
from .place import Place
from .words import ADVICE, FOREIGN, OPERATORS, latex, name_of, word

BLOCK_WORDS = {"WHERE": "equations", "WEIGHTS": "weights", "USES": "parts", "CONFIG": "options"}


# --------------------------------------------------------------------------------------- characters and lines


def bad(at: Place) -> Diagnostic | None:
    """Whatever the lexer could not read."""
    return BAD[at.token.problem](at) if at.token.kind == "BAD" else None


def _string(at: Place) -> Diagnostic:
    return Diagnostic(
        "P308", "this text is not closed", at.span(), 'no `"` on this line', help='end it with `"`'
    )


def _character(at: Place) -> Diagnostic:
    text = at.token.text
    if text.startswith("\\"):
        plain = latex(text[1:])
        advice = f"write {plain}" if plain else "write the formula in plain characters: a / b, √x, x², W_Q, α"
        return Diagnostic(
            "P306", f"LaTeX is what we print, not what we read: `{text}`", at.span(), help=advice
        )
    if unicodedata.category(text) in ("Zs", "Cf", "Zl", "Zp"):
        name = name_of(text)
        return Diagnostic(
            "P306", f"an invisible character: {name}", at.span(), help="write an ordinary space or none"
        )
    if unicodedata.combining(text):
        return _combining(at)
    shown = f"`{text}`, {name_of(text)}," if text.isprintable() else name_of(text)
    advice = ADVICE.get(text, "")
    if text == "{" and at.adjacent and at.previous.text.endswith("_"):
        advice = f"write {at.previous.text}{at.following.text}: a name may hold an underscore"
    return Diagnostic("P306", f"{shown} has no meaning here", at.span(), help=advice)


def _combining(at: Place) -> Diagnostic:
    marks = [c for c in unicodedata.normalize("NFC", at.token.text) if unicodedata.combining(c)]
    base = "".join(c for c in at.token.text if not unicodedata.combining(c))
    suffix = {"CIRCUMFLEX ACCENT": "hat", "TILDE": "tilde", "MACRON": "bar", "OVERLINE": "bar"}
    name = unicodedata.name(marks[0]).removeprefix("COMBINING ")
    return Diagnostic(
        "P306",
        f"`{at.token.text}` carries a combining mark, {name_of(marks[0])}",
        at.span(),
        "names have letters, digits, underscores and primes",
        help=f"write {base or 'x'}_{suffix.get(name, 'mark')}",
    )


def _tabs(at: Place) -> Diagnostic:
    used = "tabs" if at.parser.layout.margin == "\t" else "spaces"
    message = "tabs and spaces are mixed in the indentation"
    return Diagnostic(
        "P305", message, at.span(), f"the file began with {used}", help="indent with spaces only"
    )


def _dedent(at: Place) -> Diagnostic:
    levels = [level.column for level in at.parser.layout.levels]
    wanted = " or ".join(str(column + 1) for column in levels)
    return Diagnostic(
        "P305",
        "this line is in line with nothing above it",
        at.span(),
        f"blocks begin in column {wanted}",
        help="align it with the block that it belongs to",
    )


def _blocks(at: Place) -> Diagnostic:
    return Diagnostic("P316", f"blocks stand more than {MAX_BLOCKS} deep", at.span())


def _brackets(at: Place) -> Diagnostic:
    message = f"brackets are nested more than {MAX_BRACKETS} deep"
    return Diagnostic("P316", message, at.span(), help="give the inner parts names in a `where`")


def _open(at: Place) -> Diagnostic:
    bracket = at.token
    span = at.span(bracket)
    return Diagnostic(
        "P303",
        f"the line ends while `{bracket.text}` from column {span.column} is open",
        span,
        "opened here",
        help="close it, or go on: lines that continue inside brackets are indented more than the first one",
    )


BAD: dict[str, Callable[[Place], Diagnostic]] = {
    "string": _string,
    "character": _character,
    "combining": _combining,
    "tabs": _tabs,
    "dedent": _dedent,
    "blocks": _blocks,
    "brackets": _brackets,
    "open": _open,
}


# ------------------------------------------------------------------------------------------------ indentation


def indented(at: Place) -> Diagnostic | None:
    """A line deeper than the one above for no reason."""
    if at.token.kind != "_INDENT":
        return None
    first = at.rest[0]
    if first.kind in OPERATORS:
        return _continued(at, first)
    return Diagnostic(
        "P305",
        "this line is indented, but nothing above it opens a block",
        at.span(first),
        help="align it with the line above; a long right side goes on inside brackets, or after `=` or `,`",
    )


def _continued(at: Place, first: Token) -> Diagnostic:
    return Diagnostic(
        "P303",
        "a formula goes on in the next line inside brackets only",
        at.span(first),
        help="put the whole right side in ( … ), or begin it on the line after the `=`",
    )


def not_indented(at: Place) -> Diagnostic | None:
    """Nothing under a word or a head that needs lines of its own."""
    last = at.parser.last
    if last is None or not at.accepts("_INDENT") or at.accepts("NAME", "$END", "_DEDENT", "WHERE"):
        return None
    if last.kind == "COLON" and not at.line:
        help, what = "write the equations of a step on the next lines, indented: x[l + 1] = …", "`for … :`"
    elif last.kind == "ASSIGN" and not at.line:
        help, what = "write the right side, on this line or indented on the next", "`=`"
    else:
        help, what = (
            f"write {BLOCK_WORDS.get(last.kind, 'lines')} on this line or indented on the next",
            word(last.kind),
        )
    return Diagnostic("P305", f"nothing stands under {what}", at.span(last), help=help)


def in_body(at: Place) -> Diagnostic | None:
    """A line under a head that begins with none of the section words."""
    if not at.parser.fresh or not at.accepts("WHERE") or at.accepts("NAME"):
        return None
    token = at.token
    if token.kind in OPERATORS:
        return _continued(at, token)
    if token.kind != "NAME":
        return None
    near = similar(token.text, SECTIONS)
    if near and at.following.kind not in ("ASSIGN", "LSQB"):
        return Diagnostic(
            "P311", f"`{token.text}` begins no section", at.span(), help=f"Did you mean {near[0]}?"
        )
    names = ", ".join(SECTIONS[:-1]) + f" or {SECTIONS[-1]}"
    shape = {"ASSIGN": "where", "COLON": "uses", "LSQB": "where", "COMMA": "weights"}.get(
        at.following.kind, "where"
    )
    if shape == "uses" and len(at.rest) > 1 and at.rest[1].kind == "LSQB":
        shape = "weights"
    return Diagnostic(
        "P311", f"a line under a head begins with {names}", at.span(), help=f"write `{shape}` in front"
    )


def misplaced_section(at: Place) -> Diagnostic | None:
    """`where` at the left margin, or inside another section."""
    token = at.token
    if at.line or token.text not in LINE_WORDS or token.kind == "NAME":
        return None
    if token.kind == "SPEC":
        return Diagnostic("P311", "`spec` stands once, at the top of the file", at.span())
    if token.text in SECTIONS:
        help = "indent it under the definition that it belongs to"
        if at.parser.depth > 1:
            help = "align it with the other sections of its definition; a section stands in no other section"
        return Diagnostic("P311", f"`{token.text}` belongs under a head", at.span(), help=help)
    if token.text in ITEMS:
        help = "move it to the left margin"
        return Diagnostic("P311", f"`{token.text}` stands at the left margin only", at.span(), help=help)
    return Diagnostic("P311", f"`{token.text}` stands in a checkpoint only", at.span())


# -------------------------------------------------------------------------------------------- other languages


def foreign(at: Place) -> Diagnostic | None:
    """A line that begins as in Python or elsewhere."""
    first = at.first
    if first.kind != "NAME" or first.text not in FOREIGN or at.token.kind in ("_INDENT", "_DEDENT"):
        return None
    if at.line and at.line[1:2] and at.line[1].kind in ("ASSIGN", "LSQB"):
        return None
    return Diagnostic(
        "P310", f"`{first.text}` is no word of this language", at.span(first), help=FOREIGN[first.text]
    )


def lambda_(at: Place) -> Diagnostic | None:
    """`f(lambda x: …)`."""
    if at.previous.text != "lambda" or at.previous.kind != "NAME":
        return None
    help = FOREIGN["lambda"]
    return Diagnostic("P310", "`lambda` is no word of this language", at.span(at.previous), help=help)


def signs(at: Place) -> Diagnostic | None:
    """`**`, `||`, `:=`, `+=`, `;`, `~x`, `f(x):`."""
    token, previous = at.token, at.previous
    pair = at.span(previous, token) if at.adjacent else at.span()
    if token.kind == previous.kind == "STAR" and at.adjacent:
        return Diagnostic("P310", "a power is written ^", pair, help="x^2, or x²")
    if token.kind == "BAR" or (token.kind == "DOUBLE_BAR" and at.accepts("OR")):
        both = at.following.kind == "BAR" and at.following.start == token.end
        span = at.span(token, at.following) if both else at.span()
        help = "write `a or b`; |x| is the absolute value and ‖x‖[d] the norm"
        return Diagnostic("P310", f"`{span.text}` is no operator", span, help=help)
    if token.kind == "COLON" and at.following.kind == "ASSIGN":
        message = "a definition is written with ="
        return Diagnostic("P310", message, at.span(token, at.following), help="a = …")
    if token.kind in OPERATORS and at.following.kind == "ASSIGN" and at.following.start == token.end:
        pair = at.span(token, at.following)
        help = "a name has one value: give the new one another name"
        return Diagnostic(
            "P310", f"`{pair.text}` changes a value, and values do not change here", pair, help=help
        )
    if token.kind == "SEMICOLON":
        help = "one definition a line, without `;`; inside [u; v] it joins parts"
        return Diagnostic("P310", "`;` ends no line", at.span(), help=help)
    if token.kind == "TILDE" and at.accepts("NOT"):
        return Diagnostic("P310", "`~` is no operator", at.span(), help="write `not x`")
    if token.kind == "COLON" and at.following.kind == "_NL" and at.accepts("ASSIGN"):
        return Diagnostic("P310", "a head ends with `=`, not with `:`", at.span(), help="f(x) = result")
    return None


def numbers(at: Place) -> Diagnostic | None:
    """`1.2.3`, `1_000`, `.5`, `1.`"""
    token, line = at.token, at.line
    if token.kind == "NAME" and at.adjacent and at.previous.kind == "NUMBER" and token.text[0] == "_":
        plain = at.text(at.previous, token).replace("_", "")
        message = "digits are not grouped with `_`"
        return Diagnostic("P309", message, at.span(at.previous, token), help=f"write {plain}")
    if token.kind == "NAME" and at.adjacent and at.previous.text == "0" and token.text[0] in "xob":
        span = at.span(at.previous, token)
        return Diagnostic("P309", "numbers are written in decimal", span, help="0.5, 128, 1e-12")
    if at.previous.kind == "DOT" and len(line) > 1 and line[-2].kind == "NUMBER":
        if token.kind == "NUMBER":
            span = at.span(line[-2], token)
            return Diagnostic("P309", f"`{span.text}` is not a number", span, help="a number has one point")
        span = at.span(line[-2], line[-1])
        return Diagnostic("P309", f"`{span.text}` is not a number", span, help=f"write {span.text}0")
    if token.kind == "DOT" and at.following.kind == "NUMBER":
        span = at.span(token, at.following)
        return Diagnostic("P309", f"`{span.text}` is not a number", span, help=f"write 0{span.text}")
    return None
