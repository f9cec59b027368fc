"""Chromium for tests that look at pages: once a file of tests, with one window that its tests look through in turn."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHEAP = ("--no-sandbox", "--disable-gpu", "--renderer-process-limit=1", "--disable-site-isolation-trials")
"""Pages share a process: most of what a page of a test costs is a fresh one that must compile its scripts anew."""

NAMES = ("chromium", "chromium-browser", "google-chrome")
BY_DAY = {"color_scheme": "light", "reduced_motion": "no-preference"}


class Browser:
    """A browser that was started."""

    def __init__(self, inner: Any):
        self.inner = inner
        self.page: Any = None  # in the window that is looked through in turn

    @contextlib.contextmanager
    def window(self, width: int, height: int, alone: bool = False, **media: str) -> Iterator[Any]:
        """An empty page of this size; ``media``: color_scheme, reduced_motion. ``alone``: in a window of its own, which
        takes longer to open than most pages."""
        size = {"width": width, "height": height}
        if alone:
            with contextlib.closing(self.inner.new_context(viewport=size, **media)) as context:
                context.set_default_timeout(60_000)
                yield context.new_page()
            return
        if self.page is None:
            context = self.inner.new_context()
            context.set_default_timeout(60_000)
            self.page = context.new_page()
        self.page.set_viewport_size(size)
        self.page.emulate_media(**{**BY_DAY, **media})
        try:
            yield self.page
        finally:
            self._tidy()

    def _tidy(self) -> None:
        """Leave nothing of a test to the next one: no page, no cookie, nothing that a page has stored."""
        if self.page.url.startswith("http"):
            self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.goto("about:blank")
        self.page.context.clear_cookies()


@contextlib.contextmanager
def started_browser(*flags: str) -> Iterator[Browser]:
    """Chromium; on CI it must be there, elsewhere the test skips.

    For a module at the most: while its driver runs, tests of others cannot start an event loop.
    """
    found = next((path for name in NAMES if (path := shutil.which(name))), "")
    if not found:
        assert not os.environ.get("CI"), "CI must have a browser to look at pages with: install chromium"
        pytest.skip("there is no chromium on this machine to look at pages with")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with playwright.sync_playwright() as driver:
        inner = driver.chromium.launch(executable_path=found, args=[*CHEAP, *flags])
        yield Browser(inner)
        inner.close()
