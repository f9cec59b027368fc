"""Follows the logs of runs: one reader a run, whatever the number of pages that watch it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from unskew.report.results.gather import number
from unskew.sealed import unseal

LOOK_EVERY = 0.5
"""Seconds between two looks at a log that somebody watches."""

WAITING = 200
"""Rounds that wait for a page that does not take them; then it starts again from the whole curve."""

STILL_HERE = (
    15.0  # seconds after which a quiet stream says that it is alive, so that closed pages are noticed
)


def short_line(line: dict[str, Any]) -> dict[str, Any]:
    """What a page shows of a round as it ends; a number that is none is left out, since JSON has no NaN."""
    kept = {
        name: value
        for name, value in line.items()
        if name in ("round", "asked", "answered", "distinct_clients") or isinstance(value, (int, float))
    }
    classes = line.get("per_class_accuracy")
    if isinstance(classes, list):
        kept["per_class_accuracy"] = [number(share) for share in classes]
    return {name: value for name, value in kept.items() if not _no_number(value)}


def _no_number(value: Any) -> bool:
    return isinstance(value, float) and number(value) is None


@dataclass
class LogTail:
    """Reads what was added to a log since the last look, whole lines only."""

    log: Path
    sealed: bool
    at: int = 0
    inode: int = 0

    def read(self) -> tuple[bool, list[dict[str, Any]]]:
        """Whether the log began anew (a run resumed from an earlier round), and the lines that were added."""
        try:
            with self.log.open("rb") as file:
                about = os.fstat(file.fileno())
                anew = about.st_size < self.at or (self.inode != 0 and about.st_ino != self.inode)
                if anew:
                    self.at = 0
                self.inode = about.st_ino
                file.seek(self.at)
                content = file.read()
        except OSError:
            return False, []
        whole = content[: content.rfind(b"\n") + 1]
        self.at += len(whole)
        lines = (unseal(piece, self.sealed) for piece in whole.splitlines())
        return anew, [line for line in lines if line and type(line.get("round")) is int]


@dataclass
class Feed:
    """One run's log, and the pages that watch it."""

    tail: LogTail
    status: Any  # a function: what the run is doing now
    pages: set[asyncio.Queue[str]] = field(default_factory=set)
    task: asyncio.Task[None] | None = None

    async def follow(self) -> None:
        before = None
        while self.pages:
            anew, lines = await run_in_threadpool(self.tail.read)
            if anew:
                self.tell("anew", {})
            elif lines:
                self.tell("rounds", [short_line(line) for line in lines])
            now = await run_in_threadpool(self.status)
            if now != before:
                self.tell("status", now)
                before = now
            await asyncio.sleep(LOOK_EVERY)

    def tell(self, kind: str, content: Any) -> None:
        text = f"event: {kind}\ndata: {json.dumps(content)}\n\n"
        for page in self.pages:
            if page.full():  # a page that sleeps: it starts again when it wakes
                while not page.empty():
                    page.get_nowait()
                page.put_nowait("event: anew\ndata: {}\n\n")
            else:
                page.put_nowait(text)


class Feeds:
    """The feeds of all runs that somebody watches; a feed nobody watches ends."""

    def __init__(self) -> None:
        self.feeds: dict[str, Feed] = {}

    async def watch(self, name: str, log: Path, sealed: bool, at: int, status: Any) -> AsyncIterator[str]:
        """The events of a run from byte ``at`` of its log on, for one page."""
        page: asyncio.Queue[str] = asyncio.Queue(WAITING)
        feed = self.feeds.get(name)
        if feed is None:
            feed = self.feeds[name] = Feed(LogTail(log, sealed, at), status)
        elif at < feed.tail.at:  # what this page has missed, from its own place
            lines = (await run_in_threadpool(LogTail(log, sealed, at).read))[1]
            page.put_nowait(f"event: rounds\ndata: {json.dumps([short_line(line) for line in lines])}\n\n")
        feed.pages.add(page)
        if feed.task is None or feed.task.done():
            feed.task = asyncio.create_task(feed.follow())
        else:
            page.put_nowait(f"event: status\ndata: {json.dumps(await run_in_threadpool(status))}\n\n")
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    yield await asyncio.wait_for(page.get(), STILL_HERE)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            feed.pages.discard(page)
            if not feed.pages:
                self.feeds.pop(name, None)

    async def close(self) -> None:
        for feed in self.feeds.values():
            if feed.task is not None:
                feed.task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await feed.task
