"""All runs of the folder."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from unskew.studio.shared import Studio

NAME, TITLE = "runs", "Runs"


def routes(studio: Studio) -> list[Route]:
    def page(request: Request) -> Response:
        return studio.page("runs.html", TITLE, f"/{NAME}")

    return [Route("/runs", page)]
