"""Sites: who is connected, what each allows, what was sent. Only where ``unskew[sites]`` is installed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from unskew.errors import InputError
from unskew.studio.shared import Studio

NAME, TITLE = "sites", "Sites"


def routes(studio: Studio) -> list[Route]:
    from unskew.sites.extra import need_extra

    try:
        need_extra()
    except InputError:
        return []
    if studio.copy:
        return []  # who is connected is no matter of a paper

    def page(request: Request) -> Response:
        return studio.page("sites.html", TITLE, f"/{NAME}")

    def data(request: Request) -> Response:
        from unskew.studio import sites_view
        from unskew.studio.compare import Comparer

        records, _ = Comparer(studio.folder).read()
        return JSONResponse(
            {
                "federations": sites_view.federations(studio.folder),
                "sites": sites_view.sites_here(studio.folder),
                "runs": sites_view.runs_at_sites(records),
            }
        )

    return [Route("/sites", page), Route("/sites/data", data)]
