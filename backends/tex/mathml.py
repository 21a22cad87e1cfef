"""Layout → MathML (presentation, the Core subset), made as a tree of elements: a text of a spec is only ever text."""

from __future__ import annotations

import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterable

from . import text
from .signs import ABOVE
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
)

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
ATTRIBUTES = (
    "accent",
    "alttext",
    "columnalign",
    "display",
    "displaystyle",
    "fence",
    "form",
    "largeop",
    "lspace",
    "movablelimits",
    "rspace",
    "separator",
    "stretchy",
    "style",
    "width",
)


def formula(lines: Iterable[Line]) -> str:
    """Lines below each other, aligned at their signs, as one <math> element with its text for readers."""
    rows = list(lines)
    said = "; ".join(text.line(one) for one in rows)
    math = ET.Element("math", {"xmlns": NAMESPACE, "display": "block", "alttext": clean(said)})
    table = ET.SubElement(math, "mtable", {"displaystyle": "true", "columnalign": "left left left"})
    for one in rows:
        _line(ET.SubElement(table, "mtr"), one)
    return ET.tostring(math, encoding="unicode")


def write(one: Layout) -> str:
    """One layout as a <math> element."""
    math = ET.Element("math", {"xmlns": NAMESPACE, "alttext": clean(text.write(one))})
    math.append(element(one))
    return ET.tostring(math, encoding="unicode")


def _line(row: ET.Element, one: Line) -> None:
    cells = [[one.left] if one.left is not None else [], [Sign(one.sign, "relation"), one.right], []]
    if one.behind is not None:
        cells[2] = [Space(True), one.behind]
    for cell in cells:
        td = ET.SubElement(row, "mtd", {"style": "text-align: left"})
        td.append(element(Row(tuple(cell))))


def clean(said: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(char for char in said if unicodedata.category(char) not in ("Cs", "Cn", "Cc"))


def element(one: Layout) -> ET.Element:
    """The element of a layout."""
    match one:
        case Row(items=items):
            return _many("mrow", *map(element, items))
        case Word(text=word):
            return _leaf("mi", word)
        case Digits(text=digits):
            return _leaf("mn", digits)
        case Sign(text=sign, kind=kind):
            return _sign(sign, kind)
        case Words(text=said):
            return _leaf("mtext", said.replace(" ", "\u00a0"))
        case Space(wide=wide):
            return ET.Element("mspace", {"width": "1em" if wide else "0.167em"})
        case _:
            return _form(one)


def _form(one: Over | Root | Script | Accent | Fence | Big | Cases) -> ET.Element:
    match one:
        case Over(top=top, bottom=bottom):
            return _many("mfrac", element(top), element(bottom))
        case Root(body=body):
            return _many("msqrt", element(body))
        case Script():
            return _script(one)
        case Accent(base=base, mark=mark):
            above = _leaf("mo", ABOVE[mark])
            made = _many("mover", element(base), above)
            made.set("accent", "true")
            return made
        case Fence(left=left, body=body, right=right):
            return _many("mrow", _fence(left, "prefix"), element(body), _fence(right, "postfix"))
        case Big():
            return _big(one)
        case Cases(rows=rows):
            return _cases(rows)


def _leaf(tag: str, said: str) -> ET.Element:
    made = ET.Element(tag)
    made.text = clean(said)
    return made


def _many(tag: str, *inner: ET.Element) -> ET.Element:
    made = ET.Element(tag)
    made.extend(inner)
    return made


def _sign(sign: str, kind: str) -> ET.Element:
    made = _leaf("mo", sign)
    if kind == "before":
        made.set("form", "prefix")
    elif kind == "mark":
        made.set("separator" if sign in ",;" else "form", "true" if sign in ",;" else "infix")
        if sign in ".′⊤…":
            made.set("lspace", "0")
            made.set("rspace", "0")
    return made


def _fence(sign: str, form: str) -> ET.Element:
    made = _leaf("mo", sign)
    made.attrib.update({"form": form, "fence": "true", "stretchy": "true", "lspace": "0", "rspace": "0"})
    return made


def _script(one: Script) -> ET.Element:
    base = element(one.base)
    if one.sub is not None and one.sup is not None:
        return _many("msubsup", base, element(one.sub), element(one.sup))
    if one.sub is not None:
        return _many("msub", base, element(one.sub))
    return _many("msup", base, element(one.sup or Row(())))


def _big(one: Big) -> ET.Element:
    named = one.sign.isalpha() or " " in one.sign
    sign = _leaf("mo", one.sign)
    if named:
        sign.attrib.update({"lspace": "0.167em", "rspace": "0.167em", "movablelimits": "false"})
    else:
        sign.attrib.update({"largeop": "true", "movablelimits": "false"})
    if one.below is not None and one.above is not None:
        return _many("munderover", sign, element(one.below), element(one.above))
    return _many("munder", sign, element(one.below)) if one.below is not None else sign


def _cases(rows: tuple[tuple[Layout, Layout | None], ...]) -> ET.Element:
    table = ET.Element("mtable", {"columnalign": "left left"})
    for value, when in rows:
        condition = [_leaf("mtext", "otherwise")] if when is None else [_leaf("mtext", "if\u00a0"), element(when)]
        cells = (element(value), _many("mrow", *condition))
        tr = ET.SubElement(table, "mtr")
        for cell in cells:
            td = ET.SubElement(tr, "mtd", {"style": "text-align: left"})
            td.append(cell)
    return _many("mrow", _fence("{", "prefix"), table)

