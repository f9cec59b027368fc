"""Flower's SuperLink, shut to all but sites: ``python -m unskew.sites.flower.superlink``, with Flower's own flags.

Flower serves three interfaces on one port. Sites need Fleet, where every request carries the signature of a registered
key. Control (which registers keys and starts apps) and Runtime ask nobody who they are, so here they answer this
machine alone. What a site sends is refused once it is larger than any run expects (``limits.py``).
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from unskew.sites.flower.limits import largest
from unskew.sites.flower.with_parent import end_with_parent

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[..., Awaitable[None]]
FOR_SITES = ("/v1/fleet/",)


class SitesOnly:
    """Other machines reach nothing but what is for sites, and send no more than is expected."""

    def __init__(self, app: Callable[..., Awaitable[None]], home: Path):
        self.app, self.home = app, home

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif not is_open(scope["path"], (scope.get("client") or ("",))[0]):
            await refuse(scope, send, 403, b"only this machine may ask that\n")
        elif scope["type"] == "http" and scope["path"].startswith(FOR_SITES):
            most = largest(self.home)
            if announced(scope) > most:
                await refuse(scope, send, 413, b"that is more than was expected\n")
            else:
                await self.app(scope, counted(receive, most), send)
        else:
            await self.app(scope, receive, send)


async def refuse(scope: Scope, send: Send, status: int, why: bytes) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": why})


def announced(scope: Scope) -> int:
    """How many bytes a request says that it has; 0 where it does not say so."""
    for name, value in scope.get("headers", ()):
        if name.lower() == b"content-length" and value.isdigit():
            return int(value)
    return 0


def counted(receive: Receive, most: int) -> Receive:
    """The same, but who sends more than it may is hung up on."""
    taken = 0

    async def some() -> Any:
        nonlocal taken
        event = await receive()
        taken += len(event.get("body", b""))
        return event if taken <= most else {"type": "http.disconnect"}

    return some


def is_open(path: str, client: str) -> bool:
    """Whether a path answers a client: what is for sites all, the rest this machine."""
    if path.startswith(FOR_SITES):
        return True
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def main() -> None:
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from starlette.middleware import Middleware

    end_with_parent()
    usual = extensions.get_middleware
    home = Path(os.environ["FLWR_HOME"])
    extensions.get_middleware = lambda: (Middleware(SitesOnly, home=home), *usual())
    flower_superlink()


if __name__ == "__main__":
    main()
