"""Pictures in a real browser: every text fits the place it was given, and no text of a spec runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from transformula.backends.draw import draw, picture, svg
from transformula.backends.draw.look import Look
from transformula.compiler.driver import compile_graph

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]

OUTSIDE = """() => {
    const found = [];
    for (const group of document.querySelectorAll('g')) {
        const box = group.querySelector('rect').getBBox();
        for (const text of group.querySelectorAll('text')) {
            const own = text.getBBox();
            if (own.x < box.x - 0.5 || own.x + own.width > box.x + box.width + 0.5
                || own.y < box.y - 0.5 || own.y + own.height > box.y + box.height + 0.5)
                found.push([text.textContent, own.width, box.width]);
        }
    }
    return found;
}"""
OVERLAPPING = """() => {
    const texts = [...document.querySelectorAll('text')].map(t => [t.textContent, t.getBBox()]);
    const found = [];
    texts.forEach(([one, a], i) => texts.slice(0, i).forEach(([other, b]) => {
        if (a.x + a.width > b.x + 0.5 && b.x + b.width > a.x + 0.5
            && a.y + a.height > b.y + 4 && b.y + b.height > a.y + 4) found.push([one, other]);
    }));
    return found;
}"""

EVIL = "<img src=x onerror=alert(1)> javascript:alert(1) ]]> </svg><script>alert(1)</script> &#x22; onload=alert(1) \"'"


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A page of a headless Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert path, "tests/install_tools.sh says how to install chromium"
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser.new_page()
        browser.close()


def show(page: Any, text: str) -> None:
    page.goto("about:blank")  # the policy of a page that was shown before holds for what is put into it
    page.set_content(f"<!doctype html><meta charset=utf-8><body style='margin:0'>{text}</body>")


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(
    ("spec", "entry"), [("bert", None), ("deberta_v2", None), ("modernbert", None), ("electra", "joint")]
)
def test_every_text_fits_as_a_browser_draws_it(page: Any, spec: str, entry: str | None, right: bool) -> None:
    show(page, svg.write(picture(compile_graph(spec, entry=entry), full=True), Look(right)))
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(OVERLAPPING) == []


@pytest.mark.parametrize("form", ["svg", "html"])
def test_no_text_of_a_spec_runs(page: Any, form: str) -> None:
    ran: list[str] = []

    def caught(dialog: Any) -> None:
        ran.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", caught)
    text = f"spec evil\nmodel M(x[seq, d] as inputs) → [seq, d] = x + y  # {EVIL}\n    where y = x * 2  # {EVIL}\n"
    text += "config\n    d = 4\n"
    drawn = draw(compile_graph(text, until="formula"), form)
    if form == "svg":
        show(page, drawn.replace("<title>M</title>", f"<title>{svg._text(EVIL)}</title>"))
    else:
        page.set_content(drawn)
    page.wait_for_timeout(100)
    assert ran == []
    assert page.evaluate("document.querySelectorAll('img, svg script, [onload], [onerror]').length") == 0


def test_a_reader_in_the_dark_has_dark_colours(page: Any) -> None:
    made = picture(compile_graph("albert", until="formula"), depth=1)
    ground = "() => getComputedStyle(document.querySelector('rect.paper')).fill"
    for scheme, theme, colour in (
        ("dark", "auto", "rgb(13, 17, 23)"),
        ("light", "auto", "rgb(255, 255, 255)"),
        ("light", "dark", "rgb(13, 17, 23)"),
    ):
        page.emulate_media(color_scheme=scheme)
        show(page, svg.write(made, Look(theme=theme)))
        assert page.evaluate(ground) == colour
