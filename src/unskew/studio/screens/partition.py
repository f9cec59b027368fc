"""The partition explorer: who holds what, as one drags."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from unskew.studio.explore import Asked, Explorer, held_partitions, partition_of_run, read_number
from unskew.studio.shared import Studio, answer

NAME, TITLE = "partition", "Partitions"


def routes(studio: Studio) -> list[Route]:
    explorer = Explorer(studio.folder)

    def page(request: Request) -> Response:
        if studio.copy:  # nobody deals there: the partitions of the runs are shown
            return studio.page("partition_copy.html", TITLE, f"/{NAME}", runs=held_partitions(studio.folder))
        return studio.page("partition.html", TITLE, f"/{NAME}", offered=explorer.offered())

    def of_run(request: Request) -> Response:
        return JSONResponse(partition_of_run(studio.inside(request.query_params.get("name", ""))))

    def form(request: Request) -> Response:
        return JSONResponse(explorer.form(Asked.read(request.query_params)))

    def explore(request: Request) -> Response:
        return JSONResponse(explorer.explore(Asked.read(request.query_params)))

    def solve(request: Request) -> Response:
        asked, emd = Asked.read(request.query_params), wanted(request.query_params)
        if request.query_params.get("all"):
            return JSONResponse({"found": explorer.solve_all(asked, emd)})
        return JSONResponse(explorer.solve(asked, emd))

    def save(values: dict[str, Any]) -> dict[str, Any]:
        texts = {name: str(value) for name, value in values.items()}
        place = explorer.save(Asked.read(texts), texts.get("name", ""))
        return {"saved": place.name}

    return [
        Route("/partition", page),
        Route("/partition/form", form),
        Route("/partition/of", explore),
        Route("/partition/run", of_run),
        Route("/partition/solve", solve),
        Route("/partition/save", answer(save), methods=["POST"]),
    ]


def wanted(form: Any) -> float:
    """The EMD that is asked for."""
    return float(read_number(form, "emd", "1.4", float))
