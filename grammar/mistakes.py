"""What is wrong with a text, in words: one small rule per mistake, the first that applies speaks.

Each rule looks at the `Place` where the parser stopped and returns a `Diagnostic` or None. No message names a
terminal, a state or a rule of the grammar. The last resort lists what the parser would have taken, in words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .diagnostics import Diagnostic, Note, did_you_mean
from .lexing import LINE_WORDS, OPEN, RESERVED, Token
from .misread import bad, foreign, in_body, indented, lambda_, misplaced_section, not_indented, numbers, signs
from .place import Place
from .words import FORMS, OPERATORS, STARTS, expected

if TYPE_CHECKING:
    from .parser import Parser

CLOSERS = {"RPAR": "(", "RSQB": "["}
LAYOUT = ("_NL", "_INDENT", "_DEDENT", "$END")
ENDS = {"_NL", "_DEDENT", "$END", "RPAR", "RSQB", "COMMA", "SEMICOLON", "ELSE", "OTHERWISE"}
OPERANDS = {"NAME", "NUMBER", "RPAR", "RSQB", "SUPERSCRIPT", "TRANSPOSED", "INFINITY", "STRING"}
WORDS = {*RESERVED, "inf"}

Rule = Callable[[Place], "Diagnostic | None"]


def explain(parser: Parser, token: Token) -> Diagnostic:
    """The mistake at `token`, which the parser cannot take."""
    place = Place(parser, token)
    for rule in RULES:
        found = rule(place)
        if found is not None:
            return found
    return fallback(place)


def fallback(at: Place) -> Diagnostic:
    """`x` cannot stand here: expected …"""
    wanted = {kind for kind in at.parser.kinds() if at.accepts(kind)}
    after = f" after `{at.text(at.previous)}`" if at.line else ""
    early = at.token.kind in ("_NL", "$END")
    message = f"the line ends too early{after}" if early else f"{at.shown} cannot stand here{after}"
    return Diagnostic("P313", message, at.span(), f"expected: {expected(wanted)}", help=_form(at))


def _form(at: Place) -> str:
    """How a line of this kind looks."""
    heads = at.parser.heads
    form = FORMS.get(at.first.kind) or (FORMS.get(heads[-1]) if heads else "")
    return f"the form is {form}" if form else ""


# --------------------------------------------------------------------------------------------------- brackets


def still_open(at: Place) -> Diagnostic | None:
    """An error at the start of a line inside brackets: the bracket was forgotten on a line above."""
    if not at.opened or not at.begins_line(at.token) or at.token.kind in (*CLOSERS, *LAYOUT):
        return None
    bracket = at.opened[-1]
    span = at.span(bracket)
    return Diagnostic(
        "P303",
        f"`{bracket.text}` from column {span.column} is still open where the next line begins",
        span,
        "opened here",
        help=f"close it with `{OPEN[bracket.kind]}`",
    )


def closing(at: Place) -> Diagnostic | None:
    """`)` without `(`, `(a]`, `x[]`."""
    if at.token.kind not in CLOSERS:
        return None
    if not at.opened:
        message = f"{at.shown} closes nothing"
        return Diagnostic(
            "P304", message, at.span(), help=f"remove it, or open `{CLOSERS[at.token.kind]}` before"
        )
    bracket = at.opened[-1]
    if OPEN[bracket.kind] != at.token.text:
        return Diagnostic(
            "P304",
            f"{at.shown} cannot close `{bracket.text}`",
            at.span(),
            notes=(Note(at.span(bracket), "opened here"),),
            help=f"write `{OPEN[bracket.kind]}`",
        )
    if at.previous is bracket:
        help = (
            "name an axis or a value: x[seq = 0], sum[j](x)"
            if bracket.text == "["
            else "write a value in between"
        )
        return Diagnostic(
            "P304", "nothing stands between these brackets", at.span(bracket, at.token), help=help
        )
    return None


def slice_(at: Place) -> Diagnostic | None:
    """`u[:, 0]`, `u[0:3]`, `u[..., 0]`."""
    if at.token.kind not in ("COLON", "RANGE") or not at.opened or at.opened[-1].kind != "LSQB":
        return None
    if at.line[0] is at.opened[-1]:
        return None
    tokens = [*at.line[at.line.index(at.opened[-1]) :], at.token]
    for token in at.rest:
        if token.kind == "_NL":
            break
        tokens.append(token)
        if token.kind == "RSQB":
            break
    return Diagnostic(
        "A107",
        "axes have names here, not numbers",
        at.span(*tokens),
        help="the first token is u[seq = 0]; merge with x[head dk → d], split with x[d → head dk], "
        "see one axis as another with x[seq → key]",
    )


# ------------------------------------------------------------------------------------------------ expressions


def reserved(at: Place) -> Diagnostic | None:
    """`for = 3`, `f(in)`."""
    token = at.token
    if token.text not in WORDS or not at.accepts("NAME"):
        return None
    if token.kind in ("IF", "ELSE") and at.line and at.previous.kind in {*OPERATORS, "ASSIGN", "LPAR"}:
        message = f"a value is missing before `{token.text}`"
        return Diagnostic("P312", message, at.span(), help="a choice is written `a if c else b`")
    if token.kind == "IF" and not at.line:
        help = "a choice is a value: x = a if c else b"
        return Diagnostic("P312", "`if` begins no line", at.span(), help=help)
    if token.kind in ("AND", "OR", "ELSE") and at.line and at.previous.kind != "COMMA":
        return Diagnostic("P313", f"a value is missing before `{token.text}`", at.span())
    message = f"`{token.text}` is a word of the language and names nothing"
    return Diagnostic("P307", message, at.span(), help=f"choose another name, such as {token.text}_")


def comparison(at: Place) -> Diagnostic | None:
    """`=` where `==` is meant, and the other way round."""
    token = at.token
    if token.kind == "ASSIGN" and at.accepts("EQUAL"):
        help = "write ==; inside brackets v[vocab = x] picks along vocab"
        return Diagnostic("P302", "`=` names an axis or a value; a comparison is `==`", at.span(), help=help)
    if token.kind == "EQUAL" and at.accepts("ASSIGN"):
        what = "pick along an axis" if at.opened and at.opened[-1].kind == "LSQB" else "definition"
        what = "named argument" if at.opened and at.opened[-1].kind == "LPAR" else what
        return Diagnostic("P314", f"a {what} is written with one `=`", at.span(), help="write =")
    return None


def alternatives(at: Place) -> Diagnostic | None:
    """`if` without `else` and the other way round."""
    token = at.token
    if token.kind in ("ELSE", "OTHERWISE") or (token.text == "otherwise" and at.accepts("IF")):
        help = "a choice is written `a if c else b`; in lines of cases the last is `b otherwise`"
        return Diagnostic("P312", f"`{token.text}` without `if`", at.span(), help=help)
    if token.kind in ENDS and at.accepts("ELSE"):
        start = next((t for t in reversed(at.line) if t.kind == "IF"), at.token)
        help = "a choice is written `a if c else b`: say what holds if the condition does not"
        return Diagnostic("P312", "`if` without `else`", at.span(start), help=help)
    return None


def product(at: Place) -> Diagnostic | None:
    """`2x`, `Q K`, `(a)(b)`."""
    token, previous = at.token, at.previous
    if previous.kind not in OPERANDS or not at.accepts("STAR"):
        return None
    if token.kind not in {"NAME", "ROOT", "DOUBLE_BAR", *STARTS} - {"MINUS", "NOT", "LSQB"}:
        return None
    left, right = at.text(previous), at.text(token)
    if previous.kind == "NAME" and token.kind == "NAME":
        help = f"write {left} * {right} entry by entry, or {left} @[axis] {right} to sum along an axis"
    elif previous.kind in ("NUMBER", "NAME") and token.kind in ("NAME", "NUMBER"):
        help = f"write {left} * {right}"
    else:
        help = "write * or @[axis] in between"
    return Diagnostic("P301", "a product needs a sign", at.span(previous, token), help=help)


def unfinished(at: Place) -> Diagnostic | None:
    """An operator without its right side, or without its left one."""
    token, previous = at.token, at.previous
    if not at.accepts("NAME") or not at.accepts("NUMBER", "LPAR"):
        return None
    if previous.kind in OPERATORS and token.kind in {*ENDS, *OPERATORS}:
        help = "A @[k] B: a value stands on each side" if previous.kind == "AT" else ""
        message = f"`{at.text(previous)}` has nothing on its right"
        return Diagnostic("P313", message, at.span(previous), help=help)
    if token.kind in OPERATORS:
        return Diagnostic("P313", f"{at.shown} has nothing on its left", at.span())
    if previous.kind == "ASSIGN" and token.kind in ENDS:
        return Diagnostic("P314", "nothing stands after `=`", at.span(previous))
    return None


# ------------------------------------------------------------------------------------------------ definitions


def unknown_word(at: Place) -> Diagnostic | None:
    """`modle Bert(x) = …`, `weight W : [d]` at the left margin."""
    if len(at.line) != 1 or at.first.kind != "NAME" or at.token.kind not in ("NAME", "STRING"):
        return None
    near = did_you_mean(at.first.text, sorted(LINE_WORDS))
    if near:
        return Diagnostic("P311", f"`{at.first.text}` begins no line", at.span(at.first), help=near)
    return None


def no_equals(at: Place) -> Diagnostic | None:
    """`f(x) x + 1`, or a head and nothing else."""
    if not at.accepts("ASSIGN") or at.opened or not at.line:
        return None
    if at.token.kind in ("_NL", "NAME", "NUMBER", *STARTS):
        what = "definition" if at.parser.depth == 0 or at.parser.depth > 1 else "line"
        message = f"this {what} has no `=`"
        return Diagnostic(
            "P314", message, at.span(), "`=` and a value are missing here", help="write `name = value`"
        )
    return None


def heads(at: Place) -> Diagnostic | None:
    """A state at the left margin; a further output without a name; a norm without its axis."""
    outside = at.parser.depth == 0
    if (
        outside
        and at.opened[:1] == at.line[1:2]
        and at.opened
        and at.opened[0].kind == "LSQB"
        and at.accepts("COLON")
    ):
        help = "states such as x[0] and x[l + 1] stand under a `where`"
        return Diagnostic(
            "P314", "a definition lists its axes in brackets: f[j], f[i: seq]", at.span(), help=help
        )
    if at.token.kind in ("_NL", "COMMA", "NAME") and at.accepts("ASSIGN") and outside:
        comma = next((n for n in range(len(at.line) - 1, 0, -1) if at.line[n].kind == "COMMA"), 0)
        if comma and not at.opened and any(token.kind == "ASSIGN" for token in at.line[:comma]):
            help = "the first result may stand alone, the others are written `, name = value`"
            return Diagnostic(
                "P314", "a further output has a name", at.span(*at.line[comma + 1 :]), help=help
            )
    if at.previous.kind == "DOUBLE_BAR" and at.accepts("LSQB") and not at.accepts("NAME"):
        return Diagnostic("P313", "a norm names its axis", at.span(at.previous), help="‖u‖[d], or norm[d](u)")
    return None


def comma(at: Place) -> Diagnostic | None:
    """A line that ends with a comma and does not go on."""
    if at.token.kind != "_NL" or at.previous.kind != "COMMA":
        return None
    help = "remove it, or go on in the next line, indented"
    return Diagnostic("P313", "the line ends with a comma", at.span(at.previous), help=help)


RULES: list[Rule] = [
    bad,
    indented,
    foreign,
    lambda_,
    still_open,
    in_body,
    misplaced_section,
    closing,
    slice_,
    signs,
    numbers,
    reserved,
    comparison,
    comma,
    alternatives,
    not_indented,
    unknown_word,
    heads,
    no_equals,
    product,
    unfinished,
]
