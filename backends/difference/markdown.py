"""A comparison as Markdown: nothing from a spec, a config or a file can become markup."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...compiler.difference.change import Change, Differences
from .words import block_rows, delta, left_out, lines, places, plain, quantity, sections, table, verdict

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&@])|(:)(?=//)|((?<=www)[.])")
"""Signs that may be markup wherever they stand; and what makes a link of a bare address."""
BEGINS = re.compile(r"^(\s*)(?:([-+](?=\s|$)|[-=]+\s*$)|([0-9]+)(?=[.)](?:\s|$)))")
"""What makes a list, or a title of the line before it, where a line begins with it."""


def write(found: Differences, every: bool = False) -> str:
    """The comparison as a Markdown text."""
    return "\n".join(_rows(found, every)).strip("\n") + "\n"


def escaped(text: str) -> str:
    """A text in which no sign is markup."""
    made = SPECIAL.sub(lambda found: f"\\{found.group()}", plain(text))
    return BEGINS.sub(lambda found: f"{found[1]}{found[3]}\\" if found[3] else f"{found[1]}\\{found[2]}", made)


def code(text: str) -> str:
    """A text as code, whatever backticks it holds."""
    text = plain(text).replace("|", "∣")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


def _rows(found: Differences, every: bool) -> Iterator[str]:
    one, other = map(escaped, found.labels)
    yield f"# {one} → {other}"
    yield ""
    titles = found.titles if found.titles[0] != found.titles[1] else found.titles[:1]
    for label, title in zip((one, other), titles, strict=False):
        if title:
            yield f"- **{label}**: {escaped(title)}"
    if verdict(found):
        yield from ("", verdict(found))
    for section in sections(found, every):
        yield from ("", f"## {section.title}", "")
        for change in section.changes:
            yield from _change(change, every)
    if found.figures:
        yield from _cost(found, every)
    if left_out(found, every):
        yield from ("", escaped(left_out(found, every)))


def _change(one: Change, every: bool) -> Iterator[str]:
    where = f" ({escaped(places(one))})" if places(one) else ""
    follows = f"; follows from {escaped(one.follows)}" if one.follows and every else ""
    yield f"- **{escaped(one.sign)}** {escaped(one.say)}{follows}{where}"
    shown = lines(one, every)
    if shown:
        yield ""
        yield "  | before | after |"
        yield "  | --- | --- |"
        for line in shown:
            yield f"  | {code(line.before) if line.before else ''} | {code(line.after) if line.after else ''} |"
        yield ""
    for quote in one.quotes:
        yield f"  > {escaped(quote)}"


def _cost(found: Differences, every: bool) -> Iterator[str]:
    one, other = map(escaped, found.labels)
    models = " and ".join(dict.fromkeys(map(escaped, found.models)))
    yield from ("", "## Cost", "", f"Of {models}, for {escaped(found.sizes)}.", "")
    yield f"| | {one} | {other} | difference |"
    yield "| --- | ---: | ---: | ---: |"
    for row in table(found.figures):
        yield f"| {' | '.join(map(escaped, row))} |"
    blocks = block_rows(found, every)
    if blocks:
        yield from ("", f"| block | parameters of {one} | of {other} | operations of {one} | of {other} | difference |")
        yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for block in blocks:
        cells = [quantity(f.unit, value) for f in block.figures for value in (f.before, f.after)]
        told = ", ".join(filter(None, map(delta, block.figures)))
        yield f"| {'· ' * block.level}{escaped(block.name)} | {' | '.join(map(escaped, cells))} | {escaped(told)} |"
