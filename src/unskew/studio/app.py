"""The studio's application: screens over one folder, behind a guard."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from unskew.errors import InputError, RunFailed
from unskew.studio.screens import load_screens
from unskew.studio.security import Guard
from unskew.studio.served import served_file
from unskew.studio.shared import Studio


def make_app(studio: Studio) -> ASGIApp:
    """All screens of the studio behind its guard."""
    if not studio.copy:  # which draws one thing after the other
        import pandas  # noqa: F401  Altair asks for it by name: in another thread it might be half imported
    routes = [Route("/static/{name}", served)]
    for screen in load_screens():
        own = screen.routes(studio)
        routes += own
        if own and screen.TITLE:
            studio.navigation.append((f"/{screen.NAME}", screen.TITLE))
    first = studio.navigation[0][0]
    routes.append(Route("/", lambda request: Response(status_code=303, headers={"location": first})))

    @contextlib.asynccontextmanager
    async def alive(app: Starlette) -> AsyncIterator[None]:
        yield
        for close in reversed(studio.closing):
            close()

    def complain(request: Request, problem: Exception) -> Response:
        """An error in one sentence: as JSON where a script asked, as a page where a person did."""
        status, said = 500, f"{type(problem).__name__}: {problem}"
        if isinstance(problem, HTTPException):
            status, said = problem.status_code, problem.detail
        elif isinstance(problem, InputError):
            status, said = 400, str(problem)
        elif isinstance(problem, RunFailed):
            said = str(problem)
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"error": said}, status)
        return studio.page(
            "problem.html", "Not found" if status == 404 else "Sorry", said=said, status=status
        )

    inner = Starlette(
        routes=routes,
        exception_handlers=dict.fromkeys(
            (HTTPException, InputError, RunFailed, OSError, Exception), complain
        ),
        lifespan=alive,
    )
    return Guard(inner, studio.door)  # outside of everything: errors get its headers too


def served(request: Request) -> Response:
    """A file of the package, or one that is made of it."""
    found = served_file(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "there is no such file")
    content, kind, seal = found
    headers = {"etag": seal, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == seal:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)
