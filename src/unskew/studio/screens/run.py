"""One run: its curves as they grow, its classes, costs, faults and clients, and its rounds seen again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from unskew.errors import InputError
from unskew.report.results.gather import Record
from unskew.runs.folder import FORMAT
from unskew.studio import run_charts, run_view
from unskew.studio.index import DEFAULTS, Entry
from unskew.studio.shared import Studio
from unskew.studio.tail import event

NAME, TITLE = "run", ""
KEPT = 4
"""Runs that stay in memory between two requests."""

DELETED = "this run's folder was deleted"

PAUSES = 20
"""Times as long as a log took to read, it is not read again while its run goes on."""


class Records:
    """The runs that were looked at last, for all pages together.

    One whose files have changed is read again, by one reader at a time. A long log takes a while, and rounds may end
    every second: what may come ``late`` is read in a small share of the time, however many pages ask.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._reading: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def read(self, studio: Studio, name: str, entry: Entry, late: bool = False) -> Record:
        with self._lock:
            reading = self._reading.setdefault(name, threading.Lock())
        with reading:
            seal = (entry.row["status"], entry.seals)
            with self._lock:
                kept = self._kept.get(name)
            if kept is None or not (kept.seal == seal or (late and kept.serves_late(seal))):
                began = time.monotonic()
                record = run_view.record_of_folder(studio.inside(name))
                now = time.monotonic()
                kept = Kept(seal, record, now + PAUSES * (now - began))
            with self._lock:
                self._kept[name] = kept
                self._kept.move_to_end(name)
                while len(self._kept) > KEPT:
                    self._reading.pop(self._kept.popitem(last=False)[0], None)
            return kept.record


@dataclass(frozen=True)
class Kept:
    """A run as it was read, and until when it will do while the run goes on."""

    seal: tuple[str, Any]
    record: Record
    until: float

    def serves_late(self, seal: tuple[str, Any]) -> bool:
        return seal[0] == self.seal[0] == "running" and time.monotonic() < self.until


def told_of(row: dict[str, Any]) -> list[str]:
    """What a run is, in a few words; a damaged one does not say."""
    chosen = DEFAULTS | row["settings"]
    if not row["settings"] and row["status"] == "damaged":
        return []
    named = [row.get("label") or chosen["method"], chosen["dataset"], chosen["partition"]]
    counted = f"{chosen['clients']} clients" if chosen["clients"] else ""
    return [str(word) for word in (*named, counted, f"seed {chosen['seed']}") if word]


def routes(studio: Studio) -> list[Route]:
    records = Records()

    def named(request: Request) -> str:
        return request.path_params["name"].strip("/") or "."

    def was_deleted(request: Request) -> bool:
        return studio.index.find(named(request)) is None and named(request) in studio.index.gone

    def found(request: Request) -> tuple[str, Entry]:
        name = named(request)
        studio.inside(name)
        entry = studio.index.find(name)
        if entry is None:
            raise HTTPException(404, f"there is no run {name!r} in this folder; it may have been deleted")
        return name, entry

    def page(request: Request) -> Response:
        name, entry = found(request)
        shared: dict[str, Any] = {
            "name": name,
            "row": entry.row,
            "about": told_of(entry.row),
            "address": quote("" if name == "." else name),
        }
        try:
            at = entry.seals[2][1] if entry.seals[2] else 0  # the record reaches so far, if not farther
            record = records.read(studio, name, entry)
            view = run_view.overview(record)
        except InputError as problem:  # damaged, of another version, or written this very moment
            return studio.page(
                "run.html", name, "/runs", problem=str(problem), damage="", view=None, toml="", **shared
            )
        view |= {
            "at": at,
            "charts": run_charts.curves(record, run_view.metrics(record)),
            "bars": run_charts.class_bars(view["labels"]) if view["labels"] else None,
            "stage": run_view.stage(record),
        }
        failed = str(record.result.get("error", "")) if record.status == "failed" else ""
        return studio.page(
            "run.html",
            name,
            "/runs",
            problem=failed,
            damage=str(record.damage) if record.damage else "",
            view=view,
            toml=record.spec.toml(),
            **shared,
        )

    def of_record(
        make: Callable[[Record, Request], Any], late: bool = False
    ) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            """What a page asks for. A run that was deleted meanwhile or cannot be drawn is told in words: a browser
            writes any other status than 200 into its console, as if the page were broken."""
            if was_deleted(request):
                return JSONResponse({"error": DELETED})
            name, entry = found(request)
            try:
                return JSONResponse(make(records.read(studio, name, entry, late), request))
            except InputError as problem:
                return JSONResponse({"error": str(problem)})

        return endpoint

    def rounds(record: Record, request: Request) -> Any:
        first = request.query_params.get("first", "1")
        return run_view.played(record, int(first) if first.isdecimal() else 1)

    async def events(request: Request) -> Response:
        if await run_in_threadpool(was_deleted, request):
            deleted = "retry: 10000\n\n" + event("status", {"status": "deleted"})
            return Response(deleted, media_type="text/event-stream")
        name, entry = await run_in_threadpool(found, request)
        at = request.headers.get("last-event-id") or request.query_params.get("at", "0")
        sealed = entry.about.get("format", FORMAT) == FORMAT

        def status() -> dict[str, Any]:
            now = studio.index.find(name)
            if now is None:
                return {"status": "deleted"}
            shown = ("status", "round", "rounds", "value", "best", "left", "problem", "took")
            return {key: now.row[key] for key in shown if key in now.row}

        log, start = studio.inside(name) / "rounds.jsonl", int(at) if at.isdecimal() else 0
        news = studio.feeds.glance if "once" in request.query_params else studio.feeds.watch
        stream = news(name, log, sealed, start, status)
        return StreamingResponse(stream, media_type="text/event-stream")

    return [
        Route("/run/{name:path}", page),
        Route("/run-events/{name:path}", events),
        Route("/run-sums/{name:path}", of_record(lambda record, request: run_view.sums(record), late=True)),
        Route("/run-rounds/{name:path}", of_record(rounds)),
        Route("/run-points/{name:path}", of_record(lambda record, request: run_view.overview(record))),
        Route(
            "/run-took/{name:path}",
            of_record(lambda record, request: run_charts.who_took_part(record), late=True),
        ),
        Route("/run-held/{name:path}", of_record(lambda record, request: run_charts.held_picture(record))),
    ]
