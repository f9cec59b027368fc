"""What all screens of the studio share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from unskew.errors import InputError
from unskew.report.rendering import environment
from unskew.studio.index import RunIndex
from unskew.studio.queue import RunQueue
from unskew.studio.security import Door, checked_form, inside
from unskew.studio.tail import Feeds
from unskew.version import __version__

DEFAULT_PORT = 8765


@dataclass
class Studio:
    """What all screens share: the folder they look at, and who may ask.

    ``closing`` are called when the studio ends, the last one first.
    """

    folder: Path
    door: Door = field(default_factory=lambda: Door(DEFAULT_PORT))
    navigation: list[tuple[str, str]] = field(default_factory=list)  # (address, title)
    feeds: Feeds = field(default_factory=Feeds)
    closing: list[Callable[[], None]] = field(default_factory=list)
    copy: bool = False  # pages are saved to be read without a studio

    @functools.cached_property
    def index(self) -> RunIndex:
        """All runs of the folder, for every screen."""
        return RunIndex(self.folder)

    @functools.cached_property
    def queue(self) -> RunQueue:
        """What is to be run on this machine."""
        queue = RunQueue(self.folder, self.read_only)
        self.closing.append(queue.close)
        return queue

    @property
    def read_only(self) -> bool:
        return self.door.read_only

    def inside(self, name: str) -> Path:
        """A place in the folder by the name that a request gave; refused where it lies elsewhere."""
        return inside(self.folder, name)

    def page(self, template: str, title: str, at: str = "", status: int = 200, **values: Any) -> HTMLResponse:
        """A page of the studio; ``at`` is the address that the navigation marks as the current one."""
        return HTMLResponse(self.html(template, title, at, **values), status)

    def html(self, template: str, title: str, at: str = "", **values: Any) -> str:
        return (
            environment("unskew.studio")
            .get_template(template)
            .render(
                title=title,
                at=at,
                navigation=self.navigation,
                folder=self.folder.resolve().name or str(self.folder),
                read_only=self.read_only,
                copy=self.copy,
                version=__version__,
                **values,
            )
        )


async def read_json(request: Request) -> dict[str, Any]:
    """A request's JSON object; a sentence where it is none."""
    try:
        found = await request.json()
    except ValueError:  # also where its bytes are no text
        raise InputError("a request holds a JSON object") from None
    return checked_form(found)


def answer(change: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Any]:
    """An endpoint that takes a JSON object and gives what the function makes of it, as JSON."""

    async def endpoint(request: Request) -> Response:
        values = await read_json(request)
        return JSONResponse(await run_in_threadpool(change, values))

    return endpoint
