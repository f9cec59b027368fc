"""All runs of the folder, live: filter, sort and group them; start, stop and go on with one."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from unskew.errors import InputError
from unskew.studio.index import DEFAULTS
from unskew.studio.offers import offered, written
from unskew.studio.shared import Studio, answer

NAME, TITLE = "runs", "Runs"
MOST_SPARKS = 200


def routes(studio: Studio) -> list[Route]:
    index, queue = studio.index, studio.queue

    def page(request: Request) -> Response:
        defaults = {name: value for name, value in DEFAULTS.items() if not isinstance(value, tuple)}
        return studio.page("runs.html", TITLE, f"/{NAME}", first=index.changes(0), defaults=defaults)

    def data(request: Request) -> Response:
        since = request.query_params.get("since", "0")
        found = index.changes(int(since) if since.isdecimal() else 0)
        return JSONResponse(found | {"queue": queue.told()})

    def sparks(values: dict[str, Any]) -> Any:
        names = values.get("names")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InputError("names are a list of runs")
        return index.sparks(names[:MOST_SPARKS])

    def lines(request: Request) -> Response:
        """The curves of the rows that are in sight; a GET, so that a read-only studio draws them too."""
        return JSONResponse(sparks({"names": request.query_params.getlist("name")}))

    def offers(request: Request) -> Response:
        return JSONResponse(offered())

    def text(values: dict[str, Any], name: str) -> str:
        if not isinstance(found := values.get(name), str) or not found.strip():
            raise InputError(f"a request lacks {name!r}, a text")
        return found

    def start(values: dict[str, Any]) -> Any:
        toml = values["toml"] if isinstance(values.get("toml"), str) else written(values.get("settings"))
        return {"name": queue.add(text(values, "name").strip(), toml).name}

    def stop(values: dict[str, Any]) -> Any:
        return {"name": queue.stop(text(values, "name")).name}

    def resume(values: dict[str, Any]) -> Any:
        return {"name": queue.resume(text(values, "name")).name}

    def arrange(values: dict[str, Any]) -> Any:
        if values.get("forget"):
            queue.forget()
        if "at_once" in values:
            if type(values["at_once"]) is not int:
                raise InputError("runs at a time are a whole number")
            queue.set_at_once(values["at_once"])
        return queue.told()

    return [
        Route("/runs", page),
        Route("/runs/data", data),
        Route("/runs/lines", lines),
        Route("/runs/offers", offers),
        Route("/runs/start", answer(start), methods=["POST"]),
        Route("/runs/stop", answer(stop), methods=["POST"]),
        Route("/runs/resume", answer(resume), methods=["POST"]),
        Route("/runs/queue", answer(arrange), methods=["POST"]),
    ]
