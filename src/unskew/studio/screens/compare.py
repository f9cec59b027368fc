"""Compare: picked runs or groups beside one another."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from unskew.report.results.comparison import Comparison
from unskew.studio.compare import FORMATS, Comparer, exported
from unskew.studio.shared import Studio

NAME, TITLE = "compare", "Compare"


def routes(studio: Studio) -> list[Route]:
    comparer = Comparer(studio.folder)

    def asked(request: Request) -> Comparison:
        given = request.query_params
        return comparer.compared(given.getlist("of"), given.get("baseline"), given.get("spread", "ci"))

    def page(request: Request) -> Response:
        return studio.page("compare.html", TITLE, f"/{NAME}", formats=list(FORMATS))

    def listing(request: Request) -> Response:
        return JSONResponse(comparer.listing())

    def compare(request: Request) -> Response:
        return JSONResponse(comparer.shown(asked(request)))

    def export(request: Request) -> Response:
        content, kind, name = exported(asked(request), request.path_params["kind"])
        return Response(
            content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'}
        )

    return [
        Route("/compare", page),
        Route("/compare/runs", listing),
        Route("/compare/of", compare),
        Route("/compare/export/{kind}", export),
    ]
