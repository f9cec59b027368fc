"""A studio over a folder, and a real browser to look at it with."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from one_browser import Browser, started_browser

uvicorn = pytest.importorskip("uvicorn", reason="the studio needs unskew[studio]")
pytest.importorskip("starlette", reason="the studio needs unskew[studio]")

from unskew.studio.app import make_app  # noqa: E402
from unskew.studio.security import Door  # noqa: E402
from unskew.studio.shared import Studio  # noqa: E402

PICTURES = os.environ.get("UNSKEW_STUDIO_PICTURES")
"""A folder to which the tests write pictures of all screens: docs/img, to renew those of the documentation."""


@dataclass
class Opened:
    """A studio that answers, and the folder that it looks at."""

    folder: Path
    door: Door
    client: httpx.Client
    inner: Studio

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.door.port}"

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.client.get(self.root + path, **more)

    def post(self, path: str, values: Any, **more: Any) -> httpx.Response:
        headers = {"origin": self.root} | more.pop("headers", {})
        return self.client.post(self.root + path, json=values, headers=headers, **more)


_latest = 0
"""The port of the studio before."""


def listening_again() -> socket.socket:
    """A port that whoever asks before the server runs waits at: the one of the studio before, where it is free.

    A browser keeps scripts by their address, so it need not compile Vega anew in every test.
    """
    global _latest
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", _latest))
    except OSError:
        found.bind(("127.0.0.1", 0))
    found.listen()
    _latest = found.getsockname()[1]
    return found


@contextlib.contextmanager
def opened_studio(folder: Path, read_only: bool = False) -> Iterator[Opened]:
    with listening_again() as listening:
        door = Door(listening.getsockname()[1], read_only)
        inner = Studio(folder, door)
        config = uvicorn.Config(make_app(inner), log_level="error", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            with httpx.Client(timeout=60) as client:
                assert client.get(door.address, follow_redirects=True).status_code == 200
                yield Opened(folder, door, client, inner)
        finally:
            server.should_exit = True
            thread.join(60)


@pytest.fixture(autouse=True, scope="module")
def checked(checked_charts: None) -> None:
    """Charts are drawn with all of Altair's checks here."""


@pytest.fixture
def open_studio() -> Iterator[Callable[..., Opened]]:
    """Open studios over folders; all end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda folder, read_only=False: stack.enter_context(opened_studio(folder, read_only))


@dataclass
class Look:
    """A page in the browser, which remembers what its console complained of."""

    page: Any
    studio: Opened
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Any:
        """A screen, for a browser that has been let in; the first page that all others see is not drawn for it."""
        self.page.context.request.get(self.studio.door.address, max_redirects=0)
        self.page.goto(self.studio.root + path)
        return self.page

    def check_contrast(self) -> None:
        """What axe-core finds against WCAG 2 A and AA: nothing."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(
            self.page, options={"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21aa"]}}
        )
        told = [
            (one["id"], [node["html"][:160] for node in one["nodes"]][:3])
            for one in found.response["violations"]
        ]
        assert told == []

    def check_width(self) -> None:
        assert self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    def picture(self, name: str, **more: Any) -> None:
        if PICTURES:
            self.page.screenshot(path=str(Path(PICTURES) / f"studio-{name}.png"), **more)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as found:
        yield found


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Look]]:
    """Open a window on a studio; at the end no console may have complained. A test's first is the one that others had,
    but emptied; ``alone`` asks for a fresh one."""
    looks: list[Look] = []
    with contextlib.ExitStack() as windows:

        def opened(
            studio: Opened, width: int = 1280, height: int = 860, alone: bool = False, **more: str
        ) -> Look:
            page = windows.enter_context(browser.window(width, height, alone or bool(looks), **more))
            made = Look(page, studio)
            listen = {
                "console": lambda said: made.complaints.append(said.text) if said.type == "error" else None,
                "pageerror": lambda error: made.complaints.append(str(error)),
            }
            for event, heard in listen.items():
                page.on(event, heard)
                windows.callback(page.remove_listener, event, heard)
            looks.append(made)
            return made

        yield opened
    assert [said for one in looks for said in one.complaints] == []
