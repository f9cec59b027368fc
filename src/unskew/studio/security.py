"""Who may ask the studio, and for what: it answers the browser of the person who started it, and nobody else.

- It listens on 127.0.0.1 only.
- A random token stands in the address that the terminal shows. The first request exchanges it for a cookie that other
  sites' pages cannot send (SameSite=Strict) and scripts cannot read (HttpOnly); programs send it as a header.
- Host and Origin are checked on every request: a name that somebody else's server resolves to 127.0.0.1 (DNS rebinding)
  and another site's page are refused.
- Pages may load what the studio itself serves, and nothing else.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unskew.errors import InputError

HERE = "127.0.0.1"
HEADER = "x-unskew-token"
READING = frozenset({"GET", "HEAD"})
LARGEST_BODY = 1_000_000
"""Bytes of a request: settings and experiment files are far smaller."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "style-src-attr 'unsafe-inline'",  # charts place their words by it; a style cannot run
        "img-src 'self' data: blob:",  # blob: a chart saved as a picture
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Door:
    """What a request must show to be let in."""

    port: int
    read_only: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset({f"{HERE}:{self.port}", f"localhost:{self.port}"})

    @property
    def cookie(self) -> str:
        return f"unskew-studio-{self.port}"  # a browser sends a cookie to every port of a machine

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HERE}:{self.port}/?token={self.token}"

    def is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def refuses(self, method: str, headers: Mapping[str, str]) -> str:
        """Why a request is turned away whoever sends it; "" where it is not."""
        if headers.get("host", "").lower() not in self.hosts:
            return f"this studio answers at {HERE}:{self.port} only"
        origin = headers.get("origin")
        if origin is not None and origin.lower().removeprefix("http://") not in self.hosts:
            return "another site's page may not ask this studio"
        fetched = headers.get("sec-fetch-site", "none")
        opened = headers.get("sec-fetch-mode") == "navigate" and method in READING
        if fetched in ("cross-site", "same-site") and not opened:
            return "another site's page may not ask this studio"
        if method not in READING:
            if self.read_only:
                return "this studio is read-only: it was started with --read-only"
            if origin is None and not self.is_token(headers.get(HEADER)):
                return "a request that changes something must say which page it comes from"
        return ""

    def knows(self, headers: Headers) -> bool:
        """Whether the request shows the token, in a header or in the cookie."""
        cookies = cookie_parser(headers.get("cookie", ""))
        return self.is_token(headers.get(HEADER)) or self.is_token(cookies.get(self.cookie))


class Guard:
    """Stands before the whole application: every request passes it, and every answer gets its headers."""

    def __init__(self, app: ASGIApp, door: Door):
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = self._answer(scope)
        await (answer or self.app)(scope, receive, send_guarded)

    def _answer(self, scope: Scope) -> Response | None:
        """What a request gets that is not let in; None where it is."""
        headers = Headers(scope=scope)
        if sentence := self.door.refuses(scope["method"], headers):
            return PlainTextResponse(sentence + "\n", 403)
        if not headers.get("content-length", "0").isdecimal() or "transfer-encoding" in headers:
            return PlainTextResponse("a request must say how long it is\n", 411)
        if int(headers.get("content-length", "0")) > LARGEST_BODY:
            return PlainTextResponse(f"a request has at most {LARGEST_BODY:,} bytes\n", 413)
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in asked if name == "token"]
        if given and scope["method"] in READING and self.door.is_token(given[0]):
            return self._exchanged(scope, [pair for pair in asked if pair[0] != "token"])
        if not self.door.knows(headers):
            return PlainTextResponse(
                "This is unskew's studio. Open the address that the terminal shows: it has the token.\n", 403
            )
        return None

    def _exchanged(self, scope: Scope, rest: list[tuple[str, str]]) -> Response:
        """The same address without the token, which then stands in no history and no bookmark."""
        path = "/" + scope["path"].lstrip("/")  # //elsewhere would be another site
        answer = RedirectResponse(path + (f"?{urlencode(rest)}" if rest else ""), 303)
        answer.set_cookie(self.door.cookie, self.door.token, httponly=True, samesite="strict", path="/")
        return answer


def inside(folder: Path, name: str) -> Path:
    """A place in the folder by its name; refused where it lies elsewhere, also by a link."""
    root = folder.resolve()
    try:
        place = (root / name).resolve()
    except (OSError, ValueError, RuntimeError):
        raise InputError(f"{name!r} is no place in {folder}") from None
    if not place.is_relative_to(root):
        raise InputError(f"{name!r} lies outside of {folder}, where the studio does not look")
    return place


def checked_form(values: Any) -> dict[str, Any]:
    """A request's JSON, which must be an object."""
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise InputError("a request holds a JSON object")
    return values
