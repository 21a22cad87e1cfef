"""The browser that tests open pages with: found once, whatever it is called on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-extensions", "--mute-audio"),
)


def browser_path() -> str:
    """The path of a browser of the Chromium family. Raises `RuntimeError` that says what to install."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    raise RuntimeError(
        f"The tests of pages need a browser, one of {', '.join(NAMES)}: tests/install_tools.sh installs one."
    )


@contextmanager
def opened() -> Iterator[Browser]:
    """A browser without a window; it goes when the block ends."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
