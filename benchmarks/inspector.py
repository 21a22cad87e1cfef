"""How large the inspector's page is, how soon it is seen, and how fast it answers, in a real browser.

    python benchmarks/inspector.py [--blocks 200]

A row for each model: the file in kB, the first paint and the time until it can be used, and the median of what a click
on a box, opening a block, opening all, and a step of the pass slider take until the picture is laid out anew.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.backends.draw.blocks import spec_of
from tests.browser import opened
from transformula.backends.draw import draw
from transformula.compiler.driver import Compiled, compile_graph

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TIMED = """([act, where]) => {
  const acts = {
    click: () => document.querySelector(where).dispatchEvent(new MouseEvent("click", { bubbles: true })),
    step: () => {
      const one = document.getElementById("stop");
      one.value = 1 - one.value;
      one.dispatchEvent(new Event("input"));
    },
  };
  const start = performance.now();
  acts[act]();
  document.getElementById("drawing").getBBox();
  return performance.now() - start;
}"""
BOX, CLOSE, OPEN = (("click", f"#world {where}") for where in (".box[data-id^=b]", ".head", ".opener"))
AT_FIRST = {"a box": BOX, "open a block": OPEN, "close a block": CLOSE, "a step of the slider": ("step", "")}
ALL_OPEN = {"a box": BOX, "close a block": CLOSE, "open a block": OPEN}
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


def models(blocks: int) -> Iterator[tuple[str, Compiled]]:
    """BERT-base, 12 blocks that are each an instance of its own, and as many as wanted, as they are written."""
    yield "bert", compile_graph("bert")
    yield "12 blocks", compile_graph(spec_of(12))
    yield f"{blocks} blocks", compile_graph(spec_of(blocks), until="formula")


def measured(browser: Browser, path: Path, rounds: int = 5) -> dict[str, Any]:
    """The times of one page in milliseconds."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    start = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    found: dict[str, Any] = {"ready": (time.perf_counter() - start) * 1000, "first paint": page.evaluate(PAINT)}
    found["boxes"] = page.locator("#world .box").count()
    found |= timed(page, AT_FIRST, rounds)
    found["open all"] = page.evaluate(TIMED, ["click", "#expand"])
    found |= {f"{name} then": value for name, value in timed(page, ALL_OPEN, rounds).items()}
    page.close()
    return found


def timed(page: Page, acts: dict[str, tuple[str, str]], rounds: int) -> dict[str, float]:
    """The median of each act in milliseconds; a round does all of them in order."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(rounds):
        for name, act in acts.items():
            times[name].append(page.evaluate(TIMED, list(act)))
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=200)
    blocks = parser.parse_args().blocks
    with opened() as browser, tempfile.TemporaryDirectory() as folder:
        for name, compiled in models(blocks):
            start = time.perf_counter()
            path = Path(folder, "page.html")
            path.write_text(draw(compiled, "html"), "utf-8")
            print(f"{name}: {path.stat().st_size / 1000:.1f} kB, written in {time.perf_counter() - start:.2f} s")
            found = measured(browser, path)
            told = ", ".join(f"{what} {value:.0f}" for what, value in found.items() if what != "boxes")
            print(f"    {found['boxes']} boxes at first; in ms: {told}")


if __name__ == "__main__":
    main()
