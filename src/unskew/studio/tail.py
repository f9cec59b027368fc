"""Follows the logs of runs: one reader a run, whatever the number of pages that watch it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from starlette.concurrency import run_in_threadpool

from unskew.report.results.gather import number
from unskew.sealed import unseal

LOOK_EVERY = 0.5
"""Seconds between two looks at a log that somebody watches."""

WAITING = 200
"""Rounds that wait for a page that does not take them; then it starts again from the whole curve."""

MOST_TOLD = 600
"""Rounds in one event; a page that has missed more asks for the curve, which has few points."""

LONGEST_LINE = 1_000_000  # bytes that are looked back for the start of a round's line

STILL_HERE = 15.0
"""Seconds after which a quiet stream says that it is alive, so that closed pages are noticed."""


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
                elif not self.inode:
                    self.at = line_start(file, self.at)
                self.inode = about.st_ino
                file.seek(self.at)
                content = file.read()
        except OSError:
            return False, []
        whole = content[: content.rfind(b"\n") + 1]
        self.at += len(whole)
        lines = (unseal(piece, self.sealed) for piece in whole.splitlines())
        return anew, [line for line in lines if line and type(line.get("round")) is int]


def line_start(file: BinaryIO, at: int) -> int:
    """Where the line begins that byte ``at`` stands in: a page may have asked while it was being written."""
    back = min(at, LONGEST_LINE)
    file.seek(at - back)
    end = file.read(back).rfind(b"\n") + 1
    return at - back + end if end else at - back


def told(anew: bool, lines: list[dict[str, Any]]) -> tuple[str, Any]:
    """What pages are told of new rounds: the rounds, or that everything is to be asked for."""
    if anew or len(lines) > MOST_TOLD:
        return "anew", {}
    return "rounds", [short_line(line) for line in lines]


def event(kind: str, content: Any, id: int | None = None) -> str:
    """A server-sent event; ``id`` is the place in the log after it, from where a page goes on when it comes back."""
    place = "" if id is None else f"id: {id}\n"
    return f"{place}event: {kind}\ndata: {json.dumps(content)}\n\n"


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
            if anew or lines:
                self.tell(*told(anew, lines), id=self.tail.at)
            now = await run_in_threadpool(self.status)
            if now != before:
                self.tell("status", now)
                before = now
            await asyncio.sleep(LOOK_EVERY)

    def tell(self, kind: str, content: Any, id: int | None = None) -> None:
        text = event(kind, content, id)
        for page in self.pages:
            if page.full():  # a page that sleeps: it starts again when it wakes
                while not page.empty():
                    page.get_nowait()
                page.put_nowait(event("anew", {}))
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
        behind = at < feed.tail.at
        feed.pages.add(page)  # before it catches up: a round may come twice, and pages skip it; none is lost
        follows = feed.task is not None and not feed.task.done()
        if not follows:
            feed.task = asyncio.create_task(feed.follow())
        try:
            yield "retry: 2000\n\n"
            if behind:
                own = LogTail(log, sealed, at)
                _, lines = await run_in_threadpool(own.read)
                yield event(*told(False, lines), id=own.at)
            if follows:
                yield event("status", await run_in_threadpool(status))
            while True:
                try:
                    yield await asyncio.wait_for(page.get(), STILL_HERE)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            feed.pages.discard(page)
            if not feed.pages:
                self.feeds.pop(name, None)

    async def glance(self, name: str, log: Path, sealed: bool, at: int, status: Any) -> AsyncIterator[str]:
        """What is new since byte ``at``, and no more: the browser asks again by itself, and holds no connection."""
        tail = LogTail(log, sealed, at)
        anew, lines = await run_in_threadpool(tail.read)
        yield "retry: 2000\n\n"
        if anew or lines:
            yield event(*told(anew, lines), id=tail.at)
        yield event("status", await run_in_threadpool(status))

    async def close(self) -> None:
        for feed in self.feeds.values():
            if feed.task is not None:
                feed.task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await feed.task
