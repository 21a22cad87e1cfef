"""What is wrong with a text, in words: one small rule per mistake, the first that applies speaks.

Each rule looks at the place where the parser stopped (`Place`) and returns a `Diagnostic` or None. No message names a
terminal, a state or a rule of the grammar. The last resort lists what the parser would have taken, in words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .diagnostics import Diagnostic, Note, Span, did_you_mean, similar
from .lexing import ITEMS, LINE_WORDS, MAX_BLOCKS, MAX_BRACKETS, OPEN, RESERVED, SECTIONS, Token
from .words import ADVICE, FOREIGN, OPERATORS, STARTS, expected, latex, name_of, word

if TYPE_CHECKING:
    from .parser import Parser

CLOSERS = {"RPAR": "(", "RSQB": "["}
LAYOUT = ("_NL", "_INDENT", "_DEDENT", "$END")
ENDS = {"_NL", "_DEDENT", "$END", "RPAR", "RSQB", "COMMA", "SEMICOLON", "ELSE", "OTHERWISE"}
OPERANDS = {"NAME", "NUMBER", "RPAR", "RSQB", "SUPERSCRIPT", "TRANSPOSED", "INFINITY", "STRING"}
WORDS = {*RESERVED, "inf"}
BLOCK_WORDS = {"WHERE": "equations", "WEIGHTS": "weights", "USES": "parts", "CONFIG": "options"}


@dataclass
class Place:
    """Where the parser stopped."""

    parser: Parser
    token: Token
    line: list[Token] = field(init=False)
    rest: list[Token] = field(init=False)
    opened: list[Token] = field(init=False)

    def __post_init__(self) -> None:
        self.line = self.parser.line
        self.rest = list(self.parser.layout.queue)
        self.opened = []
        for token in self.line:
            if token.kind in OPEN:
                self.opened.append(token)
            elif token.kind in CLOSERS and self.opened:
                self.opened.pop()

    @property
    def previous(self) -> Token:
        """The token before, on this logical line; an empty one at its start."""
        return self.line[-1] if self.line else Token("", "", self.token.start, self.token.start)

    @property
    def following(self) -> Token:
        """The token after."""
        return self.rest[0] if self.rest else Token("$END", "", self.token.end, self.token.end)

    @property
    def first(self) -> Token:
        """The first token of the logical line."""
        return self.line[0] if self.line else self.token

    @property
    def adjacent(self) -> bool:
        """No space between the token before and this one?"""
        return bool(self.line) and self.previous.end == self.token.start

    @property
    def shown(self) -> str:
        """The token, quoted as it stands in the text."""
        if self.token.kind in ("_NL", "$END"):
            return "the end of the line"
        return f"`{self.text(self.token)}`"

    def text(self, *tokens: Token) -> str:
        """The text from the first to the last of some tokens."""
        return self.parser.source.text[tokens[0].start : tokens[-1].end]

    def accepts(self, *kinds: str) -> bool:
        """Would any of these be taken here?"""
        return any(map(self.parser.accepts, kinds))

    def span(self, *tokens: Token) -> Span:
        """From the first to the last of some tokens; the one where the parser stopped if there are none."""
        first, last = (tokens[0], tokens[-1]) if tokens else (self.token, self.token)
        start, end = first.start, last.end
        if start == end and first.kind in ("_NL", "$END"):
            end += 1
        return Span(self.parser.source, start, end)

    def begins_line(self, token: Token) -> bool:
        """Is it the first of a line of the file?"""
        text = self.parser.source.text
        return not text[text.rfind("\n", 0, token.start) + 1 : token.start].strip()


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
    return Diagnostic("P313", f"{at.shown} cannot stand here{after}", at.span(), f"expected: {expected(wanted)}")


# ------------------------------------------------------------------------------------- characters and lines


def bad(at: Place) -> Diagnostic | None:
    """Whatever the lexer could not read."""
    return BAD[at.token.problem](at) if at.token.kind == "BAD" else None


def _string(at: Place) -> Diagnostic:
    return Diagnostic("P308", "this text is not closed", at.span(), 'no `"` on this line', help='end it with `"`')


def _character(at: Place) -> Diagnostic:
    text = at.token.text
    if text.startswith("\\"):
        plain = latex(text[1:])
        advice = f"write {plain}" if plain else "write the formula in plain characters: a / b, √x, x², W_Q, α"
        return Diagnostic("P306", f"LaTeX is what we print, not what we read: `{text}`", at.span(), help=advice)
    if unicodedata.category(text) in ("Zs", "Cf", "Zl", "Zp"):
        name = name_of(text)
        return Diagnostic("P306", f"an invisible character: {name}", at.span(), help="write an ordinary space or none")
    if unicodedata.combining(text):
        return _combining(at)
    shown = f"`{text}`, {name_of(text)}," if text.isprintable() else name_of(text)
    near = ADVICE.get(text, "")
    doubled = " " if text != "&" else " "
    return Diagnostic("P306", f"{shown}{doubled}has no meaning here", at.span(), help=near)


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
    return Diagnostic("P305", message, at.span(), f"the file began with {used}", help="indent with spaces only")


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


# ---------------------------------------------------------------------------------------------- indentation


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
        help, what = f"write {BLOCK_WORDS.get(last.kind, 'lines')} on this line or indented on the next", word(last.kind)
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
        return Diagnostic("P311", f"`{token.text}` begins no section", at.span(), help=f"Did you mean {near[0]}?")
    names = ", ".join(SECTIONS[:-1]) + f" or {SECTIONS[-1]}"
    shape = {"ASSIGN": "where", "COLON": "uses", "LSQB": "where", "COMMA": "weights"}.get(at.following.kind, "where")
    if shape == "uses" and len(at.rest) > 1 and at.rest[1].kind == "LSQB":
        shape = "weights"
    return Diagnostic("P311", f"a line under a head begins with {names}", at.span(), help=f"write `{shape}` in front")


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


# ------------------------------------------------------------------------------------------------- brackets


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
        return Diagnostic("P304", message, at.span(), help=f"remove it, or open `{CLOSERS[at.token.kind]}` before")
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
        help = "name an axis or a value: x[seq = 0], sum[j](x)" if bracket.text == "[" else "write a value in between"
        return Diagnostic("P304", "nothing stands between these brackets", at.span(bracket, at.token), help=help)
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


# ------------------------------------------------------------------------------------------- other languages


def foreign(at: Place) -> Diagnostic | None:
    """A line that begins as in Python or elsewhere."""
    first = at.first
    if first.kind != "NAME" or first.text not in FOREIGN or at.token.kind in ("_INDENT", "_DEDENT"):
        return None
    if at.line and at.line[1:2] and at.line[1].kind in ("ASSIGN", "LSQB"):
        return None
    return Diagnostic("P310", f"`{first.text}` is no word of this language", at.span(first), help=FOREIGN[first.text])


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
    if token.kind == "ASSIGN" and at.adjacent and previous.kind in OPERATORS:
        help = "a name has one value: give the new one another name"
        return Diagnostic("P310", f"`{pair.text}` changes a value, and values do not change here", pair, help=help)
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


# ---------------------------------------------------------------------------------------------- expressions


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
        return Diagnostic("P314", "a definition is written with one `=`", at.span(), help="write =")
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
        help = f"write {left} * {right} entry by entry, or {left} @[axis] {right} for a sum of products along an axis"
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


# ---------------------------------------------------------------------------------------------- definitions


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
        return Diagnostic("P314", message, at.span(), "`=` and a value are missing here", help="name = value")
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
    no_equals,
    product,
    unfinished,
]
