"""One run: its curves as they grow, its classes, costs, faults and clients, and its rounds seen again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from unskew.errors import InputError
from unskew.report.results.gather import Record
from unskew.runs.folder import FORMAT
from unskew.studio import run_charts, run_view
from unskew.studio.index import Entry
from unskew.studio.shared import Studio

NAME, TITLE = "run", ""
KEPT = 4
"""Runs that stay in memory between two requests."""


class Records:
    """The runs that were looked at last; one whose files have changed is read again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Any, Record]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, studio: Studio, name: str, entry: Entry) -> Record:
        with self._lock:
            kept = self._kept.get(name)
            if kept is not None and kept[0] == (entry.seals, entry.row["status"]):
                self._kept.move_to_end(name)
                return kept[1]
        record = run_view.record_of_folder(studio.inside(name))
        with self._lock:
            self._kept[name] = ((entry.seals, entry.row["status"]), record)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return record


def routes(studio: Studio) -> list[Route]:
    records = Records()

    def found(request: Request) -> tuple[str, Entry]:
        name = request.path_params["name"].strip("/") or "."
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
            "address": quote("" if name == "." else name),
        }
        try:
            at = _size(studio, name)
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

    def of_record(make: Callable[[Record, Request], Any]) -> Callable[[Request], Response]:
        def endpoint(request: Request) -> Response:
            name, entry = found(request)
            return JSONResponse(make(records.read(studio, name, entry), request))

        return endpoint

    def rounds(record: Record, request: Request) -> Any:
        first = request.query_params.get("first", "1")
        return run_view.played(record, int(first) if first.isdecimal() else 1)

    async def events(request: Request) -> Response:
        name, entry = found(request)
        at = request.query_params.get("at", "0")
        sealed = entry.about.get("format", FORMAT) == FORMAT

        def status() -> dict[str, Any]:
            now = studio.index.find(name)
            if now is None:
                return {"status": "deleted"}
            shown = ("status", "round", "rounds", "value", "best", "left", "problem", "took")
            return {key: now.row[key] for key in shown if key in now.row}

        stream = studio.feeds.watch(
            name, studio.inside(name) / "rounds.jsonl", sealed, int(at) if at.isdecimal() else 0, status
        )
        return StreamingResponse(stream, media_type="text/event-stream")

    return [
        Route("/run/{name:path}", page),
        Route("/run-events/{name:path}", events),
        Route("/run-sums/{name:path}", of_record(lambda record, request: run_view.sums(record))),
        Route("/run-rounds/{name:path}", of_record(rounds)),
        Route("/run-points/{name:path}", of_record(lambda record, request: run_view.overview(record))),
        Route("/run-held/{name:path}", of_record(lambda record, request: run_charts.held_picture(record))),
    ]


def _size(studio: Studio, name: str) -> int:
    """How far the log reaches: what is added after that comes as events."""
    try:
        return (studio.inside(name) / "rounds.jsonl").stat().st_size
    except OSError:
        return 0
