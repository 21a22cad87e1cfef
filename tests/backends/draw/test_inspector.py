"""The inspector in a real browser: all of the page is clicked through, in light and dark, and with the keys alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from tests.backends.draw.blocks import spec_of
from tests.browser import opened
from transformula.backends.draw import draw, html
from transformula.backends.draw.html import INK, unpacked
from transformula.backends.draw.inspecting import inspected
from transformula.backends.draw.look import Look
from transformula.backends.draw.maths import Maths, nested
from transformula.backends.draw.stops import recipe, stops
from transformula.backends.program import compile as compile_program
from transformula.compiler import ir
from transformula.compiler.driver import Compiled, compile_graph
from transformula.compiler.nodes import node
from transformula.compiler.pipeline import Stage
from transformula.grammar.diagnostics import Source, TransformulaError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CLICK = """where => {
  const start = performance.now();
  document.querySelector(where).dispatchEvent(new MouseEvent("click", { bubbles: true }));
  document.getElementById("drawing").getBBox();
  return performance.now() - start;
}"""
EXPANDED = "document.activeElement.getAttribute('aria-expanded')"
PINCH = """() => {
  const frame = document.getElementById("picture");
  const to = (name, pointerId, clientX) =>
    frame.dispatchEvent(new PointerEvent(name, { pointerId, clientX, clientY: 300, bubbles: true }));
  to("pointerdown", 7, 200);
  to("pointerdown", 8, 300);
  to("pointermove", 8, 400);
  to("pointerup", 7, 200);
  to("pointerup", 8, 400);
}"""
EVIL = '"><img src=x onerror="window.hacked=1"></script><script>window.hacked=1;alert(1)</script>'
EVIL += "javascript:alert(1) ' ` ${window.hacked=1} {{7*7}} \u2028\u2029\u202e\x07]]> --> &lt;"


class Visit:
    """An open page, and what it did that no page of ours may do."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("console", lambda told: self.faults.append(f"{told.type}: {told.text}"))
        page.on("pageerror", lambda fault: self.faults.append(str(fault)))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("request", lambda one: self._asked(one.url))

    def _asked(self, url: str) -> None:
        if not url.startswith("file:") or not url.partition("#")[0].endswith(".html"):
            self.faults.append(f"request: {url}")

    def count(self, where: str) -> int:
        return self.page.locator(where).count()

    def text(self, where: str) -> str:
        return self.page.locator(where).text_content() or ""

    def go(self, stop: int) -> None:
        """Moves the slider to the stop."""
        moved = "(one, to) => { one.value = to; one.dispatchEvent(new Event('input')) }"
        self.page.locator("#stop").evaluate(moved, stop)

    def find(self, text: str) -> None:
        """Searches, and goes to the first hit."""
        self.page.fill("#search", text)
        self.page.press("#search", "Enter")

    def box(self, name: str) -> str:
        """Where the box of a key is."""
        number = self.page.evaluate("key => D.keys.indexOf(key)", name)
        return f"#world [data-id=b{number}]"

    def cluster(self, key: str) -> str:
        """Where the block of a key is: its head if it is open."""
        number = self.page.evaluate("key => D.clusters.findIndex(one => one.k === key)", key)
        return f"#world [role=button][data-id=c{number}]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as found:
        yield found


@pytest.fixture(scope="module")
def bert() -> Compiled:
    return compile_graph("bert")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, bert: Compiled) -> dict[str, Path]:
    """The pages that are visited: BERT, 12 blocks, and 200 blocks as they are written."""
    folder = tmp_path_factory.mktemp("pages")
    made = {"bert": bert, "12": compile_graph(spec_of(12)), "200": compile_graph(spec_of(200), until="formula")}
    for name, compiled in made.items():
        (folder / f"{name}.html").write_text(html.write(compiled), "utf-8")
    return {name: folder / f"{name}.html" for name in made}


@contextmanager
def visited(browser: Browser, path: Path, link: str = "", **options: Any) -> Iterator[Visit]:
    """The page, ready; after the block it must have done nothing that it may not."""
    context = browser.new_context(viewport={"width": 1300, "height": 850}, **options)
    try:
        visit = Visit(context.new_page())
        visit.page.goto(path.as_uri() + link)
        visit.page.wait_for_selector("body[data-ready]", timeout=20_000)
        yield visit
        assert visit.faults == []
        assert visit.page.evaluate("window.hacked") is None
    finally:
        context.close()


# --- the file -------------------------------------------------------------------------------------


def test_it_is_one_small_file(bert: Compiled) -> None:
    page = html.write(bert)
    assert len(page.encode()) < 70_000
    assert not re.search(r"\b(href|src|url)\s*[=(]", page)
    assert set(re.findall(r"https?:[^\"' ]*", page)) <= {"http://www.w3.org/2000/svg"}
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]


def test_no_part_of_it_needs_torch() -> None:
    script = "import sys\nfrom transformula.compiler.driver import compile_graph\n"
    script += "from transformula.backends.draw import draw\n"
    script += "spec = 'spec s\\nconfig\\n    d = 2\\nmodel M(x[seq, d] as x) → y[seq, d] = x + 1\\n'\n"
    script += "draw(compile_graph(spec), 'html')\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_the_lines_are_those_of_the_compiled_module(bert: Compiled, backend: str) -> None:
    source = compile_program("bert", backend, validate=False).source.split("\n")
    shown = inspected(bert)["modules"][["numpy", "torch"].index(backend)]["lines"]
    assert len(shown) > 20
    assert all(source[number - 1] == text for number, text in shown)


def test_making_a_page_leaves_the_model_as_it_was(bert: Compiled) -> None:
    before = list(bert.ledger.lines)
    inspected(bert)
    assert bert.ledger.lines == before


@pytest.mark.parametrize(("spec", "entry"), [("t5", None), ("bert", "mlm"), ("bert", "masking")])
def test_models_objectives_and_corruptions_have_pages(spec: str, entry: str | None) -> None:
    data = inspected(compile_graph(spec, entry=entry))
    assert data["stops"][0]["boxes"]
    shown = {number for stop in data["stops"] for number in stop.get("boxes", ())}
    assert shown == set(range(len(data["boxes"])))
    json.dumps(data, allow_nan=False)


def test_what_a_pass_changed(bert: Compiled) -> None:
    found = {stop.name: stop for stop in stops(bert)}
    attn = "layer[layers].attn"
    assert {f"{attn}.scores", f"{attn}.A"} <= set(found["recognise"].gone)
    assert f"{attn}.heads" in found["recognise"].changed
    assert f"{attn}.Q" not in {*found["recognise"].new, *found["recognise"].gone, *found["recognise"].changed}
    assert found["unpad"].stands  # a plan of the backend: the graph stays
    assert f"{attn}.A" in found["inference"].changed  # its dropout went
    for stop in found.values():
        assert len(set(stop.keys.values())) == len(stop.keys)


def test_inks_can_be_read_on_their_paper() -> None:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for name in ("ink", "dim", "accent", "new", "changed", "gone"):
        for way in (0, 1):
            for paper in ("paper", "soft"):
                a, b = sorted((light(INK[name][way]), light(INK[paper][way])))
                assert (b + 0.05) / (a + 0.05) >= 4.5, (name, paper, way)


def test_bad_wishes_are_errors(bert: Compiled) -> None:
    with pytest.raises(TransformulaError, match="no stage `recognize`"):
        draw(bert, "html", "recognize")
    with pytest.raises(TransformulaError, match="downwards only"):
        draw(bert, "html", look=Look(right=True))


# --- looking --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["bert", "12", "200"])
def test_it_opens_readable(browser: Browser, pages: dict[str, Path], name: str, scheme: Any) -> None:
    with visited(browser, pages[name], color_scheme=scheme) as at:
        most = {"bert": 40, "12": 41, "200": 420}[name]  # 200 blocks in a row are 400 boxes, however few are opened
        assert 5 < at.count("#world .box") <= most
        paper = at.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
        assert at.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_click_on_a_box_tells_all_about_it(browser: Browser, pages: dict[str, Path]) -> None:
    with visited(browser, pages["bert"]) as at:
        at.find("Q")
        at.page.press("#search", "Escape")
        at.page.click(at.box("layer[layers].attn.Q"))
        told = at.text("#details")
        assert at.text("#details .maths math") == "Q=xWQ+bQ"
        assert "Q = x @ W_Q + b_Q" in told
        assert "head 12, dk 64" in told
        assert "layer[layers].attn.W_Q" in told
        assert "encoder.layer.{l}.attention.self.query.weight" in told
        assert "7,087,104" in told  # 12 × (768 × 768 + 768)
        assert "GFLOP" in told
        assert "bert.formula:47" in told
        assert "linear(y, self.layer_attn_W_QKV[l]" in told
        assert "torch.einsum" in told or "F.linear" in told
        assert "products of one value are one" in told  # the ledger of merge_projections
        assert at.count(at.box("layer[layers].attn.Q") + ".chosen") == 1
        at.page.click("#details button.link:has-text('scores')")  # what reads it
        assert at.text("#what") == "scores"
        assert at.text("#details").count("computed within heads") == 2  # a fused attention, in either module
        assert "heads = attention(" in at.text("#details")
        at.page.click("#tab-spec")
        assert "scores = scale" in at.text("#spec .chosen")


def test_refusals_are_told(browser: Browser, pages: dict[str, Path]) -> None:
    with visited(browser, pages["bert"], "#node=Bert%2Flayer[l]") as at:
        at.page.click("#tab-passes")
        assert at.count("#passes .refused") > 0
        assert "not done: it is a result" in at.text("#passes")


def test_blocks_open_and_close(browser: Browser, pages: dict[str, Path]) -> None:
    with visited(browser, pages["bert"]) as at:
        layer = at.cluster("Bert/layer[l]")
        assert at.page.get_attribute(layer, "aria-expanded") == "true"
        many = at.count("#world .box")
        at.page.click(layer)
        assert at.page.get_attribute(layer, "aria-expanded") == "false"
        assert at.count("#world .box") < many
        assert "85,054,464 parameters" in at.text(layer)
        at.page.click(layer)  # chooses it
        assert "×12" in at.text("#what")
        assert at.page.get_attribute(layer, "aria-expanded") == "false"
        at.page.dblclick(layer, position={"x": 30, "y": 12})
        assert at.count("#world .box") == many
        at.page.keyboard.press("f")
        at.page.click(at.cluster("Bert/embed/LN") + " .opener")
        assert at.count("#world .box") > many
        at.page.click("#collapse")
        assert at.count("#world .head") == 0
        at.page.click("#expand")
        assert at.count("#world .head") == at.page.evaluate("D.clusters.length - 1")


def test_search_opens_what_hides_a_hit(browser: Browser, pages: dict[str, Path]) -> None:
    with visited(browser, pages["bert"]) as at:
        at.page.click("#collapse")
        at.page.keyboard.press("/")
        assert at.page.evaluate("document.activeElement.id") == "search"
        at.page.keyboard.type("attention.self.query")  # a stored name
        assert at.text("#hits") == "1 hit"
        assert at.count("#world .found") == 1  # the closed block that holds it
        at.page.keyboard.press("Enter")
        assert at.text("#what") == "Q"
        assert at.page.get_attribute(at.cluster("Bert/layer[l]/attn"), "aria-expanded") == "true"
        at.page.fill("#search", "LayerNorm")
        at.page.click("#next")
        first = at.text("#what")
        at.page.click("#next")
        assert at.text("#what") != first
        at.page.click("#previous")
        assert at.text("#what") == first
        assert at.text("#hits").startswith("1 of ")
        at.page.fill("#search", "nothing of that name")
        assert at.text("#hits") == "0 hits"


def test_the_slider_shows_what_each_pass_did(browser: Browser, pages: dict[str, Path], bert: Compiled) -> None:
    changed = [stop for stop in stops(bert) if not stop.stands]
    with visited(browser, pages["bert"]) as at:
        at.page.click("#expand")
        assert int(at.page.get_attribute("#stop", "max") or 0) == len(changed) - 1
        for number, stop in enumerate(changed):
            at.go(number)
            assert at.text("#pass b").startswith(stop.name)
            for name, keys in (("new", stop.new), ("changed", stop.changed), ("gone", stop.gone)):
                assert at.count(f"#world .is-{name}") == len(keys)
                assert at.count(f"#world .mark.{name} .sign") == len(keys)  # a sign, not colour alone
                assert at.count(f"#pass .count.{name}") == bool(keys)
        at.go(3)
        at.page.uncheck("#ghosts")
        assert at.count("#world .is-gone") == 0
        at.page.focus("#stop")
        at.page.keyboard.press("ArrowLeft")
        assert at.text("#pass b") == changed[2].name
        at.page.focus("#drawing")
        at.page.keyboard.press(".")
        assert at.text("#pass b") == changed[3].name
        assert "change nothing in the picture" in at.text("#still")
        at.page.check("#every")
        assert int(at.page.get_attribute("#stop", "max") or 0) == len(bert.stages) - 1
        at.page.click("#tab-passes")
        assert at.count("#passes .pass") == len(bert.stages)
        assert "118 → 80 nodes" in at.text("#passes .here")
        assert "3 operations are one softmax" in at.text("#passes .here")
        at.page.click("#passes [data-stop='1'] > button")
        assert at.text("#pass b") == "inference"


def test_a_closed_block_tells_how_much_changed_in_it(browser: Browser, pages: dict[str, Path]) -> None:
    with visited(browser, pages["bert"], "#stage=recognise&open=Bert") as at:
        marks = at.text(at.cluster("Bert/layer[l]"))
        assert re.search(r"\+\d", marks)
        assert re.search(r"−\d", marks)
        assert re.search(r"~\d", marks)


def test_lines_choose_boxes(browser: Browser, pages: dict[str, Path]) -> None:
    with visited(browser, pages["bert"]) as at:
        at.page.click("#tab-spec")
        at.page.click("#spec [data-line='s0:47']")
        assert at.count("#world .picked") == 1
        assert at.text("#what") == "" or at.text("#details h2") == "Q"
        at.go(7)
        at.page.click("#tab-spec")
        at.page.click("#spec [data-line='s0:48']")  # K is gone by then
        assert "Nothing of this line is left" in at.text("#status")
        at.page.click("#tab-code")
        line = at.page.evaluate("D.modules[0].lines.find(([n, text]) => text.includes('heads = attention('))[0]")
        at.page.click(f"#code [data-line='m0:{line}']")
        assert at.count("#world .picked") == 1
        assert at.page.evaluate("document.querySelector('#details h2').textContent") == "heads"


def test_deep_links(browser: Browser, pages: dict[str, Path]) -> None:
    with visited(browser, pages["bert"]) as at:
        at.page.click("#collapse")
        at.go(3)
        at.find("heads")
        link = at.page.evaluate("location.hash")
        boxes = at.count("#world .box")
    assert "stage=recognise" in link
    with visited(browser, pages["bert"], link) as at:
        assert at.text("#pass b") == "recognise"
        assert at.text("#what") == "heads"
        assert at.count("#world .box") == boxes
        at.page.evaluate("location.hash = '#stage=final&open=*&theme=dark'")
        at.page.wait_for_function("document.documentElement.dataset.scheme === 'dark'")
        assert at.text("#pass b").endswith("(final)")
        assert at.count("#world .box.block") == 0
    with visited(browser, pages["bert"], "#stage=nonsense&node=<b>&open=%00&theme=javascript:alert(1)") as at:
        assert at.text("#pass b") == "formula"


def test_the_keys_alone_are_enough(browser: Browser, pages: dict[str, Path]) -> None:
    def focused(at: Visit) -> str:
        return str(at.page.evaluate("document.activeElement.getAttribute('data-id')"))

    with visited(browser, pages["bert"]) as at:
        for _ in range(12):
            at.page.keyboard.press("Tab")
            if focused(at) != "None":
                break
        assert focused(at) == at.page.evaluate("'b' + D.keys.indexOf('input input_ids')")
        shown = "document.activeElement.matches(':focus-visible')"
        assert at.page.evaluate(shown)
        at.page.keyboard.press("ArrowDown")
        second = focused(at)
        assert second not in ("None", "b0")
        at.page.keyboard.press("ArrowUp")
        at.page.keyboard.press("Enter")
        assert at.page.evaluate("document.activeElement.id") == "what"
        assert at.text("#what") == "tokens"
        at.page.keyboard.press("Escape")
        assert focused(at) == "b0"
        for _ in range(60):
            at.page.keyboard.press("ArrowDown")
            if at.page.evaluate("document.activeElement.classList.contains('block')"):
                break
        block = focused(at)
        assert at.page.evaluate(EXPANDED) == "false"
        at.page.keyboard.press("+")
        assert (focused(at), at.page.evaluate(EXPANDED)) == (block, "true")
        at.page.keyboard.press("-")
        assert (focused(at), at.page.evaluate(EXPANDED)) == (block, "false")
        at.page.keyboard.press("c")
        assert at.count("#world .head") == 0
        at.page.keyboard.press("e")
        assert at.count("#world .box.block") == 0


def test_the_reader_chooses_the_colours(browser: Browser, pages: dict[str, Path]) -> None:
    with visited(browser, pages["bert"], color_scheme="light", reduced_motion="reduce") as at:
        at.page.click("#theme")
        assert at.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
        at.page.click("#theme")
        assert at.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        at.page.click("#fit")
        assert at.page.evaluate("getComputedStyle(document.getElementById('world')).transitionProperty") == "none"


def test_moving_and_zooming(browser: Browser, pages: dict[str, Path]) -> None:
    place = "[S.x, S.y, S.scale]"
    with visited(browser, pages["bert"]) as at:
        x, y, scale = at.page.evaluate(place)
        at.page.mouse.move(20, 500)
        at.page.mouse.down()
        at.page.mouse.move(120, 450, steps=4)
        at.page.mouse.up()
        assert at.page.evaluate(place) == [pytest.approx(x + 100, abs=40), pytest.approx(y - 50, abs=20), scale]
        at.page.mouse.wheel(0, -200)
        at.page.wait_for_function(f"S.scale > {scale} * 1.2")
        at.page.click("#out")
        at.page.click("#fit")
        assert at.page.evaluate("S.tree.h * S.scale <= document.getElementById('picture').clientHeight")
        before = at.page.evaluate("S.scale")
        at.page.evaluate(PINCH)
        assert at.page.evaluate("S.scale") == pytest.approx(2 * before)


OVERLAPS = """() => {
  const area = one => one.getBoundingClientRect(), faults = [];
  const bodies = [...document.querySelectorAll("#world .body")].map(area);
  const beside = (a, b) => a.right < b.left + .5 || b.right < a.left + .5;
  const apart = (a, b) => beside(a, b) || a.bottom < b.top + .5 || b.bottom < a.top + .5;
  bodies.forEach((a, i) => bodies.slice(i + 1).forEach(b => { if (!apart(a, b)) faults.push("two boxes"); }));
  const inside = (p, b) => p.x > b.left + 1 && p.x < b.right - 1 && p.y > b.top + 1 && p.y < b.bottom - 1;
  for (const edge of document.querySelectorAll("#world .edge")) {
    const map = edge.getScreenCTM(), length = edge.getTotalLength();
    for (let at = 3; at < length - 3; at += 4) {
      const p = edge.getPointAtLength(at).matrixTransform(map);
      if (bodies.some(b => inside(p, b))) { faults.push("an edge through a box"); break; }
    }
  }
  for (const box of document.querySelectorAll("#world .box")) {
    const own = area(box.querySelector(".body"));
    for (const text of box.querySelectorAll("text:not(.sign):not(.toggle)"))
      if (area(text).right > own.right || area(text).left < own.left) faults.push("a text: " + text.textContent);
  }
  return faults;
}"""


OPENED = [("bert", "#open=*"), ("bert", "#open=*&stage=recognise"), ("12", "#open=*&stage=final")]


@pytest.mark.parametrize(("name", "link"), OPENED)
def test_nothing_overlaps(browser: Browser, pages: dict[str, Path], name: str, link: str) -> None:
    with visited(browser, pages[name], link) as at:
        at.page.evaluate("S.scale = 1; move()")
        assert at.page.evaluate(OVERLAPS) == []


# --- large and hostile ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["12", "200"])
def test_a_click_answers_at_once(browser: Browser, pages: dict[str, Path], name: str) -> None:
    """The figures are benchmarks/inspector.py's; here it must only not be out of all proportion."""
    with visited(browser, pages[name]) as at:
        at.page.evaluate(CLICK, "#world .box[data-id^=b]")
        assert at.page.evaluate(CLICK, "#world .box[data-id^=b]") < 1000
        closed = at.count("#world .box.block")
        assert at.page.evaluate(CLICK, "#world .opener") < 4000
        assert at.count("#world .head") >= 1
        assert at.page.evaluate(CLICK, "#expand") < 20_000
        blocks = int(name)
        assert at.count("#world .head") == 3 * blocks
        assert closed >= (blocks if name == "200" else 2)


def test_a_model_of_200_blocks_tells_what_it_leaves_out(browser: Browser, pages: dict[str, Path]) -> None:
    with visited(browser, pages["200"]) as at:
        at.find("b150")
        assert "b150" in at.text("#what")
        at.page.click("#details button:has-text('Open this block')")
        assert at.page.get_attribute(at.cluster("Many/b150"), "aria-expanded") == "true"
        at.page.click("#details .links button >> nth=0")
        assert "There is no such module" in at.text("#details")


def evil(value: Any, key: str = "") -> Any:
    """The same data, every text of which tries to be more than a text."""
    if isinstance(value, dict):
        return {name: evil(one, name) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [evil(one, key) for one in value]
    return f"{value}{EVIL}" if isinstance(value, str) and key != "t" else value


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_hostile_names_stay_texts(
    browser: Browser, bert: Compiled, tmp_path: Path, scheme: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = evil(inspected(bert))
    attributes = {"onclick": "window.hacked=1", "href": "javascript:alert(1)"}
    data["boxes"][4]["m"] = ["script", attributes, EVIL, ["mi", {}, "x"]]
    monkeypatch.setattr(html, "inspected", lambda *_, **__: data)
    path = tmp_path / "evil.html"
    path.write_text(html.write(bert), "utf-8")
    assert "hacked" not in re.sub(r"<title>.*?</title>|<h1>.*?</h1>|aria-label=\"[^\"]*\"", "", path.read_text("utf-8"))
    with visited(browser, path, color_scheme=scheme) as at:
        at.page.click("#expand")
        for number in range(8):
            at.go(number)
        for tab in ("spec", "code", "passes", "details"):
            at.page.click(f"#tab-{tab}")
        at.page.evaluate("for (const one of D.boxes) choose('b' + one.k)")
        at.page.evaluate("choose('b' + D.boxes[4].k)")
        at.find("Q")
        assert at.count("img, iframe, a, object, embed, [onerror], [onclick]") == 0
        assert at.count("script") == 4  # two that hold data, and our own two
        assert "\u202e" not in at.page.evaluate("document.body.innerText")
        assert "<img src=x" in at.text("#details")
        at.page.evaluate("choose('b' + D.boxes[4].k)")
        assert at.page.evaluate("document.querySelector('.maths').innerHTML").count("<script") == 0


def test_hostile_specs_are_shown_as_they_are(browser: Browser, tmp_path: Path) -> None:
    text = f"# {EVIL.replace(chr(7), '')}\nspec s\nconfig\n    d = 2\n\nmodel M(x[seq, d] as x) → y[seq, d] = x + 1\n"
    text = text.replace("\u2028", " ").replace("\u2029", " ").replace("\u202e", " ")
    compiled = compile_graph(compile_source(text, "<script>alert(1)</script>"))
    path = tmp_path / "spec.html"
    path.write_text(html.write(compiled), "utf-8")
    assert json.loads(unpacked(path.read_text("utf-8")))["files"][0][0] == "<script>alert(1)</script>"
    with visited(browser, path) as at:
        at.page.click("#tab-spec")
        assert "<img src=x onerror=" in at.text("#spec")


def test_numbers_without_a_meaning_change_nothing() -> None:
    """The site of a draw and the number of a loop are other ones wherever a pass makes them anew."""
    base = compile_graph("bert", settings={"layers": 2}, until="formula").formula
    draw = next(one for one in base.nodes() if one.op == "random")
    moved = node("random", draw.args, draw.axes, draw.kind, **{**draw.attrs, "site": "elsewhere"})
    other = node("random", draw.args, draw.axes, draw.kind, **{**draw.attrs, "draw": "bernoulli"})
    assert recipe(draw, {}, {}) == recipe(moved, {}, {}) != recipe(other, {}, {})


def test_maths_are_drawn_as_maths(
    browser: Browser, bert: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maths = "<math display='block'><msup><mi>x</mi><mn>2</mn></msup><mo>+</mo><mi>&lt;b&gt;</mi></math>"
    monkeypatch.setattr(Maths, "__call__", lambda self, span: nested(ElementTree.fromstring(maths)))
    path = tmp_path / "maths.html"
    path.write_text(html.write(bert), "utf-8")
    with visited(browser, path) as at:
        at.find("Q")
        assert at.text("#details math msup mn") == "2"
        assert at.text("#details math") == "x2+<b>"
        assert at.page.evaluate("document.querySelector('#details math').namespaceURI").endswith("MathML")


def test_a_wide_formula_is_written_smaller(browser: Browser, pages: dict[str, Path]) -> None:
    room = "document.querySelector('#details .maths')"
    with visited(browser, pages["bert"], "#stage=formula&node=layer[layers].attn.heads") as at:
        assert at.page.evaluate(f"{room}.scrollWidth <= {room}.clientWidth")
        assert "otherwise" in at.text("#details .maths")
        assert 11 <= at.page.evaluate(f"parseFloat(getComputedStyle({room}.firstChild).fontSize)") < 15.5


def test_a_very_large_graph_opens_closed(browser: Browser, tmp_path: Path) -> None:
    """20,000 equations in 400 blocks: made in seconds, opened collapsed, and the page says what it leaves out."""
    base = compile_graph("spec s\nconfig\n    d = 2\nmodel M(x[seq, d] as x) → y[seq, d] = x + 1\n", until="formula")
    out = base.formula.outputs[0]
    origins, one = dict(base.formula.origins), out.node
    for number in range(20_000):
        one = ir.apply("tanh" if number % 2 else "exp", one)
        path = f"b{number // 1000}.c{number // 50}"
        origins[one] = ir.Origin(origins[out.node].span, path, f"y{number}", "M")
    graph = replace(base.formula, outputs=(replace(out, node=one),), origins=origins)
    data = inspected(replace(base, stages=(Stage("formula", graph),)))
    assert len(data["stops"][0]["boxes"]) < 6000
    assert data["most"] == 6000
    assert "20,0" in data["modules"][0]["why"]
    page = tmp_path / "large.html"
    page.write_text(draw(replace(base, stages=(Stage("formula", graph),)), "html"), "utf-8")
    with visited(browser, page) as at:
        assert 5 < at.count("#world .box") < 60
        assert "stay closed on this page" in at.text("#details")
        at.find("b7")
        assert at.text("#what").startswith("b7")


def compile_source(text: str, name: str) -> Any:
    from transformula.compiler.driver import load_module

    return load_module(Source(name, text))
