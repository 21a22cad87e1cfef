r"""Layout → LaTeX with amsmath and amssymb alone; no text of a spec can become a command.

A character is an ASCII letter, a digit, or in the tables of signs.py; anything else is written as its code.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from .signs import BIG, DELIMITER, ESCAPED, FUNCTION, LETTER, MARK, SIGN
from .tree import (
    Accent,
    Big,
    Cases,
    Digits,
    Fence,
    Layout,
    Line,
    Over,
    Root,
    Row,
    Script,
    Sign,
    Space,
    Word,
    Words,
    is_tall,
)

PLAIN = frozenset(" !'()*+,-./:;=?@[]")


def write(one: Layout) -> str:
    """The LaTeX of a layout, for math mode."""
    return _tidy(_join(_pieces(one)))


def _tidy(text: str) -> str:
    return text.strip()


def _join(pieces: Iterable[str]) -> str:
    """Pieces one after the other, with a space where a command would swallow the next letter."""
    out = ""
    for piece in pieces:
        ends = out[len(out.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")) - 1 :]
        out += f" {piece}" if ends.startswith("\\") and piece[:1].isalpha() else piece
    return out


def _pieces(one: Layout) -> list[str]:
    match one:
        case Row(items=items):
            pairs = zip(items, (*items, None)[1:], strict=True)  # functions have a space of their own before them
            return [piece for item, after in pairs if not _spare(item, after) for piece in _pieces(item)]
        case Word():
            return [word(one.text)]
        case Digits(text=text):
            return ["".join(char for char in text if char in "0123456789.")]
        case Sign(text=text, kind=kind):
            return [_sign(text, kind)]
        case Words(text=text):
            return [rf"\text{{{escaped(text)}}}"]
        case Space(wide=wide):
            return [r"\quad " if wide else r"\,"]
        case _:
            return [_form(one)]


def _spare(one: Layout, after: Layout | None) -> bool:
    return isinstance(one, Space) and isinstance(after, Word) and after.text in FUNCTION


def _form(one: Over | Root | Script | Accent | Fence | Big | Cases) -> str:
    match one:
        case Over(top=top, bottom=bottom):
            return rf"\frac{{{write(top)}}}{{{write(bottom)}}}"
        case Root(body=body):
            return rf"\sqrt{{{write(body)}}}"
        case Script():
            return _script(one)
        case Accent(base=base, mark=mark):
            return rf"{MARK[mark]}{{{write(base)}}}"
        case Fence():
            return _fence(one)
        case Big():
            return _big(one)
        case Cases(rows=rows):
            return _cases(rows)


def _sign(text: str, kind: str) -> str:
    sign = SIGN[text]
    if kind == "mark":
        return f"{sign} " if text in ",;" else "\\colon " if text == ":" else sign
    return sign if kind == "before" else f" {sign} "


def word(text: str) -> str:
    """A name: a letter slanted, a word upright, functions that LaTeX knows by their command."""
    if text in FUNCTION:
        return f"\\{text}"
    if len(text) == 1:
        slanted = (text.isascii() and text.isalpha()) or text in LETTER
        return _letter(text) if slanted else rf"\mathrm{{{_letter(text)}}}"
    return rf"\mathrm{{{_join(_letters(text))}}}"


def _letters(text: str) -> Iterable[str]:
    """The characters of a word, with marks above those that they follow."""
    made: list[str] = []
    for char in unicodedata.normalize("NFD", text):
        if char in MARK and made:
            made[-1] = rf"{MARK[char]}{{{made[-1]}}}"
        else:
            made.append(_letter(char))
    return made


def _letter(char: str) -> str:
    if char.isascii() and char.isalnum():
        return char
    if char == "_":
        return r"\_"
    return LETTER.get(char) or f"[{ord(char):X}]"


def _script(one: Script) -> str:
    base = write(one.base)
    if isinstance(one.base, Row | Over | Script) or (isinstance(one.base, Word) and one.base.text in LETTER):
        base = f"{{{base}}}" if not isinstance(one.base, Word) else base
    sub = f"_{{{write(one.sub)}}}" if one.sub is not None else ""
    if isinstance(one.sup, Sign) and one.sup.text in "⊤′":
        return rf"{base}{sub}^{{{SIGN[one.sup.text]}}}" if one.sup.text == "′" else rf"{base}{sub}^\top "
    return base + sub + (f"^{{{write(one.sup)}}}" if one.sup is not None else "")


def _fence(one: Fence) -> str:
    left, right = DELIMITER[one.left], DELIMITER[one.right]
    body = write(one.body)
    if is_tall(one.body):
        return rf"\left{_spaced(left)}{body}\right{_spaced(right)}"
    return f"{_spaced(left)}{body}{_spaced(right)}"


def _spaced(delimiter: str) -> str:
    return f"{delimiter} " if delimiter[-1].isalpha() else delimiter


def _big(one: Big) -> str:
    named = BIG.get(one.sign) or rf"\mathop{{\mathrm{{{escaped(one.sign)}}}}}\limits"
    below = f"_{{{write(one.below)}}}" if one.below is not None else ""
    above = f"^{{{write(one.above)}}}" if one.above is not None else ""
    return f"{named}{below}{above} "


def _cases(rows: tuple[tuple[Layout, Layout | None], ...]) -> str:
    made = [f"{write(value)} & {_condition(when)}" for value, when in rows]
    return r"\begin{cases} " + r" \\ ".join(made) + r" \end{cases}"


def _condition(when: Layout | None) -> str:
    return r"\text{otherwise}" if when is None else rf"\text{{if }} {write(when)}"


def escaped(text: str) -> str:
    """Running text, in which nothing means anything to TeX."""
    out: list[str] = []
    for char in unicodedata.normalize("NFD", " ".join(re.split(r"\s+", text))):
        if (char.isascii() and char.isalnum()) or char in PLAIN:
            out.append(char)
        elif char in MARK and out:
            out[-1] = rf"$\mathrm{{{MARK[char]}{{{out[-1] if out[-1].isalnum() else '?'}}}}}$"
        elif char in ESCAPED:
            out.append(ESCAPED[char])
        elif char in LETTER or char in SIGN:
            out.append(f"${LETTER.get(char) or SIGN[char]}$")
        else:
            out.append(f"[{ord(char):X}]")
    return "".join(out)


def line(one: Line) -> str:
    """left = right, behind, as one formula."""
    return _tidy(" ".join(part.strip() for part in _sides(one) if part.strip()))


def aligned(lines: Iterable[Line]) -> str:
    """Lines below each other, aligned at their signs."""
    return f"\\begin{{aligned}}\n{rows(lines)}\n\\end{{aligned}}"


def rows(lines: Iterable[Line]) -> str:
    """The lines as rows of an alignment."""
    made = []
    for one in lines:
        left, right, behind = _sides(one)
        made.append(f"{left.strip()} &{right.strip()} {behind.strip()}".strip())
    return " \\\\\n".join(made)


def _sides(one: Line) -> tuple[str, str, str]:
    left = write(one.left) if one.left is not None else ""
    behind = rf"\qquad {write(one.behind)}" if one.behind is not None else ""
    return left, f"{SIGN[one.sign]} {write(one.right)}", behind
